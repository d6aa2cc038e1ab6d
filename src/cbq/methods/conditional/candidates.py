"""The kernels that stage 1 tries: families that differ in coordinates and smoothness, at several lengthscales."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from cbq._arrays import Array
from cbq.embeddings import NoEmbedding, embed
from cbq.gp.families import KernelFamily
from cbq.kernels import RBF, Kernel, Matern, Stein, TensorProduct
from cbq.kernels.warped import Log
from cbq.measures import (
    Discrete,
    Empirical,
    Exponential,
    Gaussian,
    LogNormal,
    Measure,
    Mixture,
    StudentT,
    Uniform,
    Unnormalised,
)
from cbq.methods.conditional.blocks import XCoordinates
from cbq.samples import Samples

CLOSED_FORM = (
    Gaussian,
    Uniform,
    Exponential,
    Discrete,
)  # measures of independent coordinates with cheap raw embeddings


@dataclass(frozen=True, eq=False)
class Candidate(KernelFamily):
    """Kernels on some coordinates of x that differ by a common factor of their free lengthscales.

    costly: their embedding is so slow that they must be worth it.
    """

    coordinates: XCoordinates = "raw"
    costly: bool = False


def candidate(kernel: Kernel, coordinates: XCoordinates, x: Array, ard: bool, *, costly: bool = False) -> Candidate:
    """The candidates around a kernel, whose lengthscales that are None are free; x (..., N, d) gives their unit."""
    family = KernelFamily.of(kernel, x, ard)
    factors = family.factors[1::2] if costly and family.has_free else family.factors
    return Candidate(family.kernel, family.free, factors, coordinates=coordinates, costly=costly)


def automatic_kernels(samples: Samples) -> dict[XCoordinates, list[Kernel]]:
    """The kernels to try where none is given, from rough to smooth, on the coordinates that suit the measures."""
    measures = _distinct(samples)
    matern = [Matern(1.5), Matern(2.5)]
    if _any(measures, Unnormalised):
        return {"raw": [Stein(k) for k in (*matern, RBF())]}
    smooth: list[Kernel] = [RBF()]
    kernels = [*matern, *smooth] if samples.d == 1 else [*(TensorProduct(k) for k in matern), *smooth]
    if _any(measures, Empirical) or (samples.d == 1 and any(measure.has_atoms for measure in measures)):
        return {"raw": [*matern, *smooth]}
    if _any(measures, Mixture) and samples.d > 1:
        return {"raw": smooth}
    if any(measure.has_atoms for measure in measures):  # then normal scores are not normal
        return {"raw": kernels}
    found: dict[XCoordinates, list[Kernel]] = {"gaussianised": kernels}
    if any(isinstance(measure, Gaussian) and not measure.is_diagonal for measure in measures):
        found["raw"] = smooth  # the coordinates that f was written in, in which it may ignore some
    elif samples.d == 1 or _have_closed_forms(measures):
        heavy = _any(measures, StudentT)  # raw kernels say nothing about tails so far out
        if not heavy and not _all(measures, Gaussian) and _have_embeddings(measures):
            found["raw"] = kernels
        positive = _positive(measures) and all(np.all(samples.points(t) > 0) for t in range(samples.T))
        on_logs = samples.d == 1 and positive and not _all(measures, LogNormal)
        if on_logs and _have_embeddings([Log().image(measure) for measure in measures]):
            found["log"] = kernels
    return found


def is_costly(coordinates: XCoordinates, samples: Samples) -> bool:
    """Whether the embeddings on these coordinates take long: panel rules for each theta."""
    measures = _distinct(samples)
    if coordinates == "gaussianised" or _any(measures, Unnormalised | Empirical | Mixture):
        return False
    return coordinates == "log" or not _have_closed_forms(measures)


def refuse_unembedded(kernel: Kernel, samples: Samples) -> None:
    """Raise where a kernel that the user gave has no embedding under one of the measures."""
    for measure in _distinct(samples):
        try:
            embed(kernel, measure)
        except NoEmbedding as error:
            raise NoEmbedding(
                f"kernel_x = {kernel!r} has no closed form under {measure!r}: pass kernel_x='auto', or "
                f"Warped({kernel!r}, 'gaussianise'), the kernel on coordinates in which the measure is standard normal."
            ) from error


def _distinct(samples: Samples) -> Sequence[Measure]:
    """The measures of x: a batched one that holds them all, if there is one."""
    whole = samples.batched_measure()
    return samples.measures if whole is None else (whole,)


def _any(measures: Sequence[Measure], kind: type[Measure] | object) -> bool:
    return any(isinstance(measure, kind) for measure in measures)  # type: ignore[arg-type]


def _all(measures: Sequence[Measure], kind: type[Measure]) -> bool:
    return all(isinstance(measure, kind) for measure in measures)


def _have_closed_forms(measures: Sequence[Measure]) -> bool:
    return all(isinstance(block, CLOSED_FORM) for measure in measures for block in measure.factors())


def _positive(measures: Sequence[Measure]) -> bool:
    return all(bool(np.all(measure.support[0] >= 0)) for measure in measures)


def _have_embeddings(measures: Sequence[Measure]) -> bool:
    """Whether every measure has an embedding for the kernels that are tried."""
    try:
        for measure in measures:
            embed(Matern(1.5, 1.0), measure)
    except NoEmbedding:
        return False
    return True
