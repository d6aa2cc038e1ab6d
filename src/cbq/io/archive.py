"""Zip files of one JSON object and .npy arrays: written completely or not at all, and checked entry by entry."""

from __future__ import annotations

import io
import json
import math
import os
import secrets
import shutil
import struct
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from tokenize import TokenError
from typing import IO, Any
from zipfile import ZIP_STORED, BadZipFile, ZipFile, ZipInfo

import numpy as np
import numpy.typing as npt

HEADER = "fit.json"
ZIP_ERRORS = (BadZipFile, EOFError, OSError, NotImplementedError, RuntimeError, ValueError, struct.error)
NPY_ERRORS = (ValueError, TypeError, SyntaxError, TokenError, RecursionError, MemoryError)
ENCRYPTED = 0x1  # a bit in the flags of an entry


class IncompatibleFile(ValueError):
    """A file that this reader cannot use although it may be intact; the message completes "<file> ..."."""


def write(path: str, header: Mapping[str, Any], arrays: Mapping[str, npt.NDArray[Any]]) -> None:
    """Write a JSON object and arrays, each under the name of its entry; equal content gives equal bytes."""
    text = json.dumps(header, indent=1, allow_nan=False)
    with _replacing(path) as file, ZipFile(file, "w", ZIP_STORED) as archive:
        archive.writestr(ZipInfo(HEADER), text)
        for name, array in arrays.items():
            with archive.open(ZipInfo(name), "w", force_zip64=True) as entry:
                little = array.astype(array.dtype.newbyteorder("<"), copy=False)
                np.lib.format.write_array(entry, little, version=(1, 0), allow_pickle=False)


class Archive:
    """The entries of an open file. Each is checked when it is read, and a ValueError says what is wrong with it."""

    def __init__(self, file: IO[bytes]) -> None:
        try:
            self._zip = ZipFile(file)
            self._zip.getinfo(HEADER)
        except KeyError as error:
            raise not_a_fit(f"it has no entry {HEADER}") from error
        except ZIP_ERRORS as error:
            raise not_a_fit(f"it is not a zip file, or it was cut short ({error})") from error
        self._unread = self._zip.namelist()  # an entry that occurs twice stays in the list

    def header(self) -> dict[str, Any]:
        """The JSON object."""
        data = self._read(HEADER)
        try:
            header = json.loads(data.decode(), parse_constant=_refuse_constant)
        except (ValueError, RecursionError) as error:
            raise ValueError(f"{HEADER} is not JSON ({error}).") from error
        if not isinstance(header, dict):
            raise ValueError(f"{HEADER} must hold an object, but it holds a {type(header).__name__}.")
        return header

    def array(self, name: str, dtype: npt.DTypeLike) -> npt.NDArray[Any]:
        """The array of this entry, in its own memory, with the memory layout in which it was written."""
        dtype = np.dtype(dtype)
        data = self._read(name)
        stream = io.BytesIO(data)
        try:
            if (version := np.lib.format.read_magic(stream)) != (1, 0):
                raise ValueError(f"version {version} of the npy format, not (1, 0)")
            shape, _, found = np.lib.format.read_array_header_1_0(stream)
        except NPY_ERRORS as error:
            raise ValueError(f"{name} is not an array ({error}).") from error
        if found != dtype.newbyteorder("<"):
            raise ValueError(f"{name} must hold values of type {dtype}, but it holds {found}.")
        if len(data) - stream.tell() != dtype.itemsize * math.prod(shape):
            raise ValueError(f"{name} declares the shape {shape}, but it holds another number of values.")
        stream.seek(0)
        return np.asarray(np.lib.format.read_array(stream, allow_pickle=False), dtype=dtype)

    def refuse_unread(self) -> None:
        """Raise if the file has entries that nothing has asked for."""
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
    """A new file that replaces `path` once it is complete; after a failure everything is as it was."""
    target = os.path.realpath(path)  # so that a link to a file stays a link
    folder = os.path.dirname(target)
    if os.path.exists(target) and not os.path.isfile(target):
        raise ValueError(f"cannot save to {path}: it is a folder or a device. Pass the name of a file.")
    if not os.path.isdir(folder):
        raise FileNotFoundError(f"cannot save to {path}: there is no folder {folder}. Make it first.")
    temporary = os.path.join(folder, f".cbq-{secrets.token_hex(8)}.tmp")
    try:
        with open(temporary, "xb") as file:
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


def not_a_fit(why: str) -> IncompatibleFile:
    """The error for a file of another program."""
    return IncompatibleFile(f"is not a fit of cbq: {why}. Pass a file that fit.save wrote.")


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not a number")
