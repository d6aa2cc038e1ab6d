"""The checks of arguments that are not arrays: an error says what arrived, what was expected and what to do."""

from __future__ import annotations

import math
import os
import re
import sys
from collections.abc import Callable, Iterable, Sequence
from difflib import get_close_matches
from typing import Any, TypeGuard, get_args

import numpy as np

from cbq._wording import arg

LARGEST = 1e153  # of a number whose square, and a sum of squares, stay within float64
MAX_SHOWN, MAX_DESCRIBED = 100, 400  # characters of a value, and of another error, in a message
MAX_PATH = 4096  # characters
ENTROPY_WORDS = 4  # of 32 bits, which a run takes from the generator that it is given
TRIED_SEEDS = 1000  # among which a message looks for the seed of a file
ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")  # of a function or an object, which differs from run to run


def shown(value: Any) -> str:
    """A value as an error shows it: its `repr` on one line, shortened; its type where it has none."""
    if isinstance(value, int) and abs(value) >= 10**20:
        return f"{'-' * (value < 0)}10**{int((abs(value).bit_length() - 1) * math.log10(2))} or more"
    try:
        text = ADDRESS.sub("", " ".join(repr(value).split()))
    except (Exception, SystemExit):
        return f"a {type(value).__name__}"
    return text if len(text) <= MAX_SHOWN else f"{text[:MAX_SHOWN]}..."


def named(function: Callable[..., Any]) -> str:
    """The name of a function with its module, or the name of the type of another callable."""
    found = function if hasattr(function, "__qualname__") else type(function)
    return f"{found.__module__}.{found.__qualname__}"


def as_text(thing: Any) -> str:
    """The name of a column, or the message of an error of the user, as a string, whatever its `__str__` does."""
    try:
        return str(thing)
    except (Exception, SystemExit):
        return shown(thing)


def listed(names: Iterable[str], most: int = 20) -> str:
    """Names in quotes, at most the first `most` of them."""
    every = list(names)
    return ", ".join(map(repr, every[:most])) + f" and {len(every) - most} more" * (len(every) > most)


def did_you_mean(name: str, known: Iterable[str], otherwise: str) -> str:
    """The known names that are spelt nearly as `name` is, as a question; or else all of them, which are `otherwise`."""
    every = list(known)
    lower = {each.lower(): each for each in reversed(every)}
    close = [lower[each] for each in get_close_matches(name.lower()[:MAX_SHOWN], list(lower), n=3)]
    return f"did you mean {' or '.join(map(repr, close))}?" if close else f"the {otherwise} are {listed(every)}."


def described(error: BaseException) -> str:
    """The type and the message of another error, on one line."""
    return f"{type(error).__name__}: {' '.join(as_text(error).split())[:MAX_DESCRIBED]}"


def sentence(message: str) -> str:
    """A message that ends with the words of another error, with a full stop unless it has one."""
    whole = message.rstrip(" :")
    return whole if whole.endswith((".", "!", "?")) else f"{whole}."


def flag(value: Any, name: str) -> bool:
    """Return `value` if it is True or False: nothing else is, neither 1 nor "False"."""
    if not isinstance(value, bool | np.bool_):
        raise ValueError(f"{arg(name)} must be True or False, but it is {shown(value)}.")
    return bool(value)


def text(value: Any, name: str) -> str:
    """Return `value` if it is a string."""
    if not isinstance(value, str):
        raise TypeError(f"{arg(name)} must be a string, but it is {shown(value)}.")
    return value


def one_of(value: Any, options: Any, name: str) -> Any:
    """Return `value` if it is one of the strings of `options`, a Literal."""
    *others, last = map(repr, get_args(options))
    if not isinstance(value, str) or value not in get_args(options):
        raise ValueError(f"{arg(name)} must be {', '.join(others)} or {last}, but it is {shown(value)}.")
    return value


def is_whole(value: Any, least: int = 0, most: int = 2**53) -> TypeGuard[int]:
    """Whether it is a whole number in this range, by default one that float64 holds; True and False are not."""
    return isinstance(value, int | np.integer) and not isinstance(value, bool) and bool(least <= value <= most)


def whole(value: Any, name: str, least: int = 0) -> int:
    """Return `value` as an int if it is a whole number, at least `least`."""
    if not is_whole(value, least):
        raise ValueError(f"{arg(name)} must be a whole number, at least {least}, but it is {shown(value)}.")
    return int(value)


