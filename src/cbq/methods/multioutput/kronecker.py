"""The fit of multi-output Bayesian quadrature to a design that all thetas share, by Kronecker products."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass

import numpy as np

from cbq._arrays import Array, Integers
from cbq.embeddings import Embedding, embed
from cbq.fit.findings import Finding
from cbq.gp.calibration import Calibration
from cbq.gp.kronecker import GridIntegrals, GridPoints, KroneckerGP, grid_amplitude, left_out_points
from cbq.gp.pooled import Embedded, PooledGP
from cbq.gp.selection import KernelChoice, KernelMember
from cbq.io import Instance, Integer, Many, Texts, saved
from cbq.kernels import Kernel
from cbq.linalg import Jitter
from cbq.linalg.threads import blas_threads
from cbq.measures import Measure
from cbq.methods.multioutput.base import IN_ONE_THREAD, OutputGroup, PooledFit
from cbq.methods.multioutput.grid import grid_points
from cbq.methods.multioutput.saving import check_grid_fit
from cbq.samples import Samples


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
    """I over theta by multi-output Bayesian quadrature on a grid of thetas and points; see `Fit` for what it answers.

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

    def _set_processes(self, made: Sequence[Sequence[PooledGP]] | None) -> None:
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
