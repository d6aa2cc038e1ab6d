"""Fingerprints of functions of the user: digests of everything that Python shows of what their values depend on.

A fingerprint has a digest for each part: the code of the function and of all helpers, classes and modules of the user's
project that it reaches, their defaults and closure variables, the globals that they read, the state of callable
objects and the arguments of partials. Nothing of the user is called, and processes agree: no digest depends on an
address, on the order of a set or on a hash.

Code counts by its bytecode, so that comments, docstrings and places in a file do not matter, and digests of code can be
compared within one version of Python. Installed packages count by name, and by version if f comes from one. Whatever
shows nothing (compiled code, open files, locks, generators) is unseen: the same before and after.
"""

from __future__ import annotations

import functools
import hashlib
import os
import re
import sys
import types
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from typing import Any

import numpy as np

from cbq.integrands import Command
from cbq.runs.introspection import (
    BUFFERS,
    BY_TEXT,
    COMPILED,
    STRUCTURE,
    closure,
    code_parts,
    defaults,
    functions_of,
    inner_function,
    is_a,
    is_own,
    is_standard,
    loaded_names,
    members,
    namespace,
    numbers,
    own_modules,
    package_version,
    plain,
    short_name,
    state,
)

DATA = "2"  # what digests of values begin with: the version of the scheme
CODE = f"{DATA}-{sys.implementation.cache_tag}"  # and digests of code
MAX_DEPTH = 40  # of values inside each other
MAX_VALUES = 50_000  # that are read: a longer container counts by its length
MAX_FOLLOWED = 2000  # functions, classes and modules
MAX_BYTES = 2**27  # of arrays that are read in full; of larger ones, blocks are
BLOCKS, BLOCK_BYTES = 4096, 4096
MAX_SOURCE = 2**22  # bytes of a module
CONTAINERS = (list, tuple, dict, set, frozenset, deque)


def fingerprint(function: Any) -> dict[str, str]:
    """The digests of a function, by part; none of None, or of a function that cannot be read."""
    if function is None:
        return {}
    reader = _Reader()
    try:
        reader.read(function)
    except Exception:  # of an odd metaclass or descriptor: unseen
        return {}
    return {name: _combined(digests) for name, digests in sorted(reader.parts.items())}


def comparable(one: str, other: str) -> bool:
    """Whether two digests are of one scheme, so that they differ only if their parts do."""
    return one.partition(":")[0] == other.partition(":")[0]


def _combined(digests: list[tuple[str, bytes]]) -> str:
    """The digest of parts that have the same name, in any order."""
    return f"{digests[0][0]}:{_digest(b'part', sorted({digest for _, digest in digests})).hex()}"


def _digest(kind: bytes, pieces: Iterable[bytes | memoryview]) -> bytes:
    total = hashlib.blake2b(kind, digest_size=12)
    for piece in pieces:
        total.update(b"%d:" % len(piece))
        total.update(piece)
    return total.digest()


