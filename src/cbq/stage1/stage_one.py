"""The result of stage 1: what is known about I at each observed theta, before thetas learn from each other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from cbq._arrays import Array, Integers
from cbq._immutable import Immutable
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
    point_weights=Numbers("n C"),
    counts=Numbers("T", int, least=1, total="n"),
    hyperparameters=Many(Many(Instance(KernelShare), least=1), "C"),
    warnings=Many(Text()),
    single=Boolean(only_if=("C", 1)),
    correlation=Correlation("C C"),
)
class StageOne(Immutable):
    """The integrals at the observed thetas, one by one. Immutable; the axis C is there if f has one.

    mean, std : (T,) or (T, C), the estimates of I(theta_t) and their standard deviations.
    bias : (T,) or (T, C), an estimate of the bias of `mean`, from leaving out one point at a time.
    spread : (T,) or (T, C), the standard error of a plain average of the leave-one-out residuals.
    amplitude : (T,) or (T, C), the prior variance of f at unit kernel.
    correlation : (C, C), or (1, 1), how the errors of outputs go together, from the leave-one-out residuals.
    weights : the quadrature weights, (T, N) or (T, N, C), or a tuple of T arrays where the N_t differ: mean is their
        sum against f.
    hyperparameters : for each output the kernels that were used, by their share of the weight.
    warnings : what a user should know, in plain words.
    """

    def __init__(
        self,
        *,
        mean: Array,
        variance: Array,
        bias: Array,
        spread2: Array,
        amplitude: Array,
        point_weights: Array,
        counts: Integers,
        hyperparameters: Sequence[Sequence[KernelShare]],
        warnings: Sequence[str],
        single: bool,
        correlation: Array | None = None,
    ) -> None:
        self.columns = {"mean": mean, "variance": variance, "bias": bias, "spread2": spread2, "amplitude": amplitude}
        self.point_weights, self.counts, self.single = point_weights, counts, bool(single)  # (n, C), (T,)
        self.correlation = np.eye(mean.shape[1]) if correlation is None else correlation
        self.hyperparameters = tuple(tuple(choices) for choices in hyperparameters)
        self.warnings = tuple(warnings)

    def with_variance(self, variance: Array) -> StageOne:
        """The same with other variances (T, C)."""
        new = object.__new__(StageOne)
        new.__setstate__({**self.__dict__, "columns": {**self.columns, "variance": variance}})
        return new

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
    def weights(self) -> Array | tuple[Array, ...]:
        flat = self._squeezed(self.point_weights)
        parts = tuple(np.split(flat, np.cumsum(self.counts)[:-1]))
        return parts if np.any(self.counts != self.counts[0]) else np.stack(parts)

    def __repr__(self) -> str:
        T, C = self.columns["mean"].shape
        return f"StageOne(T={T}, C={None if self.single else C})"

    def _squeezed(self, values: Array) -> Array:
        return values[:, 0] if self.single else values
