"""A fit of multi-output Bayesian quadrature as JSON and arrays, and back: the measures of x come with the family."""

from __future__ import annotations

from typing import Any

import numpy as np

from cbq._arrays import Array, Integers
from cbq.embeddings.many import Integrals
from cbq.gp.calibration import SplitHalfCalibration
from cbq.gp.choice import KernelChoice
from cbq.io import checks
from cbq.io.archive import Archive, IncompatibleFile
from cbq.io.averages import Arrays, design, single
from cbq.io.families import CLOSE, samples_with
from cbq.io.kernels import pack_kernel, unpack_kernel
from cbq.kernels import Kernel, XThetaKernel
from cbq.linalg import Jitter
from cbq.methods.multioutput.candidates import pooled_points
from cbq.methods.multioutput.fit import MOBQFit, OutputGroup
from cbq.samples import Samples
from cbq.samples.conditional import Family

WITNESSES = (
    5  # points at which the embeddings of all measures are kept, to tell families whose measures have no densities
)


def pack(fit: MOBQFit) -> tuple[dict[str, Any], Arrays]:
    """Everything the constructor needs but the measures of x: a JSON object, and arrays by name."""
    samples, C = fit.samples, fit.C or 1
    inflation, common = np.empty(C), np.empty(C)
    arrays: Arrays = {
        "theta": fit.theta,
        "counts": samples.counts.astype(np.int64),
        "x": samples.all_points,
        "f": samples.table,
        "log_density": samples.log_density(),
        "embedding": _embedding(fit.groups[0].chosen.kernel, samples),
        "inflation": inflation,
        "common": common,
    }
    for i, part in enumerate(fit.groups):
        inflation[list(part.outputs)], common[list(part.outputs)] = part.calibration.inflation, part.calibration.common
        if part.landmarks is not None:
            arrays[f"landmarks_{i}"] = part.landmarks.astype(np.int64)
    _check(arrays)
    record = {
        "design": samples.design,
        "depends_on_theta": samples.depends_on_theta,
        "single": fit.C is None,
        "parts": [_pack_part(part) for part in fit.groups],
        "jitter": {"start": float(fit.jitter.start), "ceiling": float(fit.jitter.ceiling)},
        "settings": fit.settings,
        "warnings": fit.own_warnings,
    }
    return record, arrays


def unpack(record: dict[str, Any], archive: Archive, family: Family) -> MOBQFit:
    """The fit, from a JSON object, the arrays of an archive and the family of the measures."""
    names = ("theta", "x", "f", "log_density", "embedding", "inflation", "common")
    arrays: Arrays = {name: archive.array(name, np.float64) for name in names}
    arrays["counts"] = archive.array("counts", np.int64)
    _check(arrays)
    f = arrays["f"][:, 0] if single(record, arrays["f"].shape[1]) else arrays["f"]
    dependent = checks.field(record, "depends_on_theta", bool)
    samples = samples_with(family, {**arrays, "f": f}, design=design(record), depends_on_theta=dependent)
    parts = _unpack_parts(checks.field(record, "parts", list), samples, arrays, archive)
    _refuse_other_measures(parts[0].chosen.kernel, samples, arrays["embedding"])
    settings = checks.field(record, "settings", dict)
    return MOBQFit(
        samples,
        parts,
        jitter=_unpack_jitter(checks.field(record, "jitter", dict)),
        settings={name: checks.field(settings, name, str) for name in settings},
        warnings=checks.texts(record, "warnings"),
    )


def _check(arrays: Arrays) -> None:
    T = len(checks.array(arrays["theta"], "theta", (None, None)))
    n = sum(checks.array(arrays["counts"], "counts", (T,), 1).tolist())
    checks.array(arrays["x"], "x", (n, None))
    C = checks.array(arrays["f"], "f", (n, None)).shape[1]
    checks.array(arrays["log_density"], "log_density", (n,))
    checks.array(arrays["embedding"], "embedding", (T, None))
    for name in ("inflation", "common"):
        checks.array(arrays[name], name, (C,), 0.0)


def _pack_part(part: OutputGroup) -> dict[str, Any]:
    return {
        "outputs": [int(c) for c in part.outputs],
        "kernels": _pack_kernels(part.chosen.kernel),
        "error": checks.number(part.chosen.error, "error", least=0.0),
        "tried": int(part.chosen.tried),
        "exact": part.landmarks is None,
    }


