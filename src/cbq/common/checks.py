"""Checks of arguments that are not arrays; an error names the argument, its value, the rule and the remedy."""

from __future__ import annotations

import math
import os
import re
import sys
from collections.abc import Callable, Iterable, Sequence
from difflib import get_close_matches
from typing import Any, TypeGuard, get_args

import numpy as np
import numpy.typing as npt

# What `numpy.random.default_rng` takes, except None: a seed, several, or a generator.
RNGLike = (
    int
    | Sequence[int]
    | npt.NDArray[np.integer[Any]]
    | np.random.SeedSequence
    | np.random.BitGenerator
    | np.random.Generator
    | np.random.RandomState
)
LARGEST = 1e153  # size of a number: sums of squares of smaller ones stay within float64
MAX_SHOWN, MAX_DESCRIBED = 100, 400  # characters of a value, and of another error, in a message
MAX_PATH = 4096  # characters
ENTROPY_WORDS = 4  # words of 32 bits that a run draws from its generator
TRIED_SEEDS = 1000  # seeds among which `shown_seed` searches
ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")  # in a repr: it differs from run to run


def shown(value: Any) -> str:
    """The repr of a value in an error, on one line and shortened; its type if repr fails."""
    if isinstance(value, int) and abs(value) >= 10**20:
        return f"{'-' * (value < 0)}10**{int((abs(value).bit_length() - 1) * math.log10(2))} or more"
    try:
        text = without_addresses(repr(value))
    except (Exception, SystemExit):
        return f"a {type(value).__name__}"
    return text if len(text) <= MAX_SHOWN else f"{text[:MAX_SHOWN]}..."


def without_addresses(text: str) -> str:
    """A repr on one line, without what differs from run to run."""
    return ADDRESS.sub("", " ".join(text.split()))


def named(function: Callable[..., Any]) -> str:
    """The name of a function with its module, or the name of the type of another callable."""
    owner = function if hasattr(function, "__qualname__") else type(function)
    return f"{owner.__module__}.{owner.__qualname__}"


def as_text(thing: Any) -> str:
    """The text of a column name or of a user's error, even if its `__str__` raises."""
    try:
        return str(thing)
    except (Exception, SystemExit):
        return shown(thing)


def listed(names: Iterable[str], most: int = 20) -> str:
    """Names in quotes, at most the first `most` of them."""
    items = list(names)
    return ", ".join(map(repr, items[:most])) + f" and {len(items) - most} more" * (len(items) > most)


def did_you_mean(name: str, known: Iterable[str], otherwise: str) -> str:
    """A hint for an unknown name: similar names as a question, or all known names, called `otherwise`."""
    options = list(known)
    lower = {option.lower(): option for option in reversed(options)}
    close = [lower[option] for option in get_close_matches(name.lower()[:MAX_SHOWN], list(lower), n=3)]
    return f"did you mean {' or '.join(map(repr, close))}?" if close else f"the {otherwise} are {listed(options)}."


def described(error: BaseException) -> str:
    """The type and the message of another error, on one line."""
    return f"{type(error).__name__}: {' '.join(as_text(error).split())[:MAX_DESCRIBED]}"


def sentence(message: str) -> str:
    """A message with a full stop, unless it ends a sentence already."""
    whole = message.rstrip(" :")
    return whole if whole.endswith((".", "!", "?")) else f"{whole}."


def flag(value: Any, name: str) -> bool:
    """Return `value` as a bool if it is True or False; 1 and "False" are refused."""
    if not isinstance(value, bool | np.bool_):
        raise ValueError(f"{name} must be True or False, but it is {shown(value)}.")
    return bool(value)


def text(value: Any, name: str) -> str:
    """Return `value` if it is a string."""
    if not isinstance(value, str):
        raise TypeError(f"{name} must be a string, but it is {shown(value)}.")
    return value


def one_of(value: Any, options: Any, name: str) -> Any:
    """Return `value` if it is one of the strings of `options`, a Literal."""
    *others, last = map(repr, get_args(options))
    if not isinstance(value, str) or value not in get_args(options):
        raise ValueError(f"{name} must be {', '.join(others)} or {last}, but it is {shown(value)}.")
    return value


def is_whole(value: Any, least: int = 0, most: int = 2**53) -> TypeGuard[int]:
    """Whether `value` is a whole number in this range (default: exact in float64), and no bool."""
    return isinstance(value, int | np.integer) and not isinstance(value, bool) and bool(least <= value <= most)


def whole(value: Any, name: str, least: int = 0) -> int:
    """Return `value` as an int if it is a whole number, at least `least`."""
    if not is_whole(value, least):
        raise ValueError(f"{name} must be a whole number, at least {least}, but it is {shown(value)}.")
    return int(value)


def position(value: Any, length: int, name: str) -> int:
    """An index as an int from 0 to length - 1; a negative one counts from the end."""
    if not is_whole(value, -length, length - 1):
        raise IndexError(f"{name} must be an integer from 0 to {length - 1}, but it is {shown(value)}.")
    return range(length)[int(value)]


