"""A run, from its points to samples: restore a checkpoint, probe f, evaluate the rest in batches, report progress."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Iterator, Sequence
from contextlib import closing, nullcontext
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from cbq.checkpoint import BatchResult, Checkpoint, CheckpointError, Evaluations
from cbq.common import (
    Array,
    Executor,
    Progress,
    WorkerError,
    as_executor,
    as_progress,
    file_name,
    is_number,
    one_of,
    reporting,
    shown,
    whole,
)
from cbq.runs.draws import RunPoints
from cbq.runs.executors import ExecutorPool
from cbq.runs.integrand import Evaluator, IntegrandError, Points, Task
from cbq.runs.processes import ProcessPool
from cbq.runs.resuming import OnChange, Sources, forget_restless, require_same_f, ways_out
from cbq.runs.scheduling import CollectWarning, Scheduler, ThisProcess
from cbq.runs.trial import StoredPoints, probe_outputs
from cbq.samples import Failures, Names, Samples, require_joinable, require_same

OnError = Literal["raise", "skip"]
SHOWN_FAILURES = 3  # in a warning


@dataclass(frozen=True)
class RunOptions:
    """How a run is carried out, as `Problem.collect` and `Problem.solve` take it; the samples do not depend on it."""

    executor: Executor | int | None
    batch: int
    in_flight: int | None
    checkpoint: str | os.PathLike[str] | None
    progress: Progress
    on_error: OnError
    on_change: OnChange
    retries: int
    timeout: float | None

    def __post_init__(self) -> None:
        executor = as_executor(self.executor)
        checked = {
            "executor": executor,
            "batch": whole(self.batch, "batch", 1),
            "in_flight": None if self.in_flight is None else whole(self.in_flight, "in_flight", 1),
            "checkpoint": None if self.checkpoint is None else file_name(self.checkpoint, "checkpoint"),
            "progress": as_progress(self.progress),
            "on_error": one_of(self.on_error, OnError, "on_error"),
            "on_change": one_of(self.on_change, OnChange, "on_change"),
            "retries": whole(self.retries, "retries"),
            "timeout": _time_limit(self.timeout, executor),
        }
        for name, value in checked.items():
            object.__setattr__(self, name, value)


def _time_limit(timeout: Any, executor: Any) -> float | None:
    """The argument `timeout`, checked."""
    if timeout is None:
        return None
    if not is_number(timeout) or timeout <= 0:
        raise ValueError(f"timeout must be a number of seconds above 0, but it is {shown(timeout)}.")
    if not isinstance(executor, int):
        raise ValueError("timeout needs processes that the run can end: pass executor=1 or more with it.")
    return float(timeout)


def collect_samples(
    evaluator: Evaluator,
    run: RunPoints,
    options: RunOptions,
    sources: Sources,
    bounds: Array | None = None,
    start: Samples | None = None,
) -> Samples:
    """Evaluate f at the points of a run, as far as its checkpoint does not have the values, and return the samples.

    sources: what the run depends on. bounds: those of f, (2, C) or (2, 1). start: samples that the new ones are added
    to.
    """
    samples = _without_values(run, run.x)  # refuses bad points before anything expensive starts
    if start is not None:
        require_joinable(start, samples, bounds)
    evaluations, names = Evaluations([x.copy() for x in run.x]), Names.of(run.settings["names"])
    skip, checkpoint = options.on_error == "skip", _open_checkpoint(run, sources, options.checkpoint)
    with (
        nullcontext() if checkpoint is None else closing(checkpoint),
        closing(workers_for(evaluator, options)) as workers,
    ):
        if checkpoint is not None:
            checkpoint.restore(evaluations)
        if not skip:
            evaluations.forget_failures()
        reused, stored = evaluations.n_done, StoredPoints(checkpoint, run.thetas, evaluations)
        if checkpoint is None or not evaluations.has_values:
            how = {"in_batches": evaluator.in_batches, "skip_failures": skip}
            outputs = probe_outputs(workers, run.thetas, evaluations.x, **how)
            if checkpoint is not None and evaluations.f and outputs != evaluations.outputs:
                asked = f"values of shape {evaluations.outputs} at each point, and f returns {outputs} now"
                raise CheckpointError(f"{checkpoint.path} was begun for {asked}. {ways_out()}")
            evaluations.allocate(outputs)  # raises, as the next line does, before anything expensive starts
            names.with_f(outputs[0] if outputs else None)
            if checkpoint is not None:
                checkpoint.write_sources(sources.record)
        else:
            repeats = evaluator.repeats(stochastic=run.settings["stochastic"])
            require_same_f(checkpoint, sources, options.on_change, stored.choose if repeats else None)
        if start is not None:
            require_same("C", start.C, evaluations.outputs[0] if evaluations.outputs else None)
        if checkpoint is not None:
            checkpoint.begin(evaluations.outputs)
        try:
            if reused < evaluations.n_total:
                _evaluate_missing(workers, run, evaluations, stored, checkpoint, options)
            else:
                stored.evaluate(workers, [], lambda _: None)
        finally:
            if checkpoint is not None:
                forget_restless(checkpoint, sources)
    if reused and checkpoint is not None and options.progress is not False:
        sys.stderr.write(f"{checkpoint.path}: {reused} reused, {evaluations.n_total - reused} evaluated\n")
    if any(not np.array_equal(a, b) for a, b in zip(run.x, evaluations.x, strict=True)):
        samples = _without_values(run, evaluations.x)  # the points of the machine where the run began
    found = _with_values(samples, evaluations)._with_bounds(bounds).with_names(names)
    return found if start is None else start + found


def _open_checkpoint(run: RunPoints, sources: Sources, path: str | os.PathLike[str] | None) -> Checkpoint | None:
    if path is None:
        return None
    return Checkpoint(path, run.settings, run.thetas, run.measures, run.proposals, sources.record)


def workers_for(evaluator: Evaluator, options: RunOptions) -> ThisProcess | Scheduler:
    """Where f is evaluated."""
    executor, in_flight = options.executor, options.in_flight
    if executor is None:
        return ThisProcess(evaluator, in_flight)
    if isinstance(executor, int):
        return Scheduler(ProcessPool(executor, evaluator, options.timeout, in_flight), options.retries)
    return Scheduler(ExecutorPool(executor, evaluator, in_flight), options.retries)


def _without_values(run: RunPoints, x: Sequence[Array]) -> Samples:
    """Samples whose values are zero."""
    options = {name: run.settings[name] for name in ("depends_on_theta", "design", "stochastic")}
    options["names"] = {**run.settings["names"], "f": ()}  # which has values later
    return Samples(run.thetas, x, [np.zeros(len(each)) for each in x], run.family, proposal=run.proposals, **options)


def _evaluate_missing(
    workers: ThisProcess | Scheduler,
    run: RunPoints,
    evaluations: Evaluations,
    stored: StoredPoints,
    checkpoint: Checkpoint | None,
    options: RunOptions,
) -> None:
    total = evaluations.n_total
    with reporting(options.progress, run.settings["problem"], evaluations.n_done, total) as report:

        def on_finished(results: Sequence[BatchResult]) -> None:
            if checkpoint is not None:
                checkpoint.write(results, evaluations.x)
            for result in results:
                evaluations.add(result)
            report(evaluations.n_done, total)

        try:
            stored.evaluate(workers, _tasks(run, evaluations, options), on_finished)
        except (IntegrandError, WorkerError, KeyboardInterrupt) as error:
            _add_advice(error, evaluations, checkpoint)
            raise


def _tasks(run: RunPoints, evaluations: Evaluations, options: RunOptions) -> Iterator[Task]:
    for t, start, stop in evaluations.missing_batches(options.batch):
        points = Points(run.thetas[t], evaluations.x[t][start:stop], t, start)
        yield Task(points, evaluations.outputs, options.on_error == "skip")


def _add_advice(error: BaseException, evaluations: Evaluations, checkpoint: Checkpoint | None) -> None:
    """Add to the message of an error the number of kept evaluations, and how to resume."""
    if checkpoint is None:
        advice = "Nothing is kept: with checkpoint='run.sqlite' an interrupted run can be resumed."
    else:
        kept = f"{evaluations.n_done} of {evaluations.n_total} points are in {checkpoint.path}"
        advice = f"{kept}: call collect again with the same arguments to resume."
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
    values = kept.regrouped(rows).with_values([evaluations.f[t][each] for t, each in good.items()])
    every = [x[good[t]] if t in good else x[:0] for t, x in enumerate(evaluations.x)]
    return values._with_failures(Failures.of(samples.theta, evaluations.failed_points(), every))


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
        f"and they are left out, which biases estimates: {shown}{more}.{empty} on_error='raise' evaluates "
        f"them again."
    )
