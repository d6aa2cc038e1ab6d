"""The file of an adaptive run: kills, other runs, damage, and what `Samples.from_checkpoint` reads from it."""

from __future__ import annotations

import os
import random
import re
import sqlite3
import subprocess
import sys
from collections import Counter
from contextlib import nullcontext
from functools import partial

import numpy as np
import pytest
from scipy import stats

import cbq
from cbq.checkpoint import CheckpointError, tables
from cbq.checkpoint.ledger import read_ledger
from cbq.measures import Empirical, Gaussian, Uniform
from cbq.runs import CollectWarning, IntegrandError
from cbq.runs.resuming import CHECKED_IF_EDITED, CHECKED_POINTS
from tests.checkpoint.test_checkpoint import REPAIRED, kill_while_running, lines, read_only, same, without_write_access

__all__ = ["read_only"]  # a fixture
pytestmark = pytest.mark.filterwarnings("ignore:.*use of fork:DeprecationWarning")  # by Python 3.12 and 3.13


def f(x, theta):
    return np.sin(x[:, 0]) + theta[0] * x[:, 0] ** 2


def family(theta):
    return Gaussian(theta, 1.0)


def gumbel(theta):
    """A measure without embeddings."""
    return stats.gumbel_r(theta[0], 1.0)


class Counting:
    """f, which counts the calls."""

    def __init__(self, integrand=f):
        self.n, self._f = 0, integrand

    def __call__(self, x, theta):
        self.n += len(x)
        return self._f(x, theta)


def changed(**options):
    options = {"integrand": Counting(), "family": family, "prior": Uniform(0.0, 1.0), "name": "curve", **options}
    return cbq.Problem(**options)


def solve(path=None, problem=None, **options):
    problem = changed() if problem is None else problem
    return problem.solve(**{"rng": 0, "budget": 20, "checkpoint": path, **options})


@pytest.fixture
def path(tmp_path):
    return tmp_path / "run.sqlite"


@pytest.fixture(scope="module")
def whole():
    """The samples of a run without a file."""
    return solve().samples


@pytest.fixture(scope="module")
def whole_file(tmp_path_factory):
    """The bytes of the file of a finished run."""
    path = tmp_path_factory.mktemp("whole") / "run.sqlite"
    solve(path)
    return path.read_bytes()


@pytest.fixture(scope="module")
def of_two_outputs():
    """The samples of f and x."""
    return solve(problem=changed(integrand=Failing([]))).samples


# kills

CHILD = """
import os, time
import numpy as np
import cbq

log = os.open({log!r}, os.O_WRONLY | os.O_APPEND | os.O_CREAT)

def f(x, theta):
    time.sleep(0.025)  # so that results are written one by one
    os.write(log, (theta.tobytes().hex() + " " + x.tobytes().hex() + "\\n").encode())
    return np.sin(x[:, 0]) + theta[0] * x[:, 0] ** 2

problem = cbq.Problem(f, lambda theta: cbq.measures.Gaussian(theta, 1.0), cbq.measures.Uniform(0.0, 1.0), name="curve")
problem.solve(rng=7, budget={budget}, batch={batch}, checkpoint={path!r}, executor={workers})
"""


def finished(path):
    """The runs with a value in the file, as the integrand writes them to its log."""
    if not path.exists() or not path.stat().st_size:
        return set()
    found = read_ledger(path)
    runs = [result.batch.t for result in found.results]
    return {f"{found.theta[t].tobytes().hex()} {found.x[t].tobytes().hex()}" for t in runs}


@pytest.mark.parametrize(
    ("workers", "kills"),
    [
        pytest.param(None, 2, id="in this process, twice"),
        pytest.param(None, 10, marks=pytest.mark.slow, id="in this process, ten times"),
        pytest.param(2, 10, marks=pytest.mark.slow, id="in two others, ten times"),
    ],
)
def test_a_run_that_was_killed_makes_the_runs_of_an_uninterrupted_one(tmp_path, workers, kills):
    path, log, rng, done = tmp_path / "run.sqlite", tmp_path / "log", random.Random(0), set()
    budget, batch = (18, 2) if kills == 2 else (60, 4)
    code = CHILD.format(log=str(log), path=str(path), workers=workers, budget=budget, batch=batch)
    killed = checked = 0
    for _ in range(kills):
        before = len(lines(log))
        killed += kill_while_running(code, log, rng, most_calls=2, longest_delay=0.3)
        checked += (again := len(done & set(lines(log)[before:])))
        assert again <= CHECKED_POINTS  # no other run that is in the file is made again
        done = finished(path)
    assert killed >= kills // 2  # later ones may come too late
    before = len(lines(log))
    subprocess.run([sys.executable, "-c", code], check=True)
    checked += (again := len(done & set(lines(log)[before:])))
    assert again == min(CHECKED_POINTS, len(done))  # a kill may come before there are as many
    whole = solve(rng=7, budget=budget, batch=batch).samples
    same(cbq.Samples.from_checkpoint(path), whole)
    calls = Counter(lines(log))
    assert set(calls) == finished(path)
    assert calls.total() - len(calls) <= killed * (workers or 1) + checked  # only runs in flight are repeated besides


