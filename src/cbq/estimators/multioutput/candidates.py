"""The points of all thetas together, and the kernels that one process on them may have."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal

import numpy as np

from cbq.common import Array, Integers, evenly
from cbq.embeddings import NoEmbedding, embed
from cbq.embeddings.many import Integrals, line_for, together
from cbq.fit import Finding
from cbq.gp import PooledPoints, takes_log_theta
from cbq.kernels import RBF, Additive, Kernel, Matern, Stein, TensorProduct, Warped, XThetaKernel, standard_kernels
from cbq.measures import Measure
from cbq.samples import Samples, common_points, equal_rows, group_averages, spread, units

Automatic = Literal["auto"]
Candidates = Kernel | Sequence[Kernel] | Automatic
MANY_INPUTS = 6  # with more, all points are far apart, and a jump cannot be told from an f that was not learnt
LEAST_SPREAD = 0.05  # of f at a theta, in units of that over all: where f is nearly constant, errors are small anyway


def pooled_points(samples: Samples) -> tuple[PooledPoints, list[Finding]]:
    """The points of all thetas, equal ones once with the average of their values unless f is random, and findings."""
    shift, scale = units(samples.table)
    scaled = samples.rescaled(shift, scale)
    f, deviation = scaled.table, np.maximum(spread(scaled), LEAST_SPREAD)[samples.owners]
    theta = samples.theta[samples.owners]
    u = np.column_stack([samples.all_points, theta]) if samples.depends_on_theta else samples.all_points
    rows, group = equal_rows(u)
    if samples.stochastic or len(rows) == len(u):
        places = _places(samples)
        share, integrals = _shares(samples, u), integrals_at_some(samples)
        return PooledPoints(u, f, deviation, shift, scale, samples.owners, share, places, integrals), []
    averages = group_averages(f, group)
    share = _shares(samples, u[rows])
    owners, integrals = samples.owners[rows], integrals_at_some(samples)
    merged = PooledPoints(u[rows], averages, deviation[rows], shift, scale, owners, share, integrals=integrals)
    return merged, _noise_findings(samples, float(np.max(np.abs(f - averages[group]))))


def integrals_at_some(samples: Samples, most: int = 20) -> Callable[[Kernel, Array], Array] | None:
    """The embeddings (M, n) of kernels at nodes (n, D), under the measures of up to `most` observed thetas.

    None where points were chosen, as a theta is a mere label of a point then, and where f is random: noise moves the
    integrals of a kernel least that is too smooth for f. Coarse rules on the line are enough to compare kernels by.
    """
    if samples.design == "adaptive" or samples.stochastic:
        return None
    rows = evenly(samples.T, most)
    theta, measures = samples.theta[rows], together([samples.measures[t] for t in rows])

    def embedded(kernel: Kernel, u: Array) -> Array:
        return Integrals(kernel, measures, theta, line_for(kernel, measures, coarse=True)).mean(u)

    return embedded


def _places(samples: Samples) -> Integers | None:
    """The place (n,) of each point in the design that all thetas share; None if they share none."""
    if not samples.shares_design or common_points(samples) is None:
        return None
    return np.tile(np.arange(samples.counts[0]), samples.T)


def _shares(samples: Samples, u: Array, *, draws: int = 8000, least: float = 0.05) -> Array | None:
    """The share of the measures that each of the points u (n, D) stands for, if they were chosen; otherwise None.

    It is the share of draws from the measures whose nearest point it is, which means nothing with many inputs. Chosen
    points crowd where f is hard: without this, residuals there would decide alone which kernel is best, and those there
    hardly tell kernels apart.

    draws: how many there are, at the least. least: those of a point that has none: far out in the tails, f may be wrong
    by much, at no harm.
    """
    if samples.design != "adaptive" or u.shape[1] > MANY_INPUTS:
        return None
    from scipy.spatial import cKDTree  # slow to import, and rarely needed

    thetas = evenly(samples.T, draws)
    each = -(-draws // len(thetas))
    rng = np.random.default_rng(0)
    drawn = np.concatenate([samples.measure(int(t)).sample(each, rng) for t in thetas])
    if samples.depends_on_theta:
        drawn = np.column_stack([drawn, np.repeat(samples.theta[thetas], each, axis=0)])
    if np.all(u > 0) and np.all(drawn > 0):
        u, drawn = np.log(u), np.log(drawn)
    unit = np.maximum(np.std(drawn, axis=0), np.finfo(float).tiny)
    _, nearest = cKDTree(u / unit).query(drawn / unit)
    return np.asarray((np.bincount(nearest, minlength=len(u)) + least) / len(drawn))


def _noise_findings(samples: Samples, apart: float) -> list[Finding]:
    """A finding where equal points have values of f that differ."""
    if apart <= 1e-9:
        return []
    elsewhere = " If it depends on theta after all, pass depends_on_theta=True." * (not samples.depends_on_theta)
    text = "f has different values at equal points, which are averaged: cbq assumes that f has no noise."
    return [Finding("noise", f"{text}{elsewhere}")]


def candidate_kernels(samples: Samples, kernel_x: Candidates, kernel_theta: Candidates) -> list[Kernel]:
    """The kernels to choose from, rough ones first: of x, or of x and theta where f depends on both."""
    few = samples.d + samples.p * samples.depends_on_theta <= MANY_INPUTS
    may_jump = few and not samples.stochastic  # noise hides jumps
    on_x = kernels_of_x(samples.all_points, samples.measures, kernel_x, may_jump=may_jump)
    if not samples.depends_on_theta:
        return on_x
    return [
        XThetaKernel(k, each, samples.d)
        for k in on_x
        for each in kernels_of_theta(samples.theta, kernel_theta, _as_smooth(k.smoothness))
    ]


def kernels_of_x(
    x: Array, measures: tuple[Measure, ...], kernel_x: Candidates, *, may_jump: bool = False
) -> list[Kernel]:
    """The kernels of x (n, d) to choose from, rough ones first: those with embeddings under all measures, or given."""
    if isinstance(kernel_x, str):  # "auto"
        return automatic_kernels_of_x(x, measures, may_jump=may_jump)
    given = _given(kernel_x, x, "kernel_x")
    for kernel in given:
        require_embeddings(kernel, x, measures)
    return given


def kernels_of_theta(theta: Array, kernel_theta: Candidates, automatic: Sequence[Kernel]) -> list[Kernel]:
    """The kernels of theta (T, p) to choose from: the automatic ones, on theta or, if it is positive, on log theta."""
    if not isinstance(kernel_theta, str):
        return _given(kernel_theta, theta, "kernel_theta")
    positive = bool(np.all(theta > 0))
    return [each for kernel in automatic for each in ([kernel, Warped(kernel, "log")] if positive else [kernel])]


def _given(kernels: Kernel | Sequence[Kernel], points: Array, name: str) -> list[Kernel]:
    """Kernels that a user gave as `name`, rough ones first, if all points (n, d) can share them."""
    found = [kernels] if isinstance(kernels, Kernel) else list(kernels)
    for kernel in found:
        _refuse_unshared(kernel, points, name)
    return found if len(found) == 1 else sorted(found, key=lambda kernel: kernel.smoothness)


def refuse_theta(kernel: Kernel, theta: Array) -> None:
    """Raise where a kernel takes the logarithm of thetas (M, p) that have none."""
    if takes_log_theta(kernel) and np.any(theta <= 0):
        row = theta[int(np.argmax(np.any(theta <= 0, axis=1)))]
        raise ValueError(
            f"theta must be positive, but one is {row}: all observed thetas are, and the fit works with their "
            f"logarithms. Fit again with kernel_theta=cbq.kernels.RBF() to predict at such thetas."
        )


def automatic_kernels_of_x(x: Array, measures: tuple[Measure, ...], *, may_jump: bool = False) -> list[Kernel]:
    """The kernels of x with embeddings under all measures, from rough to smooth, on x and, if positive, on log x.

    may_jump: with the roughest, for an f that jumps.
    """
    positive = bool(np.all(x > 0)) and all(np.all(measure.support[0] >= 0) for measure in measures)
    *radial, smoothest = standard_kernels(0.5 if may_jump else 1.5)
    rough: list[Kernel] = [*radial]
    if x.shape[1] > 1:  # radial Matern kernels have embeddings under Gaussians, tensor products under independence
        rough = [TensorProduct(k) if _has_embeddings(TensorProduct(k), x, measures) else k for k in radial]
    if x.shape[1] > 2:  # most functions of many inputs are sums of functions of few
        rough.append(smoothest + Additive(smoothest))
    found = [
        kernel
        for base in (*rough, smoothest)
        for kernel in ([base, Warped(base, "log")] if positive else [base])
        if _has_embeddings(kernel, x, measures)
    ]
    if not found:
        raise NoEmbedding(
            f"no kernel on x or on log x has an embedding under all measures of x, such as {measures[0]!r}: one "
            f"process needs one kernel for the points of all thetas. Use cbq.CBQ(), whose kernels act on "
            f"coordinates of each theta's own."
        )
    return found


def _as_smooth(smoothness: float) -> list[Kernel]:
    """Kernels of theta as smooth as one of x, and analytic ones."""
    return [RBF()] if np.isinf(smoothness) else [Matern(smoothness), RBF()]


def _has_embeddings(kernel: Kernel, x: Array, measures: tuple[Measure, ...]) -> bool:
    try:
        require_embeddings(kernel, x, measures)
    except (TypeError, ValueError):  # no embedding, or no logarithm of an atom
        return False
    return True


def require_embeddings(kernel: Kernel, x: Array, measures: tuple[Measure, ...]) -> None:
    """Raise unless the kernel has an embedding under all measures."""
    guess, _ = kernel.to_fit(x, ard=False)
    for measure in together(measures):
        embed(guess, measure)


def _refuse_unshared(kernel: Kernel, points: Array, name: str) -> None:
    """Raise unless a kernel, given as `name`, can serve all points (n, d)."""
    if isinstance(kernel, Stein) or kernel.needs_measure:
        stein = "a Stein kernel is made from the score of one measure"
        what = stein if isinstance(kernel, Stein) else "it is made from a measure"
        raise ValueError(
            f"{name} = {kernel!r} cannot be shared by all thetas: {what}, and every theta has its own, while one "
            f"process has one kernel for all points. Pass a kernel such as cbq.kernels.RBF(), or use cbq.CBQ(...)."
        )
    if kernel.to_fit(points, ard=False)[0].log_lengthscales.ndim > 1:
        raise ValueError(f"{name} = {kernel!r} has lengthscales for a batch, but one process has one kernel.")
