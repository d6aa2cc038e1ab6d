"""The shares of the variance of f that sets of inputs explain, by the emulator of a fit.

x' has the inputs S of x, and others that are drawn given these; x'' is drawn anew. Then

    Var E[f | x_S] = E[f(x) (f(x') - f(x''))] = Var f - E (f(x) - f(x'))^2 / 2.

The first average varies little where S explains little (Mauntz), the second where it explains much (Jansen): they are
mixed in the share v(S) itself. Averages are over Sobol points, at which f is cheap.

A draw of f is m + g. Of g, the values at a few points are drawn, and its values elsewhere given these are B e, for
normal e; the rest has known covariances. Averages of squares are then quadratic forms in e, with an expected value.
The estimate is the ratio of expected values, not the ratio of the mean function, which lacks the variance that the
runs leave open.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from functools import partial
from typing import Any

import numpy as np
from scipy.special import stdtrit

from cbq.common import Array, check_fields, is_whole
from cbq.fit import CorrelatedValues, Emulator, whitening
from cbq.indices.inputs import RandomInputs
from cbq.indices.plan import Plan, Subset
from cbq.measures.points import sobol


@dataclass(frozen=True)
class SensitivityOptions:
    """How indices are computed from the emulator of a fit.

    sequences : Sobol sequences, whose scatter shows the error of the points.
    points : of all sequences, for each set of inputs.
    total : points of all sets, at the most, as far as `least` points remain for each.
    draws : of f, from which ends of intervals are read.
    drawn : points at which f is drawn, for each set of inputs.
    few : points that carry the correlations of a draw.
    exact : inputs up to which Shapley effects are over all orders of the inputs.
    permutations : orders for more inputs.

    Examples
    --------
    >>> cbq.SensitivityOptions(points=2**14).points
    16384
    """

    sequences: int = 8
    points: int = 2**14
    total: int = 2**18
    least: int = 2**10
    draws: int = 512
    drawn: int = 512
    few: int = 128
    exact: int = 8
    permutations: int = 64

    def __post_init__(self) -> None:
        rules = {2: ("sequences", "permutations"), 0: ("exact",), 16: ("points", "total", "least", "drawn", "few")}
        for least, names in {**rules, 100: ("draws",)}.items():
            check_fields(self, names, f"a whole number, {least} or more", partial(is_whole, least=least))

    def size(self, sets: int) -> int:
        """The points of each sequence for so many sets, a power of two."""
        each = np.clip(self.total / sets, min(self.least, self.points), self.points) / self.sequences
        return int(2 ** max(np.ceil(np.log2(each)), 4))


OPTIONS = SensitivityOptions()


@dataclass(frozen=True, eq=False)
class Shares:
    """The shares v(S) of K sets: the estimate (K,), for each sequence (R, K), and possible ones (draws, K).

    unknown : the share of Var f that the runs leave open, if errors have the largest of their scales. Lengthscales are
        estimates, and a small effect of an input may be hidden in it: where an index of one of J inputs is below
        unknown / J, its interval reaches from zero to there.
    """

    estimate: Array
    by_sequence: Array
    possible: Array
    unknown: float

    def read(self, plan: Plan, level: float) -> dict[str, tuple[Array, Array, Array]]:
        """The estimate and the ends of an interval of each index, (rows,) each."""
        found, R = {}, len(self.by_sequence)
        rng, tails = np.random.default_rng(0), (0.5 * (1 - level), 0.5 * (1 + level))
        scores = stdtrit(R - 1, (np.arange(len(self.possible)) + 0.5) / len(self.possible))
        for name, matrix in plan.indices.items():
            error = np.std(self.by_sequence @ matrix.T, axis=0, ddof=1) / np.sqrt(R)
            if name == "shapley":
                error = np.hypot(error, plan.error_of_orders(self.estimate)[: len(matrix)])
            values = self.possible @ matrix.T + np.multiply.outer(rng.permutation(scores), error)
            low, high = np.quantile(values, tails, axis=0)
            hidden = high < (-np.inf if name == "second" else self.unknown / len(plan.first))
            low, high = (
                np.where(hidden, np.minimum(low, 0.0), low),
                np.where(hidden, self.unknown / len(plan.first), high),
            )
            found[name] = matrix @ self.estimate, low, high
        return found


@dataclass(frozen=True, eq=False)
class Quadratic:
    """c + t e'l + t^2 (e'Q e + left), for normal e (r,) and a scale t of the errors."""

    constant: float
    linear: Array
    matrix: Array
    left: float

    @classmethod
    def of_products(cls, m: Array, B: Array, m2: Array, B2: Array, left: float) -> Quadratic:
        """The average of (m + t B e)(m2 + t B2 e) over n points, for means (n,) and moves (n, r)."""
        n = len(m)
        return cls(float(m @ m2) / n, (m @ B2 + m2 @ B) / n, B.T @ B2 / n, left)

    @classmethod
    def of_square(cls, m: Array, B: Array, left: float) -> Quadratic:
        """The average of (m + t B e)^2 over n points."""
        return cls.of_products(m, B, m, B, left)

    def combined(self, own: float, weight: float, other: Quadratic) -> Quadratic:
        """The sum of multiples of this one and another."""
        pairs = {each.name: (getattr(self, each.name), getattr(other, each.name)) for each in fields(self)}
        terms: dict[str, Any] = {name: own * mine + weight * theirs for name, (mine, theirs) in pairs.items()}
        return Quadratic(**terms)

    @property
    def expected(self) -> float:
        """The expected value at scale 1."""
        return self.constant + float(np.trace(self.matrix)) + self.left

    def unknown(self, scale2: float) -> float:
        """The share of the expected value that is not the constant, at a squared scale."""
        open_part = scale2 * max(self.expected - self.constant, 0.0)
        return open_part / max(self.constant + open_part, float(np.finfo(float).tiny))

    def at(self, e: Array, scale: Array) -> Array:
        """The values (draws,) at e (draws, r) and scales (draws,)."""
        squares = np.sum((e @ self.matrix) * e, axis=1) + self.left
        return np.asarray(self.constant + scale * (e @ self.linear) + scale**2 * squares)


def emulated_shares(
    emulator: Emulator,
    inputs: RandomInputs,
    subsets: Sequence[Subset],
    columns: Sequence[Sequence[int]],
    options: SensitivityOptions,
    rng: np.random.Generator,
) -> list[Shares]:
    """The shares of each output. columns : of the inputs that members of subsets stand for; subsets[0] has all."""
    n, D = options.size(len(subsets)), len(inputs.names)
    kept = [sorted(j for i in each for j in columns[i]) for each in subsets[1:]]
    u = np.stack([sobol(n, 2 * D, stream) for stream in rng.spawn(options.sequences)])
    both, variance = zip(*(_averages(emulator, inputs, kept, each) for each in u), strict=True)
    V, (mauntz, jansen) = np.stack(variance), np.moveaxis(np.stack(both), 1, 0)  # (R, C), (R, K - 1, C)
    mix = np.clip(np.mean(mauntz, axis=0) / np.maximum(np.mean(V, axis=0), np.finfo(float).tiny), 0.0, 1.0)
    found = (1 - mix) * mauntz + mix * jansen
    if flat := np.flatnonzero(np.mean(V, axis=0) <= 0).tolist():
        raise ValueError(
            f"{emulator.fit.names.f[flat[0]]} does not vary over these inputs in this fit, so that none "
            f"of them explains it: leave out this output, or take points where it differs."
        )
    drawn = _drawn(emulator, inputs, kept, u[0][: options.drawn], mix, options, rng)
    shares = []
    for c, (correction, possible, unknown) in enumerate(drawn):
        mean = np.mean(found[..., c], axis=0) / np.mean(V[:, c])
        by_sequence = found[..., c] / V[:, [c]]
        estimate = _with_all(mean + correction)
        shares.append(Shares(estimate, _with_all(by_sequence), _with_all(mean + possible), unknown))
    return shares


def expected_at_ends(
    emulator: Emulator,
    inputs: RandomInputs,
    columns: Sequence[Sequence[int]],
    n: int,
    rng: np.random.Generator,
    *,
    ends: tuple[float, float] = (0.05, 0.95),
) -> Array:
    """E[f | input] (J, 2, C) at two quantiles of each input, by the mean of f at n points; NaN for groups."""
    D = len(inputs.names)
    u = sobol(n, 2 * D, rng)
    found = np.full((len(columns), 2, len(emulator.noise_std)), np.nan)
    for i, members in enumerate(columns):
        values = inputs.quantiles(members[0], ends) if len(members) == 1 else None
        for k, value in enumerate([] if values is None else values):
            x = inputs.points(u[:, :D])
            x[:, members] = value
            x = inputs.given(members, x, u[:, D:]) if D > 1 else x
            found[i, k] = np.mean(emulator.means(*inputs.parts(x)), axis=0)
    return found


def _with_all(shares: Array) -> Array:
    """Shares (..., K - 1) with the share 1 of all inputs in front."""
    return np.concatenate([np.ones((*shares.shape[:-1], 1)), shares], axis=-1)


def _averages(emulator: Emulator, inputs: RandomInputs, kept: Sequence[list[int]], u: Array) -> tuple[Array, Array]:
    """Both estimates of Var E[f | x_S], (2, K, C), and Var f (C,), by the mean of f at points from u (n, 2 D)."""
    first, second = np.split(u, 2, axis=1)
    x = inputs.points(first)
    a, b = (emulator.means(*inputs.parts(each)) for each in (x, inputs.points(second)))
    centre = 0.5 * (np.mean(a, axis=0) + np.mean(b, axis=0))
    a, b = a - centre, b - centre
    V, found = 0.5 * (np.mean(a**2, axis=0) + np.mean(b**2, axis=0)), np.empty((2, len(kept), a.shape[1]))
    for k, columns in enumerate(kept):
        other = emulator.means(*inputs.parts(inputs.given(columns, x, second))) - centre
        found[:, k] = np.mean(a * (other - b), axis=0), V - 0.5 * np.mean((a - other) ** 2, axis=0)
    return found, V


def _drawn(
    emulator: Emulator,
    inputs: RandomInputs,
    kept: Sequence[list[int]],
    u: Array,
    mix: Array,
    options: SensitivityOptions,
    rng: np.random.Generator,
) -> list[tuple[Array, Array, float]]:
    """For each output, how much expected shares (K,) and those of draws (draws, K) exceed the shares by the mean of f.

    Also the share of Var f that the mean of f does not have. mix : (K, C), the weight of Jansen's average.
    """
    first, second = np.split(u, 2, axis=1)
    x = inputs.points(first)
    outputs = [
        _Output.of(a, b, options.few)
        for a, b in zip(*(emulator.correlated(*inputs.parts(each)) for each in (x, inputs.points(second))), strict=True)
    ]
    draws = [
        (rng.standard_normal((options.draws, each.B_a.shape[1])), _scales(emulator, options, rng)) for each in outputs
    ]
    variances, tiny = [each.variance for each in outputs], float(np.finfo(float).tiny)
    expected, possible = np.empty((len(outputs), len(kept))), np.empty((len(outputs), options.draws, len(kept)))
    for k, columns in enumerate(kept):
        others = emulator.correlated(*inputs.parts(inputs.given(columns, x, second)))
        for c, (output, other, (e, scale), V) in enumerate(zip(outputs, others, draws, variances, strict=True)):
            share = output.explained(other, V, float(mix[k, c]))
            at_mean = share.constant / max(V.constant, tiny)
            expected[c, k] = share.expected / max(V.expected, tiny) - at_mean
            possible[c, :, k] = share.at(e, scale) / np.maximum(V.at(e, scale), tiny) - at_mean
    unknown = [V.unknown(float(np.max(emulator.scales2))) for V in variances]
    return list(zip(expected, possible, unknown, strict=True))


def _scales(emulator: Emulator, options: SensitivityOptions, rng: np.random.Generator) -> Array:
    """The scales (draws,) of the errors of draws, each as often as others."""
    scales = np.sqrt(emulator.scales2)
    return rng.permutation(scales[np.arange(options.draws) % len(scales)])


@dataclass(frozen=True, eq=False)
class _Output:
    """One output at points x and x'', (n,) each, as far as draws need it.

    few : the values that draws move. whiten : their independent directions. centre : of values, centre_B : of moves.
    """

    a: CorrelatedValues
    b: CorrelatedValues
    few: CorrelatedValues
    whiten: Array
    B_a: Array
    B_b: Array
    centre: float
    centre_B: Array

    @classmethod
    def of(cls, a: CorrelatedValues, b: CorrelatedValues, few: int) -> _Output:
        some = a.take(slice(few))
        whiten = whitening(some.with_all(some))
        B_a, B_b = (each.with_all(some) @ whiten for each in (a, b))
        centre = 0.5 * float(np.mean(a.mean) + np.mean(b.mean))
        return cls(a, b, some, whiten, B_a, B_b, centre, 0.5 * (np.mean(B_a, axis=0) + np.mean(B_b, axis=0)))

    @property
    def variance(self) -> Quadratic:
        """Var f."""
        left = 0.5 * (_left(self.a, self.B_a) + _left(self.b, self.B_b)) - self._apart
        parts = [
            Quadratic.of_square(each.mean - self.centre, B - self.centre_B, left)
            for each, B in ((self.a, self.B_a), (self.b, self.B_b))
        ]
        return parts[0].combined(0.5, 0.5, parts[1])

    @property
    def _apart(self) -> float:
        """The average covariance of the rest of f at x and at x''."""
        return _left(self.a, self.B_a, self.b, self.B_b)

    def explained(self, other: CorrelatedValues, V: Quadratic, mix: float) -> Quadratic:
        """Var E[f | x_S], for the values at x'."""
        B = other.with_all(self.few) @ self.whiten
        shared = _left(self.a, self.B_a, other, B)
        a, B_a = self.a.mean - self.centre, self.B_a - self.centre_B
        mauntz = Quadratic.of_products(a, B_a, other.mean - self.b.mean, B - self.B_b, shared - self._apart)
        left = _left(self.a, self.B_a) + _left(other, B) - 2 * shared
        apart = Quadratic.of_square(self.a.mean - other.mean, self.B_a - B, left)
        return V.combined(1.0, -0.5, apart).combined(mix, 1.0 - mix, mauntz)


def _left(
    values: CorrelatedValues, B: Array, others: CorrelatedValues | None = None, B_others: Array | None = None
) -> float:
    """The average covariance of pairs of values, or their variance, that the moves B (n, r) do not explain."""
    pairs = values.with_each(values if others is None else others)
    return float(np.mean(pairs - np.sum(B * (B if B_others is None else B_others), axis=1)))