@pytest.mark.parametrize("options", [{}, {"family": gumbel}], ids=["one process", "two stages"])
def test_a_finished_run_is_not_made_again_and_its_file_has_its_samples(path, options):
    counting = Counting()
    problem = changed(integrand=counting, **options)
    first = solve(path, problem, budget=42)
    assert counting.n == 42
    again = solve(path, problem, budget=42)
    assert counting.n == 42 + CHECKED_POINTS
    same(first.samples, again.samples)
    assert (again.reached, again.n_runs, len(again.rounds)) == (first.reached, first.n_runs, len(first.rounds))
    np.testing.assert_array_equal(again.next.x, first.next.x)
    same(cbq.Samples.from_checkpoint(path, problem.family), first.samples)
    same(solve(problem=problem, budget=42).samples, first.samples)
    assert os.listdir(path.parent) == [path.name]


def test_a_run_goes_on_with_a_larger_budget_and_a_smaller_tolerance(path):
    first = solve(path, rtol=10.0, budget=40)
    assert first.reached
    counting = Counting()
    more = solve(path, changed(integrand=counting), rtol=1e-9, budget=first.n_runs + 6)
    assert not more.reached
    assert more.n_runs == first.n_runs + 6
    assert counting.n == 6 + CHECKED_POINTS
    same(more.samples.select(range(first.samples.T)), first.samples)


def test_runs_that_start_from_samples_are_kept_too(path):
    """The shape of a value is known from the start, and a resumed run must find what was told."""
    problem = changed(integrand=lambda x, theta: np.column_stack([x[:, 0], theta[0] * x[:, 0]]))
    start = problem.collect(3, 4, rng=1)
    first = solve(path, problem, start=start)
    found = cbq.Samples.from_checkpoint(path, family)
    assert found.n_evaluations == 20
    same(start + found, first.samples)
    same(solve(path, problem, start=start).samples, first.samples)
    same(solve(problem=problem, start=start).samples, first.samples)
    assert len(read_ledger(path).results) == 20


def test_a_run_that_starts_from_another_one_makes_other_runs(whole):
    more = solve(start=whole, budget=4)
    assert more.n_runs == 4
    assert len({tuple(row) for row in more.samples.all_points}) == 24
    same(more.samples.select(range(20)), whole)


# failures of f


class Failing(Counting):
    """f, which fails at the calls with these numbers, the first of which is 0."""

    def __init__(self, at, error=ZeroDivisionError):
        super().__init__(self._value)
        self._at, self._error = at, error

    def _value(self, x, theta):
        if self.n - 1 in self._at:
            raise self._error
        return np.column_stack([f(x, theta), x[:, 0]])


@pytest.mark.parametrize("at", [0, 17])
def test_an_error_of_f_keeps_finished_runs(path, at, of_two_outputs):
    says = rf"ZeroDivisionError at .* {at} runs are in .*run\.sqlite: call solve again with the same arguments"
    with pytest.raises(IntegrandError, match=says):
        solve(path, changed(integrand=Failing([at])))
    rest = Failing([])
    with pytest.warns(CollectWarning, match=REPAIRED) if at else nullcontext():
        same(solve(path, changed(integrand=rest)).samples, of_two_outputs)
    assert rest.n == 20 - at + min(at, CHECKED_IF_EDITED)


