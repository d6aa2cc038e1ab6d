"""Stage 2: a Gaussian process over theta through the estimates of stage 1, with calibrated intervals.

The plain posterior takes the errors of stage 1 as independent, their variances as known and the hyperparameters as
true. None of this holds, and its intervals are too short. The calibrated predictive distribution corrects each from
the data: leave-one-out residuals over thetas give the factor tau^2 of all variances; the biases of stage 1, estimated
by leaving out points, have a common part that is subtracted (iid points) or added to the error (other designs); and the
noise has two readings, the variances of stage 1 and their averages over neighbouring thetas: the predictive
distribution is the mixture of both.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np

from cbq.common import Array, Integers, check_fields, evenly, is_number, is_range
from cbq.fit import HEAVY_SHARE, PredictiveDistribution
from cbq.gp import (
    MAX_EXACT_NODES,
    CandidateKernel,
    GPPrior,
    Landmarks,
    LikelihoodOptions,
    Prediction,
    ThetaCoordinates,
    ThetaGP,
    Trend,
    fit_priors,
    landmarks_for,
    theta_gp,
)
from cbq.io import Many, Number, saved
from cbq.kernels import RBF, Kernel, standard_kernels
from cbq.linalg.engines import require_matrices


@saved(
    "ThetaCalibration",
    significance=Number(least=0.0, null=np.inf),
    least_noise=Number(least=0.0),
    common_error=Number(least=0.0),
    tail_ratios=Many(Number()),
    tail_shares=Many(Number()),
    tail_stretch=Number(least=0.0),
)
@dataclass(frozen=True)
class ThetaCalibration:
    """How calibrated intervals differ from those of the plain posterior; docs/theory/calibration.md explains each step.

    significance : the second curve, through unbiased estimates, counts from a mean squared difference of so many times
        its variance on: 1, as a difference beyond its expected size is a bias of the first curve. Infinite for no
        second curve: 300 thetas with 8 points each then share a bias of up to three times the error.
    least_noise : the noise of that curve is at least this share of the variances of stage 1. Residuals vanish where all
        values at a theta are equal, and rare events then fail without it (95% intervals cover 0.88 in place of 0.99).
    common_error : where thetas share their points, the size of the error that all have in common, in units of the own
        error of each: 1, as nothing is known about it.
    tail_ratios : where the tails carry the answer, standardised residuals of the outermost points are larger than
        those of all others. The stretch rises from none to all between these two ratios.
    tail_shares : the same for the share of the outermost points in the variance of f, in units of that of a linear f.
    tail_stretch : the factor of standard deviations is this share of the ratio. With 0 tails are not looked at.

    Examples
    --------
    >>> samples = cbq.problems.get("butterfly").collect(T=12, N=20, rng=0)
    >>> fit = cbq.CBQ(calibration=cbq.ThetaCalibration(tail_stretch=0.0)).fit(samples)
    >>> float(fit.stage1.stretch[0])
    1.0
    """

    significance: float = 1.0
    least_noise: float = 0.25
    common_error: float = 1.0
    tail_ratios: tuple[float, float] = (3.0, 5.0)
    tail_shares: tuple[float, float] = (1.25, HEAVY_SHARE)
    tail_stretch: float = 0.5

    def __post_init__(self) -> None:
        names = ("significance", "least_noise", "common_error", "tail_stretch")
        check_fields(self, names, "a number, zero or more", lambda value: is_number(value, 0.0, np.inf))
        ascending = "two ascending numbers, zero or more, in a tuple"
        check_fields(self, ("tail_ratios", "tail_shares"), ascending, lambda value: is_range(value, 0.0))


@dataclass(frozen=True)
class StageTwoOptions:
    """How stage 2 is to be done; see `cbq.CBQ`.

    nodes: hyperparameters are fitted to so many thetas, as their likelihood costs T^3 and more hardly change it.
    search: what is expected of hyperparameters, and how the likeliest are found.
    """

    kernel: Kernel | Literal["auto"] = "auto"
    degree: Trend = 0
    noise: float | Sequence[float] | None = None
    log_theta: bool | Literal["auto"] = "auto"
    nodes: int = 500
    search: LikelihoodOptions = field(default_factory=LikelihoodOptions)


def require_memory_for_stage_two(T: int, outputs: int) -> None:
    """Raise where the processes of stage 2 do not fit into memory.

    Each output keeps a matrix (T, T) at the least, or beyond 2,000 thetas the neighbours of each.
    """
    require_matrices(
        outputs * T**2 if T <= MAX_EXACT_NODES else T**1.5,
        f"stage 2 with {T} thetas{f' and {outputs} outputs' * (outputs > 1)}",
        "fit some of the thetas, as in samples.select(slice(None, None, 10))"
        + ", or one output at a time, as in samples.output(0)" * (outputs > 1),
    )


def fit_stage_two(theta: Array, y: Array, v: Array, typical: float, options: StageTwoOptions) -> list[GPPrior]:
    """Fitted priors for y (T,) with variances v (T,) at theta (T, p), the likeliest first.

    typical: a variance of f, which stands in for that of I where there is only one theta.
    """
    if len(theta) == 1:
        return [_single_node(theta, typical, options)]
    some = evenly(len(theta), options.nodes)
    nodes = theta[some], y[some], v[some]
    priors = fit_priors(
        _chains(theta, options), *nodes, degree=options.degree, noise=options.noise, options=options.search
    )
    return sorted(priors, key=lambda prior: -prior.evidence)


def _chains(theta: Array, options: StageTwoOptions) -> list[list[CandidateKernel]]:
    """The coordinates and kernels to choose from, smooth kernels first.

    From the maximum of a smooth kernel that of a rougher one is uphill, while the way back is ill-conditioned.
    """
    if isinstance(options.kernel, Kernel):
        return [[(ThetaCoordinates.identity(theta.shape[1]), options.kernel)]]
    positive = np.all(theta > 0, axis=0)
    choices = {"auto": (False, True), True: (True,), False: (False,)}[options.log_theta]
    found = [positive & logs for logs in choices]
    if len(found) == 2 and not np.any(positive):
        found = found[:1]
    coordinates = [ThetaCoordinates.standard(theta, logs) for logs in found]
    return [[(z, kernel) for kernel in reversed(standard_kernels())] for z in coordinates]


def _single_node(theta: Array, typical: float, options: StageTwoOptions) -> GPPrior:
    """The prior for a single theta (1, p): elsewhere I has the variance `typical` and is independent of it."""
    kernel: Kernel = RBF(1e-6 * np.maximum(np.abs(theta[0]), 1e-6))
    if isinstance(options.kernel, Kernel) and not np.any(options.kernel.to_fit(theta, ard=True)[1]):
        kernel = options.kernel  # its lengthscales say how far the estimate carries
    noise = float(np.min(options.noise)) if options.noise is not None else 0.0
    degree = None if options.degree is None else 0
    coordinates = ThetaCoordinates.identity(theta.shape[1])
    return GPPrior(coordinates, kernel, max(typical, np.finfo(float).tiny), noise, degree)


@dataclass(frozen=True, eq=False)
class NodeEstimates:
    """What stage 1 says about one output: estimates, variances, biases and squared spreads, each (T,).

    stretch: the factor of standard deviations for an error that all thetas have in common.
    """

    theta: Array
    mean: Array
    variance: Array
    bias: Array
    spread2: Array
    stretch: float = 1.0

    def landmarks(self, prior: GPPrior) -> Landmarks | None:
        """The landmarks of processes that have the prior; None where thetas are few enough to need none."""
        return landmarks_for(prior, self.theta, self.variance)

    def process(self, prior: GPPrior, noise: Array, landmarks: Landmarks | None) -> ThetaGP:
        """The process that has the prior, given the estimates with noise variances (T,)."""
        return theta_gp(prior, self.theta, self.mean, noise, landmarks)

    @property
    def unbiased(self) -> Array:
        """Unbiased estimates of I (T,), from leaving out one point at a time; those of iid points alone are."""
        return self.mean - self.bias


@dataclass(frozen=True, eq=False)
class NoiseReading:
    """One reading of the noise at the nodes.

    noise: (T,), its variances. tau2: the factor of all variances. shift: the common bias to subtract, in units of the
    standard deviations. shift2: the variance of what is left of it, in the same units squared.
    """

    noise: Array
    tau2: float
    shift: float
    shift2: float


class ThetaPosterior:
    """The distribution of I over theta, of one output.

    iid: whether the points of each theta are independent draws of its measure, so that the estimate of its bias is
    unbiased. calibration: None for the plain posterior. shared: whether thetas use the same points, so that neighbours
    have the same errors.
    """

    def __init__(
        self,
        priors: Sequence[GPPrior],
        nodes: NodeEstimates,
        *,
        iid: bool,
        calibration: ThetaCalibration | None,
        shared: bool = False,
    ) -> None:
        best = max(priors, key=lambda prior: prior.evidence)
        self.nodes, self.landmarks = nodes, nodes.landmarks(best)
        self.readings: list[NoiseReading] = []
        self.correction: UnbiasedCurve | None = None
        if calibration is None:
            self.process = nodes.process(best, nodes.variance, self.landmarks)
            return
        iid = iid and not shared
        near = nearest_nodes(ThetaCoordinates.standard(nodes.theta, best.coordinates.logs)(nodes.theta))
        # Every process has a large matrix: the one of the second reading goes before the one that stays is made. Where
        # thetas share points, that reading takes their errors for the same one.
        other = nodes.process(best, smoothed_noise(nodes, near), self.landmarks)
        smoothed = noise_reading(other, nodes, iid=iid, common=float(shared))
        del other
        self.process = nodes.process(best, nodes.variance, self.landmarks)
        self.readings = [noise_reading(self.process, nodes, iid=iid), smoothed]
        if iid and len(nodes.mean) > 1:
            some = evenly(len(nodes.mean), 500)  # thetas are enough to compare the two curves at
            first = self.predictive(nodes.theta[some]).mean
            self.correction = unbiased_curve(best, nodes, self.landmarks, near, some, first, calibration)

    def predictive(self, theta: Array, *, joint: bool = False) -> PredictiveDistribution:
        """The predictive distribution of I at theta (M, p)."""
        at = self.process.predict(theta, joint=joint)
        if not self.readings:
            spread = at.noise(self.nodes.variance) + at.variance
            return PredictiveDistribution(at.mean[None], spread[None], np.inf)
        locations = np.empty((len(self.readings), len(theta)))
        scales2 = np.empty((len(self.readings), *at.variance.shape))
        for j, reading in enumerate(self.readings):
            locations[j], scales2[j] = _component(at, reading, joint=joint)
        if self.correction is not None:
            self.correction.apply(theta, locations, scales2, joint=joint)
        # With three degrees of freedom more than thetas, one theta has a variance, too.
        return PredictiveDistribution(locations, scales2, len(self.nodes.mean) + 3.0)


@dataclass(frozen=True, eq=False)
class UnbiasedCurve:
    """A second curve, through unbiased estimates of I, and how far it is to be believed.

    At each theta the average of f less its prediction from the other points, added to the integral of that prediction,
    is an unbiased estimate of I. It is less accurate than the quadrature of all points where that one is good; but
    where many thetas have few points, quadratures share a bias that no number of thetas averages away, and the errors
    of unbiased estimates average out. Their noise is taken from the neighbours of each theta: its own is small exactly
    where its points missed what matters. The weight of this curve is a Hausman test made smooth: the two curves differ
    by the error of this one, unless the other is biased.
    """

    process: ThetaGP
    reading: NoiseReading
    weight: float = 1.0

    def at(self, theta: Array, *, joint: bool = False) -> tuple[Array, Array]:
        """The means (M,) of this curve at theta (M, p), and their squared scales, (M,) or (M, M)."""
        return _component(self.process.predict(theta, joint=joint), self.reading, joint=joint)

    def apply(self, theta: Array, locations: Array, scales2: Array, *, joint: bool) -> None:
        """Move the components of a mixture at theta (M, p), (J, M) and (J, M) or (J, M, M), towards this curve."""
        mean, own = self.at(theta, joint=joint)
        w = self.weight
        for location, scale2 in zip(locations, scales2, strict=True):
            apart = mean - location
            scale2 *= 1.0 - w
            scale2 += w * own
            scale2 += _squared(apart, joint, w * (1.0 - w))
            location += w * apart


def unbiased_curve(
    prior: GPPrior,
    nodes: NodeEstimates,
    landmarks: Landmarks | None,
    near: Integers,
    some: Integers,
    other: Array,
    how: ThetaCalibration,
) -> UnbiasedCurve | None:
    """The curve through the unbiased estimates at the nodes; None where it has no weight.

    near: (T, k), the nearest nodes of each. other: (m,), the means of the first curve at some of the nodes (m,), where
    the two are compared.
    """
    # Both are averages over neighbours: weights that depend on the own error would be a bias of the curve.
    noise, least = (np.mean(each[near], axis=1) for each in (nodes.spread2, how.least_noise * nodes.variance))
    noise = np.maximum(noise, least)
    estimates = replace(nodes, mean=nodes.unbiased, variance=noise, bias=np.zeros_like(noise), spread2=noise)
    process = estimates.process(prior, noise, landmarks)
    curve = UnbiasedCurve(process, noise_reading(process, estimates, iid=False))
    mean, own = curve.at(nodes.theta[some])
    apart2 = float(np.mean((mean - other) ** 2))
    weight = max(0.0, 1.0 - how.significance * float(np.mean(own)) / apart2) if apart2 > 0 else 0.0
    return replace(curve, weight=weight) if weight > 0 else None


def smoothed_noise(nodes: NodeEstimates, near: Integers) -> Array:
    """The noise variances (T,) of the second reading: the larger of two sizes of the errors, averaged over neighbours.

    near: (T, k), the nearest nodes of each. A variance from N points is one random draw of the size of the error, small
    exactly where the points missed what matters.
    """
    return np.asarray(np.mean(np.maximum(nodes.variance, nodes.spread2)[near], axis=1))


def nearest_nodes(z: Array, most: int = 2**22) -> Integers:
    """The nearest max(3, sqrt T) nodes of each node z (T, p), itself included: (T, k).

    most: numbers in the differences between nodes that are in memory at a time.
    """
    T = len(z)
    k = min(T, max(3, int(np.ceil(np.sqrt(T)))))
    if T > MAX_EXACT_NODES:
        from scipy.spatial import cKDTree  # slow to import, and rarely needed

        return np.asarray(cKDTree(z).query(z, k=k)[1])
    found = np.empty((T, k), dtype=np.intp)
    step = max(1, most // z.size)
    for rows in (slice(i, i + step) for i in range(0, T, step)):
        distance2 = np.sum((z[rows, None, :] - z[None, :, :]) ** 2, axis=-1)
        found[rows] = np.argsort(distance2, axis=1, kind="stable")[:, :k]
    return found


def noise_reading(process: ThetaGP, nodes: NodeEstimates, *, iid: bool, common: float = 0.0) -> NoiseReading:
    """The reading of the noise that a process has: what residuals over thetas and biases say about it.

    common: the variance, in units of the noise, of an error that all thetas have in common besides.
    """
    T, noise = len(process.v), process.v
    common += nodes.stretch**2 - 1.0
    if T == 1:
        return NoiseReading(noise, 1.0, 0.0, common)
    Qy, diagonal = process.leave_one_out()
    z2 = float(np.sum(Qy**2 / diagonal)) / max(T - process.prior.n_fitted, 1)
    # Small residuals do not show an error that thetas have in common. Variances are lowered by the root of what the
    # residuals ask for, and only where a second curve would find such an error.
    tau2 = max(z2, float(np.sqrt(z2)) if iid else 1.0)
    size = np.sqrt(noise)
    ratio = np.divide(nodes.bias, size, out=np.zeros(T), where=size > 0)
    bias, se2 = float(np.mean(ratio)), float(np.var(ratio, ddof=1)) / T
    share = max(0.0, 1.0 - se2 / bias / bias) if bias else 0.0  # of the bias that is not chance
    if not iid:
        return NoiseReading(noise, tau2, 0.0, share * bias**2 + common)
    return NoiseReading(noise, tau2, share * bias, share * se2 + common)


def _component(at: Prediction, reading: NoiseReading, *, joint: bool) -> tuple[Array, Array]:
    """The location (M,) of a prediction with one reading of the noise, and its squared scales, (M,) or (M, M)."""
    bias = at.of(np.sqrt(reading.noise))
    scale2 = at.noise(reading.noise)
    scale2 += at.variance
    scale2 *= reading.tau2
    scale2 += _squared(bias, joint, reading.shift2)
    return at.mean - reading.shift * bias, scale2


def _squared(values: Array, joint: bool, factor: float) -> Array:
    """The squares (M,) of values (M,), or where they are `joint` the products (M, M) of all pairs, times a factor."""
    found = np.outer(values, values) if joint else values**2
    found *= factor
    return np.asarray(found)
