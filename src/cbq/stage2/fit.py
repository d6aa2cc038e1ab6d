"""Stage 2: the estimates at the nodes become a function of theta."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from cbq._arrays import Array, evenly
from cbq.kernels import RBF, Kernel, Matern
from cbq.stage2.coordinates import ThetaCoordinates
from cbq.stage2.hyperparameters import fit_priors
from cbq.stage2.surface import GPPrior
from cbq.stage2.trend import Trend

MOST_NODES = 500  # whose hyperparameters are fitted: their likelihood costs T^3, and more thetas hardly change it


@dataclass(frozen=True)
class StageTwoOptions:
    """How stage 2 is to be done; see `cbq.CBQ`."""

    kernel: Kernel | Literal["auto"] = "auto"
    degree: Trend = 0
    noise: float | Sequence[float] | None = None
    log_theta: bool | Literal["auto"] = "auto"


def fit_stage_two(theta: Array, y: Array, v: Array, typical: float, settings: StageTwoOptions) -> list[GPPrior]:
    """Fitted priors for y (T,) with variances v (T,) at theta (T, p), the likeliest first.

    typical: a variance of f, which stands in for that of I where there is one theta only.
    """
    if len(theta) == 1:
        return [_alone(theta, typical, settings)]
    some = evenly(len(theta), MOST_NODES)
    nodes = theta[some], y[some], v[some]
    priors = fit_priors(_chains(theta, settings), *nodes, degree=settings.degree, noise=settings.noise)
    return sorted(priors, key=lambda prior: -prior.evidence)


def _chains(theta: Array, settings: StageTwoOptions) -> list[list[tuple[ThetaCoordinates, Kernel]]]:
    """The coordinates and kernels to choose from, smooth kernels first.

    From the maximum of a smooth kernel that of a rougher one is uphill, while the way back is ill-conditioned.
    """
    if isinstance(settings.kernel, Kernel):
        return [[(ThetaCoordinates.identity(theta.shape[1]), settings.kernel)]]
    positive = np.all(theta > 0, axis=0)
    choices = {"auto": (False, True), True: (True,), False: (False,)}[settings.log_theta]
    found = [positive & logs for logs in choices]
    if len(found) == 2 and not np.any(positive):
        found = found[:1]
    coordinates = [ThetaCoordinates.standard(theta, logs) for logs in found]
    return [[(z, kernel) for kernel in (RBF(), Matern(2.5), Matern(1.5))] for z in coordinates]


def _alone(theta: Array, typical: float, settings: StageTwoOptions) -> GPPrior:
    """The prior for a single theta (1, p): I elsewhere has the variance `typical` and nothing to do with it."""
    kernel: Kernel = RBF(1e-6 * np.maximum(np.abs(theta[0]), 1e-6))
    if isinstance(settings.kernel, Kernel) and not np.any(settings.kernel.to_fit(theta, ard=True)[1]):
        kernel = settings.kernel  # it says how much
    noise = float(np.min(settings.noise)) if settings.noise is not None else 0.0
    degree = None if settings.degree is None else 0
    return GPPrior(ThetaCoordinates.identity(theta.shape[1]), kernel, max(typical, np.finfo(float).tiny), noise, degree)