def test_an_interrupt_keeps_finished_runs(path, of_two_outputs):
    with pytest.raises(KeyboardInterrupt, match=r"solve was interrupted\. 17 runs are in .*run\.sqlite: call solve"):
        solve(path, changed(integrand=Failing([17], KeyboardInterrupt)))
    with pytest.warns(CollectWarning, match=REPAIRED):
        same(solve(path, changed(integrand=Failing([]))).samples, of_two_outputs)
    with pytest.raises(KeyboardInterrupt, match=r"Nothing is kept: with checkpoint='run.sqlite'"):
        solve(problem=changed(integrand=Failing([3], KeyboardInterrupt)))


@pytest.mark.parametrize("at", [[0], [0, 1, 2], [4, 18]], ids=str)
def test_failures_are_kept_also_before_there_is_a_value(path, at):
    """The first runs show how many outputs f has: what the file has for a failure depends on that."""
    whole = solve(problem=changed(integrand=Failing(at)), budget=24, on_error="skip")
    assert whole.n_failed == len(at)
    assert np.sum(whole.samples.failures.counts) == len(at)
    last = max(at) + 1
    options = {"budget": 24, "on_error": "skip", "progress": partial(interrupt, last)}
    with pytest.raises(KeyboardInterrupt):
        solve(path, changed(integrand=Failing(at)), **options)
    stored = read_ledger(path)
    assert [result.batch.t for result in stored.results if result.failures] == at
    rest, values = Failing([]), len(stored.results) - len(at)
    with pytest.warns(CollectWarning, match=REPAIRED) if values else nullcontext():
        answer = solve(path, changed(integrand=rest), budget=24, on_error="skip")
    assert rest.n == 24 - len(stored.results) + min(values, CHECKED_IF_EDITED)
    same(answer.samples, whole.samples)
    same(cbq.Samples.from_checkpoint(path, family), whole.samples)
    assert np.sum(cbq.Samples.from_checkpoint(path, family).failures.counts) == len(at)


def interrupt(at, done, total):
    if done >= at:
        raise KeyboardInterrupt


def test_raise_makes_runs_again_that_were_skipped(path):
    solve(path, changed(integrand=Failing([3, 17])), on_error="skip")
    repaired = Failing([])
    with pytest.warns(CollectWarning, match=REPAIRED):
        answer = solve(path, changed(integrand=repaired))
    assert repaired.n == 2 + CHECKED_IF_EDITED
    assert answer.n_failed == 0
    assert answer.samples.n_evaluations == 20
    assert cbq.Samples.from_checkpoint(path, family).failures is None


def test_other_outputs_are_refused(path, whole_file):
    path.write_bytes(whole_file)
    with pytest.raises(CheckpointError, match=r"holds values of another f: .* returned shape \(1, 2\)"):
        solve(path, changed(integrand=Counting(lambda x, theta: np.hstack([x, x]))), budget=24)
    with pytest.raises(IntegrandError, match=r"returned shape \(1, .*\) for 1 points .* but \(1, .*\) is needed"):
        solve(problem=changed(integrand=lambda x, theta: x if x[0, 0] < 0 else np.hstack([x, x])))


# files of other runs, and damaged ones


OTHERS = {
    "seed": ({}, {"rng": 1}, "the seed is rng=0 in the file, and rng=1 was asked for"),
    "name": ({"name": "other"}, {}, "the name of the problem is 'curve' in the file, and 'other' was asked"),
    "depends": ({"depends_on_theta": False}, {}, "depends_on_theta is True in the file, and False was asked"),
    "stochastic": ({"stochastic": True}, {}, "stochastic is False in the file, and True was asked"),
    "prior": ({"prior": Uniform(0.0, 2.0)}, {}, r"the prior is 'Uniform\(0, 1\).*' in the file, and 'Uniform\(0, 2\)"),
    "level": ({}, {"level": 0.9}, "the level of the intervals is 0.95 in the file, and 0.9 was asked for"),
    "d": (
        {"family": lambda theta: Gaussian([0.0, 1.0], 1.0)},
        {},
        "the dimension d of x is 1 in the file, and 2 was asked",
    ),
    "family": (
        {"family": lambda theta: Gaussian(theta, cov=2.0)},
        {},
        r"the measure of x at theta index t = 0 is Gaussian\(.*, 1\) in the file, and Gaussian\(.*, 2\) was asked",
    ),
}


