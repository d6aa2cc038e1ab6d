"""How far integrals of a process can be trusted: by how much they move when the values of a theta are left out.

Leaving out the values of a group B moves an integral by D, which has the variance A V (see `process.LeftOut.move`).
The ratio of sums over all groups, sum D^2 / sum V, estimates the amplitude A where it matters for this integral: a
function that is smooth but for three kinks is rough only for the integrals that see them. Naslidnyk, Kanagawa, Karvonen
and Mahsereci (2023) estimate one amplitude from all leave-one-out residuals in the same way.

Groups are the points of each theta. A theta that is left out leaves a gap as wide as the gaps between thetas, so its
move foresees errors far better than the moves of single points, halves of the points or cells of neighbours do. Where
thetas share a design, its points are groups, too: each is left out at all thetas at once, as their errors are alike.
Where thetas have one point each, or there are fewer than three, groups are single points. So they are where points were
chosen, as a theta is a mere label of a point then.

The likelihood has an amplitude, too, and where it is larger, the geometric mean of both counts:

- Moves by an analytic kernel promise too much, as it was chosen for small residuals, and the likelihood is right about
  functions that are as smooth as its draws.
- If the kernel is the roughest, f may jump. A jump lies between two points, and leaving out one of them shows it only
  if the next point is not much closer. The increments between neighbours always show it. They split the energy,
  f'P f = -sum_ij P_ij (f_i - f_j)^2 / 2, and so the amplitude of the likelihood has a local form: where single points
  are left out,

      A = sum_ij s_ij s_ji (f_i - f_j)^2 / sum_ij s_ij s_ji V_ij,    V_ij = K_ii + K_jj - 2 K_ij,

  in which the weight w_i of value i in the integral is shared among its neighbours, s_ij = |w_i| e_ij / sum_j e_ij with
  e_ij = max(-P_ij, 0) V_ij^2. On the line with a density q, a gap h has V = 2 h / ell, only neighbours have e_ij > 0,
  and s_ij = q h / 2. With the amplitude D^2 / V of the gap, the integral has the variance (D q h)^2 / 12 there, as for
  a step by D that may be anywhere in the gap.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from cbq.common import Array, Integers, check_fields, is_number, is_whole
from cbq.gp.pooled import ExactGP, SubsetGP
from cbq.gp.process import LeftOut
from cbq.io import Integer, Number, saved
from cbq.linalg.gram import on_host

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

    group_errors: (C,), the `relative_errors` of the averages over the first groups, each predicted from all others;
    zeros where that grouping is not useful.
    """

    def __init__(self, given: ExactGP | SubsetGP, *groupings: Integers | None) -> None:
        self.nodes, self._given, self._process = given.nodes, given, given.process
        self._likeliest = likeliest_amplitude(given)
        useful = [useful_groups(owners, len(given.process.f)) for owners in groupings]
        self._left_out = [self._process.leave_groups_out(owners) for owners in useful if owners is not None]
        self._increments = Increments(given) if given.kernel.is_roughest and not self._left_out else None
        self.group_errors = np.zeros(given.process.f.shape[1])
        if useful and useful[0] is not None:
            self.group_errors = _errors_of_averages(given.process.f, self._left_out[0])

    def __call__(self, mu: Array) -> Array:
        """The amplitudes (M, C) at integrals with embeddings mu (M, n) at the nodes."""
        weights = self._given.functionals(mu).weights
        found = []
        if not self._left_out:
            found.append(moved_amplitude(weights, self._process.residuals, self._process.precision))
        for groups in self._left_out:
            moves, variances = zip(*(group.move(weights) for group in groups), strict=True)
            found.append(_ratio(np.sum(np.square(moves), axis=0), np.sum(variances, axis=0)))
        moved = np.max(found, axis=0)
        likeliest = self._likeliest if self._increments is None else self._increments.amplitude(weights)
        return np.asarray(np.sqrt(moved) * np.sqrt(np.maximum(moved, likeliest)))


class Increments:
    """The local amplitude of a process by the increments of its values between neighbours."""

    def __init__(self, given: ExactGP | SubsetGP) -> None:
        K, self._process = given.prior_covariance(), given.process
        variance = np.add.outer(K.diagonal(), K.diagonal()) - 2.0 * K
        e = np.maximum(-on_host(self._process.inverse()), 0.0) * variance**2
        share = e / np.maximum(np.sum(e, axis=1, keepdims=True), np.finfo(float).tiny)
        pairs = share * share.T
        self._expected = pairs * variance  # (n, n)
        self._observed = [pairs * np.subtract.outer(f, f) ** 2 for f in self._process.f.T]  # of each output

    def amplitude(self, weights: Array) -> Array:
        """The amplitudes (M, C) of integrals with these weights (M, n) of the values."""
        w = np.abs(weights)
        expected, *observed = (np.sum((w @ pairs) * w, axis=1) for pairs in (self._expected, *self._observed))
        return _ratio(np.stack(observed, axis=1), expected)


def moved_amplitude(weights: Array, residuals: Array, precision: Array) -> Array:
    """The amplitudes (M, C) of integrals with these weights (M, n), by their moves when single values are left out.

    residuals: (n, C), of the values that are left out. precision: (n,), the inverses of their variances.
    """
    squares = weights**2
    return _ratio(squares @ residuals**2, squares @ (1.0 / precision))


def likeliest_amplitude(given: ExactGP | SubsetGP) -> Array:
    """The amplitudes (C,) by the likelihood; zero where the kernel is not analytic, so that it has none."""
    return np.asarray(given.process.amplitude * given.kernel.is_analytic)


def relative_errors(errors: Array, values: Array, least: Array | float) -> Array:
    """The root mean squares (C,) of all but the largest of errors (G, C), in units of the spread of G values (G, C).

    The largest does not count, as a group may be far from all others. least: the spread is at least so large.
    """
    squares = np.sort(errors**2, axis=0)[:-1]
    return np.asarray(np.sqrt(np.mean(squares, axis=0)) / np.maximum(np.std(values, axis=0), least))


def _errors_of_averages(values: Array, groups: Sequence[LeftOut], least: float = 0.05) -> Array:
    """The `LocalAmplitude.group_errors` (C,) of values (n, C) in units near 1.

    least: averages that vary less are hard to predict, but known well.
    """
    averages = np.stack([np.mean(values[group.rows], axis=0) for group in groups])
    return relative_errors(np.stack([np.mean(group.residuals, axis=0) for group in groups]), averages, least)


def _ratio(moves2: Array, variance: Array) -> Array:
    """The ratios (M, C) of squared moves (M, C) to their variances (M,) at unit amplitude."""
    return np.asarray(moves2 / np.maximum(variance, np.finfo(float).tiny)[:, None])
