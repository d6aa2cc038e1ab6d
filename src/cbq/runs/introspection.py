"""What functions, classes and objects are made of, read without calling anything of the user."""

from __future__ import annotations

import array
import datetime
import decimal
import dis
import fractions
import functools
import inspect
import os
import pathlib
import re
import sys
import types
import uuid
from collections.abc import Iterator, Mapping
from importlib import metadata
from importlib.machinery import ModuleSpec, PathFinder
from typing import Any

import numpy as np

HAS_DOCSTRING = 0x4000000  # a flag of code objects since Python 3.13
STANDARD_LIBRARY = os.path.dirname(os.__file__) + os.sep
INSTALLED = ("site-packages", "dist-packages")  # folders of packages
MAX_CONVERTED = 2**22  # numbers in a table or a tensor
OPERATIONS = {  # of bytecode, by what they load
    "GLOBAL": ("LOAD_GLOBAL", "LOAD_NAME"),
    "ATTR": ("LOAD_ATTR", "LOAD_METHOD"),
    "IMPORT": ("IMPORT_NAME",),
    "FROM": ("IMPORT_FROM",),
}
INNER = ("__wrapped__", "py_func", "pyfunc")  # where wrappers of functools, numba and np.vectorize keep the function
COMPILED = (types.BuiltinFunctionType, types.MethodDescriptorType, types.WrapperDescriptorType, np.ufunc)
STRUCTURE = (types.MemberDescriptorType, types.GetSetDescriptorType)  # of a class, besides its attributes
BUFFERS = (bytearray, memoryview, array.array)
BY_TEXT = (  # what their texts show in full
    *(range, slice, decimal.Decimal, fractions.Fraction, uuid.UUID, re.Pattern, np.dtype),
    *(pathlib.PurePath, datetime.date, datetime.time, datetime.timedelta, datetime.tzinfo),
)


def is_a(value: Any, *kinds: type) -> bool:
    """Whether the type of a value is one of these; `isinstance` would ask the value for its class."""
    return issubclass(type(value), kinds)


def plain(value: Any) -> bytes | None:
    """A plain value, a number or a text, as bytes; None if it is another."""
    kind = type(value)
    if value is None or value is Ellipsis or value is NotImplemented or kind is bool:
        return repr(value).encode()
    if kind is bytes:
        return b"bytes %b" % value
    if kind is str:
        return b"str %b" % value.encode("utf-8", "surrogatepass")
    if kind is int:
        return f"int {value:x}".encode()
    if kind is float or kind is complex:
        return f"{kind.__name__} {value.real.hex()} {value.imag.hex()}".encode()
    return None


# Functions.


def short_name(thing: types.FunctionType | type) -> str:
    """The name of a function or a class, with those that it is defined in."""
    return str(thing.__qualname__).replace("<locals>.", "")


def defaults(function: types.FunctionType) -> list[tuple[str, Any]]:
    """The parameters that have a default, and their defaults."""
    code, values = function.__code__, function.__defaults__ or ()
    names = code.co_varnames[: code.co_argcount]
    return [*zip(names[len(names) - len(values) :], values, strict=False), *(function.__kwdefaults__ or {}).items()]


def closure(function: types.FunctionType) -> Iterator[tuple[str, Any]]:
    """The variables of the functions around this one that it uses."""
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=False):
        try:
            yield name, cell.cell_contents
        except ValueError:  # not assigned yet
            continue


def inner_function(value: Any) -> Any:
    """The function in a wrapper of functools, of NumPy or of another package; None if it is no such wrapper."""
    if is_a(value, type, types.FunctionType) or is_own(namespace(type(value))):
        return None
    attributes = _attributes(value)
    found = functions_of(value) or [attributes[name] for name in INNER if name in attributes]
    return found[0] if found and callable(found[0]) else None


def code_parts(code: types.CodeType) -> tuple[list[bytes], tuple[Any, ...]]:
    """The instructions of code, the names in it, and its constants without the docstring."""
    arguments = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    names = [*code.co_names, "", *arguments, "", *code.co_freevars, "", *code.co_cellvars]
    constants = (None, *code.co_consts[1:]) if _has_docstring(code) else code.co_consts
    return [code.co_code, code.co_exceptiontable, "\0".join(names).encode()], constants


def _has_docstring(code: types.CodeType) -> bool:
    if sys.version_info >= (3, 13):
        return bool(code.co_flags & HAS_DOCSTRING)
    named = not code.co_name.startswith("<") and bool(code.co_flags & inspect.CO_NEWLOCALS)
    return named and bool(code.co_consts) and isinstance(code.co_consts[0], str)


@functools.lru_cache(maxsize=4096)
def loaded_names(code: types.CodeType, *kinds: str) -> frozenset[str]:
    """The names that code, and functions inside of it, load or import.

    kinds: GLOBAL and ATTR for names that are loaded; IMPORT for modules, FROM for the names that are taken from them.
    """
    operations = {operation for kind in kinds for operation in OPERATIONS[kind]}
    found = {each.argval for each in dis.get_instructions(code) if each.opname in operations}
    inside = [loaded_names(each, *kinds) for each in code.co_consts if isinstance(each, types.CodeType)]
    return frozenset(found).union(*inside)


# Classes and objects.


def members(kind: type) -> Mapping[str, Any]:
    """The attributes that a class defines."""
    found: Mapping[str, Any] = type.__dict__["__dict__"].__get__(kind)
    return found