@pytest.mark.parametrize(("problem", "options", "message"), OTHERS.values(), ids=OTHERS)
def test_another_run_is_refused_and_the_difference_named(path, problem, options, message):
    with changed().session(rng=0, checkpoint=path) as session:
        session.tell(session.ask(3).ids, np.zeros(3))
    before, counting = path.read_bytes(), Counting()
    with pytest.raises(CheckpointError, match=message) as caught:
        solve(path, changed(**{"integrand": counting, **problem}), **options)
    assert "is the checkpoint of another run" in str(caught.value)
    assert path.read_bytes() == before
    assert not counting.n
    with changed().session(rng=0, checkpoint=path) as session:  # the file was released
        assert session.n_told == 3


def test_other_samples_to_start_from_are_refused(path):
    start = [changed().collect(2, 3, rng=seed) for seed in (1, 2)]
    changed().session(rng=0, start=start[0], checkpoint=path).close()
    for other in (start[1], None):
        with pytest.raises(CheckpointError, match=r"the samples to start from is '.*' in the file, and "):
            changed().session(rng=0, start=other, checkpoint=path)


def test_priors_that_begin_alike_are_told_apart(path):
    points = np.linspace(0.0, 1.0, 9)
    changed(prior=Empirical(points)).session(rng=0, checkpoint=path).close()
    points[-1] = 2.0
    with pytest.raises(CheckpointError, match="the prior is"):
        changed(prior=Empirical(points)).session(rng=0, checkpoint=path)


def test_files_of_collect_and_of_solve_are_not_mixed_up(path, tmp_path):
    collected = tmp_path / "collected.sqlite"
    changed().collect(3, 4, rng=0, checkpoint=collected)
    changed().session(rng=0, checkpoint=path).close()
    before = path.read_bytes(), collected.read_bytes()
    with pytest.raises(CheckpointError, match="another run: the design is 'iid' in the file, and it is no adaptive"):
        solve(collected)
    with pytest.raises(CheckpointError, match="the design is 'adaptive' in the file, and 'iid' was asked for"):
        changed().collect(3, 4, rng=0, checkpoint=path)
    assert (path.read_bytes(), collected.read_bytes()) == before


class Edited(Counting):
    """f, whose source is another one."""


def test_an_edited_integrand_is_reported_and_a_few_runs_are_made_again(path, whole, whole_file):
    path.write_bytes(whole_file)
    counting = Edited()
    with pytest.warns(CollectWarning, match=REPAIRED) as caught:
        again = changed(integrand=counting).solve(rng=0, budget=20, checkpoint=path)
    assert caught[0].filename == __file__
    assert counting.n == CHECKED_IF_EDITED
    same(again.samples, whole)


def test_a_family_that_has_another_source_and_the_same_measures_is_reported(path):
    with changed().session(rng=0, checkpoint=path) as session:
        session.tell(session.ask(3).ids, np.zeros(3))
    with pytest.warns(CollectWarning, match=r"the family has changed since .* Its measures at the stored thetas are"):
        changed(family=lambda theta: family(theta)).session(rng=0, checkpoint=path).close()


def test_an_empty_file_is_a_new_one(path, whole):
    path.touch()
    same(solve(path).samples, whole)


def test_a_file_without_values_says_so(path):
    with changed().session(rng=0, checkpoint=path) as session:
        with pytest.raises(CheckpointError, match="is in use"):
            cbq.Samples.from_checkpoint(path)
        session.ask(3)
    with pytest.raises(CheckpointError, match="has no run with a value yet: make the runs that it asks for"):
        cbq.Samples.from_checkpoint(path)
    with changed().session(rng=0, checkpoint=path) as session:
        session.tell([], failures={0: "crashed"})
    with pytest.raises(CheckpointError, match="has no run with a value yet"):
        cbq.Samples.from_checkpoint(path)


@pytest.mark.slow
def test_a_damaged_file_is_refused_and_left_unchanged(path, whole, whole_file):
    """Whichever bit is flipped, the file is refused or its samples are unchanged."""
    rng, refused = random.Random(0), 0
    used = [place for place, byte in enumerate(whole_file) if byte]  # much of a small file is free space
    for _ in range(60):
        damaged = bytearray(whole_file)
        damaged[rng.choice(used)] ^= 1 << rng.randrange(8)
        path.write_bytes(damaged)
        for attempt in (lambda: solve(path).samples, lambda: cbq.Samples.from_checkpoint(path, family)):
            try:
                same(attempt(), whole)
            except CheckpointError:
                refused += 1
                assert path.read_bytes() == damaged
    assert refused > 60  # of 120, since samples are read without the rounds


