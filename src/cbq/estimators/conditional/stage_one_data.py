"""What goes into stage 1, samples as regular arrays, and its result, the integrals at the observed thetas.

Blocks are thetas with equally many points, in the coordinates that a kernel acts on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields
from functools import cache, partial
from typing import Literal

import numpy as np

from cbq.common import Array, Executor, Immutable, Integers, Workers, call_each
from cbq.fit import Finding
from cbq.gp import GPData, Result
from cbq.io import Boolean, Correlation, Instance, Many, Number, Numbers, Text, saved
from cbq.kernels.warped import Log
from cbq.linalg import engine
from cbq.linalg.threads import at_most, one_blas_thread
from cbq.measures import Gaussian, Measure
from cbq.samples import Samples

XCoordinates = Literal["raw", "log", "gaussianised"]
PER_POINT = ("residuals", "precision", "evidence_without", "weights")  # results that have an axis of points


@dataclass(frozen=True, eq=False, kw_only=True)
class SampleBlock(GPData):
    """B thetas with N points each, x and its measure in some coordinates. rows: (B,), their places among the thetas."""

    rows: Integers


class BlockedSamples:
    """Samples as blocks, laid out once in each of the coordinates that are asked for."""

    def __init__(self, samples: Samples) -> None:
        self.samples = samples
        self.blocks = cache(self._blocks)

    def _blocks(self, coordinates: XCoordinates) -> list[SampleBlock]:
        return sample_blocks(self.samples, coordinates)

    def evaluate(
        self, coordinates: XCoordinates, function: Callable[[SampleBlock], Result], executor: Executor | None = None
    ) -> Result:
        """`function` of every block, put together: arrays (K, T, ...), and (K, n, ...) of all points in one row.

        executor: whose workers share the thetas; thetas do not depend on each other, so the result is the same.
        """
        blocks = self.blocks(coordinates)
        if executor is not None:
            blocks = [shard for block in blocks for shard in _shards(block, Workers(executor).count)]
            function = partial(_on_one_thread, function)
        results = call_each(function, blocks, executor, "the measures and kernels of x", "Use those of cbq")
        parts = list(zip(blocks, results, strict=True))
        kind = type(parts[0][1])
        return kind(**{field.name: self._assembled(parts, field.name) for field in fields(kind)})

    def _assembled(self, parts: Sequence[tuple[SampleBlock, Result]], name: str) -> Array:
        samples, first = self.samples, getattr(parts[0][1], name)
        if name in PER_POINT:
            out = np.empty((len(first), samples.n_evaluations, *first.shape[3:]))
            for block, result in parts:
                out[:, samples.starts[block.rows][:, None] + np.arange(block.n)] = getattr(result, name)
        else:
            out = np.empty((len(first), samples.T, *first.shape[2:]))
            for block, result in parts:
                out[:, block.rows] = getattr(result, name)
        return out


def _shards(block: SampleBlock, workers: int) -> Iterator[SampleBlock]:
    """A block as shards of some thetas each, several for each worker."""
    B = len(block.x)
    # Four for each worker, so that a slow one does not leave the others idle; and of up to 2^20 numbers, as larger
    # messages are slow, and clusters warn of them.
    step = max(1, min(-(-B // (4 * workers)), 2**20 // block.x[0].size))
    return (block[i : i + step] for i in range(0, B, step))


def _on_one_thread(function: Callable[[SampleBlock], Result], shard: SampleBlock) -> Result:
    """`function` of a shard in a worker, which leaves the other cores to others, and a GPU to the process that has it.

    A forked process would inherit the engine, and cannot use the GPU of its parent.
    """
    with at_most(1), one_blas_thread(), engine("numpy"):
        return function(shard)


def concatenated(results: Sequence[Result]) -> Result:
    """The results of several batches of kernels as those of one."""
    if len(results) == 1:
        return results[0]
    kind = type(results[0])
    return kind(**{f.name: np.concatenate([getattr(r, f.name) for r in results]) for f in fields(kind)})


def sample_blocks(samples: Samples, coordinates: XCoordinates) -> list[SampleBlock]:
    """The samples as blocks, in the given coordinates."""
    if coordinates == "gaussianised":
        normal = Gaussian(np.zeros(samples.d), np.ones(samples.d))
        return [SampleBlock(_gaussianised(part), _values(part), normal, rows=rows) for rows, part in _by_count(samples)]
    found = []
    for rows, part in _by_count(samples):
        whole = part.batched_measure()
        pieces = [(rows, part, whole)] if whole is not None else _one_by_one(rows, part)
        for places, piece, measure in pieces:
            x = np.asarray(piece.x)
            if coordinates == "log":
                found.append(SampleBlock(np.log(x), _values(piece), Log().image(measure), rows=places))
            else:
                found.append(SampleBlock(x, _values(piece), measure, rows=places))
    return found


def _by_count(samples: Samples) -> Iterator[tuple[Integers, Samples]]:
    """The samples of thetas with equally many points, and their places."""
    if not samples.is_ragged:
        yield np.arange(samples.T), samples
        return
    for n in np.unique(samples.counts):
        rows = np.flatnonzero(samples.counts == n)
        yield rows, samples.select(rows)


def _one_by_one(rows: Integers, part: Samples) -> Iterator[tuple[Integers, Samples, Measure]]:
    return ((rows[t : t + 1], part.select(t), part.measure(t)) for t in range(part.T))


def _values(part: Samples) -> Array:
    f = np.asarray(part.f)
    return f[..., None] if part.C is None else f


def _gaussianised(part: Samples) -> Array:
    whole = part.batched_measure()
    if whole is not None:
        u = whole.inverse_transport(np.asarray(part.x), base="normal")
    else:
        u = np.stack([part.measure(t).inverse_transport(part.points(t), base="normal") for t in range(part.T)])
    # A standard normal point beyond 9 has a mass of 1e-19: it is on the edge of the support, up to rounding.
    return np.clip(u, -9.0, 9.0)


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
