"""Saving a fit of any kind to a file, and loading it again."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy.typing as npt

from cbq.fit.base import Fit
from cbq.io import (
    cbq_fit,
    checks,
    importance_sampling,
    kernel_least_squares,
    least_squares,
    mobq,
    monte_carlo,
)
from cbq.io.archive import Archive, IncompatibleFile, write
from cbq.methods.baselines.importance_sampling import ImportanceSamplingFit
from cbq.methods.baselines.kernel_least_squares import KLSMCFit
from cbq.methods.baselines.least_squares import LSMCFit
from cbq.methods.baselines.monte_carlo import MonteCarloFit
from cbq.methods.conditional.fit import CBQFit
from cbq.methods.multioutput.fit import MOBQFit
from cbq.samples.conditional import Family

FORMAT = "cbq-fit"
VERSION = 1  # of the format: raised when older readers would misread a file
DAMAGE = (ValueError, TypeError, ArithmeticError, RecursionError)


class Kind(NamedTuple):
    """How fits of one class become JSON and arrays, and back.

    needs_family: `unpack` takes the family of the measures of x besides the record and the archive.
    """

    fit: type[Fit]
    pack: Callable[[Any], tuple[dict[str, Any], dict[str, npt.NDArray[Any]]]]
    unpack: Callable[..., Fit]
    needs_family: bool = False


KINDS = {
    "CBQ": Kind(CBQFit, cbq_fit.pack, cbq_fit.unpack),
    "MonteCarlo": Kind(MonteCarloFit, monte_carlo.pack, monte_carlo.unpack),
    "ImportanceSampling": Kind(
        ImportanceSamplingFit, importance_sampling.pack, importance_sampling.unpack, needs_family=True
    ),
    "LSMC": Kind(LSMCFit, least_squares.pack, least_squares.unpack),
    "KLSMC": Kind(KLSMCFit, kernel_least_squares.pack, kernel_least_squares.unpack),
    "MOBQ": Kind(MOBQFit, mobq.pack, mobq.unpack, needs_family=True),
}


def save(fit: Fit, path: str | os.PathLike[str]) -> None:
    """Write a fit to a file that `load` reads, replacing what was there once the new file is complete.

    The file is a zip archive with `fit.json` and one `.npy` per array; its name is taken as it is.
    """
    from cbq import __version__

    names = [name for name, kind in KINDS.items() if type(fit) is kind.fit]
    if not names:
        known = ", ".join(kind.fit.__name__ for kind in KINDS.values())
        raise TypeError(f"a {type(fit).__name__} cannot be saved: there is a format for {known} only.")
    try:
        record, arrays = KINDS[names[0]].pack(fit)
    except ValueError as error:
        raise ValueError(f"this fit cannot be saved: {error}") from error
    header = {"format": FORMAT, "version": VERSION, "cbq": __version__, "kind": names[0], "fit": record}
    if fit.choice is not None:
        header["choice"] = fit.choice
    write(os.fsdecode(path), header, arrays)


def load(path: str | os.PathLike[str], family: Family | None = None) -> Fit:
    """The fit that `fit.save(path)` wrote. Its answers are those of the original, to the last bit.

    family: the function from theta (p,) to the measure of x that the samples were made with. A fit that needs it at new
        thetas (importance sampling, multi-output Bayesian quadrature) cannot be loaded without, because a file holds
        no code; one that gives the points of the fit other densities is refused. Fits that need no family leave it
        unused.

    Nothing in the file is executed, and all of it is checked: a file that is damaged, of another kind or of a newer
    format is refused with a ValueError.
    """
    if family is not None and not callable(family):
        raise TypeError(
            f"family must be a function from theta to the measure of x, as lambda theta: Gaussian(theta, 1.0) is, but it "
            f"is a {type(family).__name__}."
        )
    name = os.fsdecode(path)
    with open(name, "rb") as file:
        try:
            return _unpack(Archive(file), family)
        except IncompatibleFile as error:
            raise ValueError(f"{name} {error}") from error
        except DAMAGE as error:
            raise ValueError(f"{name} is damaged: {error} Restore it from a copy, or fit and save again.") from error


def _unpack(archive: Archive, family: Family | None) -> Fit:
    header = archive.header()
    if header.get("format") != FORMAT:
        why = f"its format is {header.get('format')!r}, not {FORMAT!r}"
        raise IncompatibleFile(f"is not a fit of cbq: {why}. Pass a file that fit.save wrote.")
    version = checks.field(header, "version", int)
    if version > VERSION:
        raise IncompatibleFile(
            _too_new(header, f"has version {version} of its format, and this cbq reads up to {VERSION}")
        )
    if version < 1:
        raise ValueError(f"'version' must be 1 or more, but it is {version}.")
    kind = checks.field(header, "kind", str)
    if kind not in KINDS:
        raise IncompatibleFile(_too_new(header, f"holds a fit of kind {kind!r}, and this cbq knows {', '.join(KINDS)}"))
    fit = _fit(KINDS[kind], kind, checks.field(header, "fit", dict), archive, family)
    return fit.with_choice(checks.field(header, "choice", str)) if "choice" in header else fit


def _fit(kind: Kind, name: str, record: dict[str, Any], archive: Archive, family: Family | None) -> Fit:
    if not kind.needs_family:
        return kind.unpack(record, archive)
    if family is None:
        raise IncompatibleFile(
            f"holds a fit of kind {name}, which needs the measure of x at any theta, and a file holds no code: pass "
            f"family=, the function from theta to its measure."
        )
    return kind.unpack(record, archive, family)


def _too_new(header: dict[str, Any], why: str) -> str:
    return f"{why}: cbq {header.get('cbq')} wrote it. Upgrade this one with python -m pip install --upgrade cbq."