@pytest.mark.parametrize("table", ["meta", "thetas", "measures", "asked", "batches", "rounds"])
def test_a_row_that_is_not_what_was_written_is_damage(path, table, whole_file):
    path.write_bytes(whole_file)
    connection = sqlite3.connect(path)
    connection.execute(f"UPDATE {table} SET checksum = checksum + 1")
    connection.commit()
    connection.close()
    before = path.read_bytes()
    with pytest.raises(CheckpointError, match=r"is damaged: .* The file is unchanged"):
        solve(path)
    assert path.read_bytes() == before


@pytest.mark.parametrize("share", [0.1, 0.5, 0.9])
def test_a_truncated_file_is_reported(path, share, whole_file):
    path.write_bytes(whole_file)
    cut = path.read_bytes()[: int(share * path.stat().st_size) // 4096 * 4096]
    path.write_bytes(cut)
    with pytest.raises(CheckpointError, match="is damaged"):
        solve(path)
    assert path.read_bytes() == cut


def test_a_file_in_a_read_only_folder_can_be_read_and_not_continued(path, monkeypatch, whole, whole_file):
    path.write_bytes(whole_file)
    without_write_access(monkeypatch)
    same(cbq.Samples.from_checkpoint(path, family), whole)
    for name in (path, path.with_name("new.sqlite")):
        with pytest.raises(CheckpointError, match=rf"{name.name} is read-only, or in a read-only folder"):
            solve(name)
    assert os.listdir(path.parent) == [path.name]


def test_a_file_on_a_read_only_file_system_can_be_read_and_not_continued(path, read_only, whole, whole_file):
    path.write_bytes(whole_file)
    read_only()
    same(cbq.Samples.from_checkpoint(path, family), whole)
    with pytest.raises(CheckpointError, match="is read-only, or in a read-only folder"):
        solve(path)


TRY = """
import sys
sys.path.insert(0, {folder!r})
from tests.checkpoint.test_ledger import changed
try:
    changed().session(rng=0, checkpoint={path!r})
except ValueError as error:
    print(error)
"""


def test_a_file_is_open_once(path):
    with changed().session(rng=0, checkpoint=path) as session:
        session.ask(2)
        with pytest.raises(CheckpointError, match=r"run\.sqlite is in use by another run: wait"):
            changed().session(rng=0, checkpoint=path)
        code = TRY.format(folder=os.path.dirname(os.path.dirname(os.path.dirname(__file__))), path=str(path))
        child = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        assert re.search(r"run\.sqlite is in use by another run: wait", child.stdout)
        session.tell(0, 1.0)
    with changed().session(rng=0, checkpoint=path) as session:
        assert session.pending.ids.tolist() == [1]


def test_a_closed_session_can_be_read_and_nothing_else(path):
    with changed().session(rng=0, checkpoint=path) as session:
        asked = session.ask()
        session.tell(asked.ids, np.sin(asked.x[:, 0]))
    assert session.fit().predict([0.5]).shape == (1,)
    assert session.checkpoint == str(path)
    for attempt in (lambda: session.ask(1), lambda: session.tell(asked.ids, np.sin(asked.x[:, 0]))):
        with pytest.raises(CheckpointError, match=r"is closed, and others may have it open: open the session again"):
            attempt()
    assert session.n_asked == len(asked)


def test_what_cannot_be_written_is_not_taken(path, monkeypatch):
    def full(*arguments):
        raise sqlite3.OperationalError("database or disk is full")

    with changed().session(rng=0, checkpoint=path) as session:
        session.ask(3)
        with monkeypatch.context() as patched:
            patched.setattr(tables, "write_batch", full)
            patched.setattr(tables, "write_thetas", full)
            for attempt in (lambda: session.tell([0, 1], np.ones((2, 2))), lambda: session.ask(2)):
                with pytest.raises(CheckpointError, match=r"cannot be read or written .database or disk is full"):
                    attempt()
        assert (session.n_asked, session.n_told, session.outputs) == (3, 0, None)
        session.tell([0, 1], np.ones(2))
        session.ask(2)
    with changed().session(rng=0, checkpoint=path) as session:
        assert (session.n_asked, session.n_told, session.outputs) == (5, 2, ())


def test_a_problem_without_integrand_makes_no_file(path):
    with pytest.raises(ValueError, match=r"is None, so it cannot be evaluated here: pass the function to cbq\.Problem"):
        solve(path, changed(integrand=None))
    assert not path.exists()
