"""Whether values of f scatter as if f were random, although nobody said so.

A smooth f with noise is held against every f without that is at hand, among them rough ones: what has kinks and jumps
is no noise. In several coordinates these include radial kernels, which stage 1 does not integrate: kinks mostly lie
across the coordinates, where products of kernels of each coordinate fit badly.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

import numpy as np

from cbq._arrays import Array
from cbq.gp.quadrature import explain
from cbq.kernels import RBF, Matern, Stein, TensorProduct
from cbq.linalg import Jitter
from cbq.methods.conditional.averaging import total_evidence
from cbq.methods.conditional.blocks import BlockedSamples
from cbq.methods.conditional.candidates import Candidate, candidate
from cbq.samples import Samples

DETECTED_NOISES = (1e-3, 0.03, 1.0)  # variances in units of the amplitude; smooth functions look like less of it
CLEARLY = 6.0  # a difference of log-likelihoods that is not chance
RUNS_PER_VALUE = 1.25  # of equal values along x, up to which f is a staircase


def asks_for_noise(
    candidates: Sequence[Candidate], subset: BlockedSamples, evidence: float, tau: float, jitter: Jitter
) -> bool:
    """Whether a smooth f with noise explains the values of f better than any f without; evidence: that of candidates.

    candidates: the families of kernels that were tried.
    """
    cheap = [c for c in candidates if not c.costly and len(c.factors) > 1]
    smoothest = max(cheap, key=lambda c: c.kernel.smoothness, default=None)
    if smoothest is None or _is_staircase(subset.samples):
        return False

    def best(family: Candidate) -> float:
        call = partial(explain, family.batched(), tau=tau, jitter=jitter, noise=family.noise)
        return float(np.max(total_evidence(subset.evaluate(family.coordinates, call))))

    with_noise = max(best(_noisy(family)) for family in _smooth(smoothest, subset))
    if with_noise <= evidence + CLEARLY:
        return False
    if isinstance(smoothest.kernel, Stein):  # there is none of Matern 1/2, which has no derivatives
        return True
    return all(with_noise > best(family) + CLEARLY for family in _rough(smoothest, subset))


def _noisy(family: Candidate) -> Candidate:
    """The family with noise, with which lengthscales matter less: every other will do."""
    return family.subset(np.arange(0, len(family.factors), 2)).with_noise(DETECTED_NOISES)


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
    return 2 * values <= n and runs <= RUNS_PER_VALUE * values
