"""The fit of multi-output Bayesian quadrature to a design that all thetas share, by Kronecker products."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass

import numpy as np

from cbq._arrays import Array
from cbq.fit.findings import Finding
from cbq.gp.choice import KernelChoice, KernelMember
from cbq.gp.grid_choice import left_out_points
from cbq.gp.halves import SplitHalfCalibration
from cbq.gp.kronecker import GridIntegrals, GridPoints, KroneckerGP, two_amplitudes
from cbq.gp.pooled import PooledGP
from cbq.io import Instance, Integer, Many, Numbers, Texts, saved
from cbq.kernels import Kernel
from cbq.linalg import Jitter
from cbq.linalg.threads import blas_threads
from cbq.measures import Measure
from cbq.methods.multioutput.base import IN_ONE_THREAD, OutputGroup, PooledFit
from cbq.methods.multioutput.grid import grid_points
from cbq.methods.multioutput.saving import check_grid_fit
from cbq.samples import Samples


@saved(
    "GridGroup",
    outputs=Many(Integer(0), "K", least=1),
    chosen=Instance(KernelChoice),
    calibration=Instance(SplitHalfCalibration),
    inflation=Numbers("K", least=0.0, inline=True),
)
@dataclass(frozen=True, eq=False)
class GridGroup(OutputGroup):
    """Outputs that share a process on a grid.

    inflation: (K,), the factor of the variances of quadrature over v, from halves of the points.
    """

    inflation: Array


@dataclass(frozen=True, eq=False)
class _GridPart:
    """One of the processes on a grid that are averaged."""

    process: KroneckerGP

    @property
    def kernel(self) -> Kernel:
        return self.process.kernel

    def integrals(self, theta: Array, measures: Sequence[Measure]) -> GridIntegrals:
        return self.process.integrals(theta)


@saved(
    "MOBQ.kronecker",
    read=lambda fit: {"findings": fit.own_findings},
    check=check_grid_fit,
    samples=Instance(Samples),
    groups=Many(Instance(GridGroup), least=1),
    jitter=Instance(Jitter),
    settings=Texts(),
    findings=Many(Instance(Finding)),
)
class KroneckerFit(PooledFit):
    """I over theta by multi-output Bayesian quadrature on a grid of thetas and points; see `Fit` for what it answers.

    Kernels act on the coordinates v in which all thetas have the same points: standard normal scores of x under the
    measure of its theta, or x itself where thetas share measure and points. The measure of x is needed at the observed
    thetas only. The predictive distribution is that of `MOBQFit`; its calibration compares the estimates with those
    from halves of the points v, and from all other thetas.

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
            self._parts = [[self._part(group, m) for m in group.chosen.members] for group in self.groups]

    def _part(self, group: GridGroup, member: KernelMember) -> _GridPart:
        points = self._points.outputs(group.outputs)
        between, within = two_amplitudes(member.kernel, points, self.jitter, member.noise)
        amplitudes = np.stack([between, group.inflation * within])
        return _GridPart(KroneckerGP(member.kernel, points, self.jitter, member.noise, amplitudes))

    def _measures(self, theta: Array) -> Sequence[Measure]:
        return [self._points.measure]

    @property
    def _reached(self) -> Array:
        return self._points.v

    def _left_out(self, group: OutputGroup) -> Array:
        return left_out_points(group.chosen, self._points.outputs(group.outputs), self.jitter)

    def _structure(self, g: int) -> str:
        return f"exact, the Kronecker product of {len(self.theta)} thetas and {len(self._points.v)} shared points"

    def _inflation(self, g: int) -> Array:
        return self.groups[g].inflation * self.groups[g].calibration.inflation

    def _threads(self) -> AbstractContextManager[None]:
        return blas_threads(max(self._points.f.shape[1:]), IN_ONE_THREAD)
