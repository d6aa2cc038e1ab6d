"""The EVPPI of a set of columns, from the joint posterior of the regressions on it, and the order of several sets.

At a row, the net benefits of D decisions less that of the first are offset + Z B given the data, with independent
Gaussian canonical outputs Z (r,) and B (r, D). EVPPI is the mean over rows of max_d less max_d of the means over rows.
The estimate is the posterior expectation of the first term; the means over rows are taken as observed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import ndtr

from cbq._arrays import Array, Integers
from cbq.linalg.threads import one_blas_thread
from cbq.nested.decisions import Decisions
from cbq.psa.regression import RegressionPosterior, RowBlock, candidate_coordinates, canonical_outputs, fit_regression

FUNCTION_DRAWS = 256  # of the regression functions, for the standard error
ROW_DRAWS = 32  # for each row, for E max of more than two decisions
MIN_RELATIVE_SE = 1e-3  # relative to the largest: a standard error of 0 would fix its estimate
ROUNDING = 1e-12  # relative to the largest value, or to EVPI: smaller values are rounded to 0


@dataclass(frozen=True, eq=False)
class Contrasts:
    """Net benefits less that of the first decision, as linear functions of few outputs that are regressed once.

    y : (n, q), the outputs.
    maps : (K, q, D); y @ maps[k] are the net benefits less that of the first decision.
    """

    y: Array
    maps: Array

    @classmethod
    def of(cls, outputs: Array, decisions: Decisions) -> Contrasts:
        """The contrasts of outputs (n, C).

        Net benefits are linear in the willingness to pay, so its smallest and largest values determine all others.
        """
        K, D, _ = decisions.weights.shape
        thresholds = np.zeros(1) if decisions.willingness_to_pay is None else np.ravel(decisions.willingness_to_pay)
        low, high = int(np.argmin(thresholds)), int(np.argmax(thresholds))
        shares = {low: np.ones(K)}  # of the smallest and the largest value in all values
        if high != low:
            share = (thresholds - thresholds[low]) / (thresholds[high] - thresholds[low])
            shares = {low: 1.0 - share, high: share}
        differences = decisions.weights[:, 1:] - decisions.weights[:, :1]  # (K, D - 1, C)
        y = np.concatenate([outputs @ differences[end].T for end in shares], axis=1)
        return cls(y, np.concatenate([each[:, None, None] * np.eye(D)[1:] for each in shares.values()], axis=1))


@dataclass(frozen=True, eq=False)
class SetValue:
    """The EVPPI of a set for K values of the willingness to pay, (K,) each.

    evppi : the posterior expectation. plug_in : EVPPI at the posterior means.
    regression, sampling : the variances due to the regression and to the rows being a sample.
    unseen : the part of evppi that is due to variance not represented by the landmarks.
    landmarks : the largest number of landmarks of a regression.
    """

    evppi: Array
    plug_in: Array
    regression: Array
    sampling: Array
    unseen: Array
    landmarks: int = 0

    @property
    def se(self) -> Array:
        return np.asarray(np.sqrt(self.regression + self.sampling))

    def mixed_with_zero(self, probability: float) -> SetValue:
        """The value of a set that is independent of the net benefits, so that EVPPI is 0, with this probability."""
        between = probability * (1.0 - probability) * self.evppi**2
        numbers = (self.evppi, self.plug_in, self.regression, self.sampling, self.unseen)
        evppi, plug_in, regression, sampling, unseen = ((1.0 - probability) * each for each in numbers)
        return SetValue(evppi, plug_in, regression + between, sampling, unseen, self.landmarks)


@dataclass(frozen=True, eq=False)
class NetBenefits:
    """Net benefits offset + Z B for K values of the willingness to pay: offset (K, D), B (K, r, D)."""

    offset: Array
    B: Array

    @property
    def default(self) -> Integers:
        """The decisions (K,) with the largest mean net benefit, which are best without information."""
        return np.asarray(np.argmax(self.offset, axis=-1))


def analyse(contrasts: Contrasts, columns: Array, rng: np.random.Generator) -> SetValue:
    """The EVPPI of a set with the columns (n, p)."""
    with one_blas_thread():
        candidates = candidate_coordinates(columns)
        outputs = canonical_outputs(contrasts.y, candidates[-1], rng)
        if not outputs.values.shape[1]:  # net benefits differ by constants: there is nothing to learn
            zeros = np.zeros(len(contrasts.maps))
            return SetValue(zeros, zeros, zeros, zeros, zeros)
        posteriors = [fit_regression(candidates, y, rng) for y in outputs.values.T]
        benefits = NetBenefits(outputs.mean @ contrasts.maps, outputs.back @ contrasts.maps)
        return _set_value(posteriors, outputs.values, benefits, rng)


def _set_value(
    posteriors: Sequence[RegressionPosterior], outputs: Array, benefits: NetBenefits, rng: np.random.Generator
) -> SetValue:
    """EVPPI from the posteriors of the canonical outputs (n, r), one for each output.

    The standard error treats the default decision as fixed. Where another one is as good, EVPPI is not a smooth
    function of the means, and this gives the larger error.
    """
    n, K = len(outputs), len(benefits.offset)
    stds = np.array([s.mean_std for s in posteriors])
    row_means = stds * _antithetic((FUNCTION_DRAWS, len(stds)), rng, axis=0)  # draws of the mean of Z over rows, (S, r)
    xi = [_antithetic((s.m, FUNCTION_DRAWS), rng, axis=1) for s in posteriors]
    totals, paths = np.zeros((5, K)), np.zeros((K, FUNCTION_DRAWS))
    for blocks in _blocks(posteriors):
        deviations = np.stack([b.spread @ each for b, each in zip(blocks, xi, strict=True)], axis=-1)
        mean, unseen = _means(blocks), np.stack([b.unseen for b in blocks], axis=-1)  # (b, r) each
        variance = np.stack([np.sum(b.spread**2, axis=1) for b in blocks], axis=-1)
        draws = mean[:, None, :] + deviations + row_means  # of Z, (b, S, r)
        for k, (offset, B) in enumerate(zip(benefits.offset, benefits.B, strict=True)):
            totals[:, k] += _row_totals(offset + mean @ B, B, variance, unseen, benefits.default[k], rng)
            paths[k] += np.sum(np.max(offset + draws @ B, axis=-1), axis=0)
    _, expected, plug_in, gain, gain2 = totals / n  # (K,) each
    base = np.max(benefits.offset, axis=-1)
    overall = benefits.offset[:, None, :] + row_means @ benefits.B  # (K, S, D)
    regression = np.var(paths / n - overall[np.arange(K), :, benefits.default], axis=1)
    found = SetValue(
        evppi=np.maximum(expected - base, 0.0),  # negative only by rounding
        plug_in=np.maximum(plug_in - base, 0.0),
        regression=regression + heteroscedastic_variance(posteriors, outputs, benefits),
        sampling=np.maximum(gain2 - gain**2, 0.0) / max(n - 1, 1),
        unseen=(totals[1] - totals[0]) / n,
        landmarks=max(s.m for s in posteriors),
    )
    return found.mixed_with_zero(float(np.prod([s.zero_probability for s in posteriors])))


def _row_totals(
    g: Array, B: Array, variance: Array, unseen: Array, default: np.intp, rng: np.random.Generator
) -> list[np.float64]:
    """Sums over rows of E max_d without and with unseen variance, max_d of the means g, the gain and its square."""
    seed = int(rng.integers(2**62))  # common random numbers for the difference of the first two
    seen = expected_max(g, B, variance, np.random.default_rng(seed))
    expected = expected_max(g, B, variance + unseen, np.random.default_rng(seed))
    gain = expected - g[:, default]
    return [np.sum(each) for each in (seen, expected, np.max(g, axis=-1), gain, gain**2)]


def expected_max(g: Array, B: Array, variance: Array, rng: np.random.Generator) -> Array:
    """E max_d of g + Z B, (b,), for g (b, D), B (r, D) and independent Z of mean 0 and variances (b, r).

    For two decisions this is Clark's formula. For more, only the excess of the best decision over the one with the
    largest mean is estimated, from antithetic draws that are independent between rows.
    """
    if g.shape[-1] == 2:
        difference = g[:, 1] - g[:, 0]
        return np.asarray(g[:, 0] + _expected_positive_part(difference, np.sqrt(variance @ (B[:, 1] - B[:, 0]) ** 2)))
    best = np.argmax(g, axis=-1)[:, None, None]
    half = rng.standard_normal((len(g), ROW_DRAWS // 2, len(B))) * np.sqrt(variance)[:, None, :] @ B
    excess = np.zeros(len(g))
    for deviation in (half, -half):
        each = g[:, None, :] + deviation
        excess += np.sum(np.max(each, axis=-1) - np.take_along_axis(each, best, axis=-1)[..., 0], axis=-1)
    return np.asarray(np.max(g, axis=-1) + excess / ROW_DRAWS)


def _expected_positive_part(m: Array, s: Array) -> Array:
    """E max(X, 0) for X ~ N(m, s^2): m Phi(m / s) + s phi(m / s)."""
    q = np.divide(m, s, out=np.where(m < 0, -np.inf, np.inf), where=s > 0)
    density = np.exp(-0.5 * np.minimum(q * q, 1e3)) / np.sqrt(2.0 * np.pi)
    return np.asarray(m * ndtr(q) + s * density)


def heteroscedastic_variance(posteriors: Sequence[RegressionPosterior], outputs: Array, benefits: NetBenefits) -> Array:
    """The variance (K,) of EVPPI that unequal noise adds to that of the regression, at least 0; outputs (n, r).

    To first order a residual e_jc of output c at row j moves EVPPI by influence_jc e_jc. The sandwich estimate (White
    1980) of its variance is sum_j (sum_c influence_jc e_jc)^2, whatever the variances of the rows; the regression
    assumes sum_c s2_c sum_j influence_jc^2.
    """
    n, noise = len(outputs), np.array([s.noise for s in posteriors])
    scale = np.sqrt(n / np.maximum(n - np.array([s.dof for s in posteriors]), 1.0))  # residuals underestimate errors
    sandwich, assumed = np.zeros(len(benefits.offset)), np.zeros(len(benefits.offset))
    for blocks, influence in influences(posteriors, benefits):
        residual = outputs[blocks[0].rows] - _means(blocks)
        sandwich += np.sum(np.sum(influence * (scale * residual)[:, None, :], axis=-1) ** 2, axis=0)
        assumed += np.sum(influence**2 @ noise, axis=0)
    return np.asarray(np.maximum(sandwich - assumed, 0.0))


def influences(
    posteriors: Sequence[RegressionPosterior], benefits: NetBenefits
) -> Iterator[tuple[tuple[RowBlock, ...], Array]]:
    """Blocks of rows with the derivatives (b, K, r) of the plug-in EVPPI by their outputs, at fixed hyperparameters."""
    n, offset, B = posteriors[0].moments.n, benefits.offset, benefits.B
    by_level = np.zeros(B.shape[:2])  # derivatives by the means of Z over rows, (K, r)
    by_weights = [np.zeros((s.m, len(offset))) for s in posteriors]  # and by the weights of each spread, (m, K)
    at_default = np.stack([b[:, d] for b, d in zip(B, benefits.default, strict=True)])  # (K, r)
    for blocks in _blocks(posteriors):
        best = np.argmax(offset[:, None, :] + _means(blocks) @ B, axis=-1)  # (K, b)
        chosen = np.stack([b[:, d].T for b, d in zip(B, best, strict=True)]) - at_default[:, None, :]  # (K, b, r)
        by_level += np.sum(chosen, axis=1) / n
        for c, block in enumerate(blocks):
            by_weights[c] += block.spread.T @ chosen[..., c].T / n
    for blocks in _blocks(posteriors):
        parts = zip(blocks, by_weights, posteriors, strict=True)
        moves = [block.spread @ slope / posterior.noise for block, slope, posterior in parts]  # (b, K) each
        yield blocks, np.stack(moves, axis=-1) + by_level / n


def _blocks(posteriors: Sequence[RegressionPosterior]) -> Iterator[tuple[RowBlock, ...]]:
    """The blocks of rows, for all posteriors side by side."""
    return zip(*(s.blocks() for s in posteriors), strict=True)


def _means(blocks: Sequence[RowBlock]) -> Array:
    return np.stack([block.mean for block in blocks], axis=-1)


def _antithetic(shape: tuple[int, int], rng: np.random.Generator, axis: int) -> Array:
    """Standard normal draws whose second half along an axis is minus the first."""
    half = rng.standard_normal(tuple(size // 2 if i == axis else size for i, size in enumerate(shape)))
    return np.concatenate([half, -half], axis=axis)


def monotone_estimates(estimates: Array, errors: Array, sets: Sequence[frozenset[int]], evpi: float) -> Array:
    """The nearest values (J,) to the estimates (J,) of EVPPI that respect its order.

    EVPPI is at least 0, at most EVPI, and at most that of a superset. Distances are in units of the standard errors
    (J,). With constraints C x >= c, the minimum of |(x - e) / s|^2 is x = e + s^2 C'l with multipliers l >= 0 that
    minimise |s C'l|^2 / 2 - l.(c - C e): non-negative least squares with one row more (Lawson and Hanson, chapter 23).
    """
    from scipy.optimize import nnls  # slow to import

    C, c = _order_constraints(sets, evpi)
    unit = max(float(np.max(np.abs(estimates))), evpi, np.finfo(float).tiny)
    largest = float(np.max(errors))
    s = np.maximum(errors / largest, MIN_RELATIVE_SE) if largest > 0 else np.ones(len(errors))
    violation = (c - C @ estimates) / unit
    if np.all(violation <= 0):
        return np.where(estimates > ROUNDING * unit, estimates, 0.0)
    # Least distance: u = (x - e) / s of least norm with (C s) u >= violation.
    system = np.vstack([(C * s).T, violation])
    target = np.zeros(len(system))
    target[-1] = 1.0
    multipliers = nnls(system, target)[0]
    rest = system @ multipliers - target
    moved = estimates - unit * s * rest[:-1] / rest[-1]
    return np.asarray(np.where(moved > ROUNDING * unit, np.minimum(moved, evpi), 0.0))


def _order_constraints(sets: Sequence[frozenset[int]], evpi: float) -> tuple[Array, Array]:
    """C and c with C x >= c for the EVPPI x (J,) of the sets."""
    unit = np.eye(len(sets))
    rows, bounds = [], []
    for j, each in enumerate(sets):
        subsets = [i for i, other in enumerate(sets) if i != j and other <= each]
        rows += [unit[j], -unit[j], *(unit[j] - unit[i] for i in subsets)]
        bounds += [0.0, -evpi, *(0.0 for _ in subsets)]
    return np.array(rows), np.array(bounds)
