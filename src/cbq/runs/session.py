"""A session: ask for runs, tell their results in any order, and read the estimate at any time."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import wraps
from math import prod
from threading import RLock
from typing import Any, Concatenate, Literal, NamedTuple, ParamSpec, Self, TypeVar

import numpy as np
import numpy.typing as npt

from cbq.checkpoint import LOCK_TIMEOUT, Batch, BatchResult, Evaluations, Ledger, Outputs, reading, require_outputs
from cbq.common import Array, check_fields, is_number, is_whole, require_memory, shown, whole
from cbq.estimators import PointsGroup, Wanted
from cbq.fit import N_WANTED, Fit, all_equal
from cbq.io import pack_measure, unpack_measure
from cbq.measures.points import sobol
from cbq.runs.answer import AdaptiveAnswer
from cbq.runs.asked import Asked, ExpectedResults
from cbq.runs.curves import CurveEstimand, CurveFocus, Foci
from cbq.runs.draws import CANDIDATES_KEY, FOCUS_KEY, WANTED_KEY, keyed_generator
from cbq.runs.estimands import Pointwise
from cbq.runs.focus import Focus
from cbq.runs.goal import Goal, Round, is_reached
from cbq.runs.integrand import Evaluator
from cbq.runs.overhead import ONE_BATCH, SHARES, SOBOL, Overhead, Spent
from cbq.runs.policies import Kernels, MeasuredCost, policy_for
from cbq.runs.quantity import Quantity
from cbq.runs.resuming import OnChange, Sources, forget_restless, require_same_f
from cbq.runs.trial import StoredPoints
from cbq.samples import Cost, Names, Runs, Samples, check_magnitude, measures_at

GOAL_NOTE, SECONDS_NOTE, SPENT_NOTE = "goal", "seconds", "own"  # names of the goal and the times in a checkpoint
KERNELS = "kernels"  # in the record of a round
_LEAST_SECONDS = 1e-6  # of a run: a quicker one is not measured
Measured = Literal["measured"]
MEASURED: Measured = "measured"
P = ParamSpec("P")
R = TypeVar("R")


def _one_at_a_time(method: Callable[Concatenate[Session, P], R]) -> Callable[Concatenate[Session, P], R]:
    """A method that holds the lock of the session."""

    @wraps(method)
    def alone(self: Session, /, *args: P.args, **options: P.kwargs) -> R:
        with self._lock:
            return method(self, *args, **options)

    return alone


def _timed(method: Callable[Concatenate[Session, P], R]) -> Callable[Concatenate[Session, P], R]:
    """A method whose CPU seconds count as own time of the session, once if it calls another."""

    @wraps(method)
    def timed(self: Session, /, *args: P.args, **options: P.kwargs) -> R:
        before, begin = self._spending, time.process_time()
        try:
            return method(self, *args, **options)
        finally:
            self._spending = before + time.process_time() - begin

    return timed


def _packed(kernels: Kernels | None) -> list[list[Any]] | None:
    """Kernels as JSON."""
    packed = [] if kernels is None else [pack_measure(group) for group in kernels]
    return None if kernels is None else [[text, numbers.tolist()] for text, numbers in packed]


def _unpacked(record: Any) -> Kernels | None:
    return None if record is None else tuple(unpack_measure(text, np.array(row), PointsGroup) for text, row in record)


@dataclass(frozen=True)
class Pace:
    """The pace of a session.

    round : a round adds at least the runs so far over this number.
    in_a_row : consecutive rounds at which the goal must hold.
    named : number of next runs in an answer.
    thetas : number of thetas of Q at which outcomes of f are computed at each round.
    """

    round: int = 10
    in_a_row: int = 2
    named: int = 8
    thetas: int = 8

    def __post_init__(self) -> None:
        names = ("round", "in_a_row", "named", "thetas")
        check_fields(self, names, "a whole number, 1 or more", lambda value: is_whole(value, 1))


class FittedRound(NamedTuple):
    """A fit and its round, and the foci from which its quantities were estimated; none for means of all outputs.

    round: None between rounds, where kernels are those of the last one.
    """

    fit: Fit
    round: Round | None
    foci: Foci


class Session:
    """The runs of a problem that were asked for, and their results. Made by `problem.session(...)`.

    `ask(n)` returns the next runs, `tell(ids, values)` takes results, in any order and any number, `fit()` is the
    estimate so far. With a checkpoint, everything is on the disk when a call returns, and the same session can be
    opened again; use it as a context manager, or `close()` it, to let others open the file. Threads may share it.

    The choice of runs depends only on the seed, on the results that were told and on the pending runs.

    Examples
    --------
    >>> problem = cbq.Problem(None, lambda theta: cbq.measures.Gaussian(theta, cov=1.0), cbq.measures.Uniform(0.0, 2.0))
    >>> with problem.session(budget=16, rng=0) as session:
    ...     while not session.is_over:
    ...         runs = session.ask(8)
    ...         session.tell(runs.ids, np.sin(runs.x[:, 0]))
    ...     answer = session.answer()
    >>> answer.n_runs
    16
    """

    def __init__(
        self,
        quantity: Quantity,
        goal: Goal,
        entropy: list[int],
        *,
        cost: Cost | Measured | None = None,
        checkpoint: str | os.PathLike[str] | None = None,
        sources: Sources | None = None,
        wait: float = LOCK_TIMEOUT,
        pace: Pace | None = None,
    ) -> None:
        self.goal, self._quantity, self._entropy, self._pace = goal, quantity, entropy, pace or Pace()
        self._lock, self._sources = RLock(), sources or Sources({})
        theta = quantity.prior.transport(sobol(N_WANTED, quantity.prior.dim, keyed_generator(entropy, WANTED_KEY)))
        self._wanted = Wanted.at(theta, quantity.family)
        for each in goal.estimands:
            each.require_dimension(quantity.prior.dim)
        self._policy, self._cost = policy_for(quantity, self._wanted, entropy, goal), cost
        least = self._policy.first - len(quantity.started)
        if goal.budget < least:
            of = " of I" * goal.of_mean_only
            raise ValueError(
                f"budget is {goal.budget}, but the first estimate{of} needs {least} runs: pass budget={least} or more."
            )
        self._runs = Runs(np.empty((0, quantity.prior.dim)), np.empty((0, quantity.d)))
        self._values: dict[int, Array] = {}
        self._failures: dict[int, str] = {}
        self._seconds: dict[int, float] = {}  # of runs, by id
        self._asked_at: list[float] = []  # seconds since 1970, by id
        self._rounds: tuple[Round, ...] = ()  # at which runs were asked for
        self._other_rounds = 0  # in the checkpoint, of other goals
        self._outputs: Outputs | None = None if quantity.start is None else quantity.start._f.shape[1:]
        self._require_outputs(self._outputs)
        self._estimated: dict[tuple[int, int, bool], FittedRound] = {}  # by values, failures and whether it is a round
        self._sampled: tuple[tuple[int, int], Samples | None] | None = None  # by the numbers of values and failures
        self._kernels: Kernels | None = None  # of the last round
        self._limit: Overhead | None = None  # of the own time
        self.deadline: float | None = None  # seconds since 1970, after which no run should end
        self._spent, self._spending = Spent(), 0.0  # the own time of earlier rounds, and since then
        self._ledger: Ledger | None = None
        self._calls_f = False  # here or in workers
        if checkpoint is not None:
            settings = {**quantity.settings, "seed": entropy, "level": goal.level}
            self._ledger = Ledger(checkpoint, settings, self._sources.record, wait)
            try:
                self._restore(self._ledger)
            except BaseException:
                self._ledger.close()
                raise

    def _restore(self, ledger: Ledger) -> None:
        stored = ledger.stored
        self._runs, self._asked_at = Runs(stored.theta, stored.x), list(stored.asked_at)
        if len(stored.theta):
            ledger.require_measures(measures_at(self._quantity.family, stored.theta))
        for result in stored.results:
            self._take(result)
        with reading(ledger.path):
            self._seconds = {int(t): float(seconds) for t, seconds in stored.notes.get(SECONDS_NOTE, {}).items()}
            rounds = tuple(Round.of_record(record) for record in stored.rounds)
            mine = [k for k, each in enumerate(rounds) if each.quantities == self._quantities]
            self._rounds, self._other_rounds = tuple(rounds[k] for k in mine), len(rounds) - len(mine)
            if mine:
                self._kernels = _unpacked(stored.rounds[mine[-1]].get(KERNELS))
            if SPENT_NOTE in stored.notes:
                self._spent = Spent.of_record(stored.notes[SPENT_NOTE])
        if stored.outputs is not None:
            self._outputs = stored.outputs
            self._require_outputs(stored.outputs)

    def _resume(self, on_change: OnChange, evaluator: Evaluator | None = None) -> StoredPoints:
        """Resume from the results in the checkpoint, or raise a CheckpointError if f has changed since.

        evaluator: calls f, here or in workers; None if f is evaluated elsewhere. Returns the runs to make again.
        """
        evaluations = Evaluations([x[None] for x in self._runs.x])
        evaluations.allocate(self._outputs or ())
        for t, value in self._values.items():
            evaluations.add(BatchResult(Batch(t, 0, 1), value[None], {}))
        stored = StoredPoints(self._ledger, self._runs.theta, evaluations)
        if self._ledger is None:
            return stored
        if self._values:
            repeats = evaluator is not None and evaluator.repeats(stochastic=self._quantity.stochastic)
            require_same_f(self._ledger, self._sources, on_change, stored.choose if repeats else None)
        elif self._ledger.sources != self._sources.record:
            self._ledger.write_sources(self._sources.record)
        self._calls_f = evaluator is not None
        self.note(GOAL_NOTE, self.goal.record)
        return stored

    def _warn_if_changed(self) -> None:
        """Warn if f has changed since the results in the checkpoint; the checkpoint stays as it is."""
        if self._ledger is not None and self._values:
            require_same_f(self._ledger, self._sources, "reuse", None, keep=False)

    def note(self, name: str, record: Any) -> None:
        """Keep a JSON record in `StoredLedger.notes` of the checkpoint, if there is one."""
        if self._ledger is not None and self._ledger.notes.get(name) != record:
            self._ledger.note(name, record)

    def noted(self, name: str) -> Any:
        """The JSON record of this name in the checkpoint, None if there is none."""
        return None if self._ledger is None else self._ledger.notes.get(name)

    def __repr__(self) -> str:
        return f"Session({self._quantity.name!r}, {self.n_told} of {self.n_asked} runs told, asked: {self.goal})"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Release the checkpoint, if there is one; afterwards the session is read-only."""
        if self._ledger is None:
            return
        try:
            if self._ledger.is_open:
                forget_restless(self._ledger, self._sources, by_f=self._calls_f)
        finally:
            self._ledger.close()

    @property
    def checkpoint(self) -> str | None:
        """The file of the session, if it has one."""
        return None if self._ledger is None else self._ledger.path

    @property
    def outputs(self) -> Outputs | None:
        """The shape of a value of f: () for a number, (C,) for C outputs; None before one is known."""
        return self._outputs

    @property
    def names(self) -> Names:
        """The names of the coordinates of theta and x and of the outputs of f; () for f if they are unknown."""
        names = self._quantity.names.with_x(self._quantity.d)
        return names if self._outputs is None else names.with_f(self._outputs[0] if self._outputs else None)

    def _require_outputs(self, outputs: Outputs | None) -> None:
        """Raise unless the goal and the names match the outputs of f, as far as these are known."""
        names = self._quantity.names.with_x(self._quantity.d)
        if outputs is not None:
            require_outputs(prod(outputs), self._policy.first)
            names = names.with_f(outputs[0] if outputs else None)
        self.goal.require_outputs(outputs, names)

    @property
    def n_asked(self) -> int:
        """The number of runs that were asked for."""
        return len(self._runs)

    @property
    def n_told(self) -> int:
        """The number of runs whose results, values or failures, were told."""
        return len(self._values) + len(self._failures)

    @property
    def n_rounds(self) -> int:
        """The number of rounds at which runs were asked for."""
        return len(self._rounds)

    @property
    def rounds(self) -> tuple[Round, ...]:
        """The rounds at which runs were asked for, and the present one if there are enough new runs."""
        estimate = self._estimate() if self._is_round else None
        return self._rounds if estimate is None or estimate.round is None else (*self._rounds, estimate.round)

    @property
    def _is_round(self) -> bool:
        """Whether there are enough new runs for a round."""
        last = self._rounds[-1].runs if self._rounds else 0
        return self._n_values >= max(self._policy.first, last + max(1, last // self._pace.round))

    @property
    def pending(self) -> Asked:
        """The runs that were asked for and not told yet."""
        done = self._values.keys() | self._failures.keys()
        return self._asked([t for t in range(len(self._runs)) if t not in done])

    @property
    def failures(self) -> dict[int, str]:
        """The reasons of failed runs, by their ids."""
        return dict(self._failures)

    @property
    def missing(self) -> int:
        """The number of further values that the first estimate needs."""
        return max(self._policy.first - self._n_values, 0)

    @property
    def samples(self) -> Samples | None:
        """The samples of all runs so far; None before there is a value."""
        if not self._values:
            return self._quantity.start
        now = len(self._values), len(self._failures)
        if self._sampled is None or self._sampled[0] != now:
            self._sampled = now, self._samples()
        return self._sampled[1]

    def _samples(self) -> Samples | None:
        ids = sorted(self._values.keys() | self._failures.keys())
        nothing = np.full(self._outputs or (), np.nan)
        values = np.array([self._values.get(t, nothing) for t in ids])
        failed = np.array([t in self._failures for t in ids])
        return self._quantity.samples(self._runs.take(np.array(ids)), values, failed)

    @_one_at_a_time
    def ask(self, n: int | None = None) -> Asked:
        """The next n runs, which together reduce the uncertainty about I most.

        n : the number of runs (default: an eighth of the runs so far, and 16 at first).
        """
        n = self.batch_size(1) if n is None else whole(n, "n", 1)
        known = len(self._quantity.started) + len(self._runs)
        if self._share != SOBOL:
            require_memory(
                (n + known) ** 2, f"the joint choice of n = {n} runs beside {known}", "ask for fewer at a time"
            )
        new, first = self._at_round(n), len(self._runs)
        self._spent, self._spending = self._spent.after(self._n_values, self._spending), 0.0
        if self._limit is not None:
            self.note(SPENT_NOTE, self._spent.record)
        if self._ledger is not None:
            self._ledger.ask(first, new.theta, measures_at(self._quantity.family, new.theta), new.x)
        self._runs += new
        self._asked_at += [time.time()] * n
        return self._asked(range(first, len(self._runs)))

    @_timed
    def _at_round(self, n: int) -> Runs:
        """Record the present round, and choose the next n runs."""
        self._record_round()
        return self._next(n, plain=self._share == SOBOL)

    @_one_at_a_time
    def ask_again(self, lease: float, n: int | None = None) -> Asked:
        """Pending runs that were last asked for more than `lease` seconds ago, at most n: their jobs may be lost.

        The time counts from now on for them, so that the next call returns others. Every run may be told by whoever
        makes it, but once.
        """
        late = self.overdue(lease)[: self.n_asked if n is None else whole(n, "n")]
        if self._ledger is not None and late:
            self._ledger.ask_again(late)
        for t in late:
            self._asked_at[t] = time.time()
        return self._asked(late)

    def overdue(self, lease: float) -> list[int]:
        """The ids of pending runs that were last asked for more than `lease` seconds ago, the longest ago first."""
        if not is_number(lease, 0.0, np.inf) or not lease > 0:
            raise ValueError(f"lease must be a number of seconds above 0, but it is {shown(lease)}.")
        overdue = [t for t in self.pending.ids.tolist() if time.time() - self._asked_at[t] > lease]
        return sorted(overdue, key=lambda t: self._asked_at[t])

    def _keep_pace(self, limit: Overhead) -> None:
        """Let batches be larger from now on where the own time would exceed this limit, if means are wanted.

        A few runs decide all other goals, which Sobol points would hardly serve.
        """
        if not self.goal.of_mean_only:
            return
        self._limit = limit
        runs, made = self._n_values, len(self._seconds)
        until = self.n_told + self._affordable(1) + len(self._quantity.started)
        if self.goal.has_target:
            until = min(until, limit.ahead * runs)
        if made and not self.missing:
            share = self._spent.share_for(limit, runs, until, sum(self._seconds.values()) / made)
            self._spent = replace(self._spent, share=share)

    @property
    def _share(self) -> int:
        """A batch is the runs so far over this number, or `ONE_BATCH` or `SOBOL`.

        A share that a call with a limit of the own time has left in the checkpoint is none of a call without one.
        """
        return SHARES[0] if self._limit is None else self._spent.share

    @_timed
    def _next(self, n: int, *, plain: bool = False) -> Runs:
        """The n runs that would come next; plain: Sobol points."""
        known = self._quantity.started + self._runs
        rng = keyed_generator(self._entropy, CANDIDATES_KEY, len(known))
        if plain:
            return self._policy.plain(n, known, rng)
        estimate = self._estimate()
        fit = None if estimate is None else estimate.fit
        foci = () if estimate is None else estimate.foci
        doubted = bool(foci) and is_reached(self.rounds, self.goal, 1)
        need = self._need() if foci or self.goal.of_mean_only else None
        return self._policy.choose(n, known, fit, need, self._cost_of_runs(), rng, foci, doubted=doubted)

    def _cost_of_runs(self) -> Cost | None:
        """The cost of a run; None if all cost the same, or no time is known yet."""
        if self._cost != MEASURED:
            return self._cost
        rows = np.array(sorted(self._seconds), dtype=np.intp)
        seconds = np.array([self._seconds[t] for t in rows])
        return MeasuredCost(self._runs.take(rows), seconds) if len(rows) else None

    def batch_size(self, workers: int) -> int:
        """The number of runs to ask for next: one for each worker, or an eighth of the runs so far if that is more.

        A fit to a few more runs changes little. It is a larger share where fits would take too long.
        """
        done, share = self.n_told + len(self._quantity.started), self._share
        in_one = share in (ONE_BATCH, SOBOL)
        wanted = self._affordable(workers) if in_one else -(-done // share)
        if in_one and self.goal.has_target and self._limit is not None:
            wanted = (self._limit.ahead - 1) * done
        if done < self._policy.first:
            wanted = self._policy.first - done
        return -(-max(wanted, 1) // workers) * workers

    @_one_at_a_time
    def tell(
        self, ids: npt.ArrayLike, values: npt.ArrayLike | None = None, *, failures: Mapping[int, str] | None = None
    ) -> None:
        """Take results of runs that were asked for, all of them or none.

        ids, values : the ids (n,) of runs, and the values of f there, (n,) or (n, C); numbers for a single run.
        failures : the reasons of runs without a value, by their ids.
        Results may be told again with the same values; other values are refused, and so are unknown ids.
        """
        bounds = None if self._quantity.stochastic else self._quantity.bounds
        expected = ExpectedResults(len(self._runs), self._values, self._outputs, self.names, bounds)
        results = expected.values(ids, values) + expected.failures({} if failures is None else failures)
        rows = [result.batch.t for result in results]
        if len(set(rows)) < len(rows):
            raise ValueError("a run is told with a value and as a failure: tell one of them.")
        self.take(results)

    @_one_at_a_time
    def take(self, results: Sequence[BatchResult]) -> None:
        """Take results of runs, each a batch of one point."""
        for result in results:
            if not result.failures:  # samples refuse larger values
                check_magnitude(result.f.reshape(1, -1), smallest=0.0)
        outputs = self._outputs
        if outputs is None:
            outputs = next((result.f.shape[1:] for result in results if not result.failures), None)
            self._require_outputs(outputs)
        if self._ledger is not None:
            self._ledger.tell(results, self._runs.x, outputs)
        self._outputs = outputs
        for result in results:
            self._take(result)
        if self._ledger is not None and any(result.seconds is not None for result in results):
            self._ledger.note(SECONDS_NOTE, self._seconds)

    def forget_failures(self) -> None:
        """Make failed runs pending again."""
        self._failures.clear()
        self._sampled = None

    def _take(self, result: BatchResult) -> None:
        t = result.batch.t
        if result.seconds is not None:
            self._seconds[t] = result.seconds
        if result.failures:
            self._failures[t] = result.failures[0]
        else:
            self._values[t] = result.f[0]
            self._failures.pop(t, None)

    @_one_at_a_time
    def fit(self) -> Fit:
        """The estimate of I from all results so far."""
        estimate = self._estimate(final=True)
        if estimate is None:
            failed = f", and {len(self._failures)} failed" * bool(self._failures)
            raise ValueError(
                f"{self._n_values} runs have values{failed}, but an estimate needs {self._policy.first} values: make "
                f"more runs."
            )
        return estimate.fit

    @property
    def _rounds_to_now(self) -> tuple[Round, ...]:
        """The rounds, with a last one for all runs, however few are new."""
        estimate, rounds = self._estimate(final=True), self.rounds
        if estimate is None or estimate.round is None or (rounds and rounds[-1].runs == estimate.round.runs):
            return rounds
        return (*rounds, estimate.round)

    @property
    def reached(self) -> bool:
        """Whether the goal is reached."""
        return is_reached(self.rounds, self.goal, self._pace.in_a_row)

    def _affordable(self, workers: int) -> int:
        """The number of further runs, besides those that were told, for which budget and deadline should suffice.

        A further run is expected to take as long, and to cost as much, as runs did on average.
        """
        goal, told, made = self.goal, self.n_told, len(self._seconds)
        left = [float(goal.budget - told)]
        each = sum(self._seconds.values()) / made if made else 0.0
        if goal.seconds is not None and made:
            left.append((goal.seconds - each * made) / max(each, _LEAST_SECONDS))
        if goal.cost is not None and told:
            spent = self._cost_so_far()
            left.append((goal.cost - spent) / max(spent / told, np.finfo(float).tiny))
        if self.deadline is not None:
            left.append((self.deadline - time.time()) / max(each, _LEAST_SECONDS) * workers)
        return max(int(min(left)), 0)

    def _cost_so_far(self) -> float:
        """The cost of all runs that were told."""
        if not callable(self._cost):
            return sum(self._seconds.values())
        done = np.array(sorted(self._values.keys() | self._failures.keys()), dtype=np.intp)
        return float(np.sum(self._runs.take(done).costs(self._cost)))

    @property
    @_timed
    def is_over(self) -> bool:
        """Whether the goal is reached, or the budget spent."""
        spent = self._affordable(1) < 1
        if spent and self.missing:  # failed runs do not count, unless they fill the budget
            spent = len(self._failures) >= self.goal.budget
        return spent or self.reached

    @_one_at_a_time
    def answer(self) -> AdaptiveAnswer:
        """The answer from all results so far."""
        fit, samples = self.fit(), self.samples
        assert samples is not None
        return AdaptiveAnswer(
            fit=fit,
            samples=samples,
            reached=self.reached,
            goal=self.goal,
            rounds=self._rounds_to_now,
            runs=self._quantity.started + self._runs.take(np.array(sorted(self._values), dtype=np.intp)),
            next=self._next(self._pace.named),
            seconds=sum(self._seconds.values()) if self._seconds else None,
            n_failed=len(self._failures),
            n_start=len(self._quantity.started),
            name=self._quantity.name,
            prior=self._quantity.prior,
        )

    def _asked(self, ids: Sequence[int]) -> Asked:
        rows = np.array(list(ids), dtype=np.intp)
        return Asked(rows, self._runs.theta[rows], self._runs.x[rows], self.names)

    @property
    def _n_values(self) -> int:
        """The number of runs with a value, with the points of `start`."""
        return len(self._values) + len(self._quantity.started)

    @_timed
    def _estimate(self, *, final: bool = False) -> FittedRound | None:
        """The estimate from all values; None if they are too few.

        Kernels are chosen at each round. Between rounds they stay, since a few more values change them little, unless
        the estimate is a `final` one, which is shown and not used to choose runs.
        """
        if self._n_values < self._policy.first:
            return None
        now = len(self._values), len(self._failures)
        at_last = bool(self._rounds) and self._rounds[-1].runs == self._n_values and (*now, True) in self._estimated
        chosen = final or self._is_round or self._kernels is None or at_last
        key = *now, chosen
        if key not in self._estimated:
            samples = self.samples
            assert samples is not None
            self._estimated = {each: known for each, known in self._estimated.items() if each[:2] == now}
            self._estimated[key] = self._fitted(samples, None if chosen else self._kernels)
        return self._estimated[key]

    def _fitted(self, samples: Samples, kernels: Kernels | None) -> FittedRound:
        """A fit and its round; kernels: of the last round, between rounds, where foci alone are needed.

        The half-widths of integrals ignore bounds, which would hide how far curves are apart, and are finite if all f
        are equal.
        """
        theta = self._wanted.theta if self.goal.of_mean_only else self._thetas_of_outcomes
        fit, goal = self._policy.fit(samples, kernels), self.goal
        if kernels is not None and goal.of_mean_only:
            return FittedRound(fit, None, ())
        free = fit._replaced(bounds=None, unseen=None)
        tails = 0.5 * (1 - goal.level), 0.5 * (1 + goal.level)
        asked = free._read(theta, lambda predictive: (predictive.mean, *map(predictive.quantile, tails)))
        of_mean = asked.reshape(3, len(theta), -1)
        equal = all_equal(samples)
        foci, columns, spread = list[tuple[Focus | CurveFocus | None, int]](), list[Array](), list[float]()
        for estimand, c in goal.columns(of_mean.shape[2], self.names):
            rng = keyed_generator(self._entropy, FOCUS_KEY, samples.n_evaluations)
            focus: Focus | CurveFocus | None = None
            found = of_mean[..., c]
            if isinstance(estimand, CurveEstimand) and not equal:
                focus = estimand.focus(free, c, self._quantity, goal.level, rng)
                found = np.full((3, len(theta)), focus.estimate)
                found[1:] += np.array([[-focus.accuracy], [focus.accuracy]])
            # A constant cannot be drawn, and the round is not sound.
            elif isinstance(estimand, Pointwise) and estimand.of_outcome and not equal:
                focus = Focus.on(estimand, c, fit, theta, rng)
                if kernels is None:
                    found = np.stack(focus.interval(goal.level, self._n_values))
            foci.append((focus, c))
            columns.append(found)
            spread.append(focus.spread if isinstance(focus, CurveFocus) else float(np.std(found[0])))
        if kernels is not None:
            return FittedRound(fit, None, () if equal else foci)
        mean, low, high = np.stack(columns, axis=-1)  # (G, K) each
        # An interval of a small probability is far from symmetric: the wider side counts.
        half_width = 0.5 * (high - low) if goal.of_mean_only else np.maximum(high - mean, mean - low)
        # Equal values at one of many thetas are harmless, but if all are equal, the runs show nothing of f.
        sound = self._policy.is_sound(fit, samples) and not equal
        sound = sound and all(focus.sound for focus, _ in foci if isinstance(focus, CurveFocus))
        round = Round(samples.n_evaluations, mean, half_width, sound, self._quantities)
        if any(isinstance(each, CurveEstimand) for each in goal.estimands):
            round = replace(round, spread=np.array(spread))
        return FittedRound(fit, round, () if goal.of_mean_only or equal else foci)

    @property
    def _quantities(self) -> tuple[str, ...]:
        """What is estimated, as a round records it."""
        return () if self.goal.of_mean_only else tuple(each.key for each in self.goal.estimands)

    @property
    def _thetas_of_outcomes(self) -> Array:
        """The thetas (G, p) of Q at which outcomes are computed, each once."""
        return np.unique(self._wanted.theta[: self._pace.thetas], axis=0)

    def _record_round(self) -> None:
        """Record the present round. Reading an estimate records nothing, so that it does not change the run."""
        rounds = self.rounds
        if len(rounds) == len(self._rounds):
            return
        estimate = self._estimate()
        assert estimate is not None
        self._kernels = self._policy.kernels(estimate.fit)
        if self._ledger is not None:
            record = rounds[-1].record | {KERNELS: _packed(self._kernels)}
            self._ledger.add_round(self._other_rounds + len(self._rounds), record)
        self._rounds = rounds

    def _need(self) -> Array | None:
        """The weights (K,) of quantities: squared half-widths in units of the goal, the largest 1."""
        rounds = self.rounds
        if not rounds:
            return None
        last = rounds[-1]
        size, target = self.goal.size(last.half_width), self.goal.target_at(last)
        unit = target if self.goal.has_target else np.maximum(np.std(last.mean, axis=0), np.finfo(float).tiny)
        with np.errstate(over="ignore"):
            ratio = np.minimum(size / np.maximum(unit, np.finfo(float).tiny), np.finfo(float).max)
        return np.asarray((ratio / np.max(ratio)) ** 2) if np.any(ratio > 0) else np.ones_like(ratio)
