"""Plain averages as arrays, and what fits that are made of them have in common."""

from __future__ import annotations

from typing import Any, cast, get_args

import numpy as np
import numpy.typing as npt

from cbq.io import checks
from cbq.io.archive import Archive
from cbq.methods.baselines.averages import Averages
from cbq.methods.baselines.smoothing import SmoothedFit
from cbq.samples.samples import Design

Arrays = dict[str, npt.NDArray[Any]]


def pack_averages(averages: Averages) -> Arrays:
    """The arrays of averages, checked as those of a file are."""
    arrays: Arrays = {
        "theta": averages.theta,
        "counts": averages.counts.astype(np.int64),
        "mean": averages.mean,
        "variance": averages.variance,
        "correlation": averages.correlation,
    }
    _check(arrays)
    return arrays


def unpack_averages(archive: Archive) -> Averages:
    """The averages, from the arrays of an archive."""
    arrays: Arrays = {name: archive.array(name, np.float64) for name in ("theta", "mean", "variance")}
    arrays["correlation"] = checks.kept_correlation(archive, arrays["mean"])
    arrays["counts"] = archive.array("counts", np.int64)
    _check(arrays)
    return Averages(**{**arrays, "counts": arrays["counts"].astype(np.intp)})


def pack_smoothed(fit: SmoothedFit) -> dict[str, Any]:
    """What all regressions of averages have in a JSON object."""
    return {"design": fit.design, "single": fit.C is None, "settings": fit.settings, "warnings": fit.warnings}


def unpack_smoothed(record: dict[str, Any], averages: Averages) -> dict[str, Any]:
    """The arguments of a constructor that `pack_smoothed` packed."""
    settings = checks.field(record, "settings", dict)
    return {
        "design": design(record),
        "single": single(record, averages.mean.shape[1]),
        "settings": {name: checks.field(settings, name, str) for name in settings},
        "warnings": checks.texts(record, "warnings"),
    }


def curves(record: dict[str, Any], C: int) -> list[dict[str, Any]]:
    """The JSON objects of C curves, one for each output."""
    found = checks.field(record, "curves", list)
    if len(found) != C:
        raise ValueError(f"'curves' must hold {C}, one for each output, but it holds {len(found)}.")
    return found


def design(record: dict[str, Any]) -> Design:
    """How the points were drawn."""
    name = checks.field(record, "design", str)
    if name not in get_args(Design):
        raise ValueError(f"'design' must be one of {', '.join(get_args(Design))}, but it is {name!r}.")
    return cast(Design, name)


def single(record: dict[str, Any], C: int) -> bool:
    """Whether f has no axis of outputs."""
    alone = checks.field(record, "single", bool)
    if alone and C > 1:
        raise ValueError(f"'single' says that there is one output, but the arrays have {C}.")
    return alone


def _check(arrays: Arrays) -> None:
    T = len(checks.array(arrays["theta"], "theta", (None, None)))
    C = checks.array(arrays["mean"], "mean", (T, None)).shape[1]
    checks.array(arrays["variance"], "variance", (T, C), 0.0)
    checks.array(arrays["counts"], "counts", (T,), 1)
    checks.correlation(arrays["correlation"], C)
