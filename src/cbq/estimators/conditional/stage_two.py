"""Stage 2: a Gaussian process over theta through the estimates of stage 1, with calibrated intervals.

The plain posterior takes the errors of stage 1 as independent, their variances as known and the hyperparameters as
true. None of this holds, and its intervals are too short. The calibrated predictive distribution has the same mean, and
its scale is from the data: noise variances are averages over neighbouring thetas, and the amplitude at each theta
follows from how far the prediction moves when thetas are left out. Where many thetas share a bias, a second curve
through unbiased estimates takes over. `gp.calibration` has the rest, which all estimators share.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np

from cbq.common import Array, Integers, evenly
from cbq.fit import PredictiveDistribution
from cbq.gp import (
    MAX_EXACT_NODES,
    MIN_GROUPS,
    Calibration,
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
    moved_amplitude,
    theta_gp,
)
from cbq.kernels import RBF, Kernel, standard_kernels
from cbq.linalg.engines import require_matrices

SOME_THETAS = 20  # of the observed ones, over which scales are averaged


@dataclass(frozen=True)
class StageTwoOptions:
    """How stage 2 is to be done; see `cbq.CBQ`.

    nodes: hyperparameters are fitted to so many thetas, as their likelihood costs T^3 and more hardly change it.
    search: priors of hyperparameters, and how the likeliest are found.
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

    From the maximum of a smooth kernel the maximum of a rougher one is uphill, while the way back is ill-conditioned.
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
    """The result of stage 1 for one output: estimates, variances, biases and squared spreads, each (T,).

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


@dataclass(frozen=True, eq=False)
class Curve:
    """I over theta by one process, with squared scales from the data.

    noise: (T,), its variances at the nodes. amplitude: at each prediction. in_common: the variance of an error that all
    thetas have in common, in units of the noise.
    """

    process: ThetaGP
    noise: Array
    amplitude: ThetaAmplitude
    in_common: float = 0.0

    def at(self, theta: Array, *, joint: bool = False) -> tuple[Array, Array]:
        """The means (M,) at theta (M, p), and their squared scales (M,) or, where they are `joint`, (M, M)."""
        at = self.process.predict(theta, joint=joint)
        scale2 = at.noise(self.noise)
        scale2 += at.variance
        root = np.sqrt(self.amplitude(at))
        scale2 *= np.outer(root, root) if joint else root**2
        scale2 += _squared(at.of(np.sqrt(self.noise)), joint, self.in_common)
        return at.mean, scale2


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
        calibration: Calibration | None,
        shared: bool = False,
    ) -> None:
        best = max(priors, key=lambda prior: prior.evidence)
        self.nodes, self.calibration, self.landmarks = nodes, calibration, nodes.landmarks(best)
        if calibration is None:
            self.process = nodes.process(best, nodes.variance, self.landmarks)
            return
        near = nearest_nodes(ThetaCoordinates.standard(nodes.theta, best.coordinates.logs)(nodes.theta))
        noise = smoothed_noise(nodes, near)
        # Every process has a large matrix: this one goes before the one that stays is made.
        amplitude = ThetaAmplitude(nodes.process(best, noise, self.landmarks), calibration.points)
        self.process = nodes.process(best, nodes.variance, self.landmarks)
        in_common = nodes.stretch**2 - 1.0 + float(shared)
        self.first, self.second = Curve(self.process, noise, amplitude, in_common), None
        if iid and not shared and len(nodes.mean) > 1:
            self.second = unbiased_curve(best, nodes, self.landmarks, near, self.first, calibration)
        some = nodes.theta[evenly(len(nodes.theta), SOME_THETAS)]
        self._average_scale = float(np.mean(np.sqrt(self._at(some, joint=False)[1])))

    def predictive(self, theta: Array, *, joint: bool = False) -> PredictiveDistribution:
        """The predictive distribution of I at theta (M, p)."""
        if self.calibration is None:
            at = self.process.predict(theta, joint=joint)
            return PredictiveDistribution(at.mean[None], (at.noise(self.nodes.variance) + at.variance)[None], np.inf)
        mean, scale2 = self._at(theta, joint=joint)
        scale2 += (self.calibration.common * self._average_scale) ** 2
        ratios2 = self.calibration.ratios2
        locations = np.broadcast_to(mean, (len(ratios2), len(mean)))
        return PredictiveDistribution(locations, np.multiply.outer(ratios2, scale2), np.inf)

    def _at(self, theta: Array, *, joint: bool) -> tuple[Array, Array]:
        """The means (M,) of both curves at theta (M, p), and their squared scales, (M,) or (M, M)."""
        mean, scale2 = self.first.at(theta, joint=joint)
        return (mean, scale2) if self.second is None else self.second.mixed(theta, mean, scale2, joint=joint)


@dataclass(frozen=True, eq=False)
class UnbiasedCurve(Curve):
    """A second curve, through unbiased estimates of I, and how far it is to be believed.

    At each theta the average of f less its prediction from the other points, added to the integral of that prediction,
    is an unbiased estimate of I. It is less accurate than the quadrature of all points where that one is good; but
    where many thetas have few points, quadratures share a bias that no number of thetas averages away, and the errors
    of unbiased estimates average out. Their noise is taken from the neighbours of each theta: its own is small exactly
    where its points missed what matters. The weight of this curve is a Hausman test made smooth: the two curves differ
    by the error of this one, unless the other is biased.
    """

    weight: float = 1.0

    def mixed(self, theta: Array, mean: Array, scale2: Array, *, joint: bool) -> tuple[Array, Array]:
        """The means (M,) and squared scales (M,) or (M, M) of another curve at theta (M, p), moved towards this one."""
        own, own2 = self.at(theta, joint=joint)
        w, apart = self.weight, own - mean
        scale2 *= 1.0 - w
        scale2 += w * own2
        scale2 += _squared(apart, joint, w * (1.0 - w))
        return mean + w * apart, scale2


class ThetaAmplitude:
    """The amplitude at each prediction, by its moves when single thetas are left out of a process.

    most: thetas whose moves count; of more, so many evenly spaced ones serve.
    """

    def __init__(self, process: ThetaGP, most: int) -> None:
        T = len(process.v)
        self._rows = evenly(T, most) if T >= MIN_GROUPS else None
        if self._rows is not None:
            Qy, precision = (each[self._rows] for each in process.leave_one_out())
            self._residuals, self._precision = (Qy / precision)[:, None], precision

    def __call__(self, at: Prediction) -> Array:
        """The amplitudes (M,) of a prediction; 1 where thetas are too few."""
        if self._rows is None:
            return np.ones(len(at.mean))
        return moved_amplitude(at.weights_of(self._rows), self._residuals, self._precision)[:, 0]


def unbiased_curve(
    prior: GPPrior,
    nodes: NodeEstimates,
    landmarks: Landmarks | None,
    near: Integers,
    other: Curve,
    calibration: Calibration,
    *,
    least_noise: float = 0.25,
    compared: int = 500,
) -> UnbiasedCurve | None:
    """The curve through the unbiased estimates at the nodes; None where it has no weight.

    near: (T, k), the nearest nodes of each. other: the first curve. least_noise: the noise is at least this share of
    the variances of stage 1. Residuals vanish where all values at a theta are equal, and rare events then fail without
    it (95% intervals cover 0.88 in place of 0.99). compared: the largest number of nodes at which curves are compared.
    """
    # Both are averages over neighbours: weights that depend on the own error would be a bias of the curve.
    noise, least = (np.mean(each[near], axis=1) for each in (nodes.spread2, least_noise * nodes.variance))
    noise = np.maximum(noise, least)
    process = replace(nodes, mean=nodes.mean - nodes.bias).process(prior, noise, landmarks)
    curve = UnbiasedCurve(process, noise, ThetaAmplitude(process, calibration.points))
    some = nodes.theta[evenly(len(nodes.mean), compared)]
    mean, own = curve.at(some)
    apart2 = float(np.mean((mean - other.process.mean(some)) ** 2))
    weight = max(0.0, 1.0 - float(np.mean(own)) / apart2) if apart2 > 0 else 0.0
    return replace(curve, weight=weight) if weight > 0 else None


def smoothed_noise(nodes: NodeEstimates, near: Integers) -> Array:
    """The larger of two sizes of the errors, averaged over neighbours: noise variances (T,).

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


def _squared(values: Array, joint: bool, factor: float) -> Array:
    """The squares (M,) of values (M,), or where they are `joint` the products (M, M) of all pairs, times a factor."""
    found = np.outer(values, values) if joint else values**2
    found *= factor
    return np.asarray(found)
