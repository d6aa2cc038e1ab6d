"""How far integrals of a process can be trusted: by how much they move when the values of a theta are left out.

Leaving out the values of a group B moves an integral by D, which has the variance A V (see `process.LeftOut.move`).
The ratio of sums over all groups, sum D^2 / sum V, estimates the amplitude A where it matters for this integral: a
function that is smooth but for three kinks is rough only for the integrals that see them. Naslidnyk, Kanagawa, Karvonen
and Mahsereci (2023) estimate one amplitude from all leave-one-out residuals in the same way.

Groups are the points of each theta. A theta that is left out leaves a gap as wide as the gaps between thetas, so its
move foresees errors far better than the moves of single points, halves of the points or cells of neighbours do. Where
thetas share a design, its points are groups, too: each is left out at all thetas at once, as their errors are alike.
Where thetas have one point each, or there are fewer than three, groups are single points.

Moves by an analytic kernel promise too much, as it was chosen for small residuals. The likelihood is right about
functions that are as smooth as its draws, and the geometric mean of both amplitudes counts where this one is larger.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from cbq._arrays import Array, Integers
from cbq._checks import check_fields, is_number, is_whole
from cbq.gp.pooled import ExactGP, SubsetGP
from cbq.io import Integer, Number, saved

MIN_GROUPS = 3  # with fewer, the groups that are left say nothing about the one that is not


@saved("Calibration", factor=Number(1.0), common=Number(0.0), points=Integer(3))
@dataclass(frozen=True)
class Calibration:
    """How variances follow from the moves of integrals when values are left out.

    factor : the size of an error is known within this factor: the logarithm of actual over predicted errors has a
        standard deviation of 1, whatever else is looked at. The predictive distribution is the equal mixture of three
        Gaussians, whose scales are the estimate divided by the factor, the estimate, and the estimate times the factor.
        Student-t distributions with few degrees of freedom have 50% intervals that are too wide where their 95%
        intervals are right.
    common : the standard deviation of an error that integrals have in common, in units of their average one. An
        average of variances would serve as well, but one bad theta at the edge would widen all intervals.
    points : the largest number of points whose moves are computed; of more, so many evenly spaced ones serve.

    Examples
    --------
    >>> samples = cbq.problems.get("butterfly").collect(T=12, N=20, rng=0)
    >>> wide, narrow = (cbq.MOBQ(calibration=cbq.Calibration(factor)).fit(samples) for factor in (3.0, 1.0))
    >>> bool(wide.interval([100.0])[1][0] > narrow.interval([100.0])[1][0])
    True
    """

    factor: float = 2.5
    common: float = 0.75
    points: int = 1000

    def __post_init__(self) -> None:
        check_fields(self, ("factor",), "a ratio of scales, 1 or more", lambda value: is_number(value, 1.0, 1e6))
        ratio = "a ratio of standard deviations, 0 or more"
        check_fields(self, ("common",), ratio, lambda value: is_number(value, 0.0, 1e6))
        check_fields(self, ("points",), "a number of points, 3 or more", lambda value: is_whole(value, 3))

    @property
    def ratios2(self) -> Array:
        """The squared scales (3,) of the mixture, in units of the estimate."""
        return np.array([self.factor**-2, 1.0, self.factor**2])


def useful_groups(owners: Integers | None, n: int) -> Integers | None:
    """The group (n,) of each of n values, where leaving out groups shows more than leaving out values; or None."""
    return owners if owners is not None and MIN_GROUPS <= len(np.unique(owners)) < n else None


class LocalAmplitude:
    """The amplitude of a process at each integral, by the moves of its groups of values.

    groupings: the groups (n,) of the values, one or several times; the largest amplitude counts. Single values serve
    where no grouping is useful.
    """

    def __init__(self, given: ExactGP | SubsetGP, *groupings: Integers | None) -> None:
        self.nodes, self._given, self._process = given.nodes, given, given.process
        self._likeliest = likeliest_amplitude(given)
        useful = [useful_groups(owners, len(given.process.f)) for owners in groupings]
        self._left_out = [self._process.leave_groups_out(owners) for owners in useful if owners is not None]

    def __call__(self, mu: Array) -> Array:
        """The amplitudes (M, C) at integrals with embeddings mu (M, n) at the nodes."""
        weights = self._given.functionals(mu).weights
        found = []
        if not self._left_out:
            squares = weights**2
            found.append(_ratio(squares @ self._process.residuals**2, squares @ (1.0 / self._process.precision)))
        for groups in self._left_out:
            moves, variances = zip(*(group.move(weights) for group in groups), strict=True)
            found.append(_ratio(np.sum(np.square(moves), axis=0), np.sum(variances, axis=0)))
        moved = np.max(found, axis=0)
        return np.asarray(np.sqrt(moved) * np.sqrt(np.maximum(moved, self._likeliest)))


def likeliest_amplitude(given: ExactGP | SubsetGP) -> Array:
    """The amplitudes (C,) by the likelihood; zero where it knows nothing of them, as the kernel is not analytic."""
    return np.asarray(given.process.amplitude * given.kernel.is_analytic)


def _ratio(moves2: Array, variance: Array) -> Array:
    """The ratios (M, C) of squared moves (M, C) to their variances (M,) at unit amplitude."""
    return np.asarray(moves2 / np.maximum(variance, np.finfo(float).tiny)[:, None])