def is_number(value: Any, least: float = -sys.float_info.max, most: float = sys.float_info.max) -> TypeGuard[float]:
    """Whether `value` is a real number in this range (default: finite), and no bool."""
    if not isinstance(value, int | float | np.integer | np.floating) or isinstance(value, bool):
        return False
    compared = float(value) if isinstance(value, np.floating) else value  # bounds may overflow in its own type
    return bool(least <= compared <= most)  # an int is compared exactly, whatever its size


def number(value: Any, name: str) -> float:
    """Return `value` as a float if it is a real number that can be squared."""
    if not is_number(value, -LARGEST, LARGEST):
        raise ValueError(f"{name} must be a finite number, at most {LARGEST:g} in size, but it is {shown(value)}.")
    return float(value)


def between_0_and_1(value: Any, name: str) -> float:
    """Return `value` as a float if it lies strictly between 0 and 1, such as the level of an interval."""
    if not is_number(value) or not 0 < value < 1:
        raise ValueError(f"{name} must lie between 0 and 1, as 0.95 does, but it is {shown(value)}.")
    return float(value)


def count(n: Any, name: str = "n") -> int:
    """Return `n` as an int if it is a whole number of zero or more, also as a float."""
    if not is_number(n) or n != int(n) or not is_whole(int(n)):
        raise ValueError(f"{name} must be a number of points, zero or more, but it is {shown(n)}.")
    return int(n)


def check_fields(options: object, names: Iterable[str], what: str, valid: Callable[[Any], bool]) -> None:
    """Raise unless these fields of an option object are `valid`; what: the rule, such as "a number above 0"."""
    for name in names:
        if not valid(value := getattr(options, name)):
            raise ValueError(f"{name} must be {what}, but it is {shown(value)}.")


def is_range(value: Any, least: float = -sys.float_info.max) -> bool:
    """Whether `value` is a tuple of two numbers in ascending order, each at least `least`."""
    is_pair = isinstance(value, tuple) and len(value) == 2 and all(is_number(end, least) for end in value)
    return is_pair and bool(value[0] < value[1])


def are_numbers(value: Any, least: float = 0.0) -> bool:
    """Whether `value` is a tuple of one number or more, each at least `least`."""
    return isinstance(value, tuple) and bool(value) and all(is_number(item, least) for item in value)


class _OfRandomState(np.random.Generator):
    """The numbers of a RandomState, as NumPy 2.2 has them, in a generator that can spawn others."""

    def spawn(self, n_children: int) -> list[np.random.Generator]:
        seeds = np.random.SeedSequence(self.integers(2**32, size=ENTROPY_WORDS).tolist())
        return [np.random.default_rng(each) for each in seeds.spawn(n_children)]

    def __reduce__(self) -> tuple[Any, ...]:
        return _OfRandomState, (self.bit_generator,)


def generator(rng: RNGLike) -> np.random.Generator:
    """A Generator, from anything that `numpy.random.default_rng` takes but None, so that results are reproducible.

    Equal seeds make equal generators; generators, bit generators and a RandomState are used themselves, and advance.
    """
    if isinstance(rng, np.random.RandomState):
        return _OfRandomState(rng._bit_generator)
    if isinstance(rng, np.random.Generator | np.random.BitGenerator | np.random.SeedSequence) or _is_seed(rng):
        return np.random.default_rng(rng)
    raise TypeError(
        f"rng must be a numpy.random.Generator, an integer seed, zero or more, or anything else that "
        f"numpy.random.default_rng takes, not {shown(rng)}: pass rng=0, for example."
    )


def _is_seed(value: Any) -> bool:
    """Whether it is a whole number from 0 on, however large, or a list or an array of them."""
    if isinstance(value, np.ndarray):
        return value.dtype.kind in "iu" and value.ndim == 1 and value.size > 0 and bool(np.min(value) >= 0)
    each = value if isinstance(value, list | tuple) else [value]
    whole = (isinstance(item, int | np.integer) and not isinstance(item, bool) and item >= 0 for item in each)
    return len(each) > 0 and all(whole)


def run_entropy(rng: RNGLike) -> list[int]:
    """The entropy of a run, from a Generator or a seed."""
    return [int(word) for word in generator(rng).integers(2**32, size=ENTROPY_WORDS)]


def shown_seed(entropy: Sequence[int]) -> str:
    """The seed with this entropy if it is below `TRIED_SEEDS`, else a description of the generator."""
    for seed in range(TRIED_SEEDS):
        if run_entropy(seed) == list(entropy):
            return f"rng={seed}"
    return f"a generator or a seed above {TRIED_SEEDS - 1}, whose first number is {next(iter(entropy), None)}"


def called(function: Callable[..., Any], name: str, *arguments: Any) -> Any:
    """Call a function of the user; an error in it names the argument that held the function."""
    try:
        return function(*arguments)
    except Exception as error:
        raise ValueError(sentence(f"the function {name} raised {described(error)}")) from error


def file_name(path: Any, name: str) -> str:
    """Return the file name of a path, a string, bytes or an os.PathLike."""
    try:
        decoded = os.fsdecode(path)
    except TypeError as error:
        raise TypeError(f"{name} must be the name of a file, but it is {shown(path)}.") from error
    if not decoded or "\0" in decoded or len(decoded) > MAX_PATH:
        raise ValueError(f"{name} must be the name of a file, but {shown(decoded)} is empty, too long or contains NUL.")
    return decoded
