"""Files of saved objects: zip archives of one JSON object and .npy arrays, with a checksum at the end.

A file is written completely or not at all. When it is read, its checksum is verified first, then each entry.
"""

from __future__ import annotations

import io
import json
import math
import os
import secrets
import shutil
import struct
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from hashlib import sha256
from tokenize import TokenError
from typing import IO, Any
from zipfile import ZIP_STORED, BadZipFile, ZipFile, ZipInfo

import numpy as np
import numpy.typing as npt

from cbq._version import __version__
from cbq.io.fields import Field, IncompatibleFile, Integer, Location, Record, Text, Values

VERSION = 11  # of the format: raised when other versions of cbq would misread a file
ENTRY_START, ENTRY_NAME_AT = b"PK\x03\x04", 30  # of an entry of a zip archive: its first bytes, and where its name is
CHECKSUM_SIZE = 2 * sha256().digest_size  # hexadecimal digits
BLOCK_SIZE = 2**20  # bytes in memory at a time, for the checksum
ZIP_ERRORS = (BadZipFile, struct.error, EOFError, OSError, RuntimeError, ValueError, OverflowError, MemoryError)
NPY_ERRORS = (ValueError, TypeError, SyntaxError, TokenError, RecursionError, MemoryError)
DAMAGE = (ValueError, TypeError, ArithmeticError, LookupError, RecursionError)
ENCRYPTED = 0x1  # a bit in the flags of an entry


@dataclass(frozen=True)
class FileKind:
    """A kind of file: its format, its JSON entry, and its words in messages.

    what: "a fit". saver: the method that writes it. again: how to recreate it.
    """

    format: str
    header: str
    what: str
    saver: str
    again: str


FIT_FILE = FileKind("cbq-fit", "fit.json", "a fit", "fit.save", "fit and save again")
SAMPLES_FILE = FileKind("cbq-samples", "samples.json", "samples", "samples.save", "collect and save again")
READERS = {FIT_FILE: "cbq.load(path)", SAMPLES_FILE: "cbq.Samples.load(path)"}


def save_file(
    path: str | os.PathLike[str], fields: dict[str, Field], values: dict[str, Any], kind: FileKind = FIT_FILE
) -> None:
    """Write values to a file that `load_file` reads, replacing an old file once the new one is complete.

    The file is a zip archive of a JSON entry and one .npy entry per array; its comment is the SHA-256 of all bytes
    before. The path gets no suffix. Equal values give equal bytes.
    """
    name = _file_name(path)
    store = _Entries()
    try:
        record = Record(fields).encode(values, Location("", store))
    except ValueError as error:
        raise ValueError(f"{'this fit' if kind is FIT_FILE else 'these samples'} cannot be saved: {error}") from error
    header = {"format": kind.format, "version": VERSION, "cbq": __version__} | record
    text = json.dumps(header, indent=1, allow_nan=False)
    with _replacing(name) as file:
        with ZipFile(file, "w", ZIP_STORED) as archive:
            archive.comment = bytes(CHECKSUM_SIZE)  # room for the checksum
            archive.writestr(ZipInfo(kind.header), text)
            for entry_name, array in store.arrays.items():
                with archive.open(ZipInfo(entry_name), "w", force_zip64=True) as entry:
                    little = array.astype(array.dtype.newbyteorder("<"), copy=False)
                    np.lib.format.write_array(entry, little, version=(1, 0), allow_pickle=False)
        file.write(_checksum(file))


def load_file(
    path: str | os.PathLike[str], fields: dict[str, Field], context: Any = None, kind: FileKind = FIT_FILE
) -> dict[str, Any]:
    """The values that `save_file` wrote. context: passed to objects that a file cannot hold completely.

    Nothing in the file is executed, and everything is checked. Errors begin with the name of the file: a ValueError if
    it is damaged, an IncompatibleFile if it may be intact, but another version or program wrote it, or it does not
    match the context.
    """
    name = _file_name(path)
    with open(name, "rb") as file:
        try:
            archive = Archive(file, kind)
            at = Location("", _Entries(archive), context=context)
            values = Record(fields).decode(archive.header(at), at)
            archive.refuse_unread()
            return values
        except IncompatibleFile as error:
            raise type(error)(f"{name} {error}") from error
        except DAMAGE as error:
            raise ValueError(f"{name} is damaged: {error} Restore it from a copy, or {kind.again}.") from error


class _Entries:
    """Arrays as entries of an archive, which the JSON names."""

    def __init__(self, archive: Archive | None = None) -> None:
        self.arrays: dict[str, Values] = {}
        self._archive = archive

    def put(self, path: str, values: Values) -> str:
        self.arrays[f"{path}.npy"] = values
        return f"{path}.npy"

    def take(self, path: str, reference: Any, dtype: npt.DTypeLike) -> Values:
        if reference != f"{path}.npy" or self._archive is None:
            raise ValueError(f"{path} must be '{path}.npy', the name of an entry, but it is {reference!r}.")
        return self._archive.array(f"{path}.npy", np.dtype(dtype))


