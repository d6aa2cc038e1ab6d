"""Multi-output Bayesian quadrature where all thetas share a design exactly, by Kronecker products.

The thetas have the same points v, which each theta's own transport has moved to its measure. In these coordinates,
I(theta) = E f(x_theta(V), theta) is an integral under one measure for all thetas, and the values of f lie on a grid of
thetas and points. `samples.shares_design` is less strict: there some thetas may share some points, in any order, and
what matters is that their errors are alike.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

import numpy as np

from cbq.common import Array, Integers
from cbq.embeddings import Embedding, embed
from cbq.estimators.multioutput.base import IN_ONE_THREAD, Made, OutputGroup, PooledFit
from cbq.estimators.multioutput.candidates import LEAST_SPREAD, Candidates, kernels_of_x
from cbq.estimators.multioutput.fit import check_groups, check_kernel
from cbq.fit import Emulator, Finding
from cbq.gp import (
    Calibration,
    Embedded,
    GridIntegrals,
    GridPoints,
    KernelChoice,
    KernelMember,
    KroneckerGP,
    grid_amplitude,
    left_out_points,
)
from cbq.io import Instance, Integer, Many, Texts, saved
from cbq.kernels import Kernel, Warped
from cbq.kernels.warped import NormalCdf
from cbq.linalg import Jitter
from cbq.linalg.threads import blas_threads
from cbq.measures import Measure
from cbq.samples import Samples, common_points, spread, standard_normal, units

LEAST_THETAS = 5  # with fewer, what quadratures have in common cannot be told from noise


def design_of_grid(samples: Samples) -> tuple[Array, Measure] | None:
    """`common_points`, where there are thetas enough for a grid."""
    return common_points(samples) if samples.T >= LEAST_THETAS else None


def require_design_of_grid(samples: Samples) -> tuple[Array, Measure]:
    """`design_of_grid`, or an error where there is none."""
    found = design_of_grid(samples)
    if found is None:
        raise ValueError(
            f"structure='kronecker' needs the same points at {LEAST_THETAS} or more thetas, in coordinates in which "
            f"all have one measure of x, and no theta or point twice, but these samples have others. Collect them with "
            f"problem.collect(..., design='sobol', scramble='common'), or pass structure='dense'."
        )
    return found


def grid_points(samples: Samples) -> GridPoints:
    """The values of f on the grid of thetas and of the points that they share; raises where they share none."""
    v, measure = require_design_of_grid(samples)
    shift, scale = units(samples.table)
    f = ((samples.table - shift) / scale).T.reshape(-1, samples.T, len(v))
    deviation = np.maximum(spread(samples.rescaled(shift, scale)), LEAST_SPREAD).T[:, :, None]
    return GridPoints(samples.theta, v, measure, f, deviation, shift, scale)


def grid_kernels_of_x(samples: Samples, points: GridPoints, kernel_x: Candidates) -> list[Kernel]:
    """The kernels of v to choose from, rough ones first; where x is bounded, also on the probabilities of v."""
    found = kernels_of_x(points.v, (points.measure,), kernel_x)
    bounded = all(np.all(np.isfinite(end)) for measure in samples.measures for end in measure.support)
    if not isinstance(kernel_x, str) or not bounded or not points.measure.equals(standard_normal(samples.d)):
        return found
    return [each for kernel in found for each in (kernel, Warped(kernel, NormalCdf()))]


@saved("GridGroup", outputs=Many(Integer(0), "K", least=1), chosen=Instance(KernelChoice))
@dataclass(frozen=True, eq=False)
class GridGroup(OutputGroup):
    """Outputs that share a process on a grid."""


@dataclass(frozen=True, eq=False)
class _GridPart:
    """The process of one kernel on a grid, and the embedding of the kernel of v."""

    process: KroneckerGP
    embedding: Embedding

    @property
    def kernel(self) -> Kernel:
        return self.process.kernel

    def integrals(self, theta: Array, measures: Sequence[Measure]) -> GridIntegrals:
        return self.process.integrals(theta)

    def embeddings(self, nodes: Array, integrals: Embedded, theta: Array) -> Array:
        d = nodes.shape[1] - theta.shape[1]
        return np.asarray(self.embedding.mean(nodes[:, :d]) * self.process.kernel_theta(theta, nodes[:, d:]))


def check_grid_fit(samples: Samples, groups: Sequence[OutputGroup], **_: Any) -> None:
    """Raise unless the groups go with samples whose thetas share a design."""
    require_design_of_grid(samples)
    check_groups(groups, samples.C or 1)
    for group in groups:
        for member in group.chosen.members:
            check_kernel(member.kernel, samples.d, samples.p)


@saved(
    "MOBQ.kronecker",
    read=lambda fit: {"findings": fit.own_findings},
    check=check_grid_fit,
    samples=Instance(Samples),
    groups=Many(Instance(GridGroup), least=1),
    jitter=Instance(Jitter),
    calibrated_by=Instance(Calibration),
    settings=Texts(),
    findings=Many(Instance(Finding)),
)
class KroneckerFit(PooledFit):
    """I over theta by multi-output Bayesian quadrature on a grid of thetas and points; see `Fit` for its answers.

    Kernels act on the coordinates v in which all thetas have the same points: standard normal scores of x under the
    measure of its theta, or x itself where thetas share measure and points. The measure of x is needed at the observed
    thetas only. The predictive distribution is made as in `MOBQFit`, by leaving out thetas, and points v at all thetas.

    groups : the outputs that share their processes, and the kernels that were chosen for each group.
    settings : the options of the estimator, as text.

    Examples
    --------
    >>> problem = cbq.problems.get("butterfly")
    >>> samples = problem.collect(T=8, N=16, rng=0, design="sobol", scramble="common")
    >>> fit = cbq.MOBQ(structure="kronecker").fit(samples)
    >>> fit.predict([100.0]).shape
    (1,)
    """

    groups: tuple[GridGroup, ...]
    _points: GridPoints

    @property
    def emulator(self) -> Emulator:
        raise ValueError(
            "the process of a KroneckerFit is one of coordinates that thetas share, not of x: for an emulator or an "
            "outcome, fit cbq.MOBQ(structure='dense') to these samples."
        )

    def _set_processes(self, made: Made | None) -> None:
        self._points = grid_points(self.samples)
        with self._threads():
            each = [self._points.outputs(group.outputs) for group in self.groups]
            self._parts = [
                [self._part(member, points) for member in group.chosen.members]
                for group, points in zip(self.groups, each, strict=True)
            ]
            self._amplitudes = [
                grid_amplitude(group.chosen, points, self.jitter, self.calibrated_by.points)
                for group, points in zip(self.groups, each, strict=True)
            ]

    def _part(self, member: KernelMember, points: GridPoints) -> _GridPart:
        process = KroneckerGP(member.kernel, points, self.jitter, member.noise)
        return _GridPart(process, embed(member.kernel.on_x, points.measure))

    def _measures(self, theta: Array) -> Sequence[Measure]:
        return [self._points.measure]

    def _observed(self, rows: Integers) -> Sequence[Measure]:
        return [self._points.measure]

    def _left_out(self, group: OutputGroup) -> Array:
        return left_out_points(group.chosen.kernel, self._points.outputs(group.outputs), self.jitter)

    def _structure(self, g: int) -> str:
        return f"exact, the Kronecker product of {len(self.theta)} thetas and {len(self._points.v)} shared points"

    def _threads(self) -> AbstractContextManager[None]:
        return blas_threads(max(self._points.f.shape[1:]), IN_ONE_THREAD)
