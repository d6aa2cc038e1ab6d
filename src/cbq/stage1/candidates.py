"""The kernels that stage 1 tries: families that differ in coordinates and smoothness, at several lengthscales."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from cbq._arrays import Array, Booleans, Integers
from cbq.embeddings import NoEmbedding, embed
from cbq.kernels import RBF, Kernel, Matern, Stein, TensorProduct
from cbq.kernels.warped import Log
from cbq.measures import Empirical, Exponential, Gaussian, LogNormal, Measure, Mixture, StudentT, Uniform, Unnormalised
from cbq.samples import Samples
from cbq.stage1.blocks import XCoordinates

GRID = tuple(np.exp(np.arange(-3.0, 5.0)))  # lengthscales in units of the spread of the points
AROUND = (0.4, 1.0, 2.5, 6.0)  # factors of lengthscales that were fitted
CLOSED_FORM = (Gaussian, Uniform, Exponential)  # measures of independent blocks under which raw coordinates cost little


@dataclass(frozen=True, eq=False)
class KernelFamily:
    """Kernels that differ by a common factor of their free lengthscales.

    coordinates: what the kernel acts on. free: (P,), which of its lengthscales. factors: of those, to be tried.
    costly: its embedding is so slow that it must be worth it.
    """

    coordinates: XCoordinates
    kernel: Kernel
    free: Booleans
    factors: tuple[float, ...]
    costly: bool = False

    def all(self) -> Kernel:
        """The kernels, one for each of K factors: their lengthscales have the leading axes (K, 1)."""
        if not np.any(self.free):
            return self.kernel
        factors = np.log(self.factors)[:, None, None]
        return self.kernel.with_log_lengthscales(self.kernel.log_lengthscales + factors * self.free)

    def each(self) -> list[Kernel]:
        """The kernels, one by one."""
        if not np.any(self.free):
            return [self.kernel]
        ells = self.kernel.log_lengthscales
        return [self.kernel.with_log_lengthscales(ells + np.log(f) * self.free) for f in self.factors]

    def only(self, which: Integers) -> KernelFamily:
        """The family with some of its factors."""
        return replace(self, factors=tuple(self.factors[i] for i in which))

    def reshaped(self, log_lengthscales: Array) -> KernelFamily:
        """The family around fitted lengthscales (P,)."""
        return replace(self, kernel=self.kernel.with_log_lengthscales(log_lengthscales), factors=AROUND)


def family(kernel: Kernel, coordinates: XCoordinates, x: Array, ard: bool, *, costly: bool = False) -> KernelFamily:
    """The family of a kernel, of whose lengthscales those that are None are free; x (..., N, d) gives their unit."""
    guess, free = kernel.to_fit(x, ard)
    if guess.log_lengthscales.ndim > 1:
        raise ValueError(f"{kernel!r} has lengthscales for a batch, but an estimator takes one kernel for all thetas.")
    factors = (1.0,) if not np.any(free) else GRID[1::2] if costly else GRID
    return KernelFamily(coordinates, guess, free, factors, costly)


def automatic(samples: Samples) -> dict[XCoordinates, list[Kernel]]:
    """The kernels that are tried where none was given, from rough to smooth, on the coordinates that fit the measures."""
    measures = _kinds(samples)
    matern = [Matern(1.5), Matern(2.5)]
    if any(isinstance(measure, Unnormalised) for measure in measures):
        return {"raw": [Stein(k) for k in (*matern, RBF())]}
    smooth: list[Kernel] = [RBF()]
    kernels = [*matern, *smooth] if samples.d == 1 else [*(TensorProduct(k) for k in matern), *smooth]
    if any(isinstance(measure, Empirical) for measure in measures):
        return {"raw": [*matern, *smooth]}
    if any(isinstance(measure, Mixture) for measure in measures) and samples.d > 1:
        return {"raw": smooth}
    found: dict[XCoordinates, list[Kernel]] = {"gaussianised": kernels}
    if any(isinstance(measure, Gaussian) and not measure.is_diagonal for measure in measures):
        found["raw"] = smooth  # the coordinates that f was written in, in which it may ignore some
    elif samples.d == 1 or all(isinstance(block, CLOSED_FORM) for measure in measures for block in measure.factors()):
        heavy = any(
            isinstance(measure, StudentT) for measure in measures
        )  # raw kernels say nothing about tails so far out
        if not heavy and not all(isinstance(measure, Gaussian) for measure in measures) and _has_embedding(measures):
            found["raw"] = kernels
        positive = _positive(measures) and all(np.all(samples.points(t) > 0) for t in range(samples.T))
        if samples.d == 1 and positive and not all(isinstance(measure, LogNormal) for measure in measures):
            logs = [Log().image(measure) for measure in measures]
            if _has_embedding(logs):
                found["log"] = kernels
    return found


def is_costly(coordinates: XCoordinates, samples: Samples) -> bool:
    """Whether the embeddings on these coordinates take long: panel rules for each theta."""
    measures = _kinds(samples)
    if coordinates == "gaussianised" or any(
        isinstance(measure, Unnormalised | Empirical | Mixture) for measure in measures
    ):
        return False
    return coordinates == "log" or not all(
        isinstance(block, CLOSED_FORM) for measure in measures for block in measure.factors()
    )


def _kinds(samples: Samples) -> Sequence[Measure]:
    """The measures of x: one that holds them all if there is one."""
    whole = samples.batched_measure()
    return samples.measures if whole is None else (whole,)


def _positive(measures: Sequence[Measure]) -> bool:
    return all(bool(np.all(measure.support[0] >= 0)) for measure in measures)


def _has_embedding(measures: Sequence[Measure]) -> bool:
    """Whether every measure has a rule for the kernels that are tried."""
    try:
        for measure in measures:
            embed(Matern(1.5, 1.0), measure)
    except NoEmbedding:
        return False
    return True


def refuse_unembedded(kernel: Kernel, samples: Samples) -> None:
    """Raise, in the words of an estimator, where a kernel has no embedding under one of the measures."""
    for measure in _kinds(samples):
        try:
            embed(kernel, measure)
        except NoEmbedding as error:
            raise NoEmbedding(
                f"kernel_x = {kernel!r} has no closed form under {measure!r}: take kernel_x='auto', or "
                f"Warped({kernel!r}, 'gaussianise'), the kernel on coordinates in which the measure is standard normal."
            ) from error