def functions_of(member: Any) -> list[Any]:
    """The functions of a static or class method or of a property; none of other members of a class."""
    if is_a(member, staticmethod, classmethod):
        return [member.__func__]
    if is_a(member, property):
        return [each for each in (member.fget, member.fset, member.fdel) if each is not None]
    return [member.func] if is_a(member, functools.cached_property) else []


def state(value: Any) -> Iterator[tuple[str, Any]]:
    """The attributes of an object, without cached properties; of a dataclass, the fields that are compared."""
    kind = type(value)
    defined = {name: member for base in reversed(kind.__mro__) for name, member in members(base).items()}
    fields = defined.get("__dataclass_fields__")
    slots = {name: each for name, each in defined.items() if is_a(each, types.MemberDescriptorType)}
    attributes = _attributes(value)
    for name in sorted(map(str, {*slots, *attributes})):
        if type(fields) is dict and not (name in fields and fields[name].compare):
            continue
        if name in attributes:
            if not is_a(defined.get(name), functools.cached_property):
                yield name, attributes[name]
        elif not is_standard(kind):
            try:
                yield name, slots[name].__get__(value, kind)
            except AttributeError:  # not assigned
                continue


def _attributes(value: Any) -> dict[str, Any]:
    try:
        found = object.__getattribute__(value, "__dict__")
    except AttributeError:
        return {}
    return found if isinstance(found, dict) else {}


def numbers(value: Any) -> np.ndarray[Any, Any] | None:
    """The numbers in a table or an array of another package; None if it has none, or they are not at hand."""
    kind = type(value)
    if not hasattr(kind, "__array__") or hasattr(kind, "__dask_graph__"):  # the latter would have to be computed
        return None
    try:
        return np.asarray(value) if int(np.prod(value.shape)) <= MAX_CONVERTED else None
    except Exception:  # of that package
        return None


# Where they come from.


def namespace(thing: Any) -> Mapping[str, Any]:
    """The globals of the module in which a function or a class was made."""
    if is_a(thing, types.FunctionType):
        found: Mapping[str, Any] = thing.__globals__
        return found
    name = type.__dict__["__module__"].__get__(thing)  # which compiled classes have, too
    module = sys.modules.get(name) if isinstance(name, str) else None
    return {"__name__": name} if module is None else vars(module)


def is_own(globals_: Mapping[str, Any]) -> bool:
    """Whether a module is the user's: neither of cbq nor of Python, and not installed."""
    name, file = globals_.get("__name__"), globals_.get("__file__")
    root = name.partition(".")[0] if isinstance(name, str) else ""
    if root == "cbq" or root in sys.builtin_module_names:
        return False
    return _is_own_file(file) if isinstance(file, str) else root not in sys.stdlib_module_names


@functools.lru_cache(maxsize=4096)
def _is_own_file(path: str) -> bool:
    return not path.startswith(STANDARD_LIBRARY) and not set(INSTALLED) & set(pathlib.PurePath(path).parts)


def is_standard(kind: type) -> bool:
    """Whether a class is one of Python, whose objects are handles unless they are values that are known here."""
    root = str(namespace(kind).get("__name__")).partition(".")[0]
    return root in sys.stdlib_module_names and kind is not types.SimpleNamespace


def package_version(function: Any) -> tuple[str, str] | None:
    """The installed package that a function, or the class of an object, comes from, and its version."""
    home = function if is_a(function, type, types.FunctionType, *COMPILED) else type(function)
    root = str(getattr(home, "__module__", "")).partition(".")[0]
    if root in ("cbq", "") or root in sys.stdlib_module_names or root not in sys.modules:
        return None
    if is_own(vars(sys.modules[root])):
        return None
    version = vars(sys.modules[root]).get("__version__")
    try:
        return root, version if isinstance(version, str) else metadata.version(root)
    except (metadata.PackageNotFoundError, ValueError):
        return None


def own_modules(code: types.CodeType, package: str) -> Iterator[tuple[str, str]]:
    """The modules of the user that code imports, and their files; they are found, and not imported.

    package: of the module of the code, for relative imports.
    """
    taken = loaded_names(code, "FROM")
    for name in sorted(loaded_names(code, "IMPORT")):
        if name.partition(".")[0] in sys.stdlib_module_names:
            continue
        for module in (name, f"{package}.{name}".strip(".")):
            spec = _spec(module)
            if spec is None:
                continue
            yield from _own_file(module, spec)
            for each in sorted(taken) if spec.submodule_search_locations and _is_own_package(spec) else ():
                inside = _spec(f"{module}.{each}")
                yield from () if inside is None else _own_file(f"{module}.{each}", inside)


def _spec(module: str) -> ModuleSpec | None:
    """Where a module is; None if it is nowhere."""
    places, found, names = None, None, module.split(".")
    for n in range(1, len(names) + 1):
        try:
            found = PathFinder.find_spec(".".join(names[:n]), places)
        except Exception:  # of an odd name, or of a finder
            return None
        if found is None:
            return None
        places = found.submodule_search_locations
    return found


def _is_own_package(spec: ModuleSpec) -> bool:
    return all(_is_own_file(os.path.join(place, "")) for place in spec.submodule_search_locations or ())


def _own_file(module: str, spec: ModuleSpec) -> Iterator[tuple[str, str]]:
    file = spec.origin if spec.has_location else None
    if file is not None and file.endswith(".py") and is_own({"__name__": module, "__file__": file}):
        yield module, file
