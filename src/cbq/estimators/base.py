"""The base class of estimators, their registry, checks of their options and samples, and the local size of noise.

Each estimator declares its name on the command line and its place in default comparisons:

    @estimator("lsmc", title="least-squares Monte Carlo", order=40, compared=[Compared("LSMC")])
    @dataclass(frozen=True)
    class LSMC(Estimator[LSMCFit]):
        needs_measure = False

        def _fit(self, samples, pool): ...

A new estimator needs a declaration in its own file and an import in `cbq/estimators/__init__.py`.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, ClassVar, Generic, Self, TypeVar, cast, final

import numpy as np

from cbq.common import Array, Executor, Integers, as_text, did_you_mean, flag, one_of, opened, shown, without_addresses
from cbq.fit import Fit, warn_of
from cbq.kernels import Kernel
from cbq.linalg import LinAlgError
from cbq.linalg.engines import NumpyEngine, current_engine
from cbq.samples import WHY, Samples

# What an estimator raises when it cannot fit these samples or predict at these thetas. Any other exception is a bug.
REFUSALS = (ValueError, TypeError, NotImplementedError, ImportError, ArithmeticError, LinAlgError, MemoryError)
_REGISTRATIONS: dict[str, Registration] = {}


F = TypeVar("F", bound=Fit, covariant=True)


class Estimator(ABC, Generic[F]):
    """The base class of estimators: configurations that fit samples, and never change.

    A subclass is a frozen dataclass of options, all of which have defaults, and implements `_fit`.
    """

    needs_measure: ClassVar[bool] = True  # whether it refuses samples without a measure of x

    @final
    def fit(self, samples: Samples, *, executor: Executor | int | None = None) -> F:
        """Estimate I over theta from samples.

        executor: a number of processes to start, or anything with `submit`, such as a client of Dask: its
        workers share the thetas of stage 1 of `cbq.CBQ`. The fit does not depend on how many there are.
        """
        with opened(executor) as pool:
            fit = self._diagnosed(samples, pool)
        warn_of(fit.serious_findings)
        return fit

    @final
    def _diagnosed(self, samples: Samples, pool: Executor | None = None) -> F:
        """The fit with findings, of which nothing warns, for callers that report them themselves."""
        return self._undiagnosed(samples, pool)._with_findings_about(samples)

    @final
    def _undiagnosed(self, samples: Samples, pool: Executor | None) -> F:
        """The fit without a look for what makes its intervals doubtful, for an estimator that fits several."""
        if not isinstance(samples, Samples):
            raise TypeError(f"fit takes cbq.Samples, but a {type(samples).__name__} arrived as samples.")
        if self.needs_measure and not samples.has_measure:
            raise ValueError(f"{type(self).__name__} needs the measures of x, but {WHY}")
        return self._fit(samples, pool)._with_samples(samples)

    @abstractmethod
    def _fit(self, samples: Samples, pool: Executor | None) -> F:
        """The fit to the samples; or raise one of `REFUSALS`."""

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The options by name. deep: as in scikit-learn; no option is an estimator, so that it changes nothing."""
        flag(deep, "deep")
        return {field.name: getattr(self, field.name) for field in fields(cast(Any, self))}

    def set_params(self, **options: Any) -> Self:
        """A copy with other options. The estimator itself stays as it is, unlike in scikit-learn."""
        known = self.get_params()
        unknown = [name for name in options if name not in known]
        if unknown:
            has = f"it has {', '.join(known)}" if known else "it has none"
            raise ValueError(f"{type(self).__name__} has no option {shown(unknown[0])}: {has}.")
        return cast(Self, replace(cast(Any, self), **options))


E = TypeVar("E", bound=Estimator[Fit])


@dataclass(frozen=True)
class Compared:
    """An entry of default comparisons: its label, the options of the estimator, and which samples it is used for."""

    label: str
    options: Mapping[str, Any] = field(default_factory=dict)
    suits: Callable[[Samples], bool] = lambda samples: True


@dataclass(frozen=True)
class Registration:
    """A registered estimator. `order` sorts command-line help and comparisons."""

    name: str
    title: str
    order: int
    create: type[Estimator[Fit]]
    compared: tuple[Compared, ...]
    presets: Mapping[str, Mapping[str, Any]]


def estimator(
    name: str,
    *,
    title: str,
    order: int,
    compared: Sequence[Compared] = (),
    presets: Mapping[str, Mapping[str, Any]] | None = None,
) -> Callable[[type[E]], type[E]]:
    """Register the decorated class.

    name : the name on the command line.
    title : the long name, in lower case, for help texts.
    order : the position among all estimators, in steps of ten so that others fit in between.
    compared : the entries of default comparisons; by default there is none.
    presets : by the name of a registered problem, the options that the estimator has there on the command line.
    """

    def register(kind: type[E]) -> type[E]:
        if name in _REGISTRATIONS:
            raise ValueError(f"an estimator {name!r} is registered already: choose another name for {kind.__name__}.")
        _REGISTRATIONS[name] = Registration(name, title, order, kind, tuple(compared), presets or {})
        return kind

    return register


