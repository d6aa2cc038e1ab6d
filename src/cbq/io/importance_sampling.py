"""A fit of importance sampling as JSON and arrays, and back: the measures of x come with the family, not from the file."""

from __future__ import annotations

from typing import Any, cast, get_args

import numpy as np

from cbq.io import checks
from cbq.io.archive import Archive
from cbq.io.averages import Arrays, design, single
from cbq.io.families import samples_with
from cbq.methods.baselines.importance_sampling import ImportanceSamplingFit, Kind
from cbq.samples.conditional import Family


def pack(fit: ImportanceSamplingFit) -> tuple[dict[str, Any], Arrays]:
    """Everything the constructor needs but the measures of x: a JSON object, and arrays by name."""
    arrays: Arrays = {
        "theta": fit.theta,
        "counts": fit.samples.counts.astype(np.int64),
        "x": fit.samples.all_points,
        "f": fit.samples.table,
        "log_density": fit.samples.log_density(),
        "log_q": fit.log_q,
    }
    _check(arrays)
    return {"kind": fit.kind, "design": fit.design, "single": fit.C is None}, arrays


def unpack(record: dict[str, Any], archive: Archive, family: Family) -> ImportanceSamplingFit:
    """The fit, from a JSON object, the arrays of an archive and the family of the measures."""
    arrays: Arrays = {name: archive.array(name, np.float64) for name in ("theta", "x", "f", "log_density", "log_q")}
    arrays["counts"] = archive.array("counts", np.int64)
    _check(arrays)
    kind = checks.field(record, "kind", str)
    if kind not in get_args(Kind):
        raise ValueError(f"'kind' must be one of {', '.join(get_args(Kind))}, but it is {kind!r}.")
    f = arrays["f"][:, 0] if single(record, arrays["f"].shape[1]) else arrays["f"]
    samples = samples_with(family, {**arrays, "f": f}, design=design(record), depends_on_theta=False)
    return ImportanceSamplingFit(samples, arrays["log_q"], kind=cast(Kind, kind))


def _check(arrays: Arrays) -> None:
    T = len(checks.array(arrays["theta"], "theta", (None, None)))
    n = sum(checks.array(arrays["counts"], "counts", (T,), 1).tolist())
    for name in ("x", "f"):
        checks.array(arrays[name], name, (n, None))
    for name in ("log_density", "log_q"):
        checks.array(arrays[name], name, (n,))