def _unpack_parts(records: list[Any], samples: Samples, arrays: Arrays, archive: Archive) -> list[OutputGroup]:
    parts = [_unpack_part(i, record, samples, arrays, archive) for i, record in enumerate(records)]
    C = arrays["f"].shape[1]
    if sorted(c for part in parts for c in part.outputs) != list(range(C)):
        raise ValueError(f"the 'outputs' of all parts must be the numbers below {C}, each of them once.")
    return parts


def _unpack_part(i: int, record: Any, samples: Samples, arrays: Arrays, archive: Archive) -> OutputGroup:
    outputs = checks.field(record, "outputs", list)
    C = arrays["f"].shape[1]
    if not outputs or not all(type(c) is int and 0 <= c < C for c in outputs):
        raise ValueError(f"'outputs' must hold numbers below {C}, but it is {outputs!r}.")
    tried = checks.field(record, "tried", int)
    if tried < 1:
        raise ValueError(f"'tried' must be 1 or more, but it is {tried}.")
    kernel = _unpack_kernels(checks.field(record, "kernels", dict), samples)
    rows = None if checks.field(record, "exact", bool) else _landmarks(archive, f"landmarks_{i}", samples)
    return OutputGroup(
        tuple(outputs),
        KernelChoice(kernel, checks.number(record.get("error"), "error", least=0.0), tried),
        rows,
        SplitHalfCalibration(arrays["inflation"][outputs], arrays["common"][outputs]),
    )


def _landmarks(archive: Archive, name: str, samples: Samples) -> Integers:
    """Rows of different points, of which there are as many as the pool has."""
    rows = checks.array(archive.array(name, np.int64), name, (None,), 0)
    n = pooled_points(samples)[0].n
    if np.max(rows) >= n or len(np.unique(rows)) < len(rows):
        raise ValueError(f"{name} must hold different numbers below {n}, that of the points.")
    return rows.astype(np.intp)


def _pack_kernels(kernel: Kernel) -> dict[str, Any]:
    """The kernel of x and, where f depends on theta, that of theta."""
    if kernel.on_theta is not None:
        return _pack_kernels(kernel.on_x) | {"theta": pack_kernel(kernel.on_theta)}
    try:
        return {"x": pack_kernel(kernel)}
    except ValueError as error:
        raise ValueError(
            f"kernel_x = {' '.join(repr(kernel).split())} follows a measure or holds code, and a file holds none. Use a "
            f"kernel of the library, or keep the samples and fit again when needed."
        ) from error


def _unpack_kernels(record: dict[str, Any], samples: Samples) -> Kernel:
    kernel = _unpack_kernel(record, "x", samples.d)
    if samples.depends_on_theta:
        return XThetaKernel(kernel, _unpack_kernel(record, "theta", samples.p), samples.d)
    return kernel


def _unpack_kernel(record: dict[str, Any], name: str, d: int) -> Kernel:
    kernel = unpack_kernel(checks.field(record, name, dict))
    kernel.check_dim(d)
    if kernel.log_lengthscales.ndim > 1:
        raise ValueError(f"the kernel of {name} has lengthscales of several kernels.")
    return kernel


def _unpack_jitter(record: dict[str, Any]) -> Jitter:
    return Jitter(*(checks.number(record.get(name), name, least=0.0) for name in ("start", "ceiling")))


def _embedding(kernel: Kernel, samples: Samples) -> Array:
    """The embeddings (T, m) of the measures of all thetas at m of the points."""
    return Integrals(kernel, samples.measures, samples.theta).mean(pooled_points(samples)[0].thinned(WITNESSES).u)


def _refuse_other_measures(kernel: Kernel, samples: Samples, known: Array) -> None:
    """Raise where the measures give other integrals than they did in the fit: not all measures have densities to compare."""
    found = _embedding(kernel, samples)
    if found.shape != known.shape:
        raise ValueError(f"embedding must have the shape {found.shape}, but it has {known.shape}.")
    other = np.any(np.abs(found - known) > CLOSE * np.max(np.abs(known)), axis=1)
    if np.any(other):
        raise IncompatibleFile(
            f"does not go with this family, which is not the one of the fit: at theta = "
            f"{samples.theta[np.argmax(other)]} its measure has other integrals. Pass the family that the samples were "
            f"drawn from."
        )