class Archive:
    """The entries of an open file, each checked when it is read; a damaged one raises a ValueError."""

    def __init__(self, file: IO[bytes], kind: FileKind = FIT_FILE) -> None:
        self._kind = kind
        start = file.read(ENTRY_NAME_AT + len(kind.header))
        try:
            self._intact = _checksum(file) == file.read(CHECKSUM_SIZE)
            self._zip = ZipFile(file)
            self._zip.getinfo(kind.header)
        except (KeyError, *ZIP_ERRORS) as error:
            if start.startswith(ENTRY_START) and start.endswith(kind.header.encode()):  # it was a file of this kind
                raise ValueError(f"it was cut short, or changed after it was written ({error}).") from error
            if isinstance(error, KeyError):
                raise self._without_header() from error
            raise _another_kind(kind, f"it is not a zip file, or it was cut short ({error})") from error
        self._unread = self._zip.namelist()  # an entry that occurs twice stays in the list

    def _without_header(self) -> IncompatibleFile:
        for other, reader in READERS.items():
            if other.header in self._zip.namelist():
                return IncompatibleFile(f"holds {other.what}, and not {self._kind.what}: read it with {reader}.")
        return _another_kind(self._kind, f"it has no entry {self._kind.header}")

    def header(self, at: Location) -> dict[str, Any]:
        """The JSON object without its format and version; the file must be intact and of this version."""
        kind = self._kind
        data = self._read(kind.header)
        try:
            header = json.loads(data.decode(), parse_constant=_refuse_constant)
        except (ValueError, RecursionError) as error:
            raise ValueError(f"{kind.header} is not JSON ({error}).") from error
        if not isinstance(header, dict):
            raise ValueError(f"{kind.header} must hold an object, but it holds a {type(header).__name__}.")
        format, version, cbq = (header.pop(name, None) for name in ("format", "version", "cbq"))
        if format != kind.format:
            raise _another_kind(kind, f"its format is {format!r}, not {kind.format!r}")
        if Integer(1).encode(version, at.inside("version")) != VERSION:
            other = f"has version {version} of its format, but this cbq reads version {VERSION}"
            newer = f"cbq {cbq} wrote it. Upgrade this one with python -m pip install --upgrade cbq."
            older = f"an older development version wrote it. {kind.again.capitalize()}."
            raise IncompatibleFile(f"{other}: {newer if version > VERSION else older}")
        if not self._intact:  # checked after the version, because older files have no checksum
            raise ValueError("its checksum does not match: it was cut short, or changed after it was written.")
        Text().decode(cbq, at.inside("cbq"))
        return header

    def array(self, name: str, dtype: np.dtype[Any]) -> Values:
        """The array of this entry, in its own memory, with the memory layout in which it was written."""
        data = self._read(name)
        stream = io.BytesIO(data)
        try:
            if (version := np.lib.format.read_magic(stream)) != (1, 0):
                raise ValueError(f"version {version} of the npy format, not (1, 0)")
            shape, _, stored = np.lib.format.read_array_header_1_0(stream)
        except NPY_ERRORS as error:
            raise ValueError(f"{name} is not an array ({error}).") from error
        if stored != dtype.newbyteorder("<"):
            raise ValueError(f"{name} must hold values of type {dtype}, but it holds {stored}.")
        if len(data) - stream.tell() != dtype.itemsize * math.prod(shape):
            raise ValueError(f"{name} declares the shape {shape}, but it holds another number of values.")
        stream.seek(0)
        return np.asarray(np.lib.format.read_array(stream, allow_pickle=False), dtype=dtype)

    def refuse_unread(self) -> None:
        """Raise if the file has entries that were not read."""
        if self._unread:
            raise ValueError(f"it has entries that do not belong to it: {', '.join(self._unread[:5])}.")

    def _read(self, name: str) -> bytes:
        """The bytes of an entry. Entries are not compressed, so that they are never larger than the file."""
        try:
            info = self._zip.getinfo(name)
        except KeyError as error:
            raise ValueError(f"it has no entry {name}.") from error
        if info.compress_type != ZIP_STORED or info.flag_bits & ENCRYPTED:
            raise ValueError(f"{name} is compressed or encrypted, but cbq writes plain entries only.")
        try:
            data = self._zip.read(info)
        except ZIP_ERRORS as error:
            raise ValueError(f"{name} cannot be read ({error}).") from error
        self._unread.remove(name)
        return data


@contextmanager
def _replacing(path: str) -> Iterator[IO[bytes]]:
    """A new file that replaces `path` once it is complete; a failure leaves `path` unchanged."""
    target = os.path.realpath(path)  # so that a link to a file stays a link
    folder = os.path.dirname(target)
    if not os.path.isdir(folder):
        raise FileNotFoundError(f"cannot save to {path}: there is no folder {folder}. Make it first.")
    temporary = os.path.join(folder, f".cbq-{secrets.token_hex(8)}.tmp")
    try:
        with open(temporary, "x+b") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        if os.path.exists(target):
            shutil.copymode(target, temporary)
        os.replace(temporary, target)
    except BaseException:
        with suppress(OSError):
            os.unlink(temporary)
        raise


def _file_name(path: str | os.PathLike[str]) -> str:
    """The path as a string; raise if it cannot name a file."""
    name = os.fsdecode(path)
    if "\0" in name:
        raise ValueError(f"path is {name!r}, but it contains a NUL character. Pass the name of a file.")
    if os.path.exists(name) and not os.path.isfile(name):
        raise ValueError(f"path is {name!r}, but it is a folder or a device. Pass the name of a file.")
    return name


def _checksum(file: IO[bytes]) -> bytes:
    """The SHA-256 of the file up to its checksum, where the file is left positioned."""
    left = file.seek(0, os.SEEK_END) - CHECKSUM_SIZE
    file.seek(0)
    digest = sha256()
    while left > 0 and (block := file.read(min(left, BLOCK_SIZE))):
        digest.update(block)
        left -= len(block)
    return digest.hexdigest().encode()


def _another_kind(kind: FileKind, why: str) -> IncompatibleFile:
    return IncompatibleFile(f"is not {kind.what} of cbq: {why}. Pass a file that {kind.saver} wrote.")


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not a number")
