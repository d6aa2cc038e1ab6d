"""A run, from its points to samples: restore a checkpoint, probe f, evaluate the rest in batches."""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from typing import Literal

import numpy as np

from cbq._arrays import Array
from cbq.checkpoint import Checkpoint, open_checkpoint
from cbq.checkpoint.evaluations import BatchResult, Evaluations
from cbq.collect.draws import RunPoints
from cbq.collect.executors import OnFinished, WorkerError, evaluate_on_workers
from cbq.collect.integrand import Evaluator, IntegrandError, Task, probe_outputs
from cbq.collect.progress import Progress, reporting
from cbq.samples import Samples
from cbq.samples.conditional import Family

OnError = Literal["raise", "skip"]
HOLD_SECONDS = 0.02  # batches that finish within this time are passed on together, since writing may wait for the disk
MAX_HELD = 8  # batches that are passed on together in this process
SHOWN_FAILURES = 3  # in a warning


class CollectWarning(UserWarning):
    """Points were left out of the samples."""


@dataclass(frozen=True)
class RunOptions:
    """How a run is carried out; the samples do not depend on it."""

    executor: Executor | int | None
    batch: int
    in_flight: int | None
    checkpoint: str | os.PathLike[str] | None
    progress: Progress
    on_error: OnError
    retries: int


def collect_samples(evaluator: Evaluator, points: RunPoints, family: Family, options: RunOptions) -> Samples:
    """Evaluate f at the points of a run, as far as its checkpoint does not have the values, and return the samples."""
    samples = _without_values(points, points.x, family)  # refuses bad points before anything expensive starts
    evaluations = _evaluated(evaluator, points, options)
    if any(not np.array_equal(a, b) for a, b in zip(points.x, evaluations.x, strict=True)):
        samples = _without_values(points, evaluations.x, family)  # the points of the machine where the run began
    return _with_values(samples, evaluations)


def _without_values(points: RunPoints, x: Sequence[Array], family: Family) -> Samples:
    """Samples whose values are zero."""
    zeros, settings = [np.zeros(len(each)) for each in x], points.settings
    depends_on_theta, design = settings["depends_on_theta"], settings["design"]
    return Samples(points.thetas, x, zeros, family, depends_on_theta=depends_on_theta, design=design)


def _evaluated(evaluator: Evaluator, points: RunPoints, options: RunOptions) -> Evaluations:
    """The values of f at all points."""
    evaluations, skip = Evaluations([x.copy() for x in points.x]), options.on_error == "skip"
    with open_checkpoint(options.checkpoint, points.settings, points.thetas, points.measures) as checkpoint:
        outputs = None
        if checkpoint is not None:
            checkpoint.restore(evaluations)
            outputs = checkpoint.outputs
        if not skip:
            evaluations.forget_failures()
        if outputs is None:
            outputs = probe_outputs(evaluator, points.thetas, evaluations.x, skip_failures=skip)
            evaluations.allocate(outputs)
        if checkpoint is not None:
            checkpoint.begin(outputs)
        if evaluations.n_done < evaluations.n_total:
            _evaluate_missing(evaluator, points, evaluations, checkpoint, options)
    return evaluations


def _evaluate_missing(
    evaluator: Evaluator,
    points: RunPoints,
    evaluations: Evaluations,
    checkpoint: Checkpoint | None,
    options: RunOptions,
) -> None:
    total = evaluations.n_total
    with reporting(options.progress, points.settings["problem"], evaluations.n_done, total) as report:

        def on_finished(results: Sequence[BatchResult]) -> None:
            if checkpoint is not None:
                checkpoint.write(results, evaluations.x)
            for result in results:
                evaluations.add(result)
            report(evaluations.n_done, total)

        tasks, executor, in_flight = _tasks(points, evaluations, options), options.executor, options.in_flight
        try:
            if executor is None:
                _evaluate_here(evaluator, tasks, on_finished, max_held=in_flight or MAX_HELD)
            else:
                retries = options.retries
                evaluate_on_workers(executor, evaluator, tasks, on_finished, max_pending=in_flight, retries=retries)
        except (IntegrandError, WorkerError, KeyboardInterrupt) as error:
            _add_advice(error, evaluations, checkpoint)
            raise


def _tasks(points: RunPoints, evaluations: Evaluations, options: RunOptions) -> Iterator[Task]:
    outputs, skip = evaluations.f[0].shape[1:], options.on_error == "skip"
    for batch in evaluations.missing_batches(options.batch):
        t, start, stop = batch
        yield Task(batch, points.thetas[t], evaluations.x[t][start:stop], outputs, skip)


def _evaluate_here(evaluator: Evaluator, tasks: Iterable[Task], on_finished: OnFinished, *, max_held: int) -> None:
    """Evaluate tasks one after the other; at most `max_held` quick ones are finished and not passed on."""
    held, since = list[BatchResult](), time.monotonic()
    try:
        for task in tasks:
            held.append(evaluator.evaluate(task))
            if len(held) >= max_held or time.monotonic() - since >= HOLD_SECONDS:
                on_finished(held)
                held, since = [], time.monotonic()
    finally:
        if held:
            on_finished(held)


def _add_advice(error: BaseException, evaluations: Evaluations, checkpoint: Checkpoint | None) -> None:
    """Add to the message of an error what is kept and how to go on."""
    if checkpoint is None:
        advice = "Nothing is kept: with checkpoint='run.sqlite' a run can go on where it ended."
    else:
        kept = f"{evaluations.n_done} of {evaluations.n_total} points are in {checkpoint.path}"
        advice = f"{kept}: call collect again with the same arguments to go on."
    message = str(error) or "collect was interrupted."
    error.args = (f"{message} {advice}", *error.args[1:])


def _with_values(samples: Samples, evaluations: Evaluations) -> Samples:
    """The samples without the points at which f failed, which a warning names; `samples` has all points."""
    failures = evaluations.failures
    if not failures:
        return samples.with_values(evaluations.f)
    good = evaluations.successes()
    if not good:
        t, i = min(failures)
        raise IntegrandError(
            f"the integrand failed at all {evaluations.n_total} points; at point i = {i} of theta index t = {t} it "
            f"{failures[t, i]}.",
            *(t, samples.theta[t], i, evaluations.x[t][i]),
        )
    dropped = sorted(set(range(samples.T)) - set(good))
    # The fourth frame from here is the one that called Problem.collect.
    warnings.warn(_describe_failures(samples, evaluations, dropped), CollectWarning, stacklevel=4)
    kept = samples.select(list(good))
    rows = [start + np.flatnonzero(each) for start, each in zip(kept.starts, good.values(), strict=True)]
    return kept.regrouped(rows).with_values([evaluations.f[t][each] for t, each in good.items()])


def _describe_failures(samples: Samples, evaluations: Evaluations, dropped: Sequence[int]) -> str:
    failures = evaluations.failures
    thetas = len({t for t, _ in failures})
    shown = "; ".join(
        f"at theta index t = {t} (theta = {samples.theta[t]}), point i = {i} (x = {evaluations.x[t][i]}), it {reason}"
        for (t, i), reason in sorted(failures.items())[:SHOWN_FAILURES]
    )
    more = f"; and {len(failures) - SHOWN_FAILURES} more" * (len(failures) > SHOWN_FAILURES)
    empty = f" No point is left at theta index t = {', '.join(map(str, dropped))}: dropped." * bool(dropped)
    return (
        f"the integrand failed at {len(failures)} of {evaluations.n_total} points, at {thetas} of {samples.T} thetas, "
        f"and they are left out: {shown}{more}.{empty} on_error='raise' evaluates them again."
    )
