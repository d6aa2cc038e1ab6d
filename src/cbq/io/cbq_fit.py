"""A fit of conditional Bayesian quadrature as JSON and arrays, and back."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, cast, get_args

import numpy as np
import numpy.typing as npt

from cbq._arrays import Array
from cbq.gp.heteroscedastic import GPPrior
from cbq.gp.trend import ThetaCoordinates, Trend
from cbq.io import checks
from cbq.io.archive import Archive
from cbq.io.kernels import pack_kernel, unpack_kernel
from cbq.methods.conditional.fit import CBQFit
from cbq.methods.conditional.stage_one import KernelShare, StageOne
from cbq.samples.samples import Design

COLUMNS = {"mean": -math.inf, "variance": 0.0, "bias": -math.inf, "spread2": 0.0, "amplitude": 0.0}  # least values
Arrays = dict[str, npt.NDArray[Any]]


def pack(fit: CBQFit) -> tuple[dict[str, Any], Arrays]:
    """Everything the constructor needs: a JSON object, and arrays by name."""
    stage1 = fit.stage1
    arrays: Arrays = {"theta": fit.theta, "counts": stage1.counts.astype(np.int64), "weights": stage1.point_weights}
    arrays |= {**stage1.columns, "correlation": stage1.correlation}
    if fit.rows is not None:
        arrays |= {"own_counts": fit.counts.astype(np.int64), "rows": fit.rows.astype(np.int64)}
    _check(arrays)
    record = {
        "design": fit.design,
        "borrowed": fit.rows is not None,
        "calibrate": fit.calibrate,
        "settings": fit.settings,
        "warnings": fit.own_warnings,
        "stage1": {
            "single": stage1.single,
            "warnings": stage1.warnings,
            "hyperparameters": [[_pack_choice(choice) for choice in choices] for choices in stage1.hyperparameters],
        },
        "priors": [[_pack_prior(prior) for prior in priors] for priors in fit.priors],
    }
    return record, arrays


def unpack(record: dict[str, Any], archive: Archive) -> CBQFit:
    """The fit, from a JSON object and the arrays of an archive."""
    arrays: Arrays = {name: archive.array(name, np.float64) for name in ("theta", "weights", *COLUMNS)}
    arrays["correlation"] = checks.kept_correlation(archive, arrays["mean"])
    arrays["counts"] = archive.array("counts", np.int64)
    if checks.field(record, "borrowed", bool):
        arrays |= {name: archive.array(name, np.int64) for name in ("own_counts", "rows")}
    T, p, C = _check(arrays)
    design = checks.field(record, "design", str)
    if design not in get_args(Design):
        raise ValueError(f"'design' must be one of {', '.join(get_args(Design))}, but it is {design!r}.")
    settings = checks.field(record, "settings", dict)
    priors = _per_output(checks.field(record, "priors", list), "priors", C)
    return CBQFit(
        arrays["theta"],
        _unpack_stage_one(checks.field(record, "stage1", dict), arrays, C),
        [_unpack_priors(each, T, p) for each in priors],
        design=cast(Design, design),
        calibrate=checks.field(record, "calibrate", bool),
        settings={name: checks.field(settings, name, str) for name in settings},
        warnings=checks.texts(record, "warnings"),
        counts=arrays["own_counts"].astype(np.intp) if "rows" in arrays else None,
        rows=arrays["rows"].astype(np.intp) if "rows" in arrays else None,
    )


def _check(arrays: Arrays) -> tuple[int, int, int]:
    """T, p and C of arrays that agree on them."""
    T, p = checks.array(arrays["theta"], "theta", (None, None)).shape
    C = checks.array(arrays["mean"], "mean", (T, None)).shape[1]
    for name, least in COLUMNS.items():
        checks.array(arrays[name], name, (T, C), least)
    n = sum(checks.array(arrays["counts"], "counts", (T,), 1).tolist())
    checks.array(arrays["weights"], "weights", (n, C))
    checks.correlation(arrays["correlation"], C)
    if "rows" in arrays:
        points = sum(checks.array(arrays["own_counts"], "own_counts", (T,), 1).tolist())
        if np.any(checks.array(arrays["rows"], "rows", (n,), 0) >= points):
            raise ValueError(f"'rows' must be numbers of {points} points, but its largest is {arrays['rows'].max()}.")
    return T, p, C


def _per_output(values: list[Any], name: str, C: int) -> list[list[Any]]:
    if len(values) != C or not all(isinstance(each, list) and each for each in values):
        raise ValueError(f"{name!r} must hold a list for each of {C} outputs, none of them empty.")
    return values


def _unpack_stage_one(record: dict[str, Any], arrays: Arrays, C: int) -> StageOne:
    single = checks.field(record, "single", bool)
    if single and C > 1:
        raise ValueError(f"'single' says that there is one output, but the arrays have {C}.")
    choices = _per_output(checks.field(record, "hyperparameters", list), "hyperparameters", C)
    return StageOne(
        **{name: arrays[name] for name in COLUMNS},
        point_weights=arrays["weights"],
        counts=arrays["counts"].astype(np.intp),
        hyperparameters=[[_unpack_choice(choice) for choice in each] for each in choices],
        warnings=checks.texts(record, "warnings"),
        single=single,
        correlation=arrays["correlation"],
    )


def _pack_choice(choice: KernelShare) -> dict[str, Any]:
    share = checks.number(choice.share, "share")
    return {"coordinates": choice.coordinates, "kernel": choice.kernel, "share": share}


def _unpack_choice(record: Any) -> KernelShare:
    coordinates, kernel = (checks.field(record, name, str) for name in ("coordinates", "kernel"))
    return KernelShare(coordinates, kernel, checks.number(record.get("share"), "share"))


def _pack_prior(prior: GPPrior) -> dict[str, Any]:
    """A prior in numbers, which survive as their repr; null stands for the evidence minus infinity."""
    return {
        "logs": prior.coordinates.logs.tolist(),
        "centre": prior.coordinates.centre.tolist(),
        "scale": prior.coordinates.scale.tolist(),
        "kernel": pack_kernel(prior.kernel),
        "amplitude": checks.number(prior.amplitude, "amplitude", least=0.0),
        "noise": checks.number(prior.noise, "noise", least=0.0),
        "offset": checks.number(prior.offset, "offset"),
        "degree": None if prior.degree is None else int(prior.degree),
        "evidence": None if prior.evidence == -math.inf else checks.number(prior.evidence, "evidence"),
        "n_fitted": int(prior.n_fitted),
    }


def _unpack_priors(records: list[Any], T: int, p: int) -> list[GPPrior]:
    priors = [_unpack_prior(record, T, p) for record in records]
    if all(prior.evidence == -math.inf for prior in priors):
        raise ValueError("'evidence' must be a number for one prior of each output at least.")
    return priors


def _unpack_prior(record: Any, T: int, p: int) -> GPPrior:
    kernel = unpack_kernel(checks.field(record, "kernel", dict))
    kernel.check_dim(p)
    evidence = record.get("evidence")
    return GPPrior(
        _unpack_coordinates(record, p),
        kernel,
        checks.number(record.get("amplitude"), "amplitude", least=0.0),
        checks.number(record.get("noise"), "noise", least=0.0),
        _unpack_degree(record, T, p),
        -math.inf if evidence is None else checks.number(evidence, "evidence"),
        checks.field(record, "n_fitted", int),
        checks.number(record.get("offset"), "offset"),
    )


def _unpack_coordinates(record: Any, p: int) -> ThetaCoordinates:
    logs = checks.field(record, "logs", list)
    if len(logs) != p or not all(isinstance(log, bool) for log in logs):
        raise ValueError(f"'logs' must hold {p} times true or false, but it holds {logs!r}.")
    centre = _numbers(checks.field(record, "centre", list), "centre", p)
    scale = _numbers(checks.field(record, "scale", list), "scale", p, least=math.ulp(0.0))
    return ThetaCoordinates(np.array(logs, dtype=bool), centre, scale)


def _numbers(values: Sequence[Any], name: str, p: int, least: float = -math.inf) -> Array:
    return checks.array(np.array([checks.number(value, name) for value in values]), name, (p,), least)


def _unpack_degree(record: Any, T: int, p: int) -> Trend:
    if "degree" in record and record["degree"] is None:
        return None
    degree = checks.field(record, "degree", int)
    if degree < 0 or (degree > 0 and math.comb(degree + p, p) > T):
        raise ValueError(f"'degree' is {degree}, which is no degree of a trend that {T} thetas can tell.")
    return degree
