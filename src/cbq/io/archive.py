"""An archive of JSON and arrays: a zip file that is written whole or not at all, and of which no byte is trusted."""

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
BROKEN_ZIP = (BadZipFile, EOFError, OSError, NotImplementedError, RuntimeError, ValueError, struct.error)
ENCRYPTED = 0x1  # a bit of the flags of an entry


class IncompatibleFile(Exception):
    """The file is not for this reader, though nothing need be wrong with it: why and what to do, to follow its name."""


def write(path: str, header: Mapping[str, Any], arrays: Mapping[str, npt.NDArray[Any]]) -> None:
    """Write `header` and named arrays to a file; equal content gives equal bytes."""
    text = json.dumps(header, indent=1, allow_nan=False)
    with _replacing(path) as file, ZipFile(file, "w", ZIP_STORED) as archive:
        archive.writestr(ZipInfo(HEADER), text)
        for name, array in arrays.items():
            with archive.open(ZipInfo(f"{name}.npy"), "w", force_zip64=True) as entry:
                little = array.astype(array.dtype.newbyteorder("<"), copy=False)
                np.lib.format.write_array(entry, little, version=(1, 0), allow_pickle=False)


class Archive:
    """The entries of an open file, each checked when it is asked for; a ValueError says what is wrong with one."""

    def __init__(self, file: IO[bytes]) -> None:
        try:
            self._zip = ZipFile(file)
            self._zip.getinfo(HEADER)
        except (KeyError, *BROKEN_ZIP) as error:
            missing = isinstance(error, KeyError)
            why = f"it has no entry {HEADER}" if missing else f"it is no zip file, or was cut short ({error})"
            raise IncompatibleFile(f"is not a fit of cbq: {why}. Pass a file that fit.save wrote.") from error

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

    def has(self, name: str) -> bool:
        """Whether there is an array of that name."""
        return f"{name}.npy" in self._zip.namelist()

    def array(self, name: str, dtype: npt.DTypeLike) -> npt.NDArray[Any]:
        """The array of that name, in memory of its own, laid out as it was written."""
        name, dtype = f"{name}.npy", np.dtype(dtype)
        data = self._read(name)
        stream = io.BytesIO(data)
        try:
            if (version := np.lib.format.read_magic(stream)) != (1, 0):
                raise ValueError(f"version {version} of the npy format, not (1, 0)")
            shape, _, found = np.lib.format.read_array_header_1_0(stream)
        except (ValueError, TypeError, SyntaxError, TokenError, RecursionError, MemoryError) as error:
            raise ValueError(f"{name} is not an array ({error}).") from error
        if found != dtype.newbyteorder("<"):
            raise ValueError(f"{name} must hold values of type {dtype}, but it holds {found}.")
        if len(data) - stream.tell() != dtype.itemsize * math.prod(shape):
            raise ValueError(f"{name} says that its shape is {shape}, but it holds another number of values.")
        stream.seek(0)
        return np.asarray(np.lib.format.read_array(stream, allow_pickle=False), dtype=dtype)

    def _read(self, name: str) -> bytes:
        """The bytes of an entry; never more than the file has, for entries are not compressed."""
        try:
            info = self._zip.getinfo(name)
        except KeyError as error:
            raise ValueError(f"it has no entry {name}.") from error
        if info.compress_type != ZIP_STORED or info.flag_bits & ENCRYPTED:
            raise ValueError(f"{name} is compressed or encrypted, which cbq does to none of its entries.")
        try:
            return self._zip.read(info)
        except BROKEN_ZIP as error:
            raise ValueError(f"{name} cannot be read ({error}).") from error


@contextmanager
def _replacing(path: str) -> Iterator[IO[bytes]]:
    """A new file that takes the place of `path` once it is complete; if that fails, all is left as it was."""
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


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is no number")
