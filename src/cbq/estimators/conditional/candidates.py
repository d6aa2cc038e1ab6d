"""The kernels of stage 1: families that differ in coordinates and smoothness, and how they are screened and weighed.

Inside a family the weights come from the evidence, between families from leave-one-out errors. The evidence is the
right judge of a lengthscale, but not of smoothness: where f is analytic at most points and has a kink at a few, it
prefers the kernel that is right about the many, though the few decide the error of the integral. The squared
leave-one-out error, pooled over all thetas, sees them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import compress

import numpy as np

from cbq.common import Array, Booleans, check_fields, evenly, is_number, is_whole
from cbq.embeddings import NoEmbedding, embed
from cbq.estimators.conditional.stage_one_data import BlockedSamples, XCoordinates
from cbq.gp import Evidence, KernelEvidence, KernelFamily, evidence_only, explain
from cbq.kernels import RBF, Kernel, Matern, Stein, TensorProduct, standard_kernels
from cbq.kernels.warped import Log
from cbq.linalg import Jitter
from cbq.measures import (
    Empirical,
    Gaussian,
    Measure,
    Mixture,
    Unnormalised,
)
from cbq.samples import Samples, spread


@dataclass(frozen=True)
class StageOneSelection:
    """How stage 1 chooses and weighs kernels.

    power : a family has the weight mse^-power, mse its mean squared leave-one-out residual. With 1 bad families keep
        too much weight (RMSE 1.05 times as large); a larger power trusts small differences.
    few : a theta with fewer points has no amplitude of its own and no say about lengthscales: it takes both from all
        thetas.
    thetas, points, numbers : kernels are screened on `thetas` thetas or more, on up to `points` points of each, and on
        as many thetas as have `numbers` numbers in their Gram matrices: screening then costs about as much at any N.
    negligible : the average weight at the thetas of the screening from which a kernel is tried at all thetas.
    most, least : at most so many kernels are tried at all thetas, fewer as the cost of each grows with N^2.
    costly_share : a family with slow embeddings must have less than this share of the squared error of any other.
    noise_evidence : the log-likelihood by which a smooth f with noise must be likelier than any f without, for a
        warning that f is random. Five or six is not chance.

    Examples
    --------
    >>> samples = cbq.problems.get("butterfly").collect(T=12, N=20, rng=0)
    >>> fit = cbq.CBQ(selection=cbq.StageOneSelection(most=6)).fit(samples)
    >>> len(fit.stage1.hyperparameters[0]) <= 6
    True
    """

    power: float = 2.0
    few: int = 4
    thetas: int = 10
    points: int = 100
    numbers: int = 25_000
    negligible: float = 0.01
    most: int = 24
    least: int = 2
    costly_share: float = 0.5
    noise_evidence: float = 6.0

    def __post_init__(self) -> None:
        whole = ("few", "thetas", "points", "numbers", "most", "least")
        check_fields(self, whole, "a whole number, zero or more", is_whole)
        numbers = ("power", "negligible", "costly_share", "noise_evidence")
        check_fields(self, numbers, "a number, zero or more", lambda value: is_number(value, 0.0))


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


def automatic_kernels(samples: Samples, measures: Sequence[Measure]) -> dict[XCoordinates, list[Kernel]]:
    """The kernels to try where none is given, from rough to smooth, on the coordinates that suit the measures."""
    *rough, smoothest = radial = standard_kernels()
    if _any(measures, Unnormalised):
        return {"raw": [Stein(kernel) for kernel in radial]}
    kernels: list[Kernel] = [*(rough if samples.d == 1 else map(TensorProduct, rough)), smoothest]
    if _any(measures, Empirical) or (samples.d == 1 and any(measure.has_atoms for measure in measures)):
        return {"raw": [*radial]}
    if _any(measures, Mixture) and samples.d > 1:
        return {"raw": [smoothest]}
    if any(measure.has_atoms for measure in measures):  # then normal scores are not normal
        return {"raw": kernels}
    found: dict[XCoordinates, list[Kernel]] = {"gaussianised": kernels}
    # f may ignore some of the coordinates that it was written in, and be smooth in them. For independent Gaussian
    # coordinates both are the same, and raw kernels do not reach far into a heavy tail.
    same = all(isinstance(measure, Gaussian) and measure.is_diagonal for measure in measures)
    if not same and not any(measure.has_heavy_tails for measure in measures):
        raw = [kernel for kernel in kernels if _is_embedded(kernel, measures, fast=samples.d > 1)]
        if raw:
            found["raw"] = raw
    if samples.d == 1 and _positive(measures) and all(np.all(samples.points(t) > 0) for t in range(samples.T)):
        images = [Log().image(measure) for measure in measures]
        same = all(isinstance(image, Gaussian) for image in images)
        if not same and all(_is_embedded(kernel, images) for kernel in kernels):
            found["log"] = kernels
    return found


def is_costly(kernel: Kernel, coordinates: XCoordinates, measures: Sequence[Measure]) -> bool:
    """Whether the embeddings of a kernel on these coordinates take long: panel rules for each theta."""
    # Draws and components are summed over, on whatever coordinates.
    if coordinates == "gaussianised" or _any(measures, Empirical | Mixture):
        return False
    on = [Log().image(measure) for measure in measures] if coordinates == "log" else measures
    return not _is_embedded(kernel, on, fast=True)


def refuse_unembedded(kernel: Kernel, samples: Samples) -> None:
    """Raise where a kernel that the user gave has no embedding under one of the measures."""
    for measure in distinct_measures(samples):
        try:
            embed(kernel, measure)
        except NoEmbedding as error:
            raise NoEmbedding(
                f"kernel_x = {kernel!r} has no closed form under {measure!r}: pass kernel_x='auto', or "
                f"Warped({kernel!r}, 'gaussianise'), the kernel on coordinates in which the measure is standard normal."
            ) from error


def distinct_measures(samples: Samples) -> Sequence[Measure]:
    """The measures of x: a batched one that holds them all, if there is one."""
    whole = samples.batched_measure()
    return samples.measures if whole is None else (whole,)


def _any(measures: Sequence[Measure], kind: type[Measure] | object) -> bool:
    return any(isinstance(measure, kind) for measure in measures)  # type: ignore[arg-type]


def _positive(measures: Sequence[Measure]) -> bool:
    return all(bool(np.all(measure.support[0] >= 0)) for measure in measures)


def _is_embedded(kernel: Kernel, measures: Sequence[Measure], *, fast: bool = False) -> bool:
    """Whether the kernel has an embedding under every measure, and `fast` ones if that is asked for."""
    guess, _ = kernel.to_fit(np.zeros((1, measures[0].dim)), ard=False)
    try:
        embeddings = [embed(guess, measure) for measure in measures]
    except NoEmbedding:
        return False
    return not fast or all(embedding.is_fast for embedding in embeddings)


@dataclass(frozen=True, eq=False)
class KernelWeights:
    """The weights of K kernels, C outputs.

    kernel: (K, T, C), of each kernel at each theta. without: (K, n, C), the same with point i left out.
    unexplained: (F, C), the mean squared leave-one-out residuals of the families; 1 for an output that varies at no
    theta, of which they are rounding errors. residuals: (n, C), the leave-one-out
    residuals of the average.
    """

    kernel: Array
    without: Array
    unexplained: Array
    residuals: Array


def weigh(results: Sequence[KernelEvidence], samples: Samples, selection: StageOneSelection) -> KernelWeights:
    """The weights of kernels from their evidence at all T thetas, whose n points are in one row.

    results: of F families, arrays (K, T, C) and (K, n, C) each.
    """
    within, without = zip(*(_within(r, samples, selection.few) for r in results), strict=True)
    pooled = np.stack([np.sum(w * r.residuals, axis=0) for w, r in zip(without, results, strict=True)])
    mse = np.maximum(np.mean((pooled / spread(samples)[samples.owners]) ** 2, axis=1), np.finfo(float).eps ** 2)
    unexplained = mse ** np.max(results[0].varies, axis=(0, 1))
    family = inverse_power(unexplained, selection.power)
    return KernelWeights(
        kernel=np.concatenate([weight * w for weight, w in zip(family, within, strict=True)]),
        without=np.concatenate([weight * w for weight, w in zip(family, without, strict=True)]),
        unexplained=unexplained,
        residuals=np.sum(family[:, None] * pooled, axis=0),
    )


def _within(result: KernelEvidence, samples: Samples, few: int) -> tuple[Array, Array]:
    """The weights of the kernels of a family: (K, T, C), and with each point left out (K, n, C)."""
    many = samples.counts >= few
    prior = _common(result.evidence[:, many], result.varies[0, many])
    return _softmax(result.evidence + prior), _softmax(result.evidence_without + prior)


def inverse_power(unexplained: Array, power: float) -> Array:
    """Weights of families (F, C) that fall with their errors; equal where all errors are zero."""
    largest = np.max(unexplained, axis=0)
    errors = np.where(largest > 0, np.maximum(unexplained, 1e-30 * largest), 1.0)
    weights = (np.min(errors, axis=0) / errors) ** power
    return np.asarray(weights / np.sum(weights, axis=0))


def _softmax(a: Array) -> Array:
    """exp(a) over its sum along the first axis."""
    e = np.exp(a - np.max(a, axis=0))
    return np.asarray(e / np.sum(e, axis=0))


def _common(evidence: Array, varies: Array) -> Array:
    """The logarithm of a prior for K kernels (K, 1, C): their average weight at thetas that have many points.

    A theta with few points, or one at which f does not vary, learns from the others which kernels are likely. evidence
    (K, T, C) and varies (T, C), whether f does, are those of the thetas that have many points.
    """
    K, T, C = evidence.shape
    total = np.sum(varies * _softmax(evidence), axis=1, keepdims=True) if T else np.zeros((K, 1, C))
    return np.asarray(np.log((total + 1.0 / K) / (np.sum(varies, axis=0) + 1.0)))


def screening_subset(samples: Samples, selection: StageOneSelection) -> Samples:
    """Some thetas, with equally many of their points: enough to choose kernels by."""
    n = int(min(selection.points, np.median(samples.counts)))
    enough = np.flatnonzero(samples.counts >= n)
    some = evenly(len(enough), max(selection.thetas, selection.numbers // n**2))
    return samples.select(enough[some]).thinned(n)


def screen(
    candidates: Sequence[Candidate],
    subset: BlockedSamples,
    n: float,
    tau: float,
    jitter: Jitter,
    selection: StageOneSelection,
) -> tuple[list[Candidate], float]:
    """The families, and the factors of each, that are worth trying at all thetas, which have about n points each.

    The best of the first family, the roughest, is always among them: it serves where a smooth kernel fails at thetas
    outside the subset. With them comes the evidence of the likeliest kernel, one for all thetas of the subset.
    """
    results = [
        subset.evaluate(c.coordinates, partial(explain, c.batched(), tau=tau, jitter=jitter, noise=c.noise))
        for c in candidates
    ]
    evidence = max(float(np.max(total_evidence(result))) for result in results)
    weights = weigh(results, subset.samples, selection)
    worth = _worth_their_cost(candidates, weights, selection.costly_share)
    if not np.all(worth):
        candidates, results = list(compress(candidates, worth)), list(compress(results, worth))
        weights = weigh(results, subset.samples, selection)
    score = np.max(np.mean(weights.kernel, axis=1), axis=1)  # the mean over thetas, the largest over outputs
    score[np.argmax(score[: len(candidates[0].factors)])] = np.inf
    most = int(np.clip(selection.most * (selection.points / n) ** 2, selection.least, selection.most))
    kept = (score > selection.negligible) & (np.argsort(np.argsort(-score, kind="stable")) < most)
    each = np.split(kept, np.cumsum([len(c.factors) for c in candidates])[:-1])
    kept_families = zip(candidates, each, strict=True)
    return [c.subset(np.flatnonzero(mine)) for c, mine in kept_families if np.any(mine)], evidence


def total_evidence(result: Evidence) -> Array:
    """The evidence of each kernel (K,), if it is that of all thetas and outputs."""
    return np.asarray(np.sum(result.evidence, axis=(1, 2)))


def _worth_their_cost(candidates: Sequence[Candidate], weights: KernelWeights, share: float) -> Booleans:
    """Whether each family is worth its cost, for one of the outputs at least: (F,)."""
    costly = np.array([c.costly for c in candidates])
    if np.all(costly):
        return np.ones(len(candidates), dtype=bool)
    better = weights.unexplained < share * np.min(weights.unexplained[~costly], axis=0)
    return np.asarray(~costly | np.any(better, axis=1))


def asks_for_noise(
    candidates: Sequence[Candidate],
    subset: BlockedSamples,
    evidence: float,
    tau: float,
    jitter: Jitter,
    selection: StageOneSelection,
) -> bool:
    """Whether a smooth f with noise explains the values of f better than any f without, although f is not stochastic.

    candidates: the families of kernels that were tried. evidence: the largest of theirs. Rough families are tried, too:
    kinks and jumps are no noise. In several coordinates these include radial kernels, which stage 1 does not integrate:
    kinks mostly lie across the coordinates, where products of kernels of each coordinate fit badly.
    """
    cheap = [c for c in candidates if not c.costly and len(c.factors) > 1]
    smoothest = max(cheap, key=lambda c: c.kernel.smoothness, default=None)
    if smoothest is None or _is_staircase(subset.samples):
        return False

    def best(family: Candidate) -> float:
        call = partial(evidence_only, family.batched(), tau=tau, jitter=jitter, noise=family.noise)
        return float(np.max(total_evidence(subset.evaluate(family.coordinates, call))))

    with_noise = max(best(_noisy(family)) for family in _smooth(smoothest, subset))
    if with_noise <= evidence + selection.noise_evidence:
        return False
    if isinstance(smoothest.kernel, Stein):  # there is none of Matern 1/2, which has no derivatives
        return True
    return all(with_noise > best(family) + selection.noise_evidence for family in _rough(smoothest, subset))


def _noisy(family: Candidate) -> Candidate:
    """The family with noise, with which lengthscales matter less: every other will do."""
    # Variances in units of the amplitude. Smooth functions look like less noise than the smallest.
    return family.subset(np.arange(0, len(family.factors), 2)).with_noise((1e-3, 0.03, 1.0))


def _smooth(smoothest: Candidate, subset: BlockedSamples) -> Iterator[Candidate]:
    """Families of smooth functions: the lengthscales of several coordinates that were found without noise follow it."""
    yield smoothest
    if subset.samples.d > 1 and not isinstance(smoothest.kernel, Stein):
        yield candidate(RBF(), smoothest.coordinates, _points(smoothest, subset), ard=False)


def _rough(smoothest: Candidate, subset: BlockedSamples) -> Iterator[Candidate]:
    """Families of rough functions: with one lengthscale, and with those of the coordinates that were found."""
    d, x, found = subset.samples.d, _points(smoothest, subset), smoothest.kernel.log_lengthscales
    for kernel in [Matern(0.5)] if d == 1 else [Matern(1.5), TensorProduct(Matern(0.5))]:
        yield candidate(kernel, smoothest.coordinates, x, ard=False)
        if len(found) == d > 1:
            yield candidate(kernel, smoothest.coordinates, x, ard=True).around(found)


def _points(family: Candidate, subset: BlockedSamples) -> Array:
    """All points (n, d), in the coordinates of a family."""
    return np.concatenate([block.x.reshape(-1, subset.samples.d) for block in subset.blocks(family.coordinates)])


def _is_staircase(samples: Samples) -> bool:
    """Whether f of one coordinate is constant on hardly more pieces than it has values, at all thetas together."""
    if samples.d > 1:
        return False
    runs = values = 0
    for t in range(samples.T):
        rows = slice(samples.starts[t], samples.starts[t] + samples.counts[t])
        f = samples.table[rows][np.argsort(samples.points(t)[:, 0], kind="stable")]
        runs += int(np.count_nonzero(np.diff(f, axis=0))) + f.shape[1]
        values += sum(len(np.unique(column)) for column in f.T)
    n = samples.n_evaluations * samples.table.shape[1]
    # A step may be seen twice where points are few: a quarter more runs than values is a staircase still.
    return 2 * values <= n and runs <= 1.25 * values
