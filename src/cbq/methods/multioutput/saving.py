"""Saved fits of multi-output Bayesian quadrature: what must hold between samples, groups and the family."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from cbq._arrays import Array
from cbq.embeddings.many import Integrals
from cbq.kernels import Kernel, XThetaKernel
from cbq.methods.multioutput.candidates import pooled_points
from cbq.methods.multioutput.grid import require_design_of_grid
from cbq.samples import Samples
from cbq.samples.conditional import TOLERANCE, other_measures

if TYPE_CHECKING:
    from cbq.methods.multioutput.base import OutputGroup
    from cbq.methods.multioutput.fit import MOBQFit, PointsGroup


def read_fit(fit: MOBQFit) -> dict[str, Any]:
    """The fields of a saved fit that are not its attributes."""
    return {"findings": fit.own_findings, "embedding": _embedding(fit.groups[0].chosen.kernel, fit.samples)}


def check_fit(samples: Samples, groups: Sequence[PointsGroup], **_: Any) -> None:
    """Raise unless the groups go with the samples."""
    n = pooled_points(samples)[0].n
    _check_groups(groups, samples.C or 1)
    for group in groups:
        for member in group.chosen.members:
            _check_kernel(member.kernel, samples.d, samples.p if samples.depends_on_theta else None)
        if len(group.chosen.members) > 1 and group.landmarks is not None:
            raise ValueError("a group with landmarks must have one kernel.")
        rows = group.landmarks
        if rows is not None and (np.max(rows) >= n or len(np.unique(rows)) < len(rows)):
            raise ValueError(f"the landmarks of a group must be different numbers below {n}, the number of points.")


def check_grid_fit(samples: Samples, groups: Sequence[OutputGroup], **_: Any) -> None:
    """Raise unless the groups go with samples whose thetas share a design."""
    require_design_of_grid(samples)
    _check_groups(groups, samples.C or 1)
    for group in groups:
        for member in group.chosen.members:
            _check_kernel(member.kernel, samples.d, samples.p)


def _check_groups(groups: Sequence[OutputGroup], C: int) -> None:
    """Raise unless each output is in one group."""
    if sorted(c for group in groups for c in group.outputs) != list(range(C)):
        raise ValueError(f"the outputs of all groups must be the numbers below {C}, each of them once.")


def build_fit(
    cls: type[MOBQFit], _: Any, samples: Samples, groups: Sequence[PointsGroup], embedding: Array, **options: Any
) -> MOBQFit:
    """The fit, if the measures of the samples have the integrals that they had in it."""
    found = _embedding(groups[0].chosen.kernel, samples)
    if found.shape != embedding.shape:
        raise ValueError(f"embedding must have the shape {found.shape}, but it has {embedding.shape}.")
    other = np.any(np.abs(found - embedding) > TOLERANCE * np.max(np.abs(embedding)), axis=1)
    if np.any(other):
        why = f"at theta = {samples.theta[np.argmax(other)]} its measure has other integrals."
        raise other_measures(samples.family, why)
    return cls(samples, groups, **options)


def _check_kernel(kernel: Kernel, d: int, p: int | None) -> None:
    """Raise unless it is a kernel on x in d dimensions, or on x and theta in p dimensions."""
    parts = [kernel.on_x] if kernel.on_theta is None else [kernel.on_x, kernel.on_theta]
    if (len(parts) == 2) != (p is not None):
        what = "x" if p is None else "x and theta"
        raise ValueError(f"the kernel must be one of {what}, but it is {kernel!r}.")
    if isinstance(kernel, XThetaKernel) and kernel.d != d:
        raise ValueError(f"the kernel is for x in {kernel.d} dimensions, but x has {d}.")
    for part, dimension in zip(parts, (d, p or 0), strict=False):
        part.check_dim(dimension)
        if part.log_lengthscales.ndim > 1:
            raise ValueError("the kernel has the lengthscales of several kernels.")


def _embedding(kernel: Kernel, samples: Samples, m: int = 5) -> Array:
    """The embeddings (T, m) of the measures of all thetas at m of the points, by which measures are recognised."""
    points = pooled_points(samples)[0].thinned(m)
    return Integrals(kernel, samples.measures, samples.theta).mean(points.u)
