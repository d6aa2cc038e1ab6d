"""The methods to compare, and the names they go by."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, Field, fields, is_dataclass
from typing import Any, Protocol

import numpy as np

from cbq.fit.base import Fit
from cbq.methods import CBQ, KLSMC, LSMC, MOBQ, ImportanceSampling, MonteCarlo
from cbq.methods.auto import BORROWED
from cbq.samples import Samples

# What a method raises where it cannot serve; anything else is a mistake that should be seen.
REFUSALS = (ValueError, TypeError, NotImplementedError, ImportError, ArithmeticError, np.linalg.LinAlgError)


class Method(Protocol):
    """Whatever makes a fit of samples."""

    def fit(self, samples: Samples) -> Fit: ...


def default_methods(samples: Samples) -> dict[str, Method]:
    """Those of the library that are worth a look at such samples, by name."""
    chosen: dict[str, Method] = {"CBQ": CBQ()}
    if not samples.depends_on_theta:
        chosen["CBQ, borrowing"] = CBQ(borrow=BORROWED)
    everyone: tuple[Method, ...] = (MOBQ(), LSMC(), KLSMC(), ImportanceSampling(), MonteCarlo())
    return chosen | {type(method).__name__: method for method in everyone}


def named(methods: Mapping[str, Method] | Sequence[Method] | Method) -> dict[str, Method]:
    """Methods by name, as a user passes them: a mapping, a sequence or a single one."""
    if isinstance(methods, Mapping):
        pairs = list(methods.items())
    else:
        several = isinstance(methods, Sequence) and not isinstance(methods, str)
        listed: list[Any] = list(methods) if several else [methods]  # type: ignore[arg-type]
        for method in listed:
            _refuse_other(method)
        pairs = list(zip(_names(listed), listed, strict=True))
    if not pairs:
        raise ValueError("methods is empty: name at least one, as in {'CBQ': cbq.CBQ()}, or pass None for a choice.")
    for name, method in pairs:
        _refuse_other(method)
        if not isinstance(name, str) or not name.strip():
            raise TypeError(f"methods must be called by names that are not empty, but one is called {name!r}.")
    return dict(pairs)


def fitted(method: Method, samples: Samples) -> Fit:
    """The fit of a method, which must be one."""
    fit = method.fit(samples)
    if not isinstance(fit, Fit):
        raise TypeError(f"fit returned a {type(fit).__name__}, but a cbq.Fit is needed.")
    return fit


def reason(error: Exception) -> str:
    """The first sentence of what an error says."""
    text = " ".join(str(error).split())
    first = re.split(r"(?<=[.!?]) (?=[A-Z])", text)[0].rstrip(".")  # "[1. 2.]" is no end of a sentence
    return first or type(error).__name__


def _refuse_other(method: Any) -> None:
    """Raise unless this is a method."""
    if isinstance(method, type):
        raise TypeError(f"a method must be an object, but the class {method.__name__} arrived: {method.__name__}().")
    if not callable(getattr(method, "fit", None)):
        raise TypeError(
            f"a method must have fit(samples), as cbq.CBQ() has, but a {type(method).__name__} arrived: pass a mapping "
            f"from names to methods, a sequence of methods, or one."
        )


def _names(methods: Sequence[Method]) -> list[str]:
    """The classes of methods, with what tells them apart where two have the same."""
    kinds = [type(method).__name__ for method in methods]
    names = [kind if kinds.count(kind) == 1 else _in_full(method) for kind, method in zip(kinds, methods, strict=True)]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise ValueError(f"two methods are called {twice!r}: pass a mapping from names to methods.")
    return names


def _in_full(method: Method) -> str:
    """A method with the options that are not left as they come."""
    kind = type(method)
    if not is_dataclass(kind):
        return kind.__name__ if kind.__repr__ is object.__repr__ else repr(method)  # an address is no name
    values = {field.name: repr(getattr(method, field.name)) for field in fields(kind) if field.repr}
    defaults = {field.name: _default(field) for field in fields(kind)}
    told = ", ".join(f"{name}={value}" for name, value in values.items() if value != defaults[name])
    return f"{kind.__name__}({told})" if told else kind.__name__


def _default(field: Field[Any]) -> str | None:
    if field.default_factory is not MISSING:
        return repr(field.default_factory())
    return None if field.default is MISSING else repr(field.default)
