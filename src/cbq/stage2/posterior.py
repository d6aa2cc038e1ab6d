"""The distribution of I over theta given stage 1: the plain posterior, or one whose intervals hold what they promise.

The plain posterior takes the errors of stage 1 as independent, their variances as known and its own hyperparameters as
true. None of this holds, and its intervals are too short. The calibrated distribution repairs each point with what the data say:
leave-one-out residuals over thetas give the factor tau^2 of all variances; the biases of stage 1, estimated by leaving
out points, have a common part that is subtracted (iid points) or added to the error (other designs); and the noise is
read in two ways, as stage 1 says and smoothed over neighbouring thetas, the measure being the mixture of both.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from cbq._arrays import Array, Integers
from cbq.fit.predictive import PredictiveDistribution
from cbq.stage2.surface import GPPrior, HeteroscedasticGP

NEGLIGIBLE = 1e-3  # the weight of a fitted kernel that is not worth its work
WORTH = 4.0  # observations that the prior tau^2 = 1 is worth
EXTRA_DF = 3.0  # of the predictive distribution, besides T
LEAST_SE = 0.02  # of the common bias, in units of the errors


@dataclass(frozen=True, eq=False)
class NodeEstimates:
    """What stage 1 says about one output: estimates, variances, biases and squared spreads, each (T,)."""

    theta: Array
    mean: Array
    variance: Array
    bias: Array
    spread2: Array


@dataclass(frozen=True, eq=False)
class NoiseReading:
    """One reading of the noise at the nodes.

    noise: (T,), its variances. tau2: the factor of all variances. shift: the common bias, in units of the standard
    deviations, that is subtracted. shift2: the variance of what is left of it, in the same units squared.
    """

    noise: Array
    tau2: float
    shift: float
    shift2: float


class Posterior:
    """The distribution of I as a function of theta, of one output.

    iid: whether the points of each theta are independent draws of its measure, so that its bias is estimated without one.
    shared: whether thetas use the same points, so that the error of one is that of its neighbours too.
    """

    def __init__(
        self, priors: Sequence[GPPrior], nodes: NodeEstimates, *, iid: bool, calibrate: bool, shared: bool = False
    ) -> None:
        evidence = np.array([prior.evidence for prior in priors])
        weights = np.exp(evidence - evidence.max())
        kept = weights > NEGLIGIBLE
        self.weights = weights[kept] / np.sum(weights[kept])
        chosen = [prior for prior, keep in zip(priors, kept, strict=True) if keep]
        self.surfaces = [HeteroscedasticGP(prior, nodes.theta, nodes.mean, nodes.variance) for prior in chosen]
        self.nodes = nodes
        self.readings = readings(self.surfaces[0], nodes, iid=iid, shared=shared) if calibrate else ()

    def predictive(self, theta: Array, *, joint: bool = False) -> PredictiveDistribution:
        """The distribution of I at theta (M, p)."""
        best, *others = self.surfaces
        at = best.predict(theta, joint=joint)
        if not self.readings:
            noise = self.nodes.variance + best.prior.noise
            return PredictiveDistribution(at.mean[None], _added(at.variance, at.weights, noise)[None], np.inf)
        between = np.zeros_like(at.variance)
        for weight, other in zip(self.weights[1:], others, strict=True):
            if not other.prior.coordinates.covers(theta):
                continue
            apart = other.mean(theta) - at.mean
            between += weight * (np.outer(apart, apart) if joint else apart**2)
        locations, scales2 = [], []
        for r in self.readings:
            drift = at.weights @ np.sqrt(r.noise)
            locations.append(at.mean - r.shift * drift)
            spread = _added(at.variance, at.weights, r.noise + best.prior.noise)
            common = np.outer(drift, drift) if joint else drift**2
            scales2.append(r.tau2 * spread + r.shift2 * common + between)
        return PredictiveDistribution(np.stack(locations), np.stack(scales2), len(self.nodes.mean) + EXTRA_DF)


def readings(surface: HeteroscedasticGP, nodes: NodeEstimates, *, iid: bool, shared: bool) -> tuple[NoiseReading, ...]:
    """The two readings of the noise: of stage 1, and the larger of its two sizes averaged over neighbours.

    Where thetas share points, the second takes their errors for the same one.
    """
    larger = np.maximum(nodes.variance, nodes.spread2)
    smoothed = np.mean(larger[neighbours(surface.scaled(nodes.theta))], axis=1)
    return (
        _reading(surface, nodes, nodes.variance, iid=iid and not shared),
        _reading(surface, nodes, smoothed, iid=iid and not shared, common=float(shared)),
    )


def neighbours(z: Array) -> Integers:
    """The nearest max(3, sqrt T) nodes of each node z (T, p), itself included: (T, k)."""
    T = len(z)
    k = min(T, max(3, int(np.ceil(np.sqrt(T)))))
    distance2 = np.sum((z[:, None, :] - z[None, :, :]) ** 2, axis=-1)
    return np.argsort(distance2, axis=1, kind="stable")[:, :k]


def _reading(
    surface: HeteroscedasticGP, nodes: NodeEstimates, noise: Array, *, iid: bool, common: float = 0.0
) -> NoiseReading:
    """A reading of the noise (T,), with what it makes of the residuals over thetas and of the biases.

    common: the variance, in units of the noise, of an error that all thetas have in common besides.
    """
    T = len(noise)
    if T == 1:
        return NoiseReading(noise, 1.0, 0.0, 0.0)
    Qy, diagonal = surface.residual_precision(noise)
    spare = max(T - surface.prior.n_fitted, 1)
    tau2 = (WORTH + T / spare * float(np.sum(Qy**2 / diagonal))) / (WORTH + T)
    size = np.sqrt(noise)
    ratio = np.divide(nodes.bias, size, out=np.zeros(T), where=size > 0)
    bias = float(np.mean(ratio))
    se = max(float(np.std(ratio, ddof=1)) / np.sqrt(T), LEAST_SE)
    share = max(0.0, 1.0 - (se / bias) ** 2) if bias else 0.0  # of it that is no chance
    if not iid:
        return NoiseReading(noise, tau2, 0.0, share * bias**2 + common)
    # What may be subtracted is what the average of ratios and the ratio of averages agree on: where they do not, the
    # bias is no fixed multiple of the error, and the rest of it counts as error.
    overall = float(np.sum(nodes.bias)) / max(float(np.sum(size)), np.finfo(float).tiny)
    agreed = np.sign(bias) * min(abs(bias), max(0.0, overall * np.sign(bias)))
    return NoiseReading(noise, tau2, share * agreed, share * (se**2 + (bias - agreed) ** 2))


def _added(variance: Array, weights: Array, noise: Array) -> Array:
    """`variance`, (M,) or (M, M), with what the noise (T,) at the nodes adds through the weights (M, T)."""
    if variance.ndim == 1:
        return variance + weights**2 @ noise
    return variance + (weights * noise) @ weights.T