def position(value: Any, length: int, name: str) -> int:
    """The place from 0 to length - 1 of an index, which may count from the end, as -1 does."""
    if not is_whole(value, -length, length - 1):
        raise IndexError(f"{arg(name)} must be an integer from 0 to {length - 1}, but it is {shown(value)}.")
    return range(length)[int(value)]


def is_number(value: Any, least: float = -sys.float_info.max, most: float = sys.float_info.max) -> TypeGuard[float]:
    """Whether it is a real number in this range, by default a finite one; True and False are not."""
    if not isinstance(value, int | float | np.integer | np.floating) or isinstance(value, bool):
        return False
    compared = float(value) if isinstance(value, np.floating) else value  # bounds may overflow in its own type
    return bool(least <= compared <= most)  # an int is compared exactly, whatever its size


def number(value: Any, name: str) -> float:
    """Return `value` as a float if it is a real number that can be squared."""
    if not is_number(value, -LARGEST, LARGEST):
        raise ValueError(f"{arg(name)} must be a finite number, at most {LARGEST:g} in size, but it is {shown(value)}.")
    return float(value)


def between_0_and_1(value: Any, name: str) -> float:
    """Return `value` as a float if it lies strictly between 0 and 1, such as the level of an interval."""
    if not is_number(value) or not 0 < value < 1:
        raise ValueError(f"{arg(name)} must lie between 0 and 1, as 0.95 does, but it is {shown(value)}.")
    return float(value)


def count(n: Any, name: str = "n") -> int:
    """Return `n` as an int if it is a whole number of zero or more, also as a float."""
    if not is_number(n) or n != int(n) or not is_whole(int(n)):
        raise ValueError(f"{arg(name)} must be a number of points, zero or more, but it is {shown(n)}.")
    return int(n)


def check_fields(options: object, names: Iterable[str], what: str, valid: Callable[[Any], bool]) -> None:
    """Raise unless these fields of an option object are `valid`; what: they must be, such as "a number above 0"."""
    for name in names:
        if not valid(value := getattr(options, name)):
            raise ValueError(f"{name} must be {what}, but it is {shown(value)}.")


def is_range(value: Any, least: float = -sys.float_info.max) -> bool:
    """Whether it is a tuple of two numbers in ascending order, `least` or more."""
    is_pair = isinstance(value, tuple) and len(value) == 2 and all(is_number(each, least) for each in value)
    return is_pair and bool(value[0] < value[1])


def are_numbers(value: Any, least: float = 0.0) -> bool:
    """Whether it is a tuple of numbers, `least` or more, and has at least one."""
    return isinstance(value, tuple) and bool(value) and all(is_number(each, least) for each in value)


def generator(rng: Any) -> np.random.Generator:
    """The Generator of a Generator or of a seed. None is an error, so that results are reproducible."""
    if isinstance(rng, np.random.Generator):
        return rng
    if not isinstance(rng, int | np.integer) or isinstance(rng, bool) or rng < 0:
        raise TypeError(
            f"{arg('rng')} must be a numpy.random.Generator or an integer seed, zero or more, not {shown(rng)}: pass "
            f"{arg('rng', 0)}, for example, or rng=numpy.random.default_rng(...)."
        )
    return np.random.default_rng(rng)


def run_entropy(rng: np.random.Generator | int) -> list[int]:
    """The entropy of a run, from a Generator or a seed."""
    return [int(word) for word in generator(rng).integers(2**32, size=ENTROPY_WORDS)]


def shown_seed(entropy: Sequence[int]) -> str:
    """The seed that has this entropy, if it is a small number; else what can be said about its generator."""
    for seed in range(TRIED_SEEDS):
        if run_entropy(seed) == list(entropy):
            return f"rng={seed}"
    return f"a generator or a seed above {TRIED_SEEDS - 1}, whose first number is {next(iter(entropy), None)}"


def called(function: Callable[..., Any], name: str, *arguments: Any) -> Any:
    """What a function of the user returns; an error in it says which argument the function was."""
    try:
        return function(*arguments)
    except Exception as error:
        raise ValueError(sentence(f"the function {name} raised {described(error)}")) from error


def file_name(path: Any, name: str) -> str:
    """Return the file name of a path, a string, bytes or an os.PathLike."""
    try:
        found = os.fsdecode(path)
    except TypeError as error:
        raise TypeError(f"{name} must be the name of a file, but it is {shown(path)}.") from error
    if not found or "\0" in found or len(found) > MAX_PATH:
        raise ValueError(f"{name} must be the name of a file, but {shown(found)} is empty, too long or contains NUL.")
    return found