class _Reader:
    """Reads a function and everything that it reaches. parts: the digests of each, with their schemes."""

    def __init__(self) -> None:
        self.parts: dict[str, list[tuple[str, bytes]]] = {}
        self._followed: list[Any] = []  # functions, classes, and modules by name, in the order in which they are read
        self._keys = set[Any]()
        self._files = dict[str, str]()  # of modules
        self._known: dict[int, tuple[Any, bytes, bool]] = {}  # digests of values, and whether something is unseen
        self._around: list[int] = []  # ids of the values around the present one
        self._n_unseen = self._n_values = self._n_bytes = 0

    def read(self, function: Any) -> None:
        """Read a callable, and then all code that it reaches."""
        self._entry(function)
        for each in self._followed:  # which grows
            if is_a(each, types.FunctionType):
                self._function(each)
            elif is_a(each, type):
                self._class(each)
            else:
                self._module(each)

    def _entry(self, function: Any) -> None:
        """What is wrapped or bound to a function, and the function, or the object, inside."""
        while True:
            if is_a(function, functools.partial):
                for name, value in (*enumerate(function.args), *function.keywords.items()):
                    self._add(f"the argument {name} of the partial", self._value(value))
                function = function.func
            elif is_a(function, types.MethodType):
                self._follow(function.__func__)
                function = function.__self__
            elif (inner := inner_function(function)) is not None:
                function = inner
            else:
                break
        if is_a(function, type, types.FunctionType) and is_own(namespace(function)):
            self._follow(function)
        elif is_a(function, type, types.FunctionType, types.ModuleType, *COMPILED):
            self._add("the function", self._value(function))
        else:
            self._follow(type(function))
            for name, value in state(function):
                self._add(f"the attribute {name} of {type(function).__name__}", self._value(value))
            self._files_of(function)
        if (found := package_version(function)) is not None:
            self._add(f"the version of {found[0]}", found[1].encode())

    def _files_of(self, value: Any) -> None:
        """The contents of the files of a command."""
        for name, path in value.used_files.items() if is_a(value, Command) else ():
            with suppress(OSError), open(path, "rb") as file:
                self._add(f"the file {name}", hashlib.file_digest(file, "blake2b").digest())

    def _add(self, name: str, digest: bytes, scheme: str = DATA) -> None:
        self.parts.setdefault(name, []).append((scheme, digest))

    def _follow(self, thing: Any) -> None:
        """Read a function, a class or, by its name, a module of the user later."""
        key = thing if type(thing) is str else id(thing)
        own = type(thing) is str or is_own(namespace(thing))
        if own and key not in self._keys and len(self._followed) < MAX_FOLLOWED:
            self._keys.add(key)
            self._followed.append(thing)

    # Code.

    def _function(self, function: types.FunctionType) -> None:
        name, code, globals_ = short_name(function), function.__code__, function.__globals__
        self._add(name, _code_digest(code), CODE)
        for argument, value in defaults(function):
            self._add(f"the default {argument} of {name}", self._value(value))
        for variable, value in closure(function):
            self._add(f"the variable {variable} of {name}", self._value(value))
        for attribute, value in function.__dict__.items():
            if attribute == "__wrapped__" or not _is_dunder(attribute):
                self._add(f"the attribute {attribute} of {name}", self._value(value))
        self._globals(globals_, loaded_names(code, "GLOBAL"), loaded_names(code, "GLOBAL", "ATTR"))
        self._imports(code, str(globals_.get("__package__") or ""))

    def _globals(self, globals_: Mapping[str, Any], names: Iterable[str], attributes: frozenset[str]) -> None:
        """The globals of these names; of a module of the user, its globals among the `attributes` that code loads."""
        for name in sorted(names):
            if name not in globals_ or _is_dunder(name):
                continue
            value = globals_[name]
            if is_a(value, types.ModuleType) and is_own(vars(value)):
                if id(value) not in self._around:  # modules may import each other
                    self._around.append(id(value))
                    self._globals(vars(value), attributes, attributes)
                    self._around.pop()
                continue
            digest = self._value(value)
            if not is_a(value, type, types.FunctionType) or value.__name__ != name:
                self._add(f"the global {name}", digest)

    def _imports(self, code: types.CodeType, package: str) -> None:
        """Modules of the user that code imports when it runs; they count by their files, imported yet or not."""
        for module, file in own_modules(code, package):
            self._files[module] = file
            self._follow(module)

    def _module(self, module: str) -> None:
        if module not in self._files or os.path.getsize(self._files[module]) > MAX_SOURCE:
            return
        with open(self._files[module], "rb") as file:
            code = compile(file.read(), "<module>", "exec", dont_inherit=True)
        self._add(f"the module {module}", _code_digest(code), CODE)
        self._imports(code, module.rpartition(".")[0])

    def _class(self, kind: type) -> None:
        for base in kind.__mro__[1:]:
            self._follow(base)
        for name, member in members(kind).items():
            if is_a(member, *STRUCTURE):
                continue
            digest = self._value(member)
            if not is_a(member, types.FunctionType) and not _is_dunder(name):
                self._add(f"{short_name(kind)}.{name}", digest)

    # Values.

    def _value(self, value: Any) -> bytes:
        """The digest of a value; functions and classes in it are followed."""
        self._n_values += 1
        if (found := plain(value)) is not None:
            return found
        if (known := self._known.get(id(value))) is not None:
            self._n_unseen += known[2]
            return known[1]
        if id(value) in self._around:
            return b"cycle %d" % (len(self._around) - self._around.index(id(value)))
        too_many = self._n_values > MAX_VALUES and not is_a(value, types.FunctionType, type)
        if too_many or len(self._around) >= MAX_DEPTH:
            return self._unseen(b"too deep or too many")
        before = self._n_unseen
        self._around.append(id(value))
        try:
            digest = self._compound(value)
        finally:
            self._around.pop()
        self._known[id(value)] = (value, digest, self._n_unseen > before)
        return digest

    def _unseen(self, kind: bytes) -> bytes:
        self._n_unseen += 1
        return b"unseen " + kind

    def _compound(self, value: Any) -> bytes:
        """The digest of a value with parts: of code, of data, or of an object."""
        if is_a(value, types.FunctionType):
            self._follow(value)
            inside = (self._value(each) for _, each in (*defaults(value), *closure(value)))
            return _digest(b"function " + short_name(value).encode(), inside)
        if is_a(value, type):
            self._follow(value)
            return b"class " + _class_name(value)
        if is_a(value, types.ModuleType):
            return self._module_value(value)
        if is_a(value, types.MethodType):
            return _digest(b"method", map(self._value, (value.__func__, value.__self__)))
        if is_a(value, functools.partial):
            return _digest(b"partial", map(self._value, (value.func, value.args, value.keywords)))
        if is_a(value, *COMPILED):
            return f"compiled {value.__name__}".encode()
        if functions := functions_of(value):
            return _digest(_class_name(type(value)), map(self._value, functions))
        return self._data(value)

    def _module_value(self, module: types.ModuleType) -> bytes:
        """A module that is not a global of a function: one of the user counts by its file."""
        name, file = str(module.__name__), vars(module).get("__file__")
        if type(file) is str and file.endswith(".py") and is_own(vars(module)):
            self._files[name] = file
            self._follow(name)
        return b"module " + name.encode()

    def _data(self, value: Any) -> bytes:
        kind = type(value)
        self._follow(kind)
        if issubclass(kind, np.ndarray | np.generic):
            return self._array(np.asarray(value))
        if issubclass(kind, BUFFERS):
            return self._array(np.frombuffer(memoryview(value).tobytes(), dtype=np.uint8))
        if issubclass(kind, BY_TEXT) and not is_own(namespace(kind)):
            text = str((value.pattern, value.flags)) if issubclass(kind, re.Pattern) else repr(value)
            return _digest(_class_name(kind), [text.encode("utf-8", "surrogatepass")])
        for base in CONTAINERS:
            if issubclass(kind, base):
                return _digest(_class_name(kind), [*self._items(value, base), *self._attributes(value)])
        return self._object(value)

    def _items(self, value: Any, base: Any) -> Iterator[bytes]:
        """The items of a container, in an order that does not depend on how it was made, unless order is its own."""
        if base.__len__(value) > MAX_VALUES - self._n_values:
            yield self._unseen(b"%d items" % base.__len__(value))
        elif base is dict:
            keyed = ((self._value(key), self._value(each)) for key, each in dict.items(value))
            yield from sorted(b"%d:%b%b" % (len(key), key, each) for key, each in keyed)
        elif base in (set, frozenset):
            yield from sorted(map(self._value, base.__iter__(value)))
        else:
            yield from map(self._value, base.__iter__(value))

    def _attributes(self, value: Any) -> list[bytes]:
        return [_digest(b"attribute", [name.encode(), self._value(each)]) for name, each in state(value)]

    def _object(self, value: Any) -> bytes:
        """An object of the user, by its attributes; one of a package, by its attributes or numbers, if it shows all."""
        name, before = _class_name(type(value)), self._n_unseen
        self._files_of(value)
        if is_own(namespace(type(value))):
            return _digest(name, self._attributes(value))
        if (inner := inner_function(value)) is not None:
            return _digest(b"wrapper", [self._value(inner)])
        attributes = [] if is_standard(type(value)) else self._attributes(value)
        if attributes and self._n_unseen == before:
            return _digest(name, attributes)
        if (found := numbers(value)) is not None:
            self._n_unseen = before
            return _digest(name, [self._array(found)])
        return self._unseen(name)

    def _array(self, value: np.ndarray[Any, Any]) -> bytes:
        """An array by its bytes; a large one by blocks of them; one of objects by these."""
        head = f"array {value.dtype.str} {value.shape}".encode()
        if value.dtype == object:
            return _digest(head, self._items(value.ravel().tolist(), list))
        if value.dtype.hasobject or not value.nbytes:
            return head
        self._n_bytes += value.nbytes
        if self._n_bytes <= MAX_BYTES:
            return _digest(head, [np.ravel(value).view(np.uint8).data])
        if not value.flags.forc:  # it would have to be copied
            return self._unseen(head)
        raw = np.ravel(value.T if value.flags.fnc else value).view(np.uint8)
        starts = np.linspace(0, max(len(raw) - BLOCK_BYTES, 0), BLOCKS).astype(np.int64)
        return _digest(head, (raw[start : start + BLOCK_BYTES].data for start in starts))


def _is_dunder(name: str) -> bool:
    return name.startswith("__") and name.endswith("__")


def _class_name(kind: type) -> bytes:
    """The name of a class, with the module of one that is installed: modules of the user may move."""
    home, name = namespace(kind), type.__dict__["__qualname__"].__get__(kind)
    return f"{'' if is_own(home) else home.get('__name__')} {name}".encode()


@functools.lru_cache(maxsize=4096)
def _code_digest(code: types.CodeType) -> bytes:
    """The digest of what code does, without its name, its places in a file and its docstring."""
    pieces, constants = code_parts(code)
    return _digest(b"code", [*pieces, *map(_constant, constants)])


def _constant(value: Any) -> bytes:
    """A constant in code, which is plain or consists of plain constants."""
    if isinstance(value, types.CodeType):
        return _code_digest(value)
    if isinstance(value, tuple):
        return _digest(b"tuple", map(_constant, value))
    if isinstance(value, frozenset):
        return _digest(b"set", sorted(map(_constant, value)))
    return plain(value) or b""
