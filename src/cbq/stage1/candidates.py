"""The kernels that stage 1 tries: families that differ in coordinates and smoothness, at several lengthscales."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from cbq._arrays import Array, Booleans, Integers
from cbq.embeddings import NoEmbedding, embed
from cbq.kernels import RBF, Kernel, Matern, Stein, TensorProduct
from cbq.kernels.transforms import Log
from cbq.measures import Empirical, Exponential, Gaussian, LogNormal, Measure, Mixture, StudentT, Uniform, Unnormalised
from cbq.samples import Samples
from cbq.stage1.blocks import Coordinates

GRID = tuple(np.exp(np.arange(-3.0, 5.0)))  # lengthscales in units of the spread of the points
AROUND = (0.4, 1.0, 2.5, 6.0)  # factors of lengthscales that were fitted
CLOSED_FORM = (Gaussian, Uniform, Exponential)  # laws of independent blocks under which raw coordinates cost little


@dataclass(frozen=True, eq=False)
class Family:
    """Kernels that differ by a common factor of their free lengthscales.

    coordinates: what the kernel acts on. free: (P,), which of its lengthscales. factors: of those, to be tried.
    costly: its embedding is so slow that it must be worth it.
    """

    coordinates: Coordinates
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

    def only(self, which: Integers) -> Family:
        """The family with some of its factors."""
        return replace(self, factors=tuple(self.factors[i] for i in which))

    def reshaped(self, log_lengthscales: Array) -> Family:
        """The family around fitted lengthscales (P,)."""
        return replace(self, kernel=self.kernel.with_log_lengthscales(log_lengthscales), factors=AROUND)


def family(kernel: Kernel, coordinates: Coordinates, x: Array, ard: bool, *, costly: bool = False) -> Family:
    """The family of a kernel, of whose lengthscales those that are None are free; x (..., N, d) gives their unit."""
    guess, free = kernel.to_fit(x, ard)
    if guess.log_lengthscales.ndim > 1:
        raise ValueError(f"{kernel!r} has lengthscales for a batch, but an estimator takes one kernel for all thetas.")
    factors = (1.0,) if not np.any(free) else GRID[1::2] if costly else GRID
    return Family(coordinates, guess, free, factors, costly)


def automatic(samples: Samples) -> dict[Coordinates, list[Kernel]]:
    """The kernels that are tried where none was given, from rough to smooth, on the coordinates that fit the laws."""
    laws = _kinds(samples)
    matern = [Matern(1.5), Matern(2.5)]
    if any(isinstance(law, Unnormalised) for law in laws):
        return {"raw": [Stein(k) for k in (*matern, RBF())]}
    smooth: list[Kernel] = [RBF()]
    kernels = [*matern, *smooth] if samples.d == 1 else [*(TensorProduct(k) for k in matern), *smooth]
    if any(isinstance(law, Empirical) for law in laws):
        return {"raw": [*matern, *smooth]}
    if any(isinstance(law, Mixture) for law in laws) and samples.d > 1:
        return {"raw": smooth}
    found: dict[Coordinates, list[Kernel]] = {"gaussianised": kernels}
    if any(isinstance(law, Gaussian) and not law.is_diagonal for law in laws):
        found["raw"] = smooth  # the coordinates that f was written in, in which it may ignore some
    elif samples.d == 1 or all(isinstance(block, CLOSED_FORM) for law in laws for block in law.factors()):
        heavy = any(isinstance(law, StudentT) for law in laws)  # raw kernels say nothing about tails so far out
        if not heavy and not all(isinstance(law, Gaussian) for law in laws) and _has_embedding(laws):
            found["raw"] = kernels
        positive = _positive(laws) and all(np.all(samples.points(t) > 0) for t in range(samples.T))
        if samples.d == 1 and positive and not all(isinstance(law, LogNormal) for law in laws):
            logs = [Log().image(law) for law in laws]
            if _has_embedding(logs):
                found["log"] = kernels
    return found


def is_costly(coordinates: Coordinates, samples: Samples) -> bool:
    """Whether the embeddings on these coordinates take long: panel rules for each theta."""
    laws = _kinds(samples)
    if coordinates == "gaussianised" or any(isinstance(law, Unnormalised | Empirical | Mixture) for law in laws):
        return False
    return coordinates == "log" or not all(isinstance(block, CLOSED_FORM) for law in laws for block in law.factors())


def _kinds(samples: Samples) -> Sequence[Measure]:
    """The laws of x: one that holds them all if there is one."""
    whole = samples.batched_measure()
    return samples.measures if whole is None else (whole,)


def _positive(laws: Sequence[Measure]) -> bool:
    return all(bool(np.all(law.support[0] >= 0)) for law in laws)


def _has_embedding(laws: Sequence[Measure]) -> bool:
    """Whether every law has a rule for the kernels that are tried."""
    try:
        for law in laws:
            embed(Matern(1.5, 1.0), law)
    except NoEmbedding:
        return False
    return True


def refuse_unembedded(kernel: Kernel, samples: Samples) -> None:
    """Raise, in the words of an estimator, where a kernel has no embedding under one of the laws."""
    for law in _kinds(samples):
        try:
            embed(kernel, law)
        except NoEmbedding as error:
            raise NoEmbedding(
                f"kernel_x = {kernel!r} has no closed form under {law!r}: take kernel_x='auto', or "
                f"Warped({kernel!r}, 'gaussianise'), the kernel on coordinates in which the law is standard normal."
            ) from error