def registrations() -> list[Registration]:
    """All registered estimators, in order."""
    return sorted(_REGISTRATIONS.values(), key=lambda each: each.order)


def create(name: str, problem: str | None = None) -> Estimator[Fit]:
    """Return the estimator with this name on the command line, with its default options.

    problem : the name of a registered problem, for which the estimator may have other defaults.
    """
    if name not in _REGISTRATIONS:
        known = [each.name for each in registrations()]
        raise ValueError(f"there is no estimator {name!r}: {did_you_mean(name, known, 'estimators')}")
    found = _REGISTRATIONS[name]
    return found.create(**found.presets.get(problem or "", {}))


def default_estimators(samples: Samples) -> dict[str, Estimator[Fit]]:
    """The estimators of a default comparison on these samples, by label."""
    return {
        entry.label: each.create(**entry.options)
        for each in registrations()
        for entry in each.compared
        if entry.suits(samples) and (samples.has_measure or not each.create.needs_measure)
    }


def reason(error: Exception) -> str:
    """The first sentence of an error message, without its full stop; the type of the error if there is no message."""
    text = " ".join(as_text(error).split())
    first = re.split(r"(?<=[.!?]) (?=[A-Z])", text)[0].rstrip(".")  # "[1. 2.]" does not end a sentence
    return first or type(error).__name__


def require_several_values(samples: Samples) -> None:
    """Raise unless an error can be estimated from the samples."""
    if samples.n_evaluations == 1:
        raise ValueError(
            "there is one theta with one value of f, which cannot show its own error: evaluate f at more points "
            "of that theta, or at more thetas."
        )


def check_kernels(estimator: Any, *, lists: bool = False, names: Sequence[str] = ("kernel_x", "kernel_theta")) -> None:
    """Raise unless the options with these names are kernels or "auto"; lists: or lists of kernels."""
    for name in names:
        given = getattr(estimator, name)
        several = lists and isinstance(given, list | tuple) and len(given) > 0
        if is_auto(given) or all(isinstance(each, Kernel) for each in (given if several else [given])):
            continue
        what = (
            ", a kernel such as cbq.kernels.RBF() or a list of kernels"
            if lists
            else " or a kernel such as cbq.kernels.RBF()"
        )
        raise TypeError(f"{name} must be 'auto'{what}, but it is {shown(given)}.")


def check_choices(estimator: Any, choices: dict[str, Any]) -> None:
    """Raise unless each option is one of those that its Literal type lists."""
    for name, kind in choices.items():
        one_of(getattr(estimator, name), kind, name)


def is_auto(value: object) -> bool:
    """Whether it is "auto"; arrays cannot be compared with a string."""
    return isinstance(value, str) and value == "auto"


def options(estimator: Any) -> dict[str, str]:
    """The options of an estimator, as text without addresses."""
    return {field.name: without_addresses(repr(getattr(estimator, field.name))) for field in fields(estimator)}


def settings(estimator: Any) -> dict[str, str]:
    """The options of an estimator, as text, and the engine of the fit, unless it is NumPy."""
    found, engine = options(estimator), current_engine()
    return found if isinstance(engine, NumpyEngine) else {**found, "engine": engine.name}


def variances_near(
    theta: Array,
    at: Array,
    squares: Array,
    counts: Array | Integers | None = None,
    *,
    width: float = 0.25,
    prior: float = 8.0,
) -> Array:
    """Variances (M, C) of noise near thetas (M, p), from squares (n, C) at thetas (n, p).

    They are averages of near squares, shrunk towards the average of all.

    counts: (n,), of values in each square; by default one. width: of the neighbourhood, in units of the standard
    deviation of each coordinate. prior: values that the average of all counts for, since a few squares are a poor
    estimate; on the scale of logarithms, as variances may differ by orders of magnitude.
    """
    counts = np.ones(len(at)) if counts is None else counts
    unit = width * np.maximum(np.std(at, axis=0), np.finfo(float).tiny)
    apart2 = np.sum(((theta[:, None] - at) / unit) ** 2, axis=2)
    weights = counts * np.exp(-0.5 * apart2)
    n = np.sum(weights, axis=1)[:, None]
    least = np.finfo(float).tiny
    local = np.log(np.maximum(weights @ squares, least) / np.maximum(n, least))
    common = np.log(np.maximum(counts @ squares / np.sum(counts), least))
    found = np.exp((n * local + prior * common) / (n + prior))
    return np.where(np.any(squares > 0, axis=0), found, 0.0)
