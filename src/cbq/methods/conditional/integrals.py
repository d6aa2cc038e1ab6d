"""The integrals at the observed thetas, one by one, as stage 1 hands them on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from cbq._arrays import Array, Immutable, Integers
from cbq.fit.findings import Finding
from cbq.io import Boolean, Correlation, Instance, Many, Number, Numbers, Text, saved


@saved("KernelShare", coordinates=Text(), kernel=Text(), share=Number())
@dataclass(frozen=True)
class KernelShare:
    """A kernel that was used, the coordinates it acts on, and its share of the weight, averaged over thetas."""

    coordinates: str
    kernel: str
    share: float

    def __str__(self) -> str:
        on = "" if self.coordinates == "raw" else f" on {self.coordinates} x"
        return f"{self.kernel}{on} ({self.share:.0%})"


@saved(
    "StageOne",
    read=lambda stage1: stage1.columns,
    mean=Numbers("T C"),
    variance=Numbers("T C", least=0.0),
    bias=Numbers("T C"),
    spread2=Numbers("T C", least=0.0),
    amplitude=Numbers("T C", least=0.0),
    noise=Numbers("T C", least=0.0),
    point_weights=Numbers("n C"),
    counts=Numbers("T", int, least=1, total="n"),
    hyperparameters=Many(Many(Instance(KernelShare), least=1), "C"),
    findings=Many(Instance(Finding)),
    single=Boolean(only_if=("C", 1)),
    correlation=Correlation("C C"),
    stretch=Numbers("C", least=1.0),
    centred=Boolean(),
)
class StageOne(Immutable):
    """The integrals at the observed thetas, one by one. Immutable; the axis C is there if f has one.

    mean, std : (T,) or (T, C), the estimates of I(theta_t) and their standard deviations.
    bias : (T,) or (T, C), an estimate of the bias of `mean`, from leaving out one point at a time.
    spread : (T,) or (T, C), the standard error of a plain average of the leave-one-out residuals.
    amplitude : (T,) or (T, C), A: the prior covariance of f is A k.
    noise_std : (T,) or (T, C), the standard deviation of the noise of f; zero where f is not random.
    correlation : (C, C), or (1, 1), the correlation of the errors of outputs, from the leave-one-out residuals.
    stretch : (C,), or (1,), the factor of the standard deviations for an error that all thetas have in common: what
        lies beyond the outermost points, or the error of points that all thetas share.
    weights : the quadrature weights, (T, N) or (T, N, C), or a tuple of T arrays where the N_t differ: mean is their
        sum against f, unless values are centred.
    centred : whether stage 1 sees f less its average over the points of all thetas, as in the recipe of the paper: mean
        is then that average plus the sum of the weights against the rest.
    hyperparameters : for each output the kernels that were used, by their share of the weight.
    findings, warnings : what a user should know, and its texts.
    """

    def __init__(
        self,
        *,
        mean: Array,
        variance: Array,
        bias: Array,
        spread2: Array,
        amplitude: Array,
        noise: Array | None = None,
        point_weights: Array,
        counts: Integers,
        hyperparameters: Sequence[Sequence[KernelShare]],
        findings: Sequence[Finding],
        single: bool,
        correlation: Array | None = None,
        stretch: Array | None = None,
        centred: bool = False,
    ) -> None:
        self.columns = {
            "mean": mean,
            "variance": variance,
            "bias": bias,
            "spread2": spread2,
            "amplitude": amplitude,
            "noise": np.zeros_like(mean) if noise is None else noise,
        }
        self.point_weights, self.counts, self.single = point_weights, counts, bool(single)  # (n, C), (T,)
        self.centred = bool(centred)
        self.correlation = np.eye(mean.shape[1]) if correlation is None else correlation
        self.stretch = np.ones(mean.shape[1]) if stretch is None else stretch
        self.hyperparameters = tuple(tuple(choices) for choices in hyperparameters)
        self.findings = tuple(findings)

    def unbiased(self) -> tuple[Array, Array]:
        """Estimates (T, C) from leaving out one point at a time, unbiased where points are draws, and their variances.

        They share no bias over theta. Their standard deviations are at least half as large as the quadrature's: where
        points missed what matters, residuals are small.
        """
        columns = self.columns
        return columns["mean"] - columns["bias"], np.maximum(columns["spread2"], 0.25 * columns["variance"])

    def with_variance(self, variance: Array) -> StageOne:
        """The same with other variances (T, C)."""
        return self._replaced(columns={**self.columns, "variance": variance})

    def with_stretch(self, stretch: Array) -> StageOne:
        """The same with other factors (C,) of the error that thetas have in common."""
        return self._replaced(stretch=stretch)

    @property
    def warnings(self) -> tuple[str, ...]:
        return tuple(map(str, self.findings))

    @property
    def mean(self) -> Array:
        return self._squeezed(self.columns["mean"])

    @property
    def std(self) -> Array:
        return self._squeezed(np.sqrt(self.columns["variance"]))

    @property
    def bias(self) -> Array:
        return self._squeezed(self.columns["bias"])

    @property
    def spread(self) -> Array:
        return self._squeezed(np.sqrt(self.columns["spread2"]))

    @property
    def amplitude(self) -> Array:
        return self._squeezed(self.columns["amplitude"])

    @property
    def noise_std(self) -> Array:
        return self._squeezed(np.sqrt(self.columns["noise"]))

    @property
    def weights(self) -> Array | tuple[Array, ...]:
        flat = self._squeezed(self.point_weights)
        parts = tuple(np.split(flat, np.cumsum(self.counts)[:-1]))
        return parts if np.any(self.counts != self.counts[0]) else np.stack(parts)

    def __repr__(self) -> str:
        T, C = self.columns["mean"].shape
        return f"StageOne(T={T}, C={None if self.single else C})"

    def _squeezed(self, values: Array) -> Array:
        return values[:, 0] if self.single else values
