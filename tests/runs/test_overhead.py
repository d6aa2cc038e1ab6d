"""The own time of an adaptive run: shares of batches that keep a limit, kernels that are kept, and lines of a log."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from scipy import stats

import cbq
from cbq.checkpoint.ledger import read_ledger
from cbq.common import Course
from cbq.measures import Gaussian, Uniform
from cbq.runs.overhead import ONE_BATCH, SHARES, SOBOL, Overhead, Spent
from cbq.runs.solve import Shown


def spent(each, runs=(16, 18), share=SHARES[0]):
    """After two rounds of so many seconds each."""
    return Spent(2 * each, tuple((n, each) for n in runs), share)


def walk(seconds, per_run, budget, limit):
    """The own seconds and the numbers of runs of a whole run whose rounds take so many seconds each."""
    found, runs = Spent(), [16]
    while runs[-1] < budget:
        found = found.after(runs[-1], seconds)
        share = found.share_for(limit, runs[-1], budget, per_run)
        found = Spent(found.seconds, found.rounds, share)
        runs.append(min(runs[-1] - (-runs[-1] // share) if share > ONE_BATCH else budget, budget))
    return found.seconds, runs


def test_batches_are_an_eighth_where_there_is_time():
    limit = Overhead()
    assert spent(0.1).share_for(limit, 20, 100, 1e-3) == 8
    assert spent(5.0).share_for(limit, 20, 1000, 100.0) == 8
    assert spent(5.0).share_for(Overhead(free=1e9), 20, 1000, 0.0) == 8


def test_batches_are_larger_where_choosing_takes_longer_than_f():
    limit, shares = Overhead(), [spent(each).share_for(Overhead(), 20, 1000, 0.0) for each in (0.1, 0.3, 0.6, 3.0)]
    assert shares == sorted(shares, reverse=True)
    assert shares[-1] == SOBOL
    for seconds in (0.05, 0.5, 1.0, 2.0):
        for per_run in (0.0, 0.01, 0.1):
            own, runs = walk(seconds, per_run, 1000, limit)
            assert own <= limit.free + limit.ratio * per_run * runs[-1]
    assert len(walk(0.5, 0.0, 1000, limit)[1]) > 8  # and not all at once, where there is time for rounds


def test_batches_double_while_there_is_time_for_one_more_choice_of_all_further_runs():
    _, runs = walk(1.0, 0.0, 900, Overhead())
    assert runs == [16, 18, 36, 72, 900]  # at 72, 4 s are spent, and rounds at 144 and 900 would take 6.2
    assert spent(4.0).share_for(Overhead(), 20, 60, 0.0) == SOBOL  # 8 s are spent, and a choice takes 4
    assert spent(1.4).share_for(Overhead(), 20, 800, 0.0) == ONE_BATCH
    assert spent(1.0).share_for(Overhead(), 20, 800, 0.0) == 1


def test_a_smaller_batch_needs_a_margin():
    limit = Overhead()
    each = next(s for s in np.linspace(0.01, 1.0, 400) if spent(s).share_for(limit, 20, 1000, 0.0) < 8) - 0.0025
    assert spent(each).share_for(limit, 20, 1000, 0.0) == 8
    assert spent(each, share=6).share_for(limit, 20, 1000, 0.0) == 6


def test_sobol_points_are_no_measure_of_the_time_of_a_choice():
    plain = spent(4.0, share=SOBOL).after(400, 0.0).after(700, 0.0)
    assert plain.rounds == spent(4.0).rounds
    assert plain.share_for(Overhead(), 700, 1000, 0.0) == SOBOL


def test_a_round_makes_one_fit(monkeypatch):
    """The choice takes the fit of the round, which has the same kernels."""
    made = []
    original = cbq.MOBQ._with_kernels
    monkeypatch.setattr(cbq.MOBQ, "_with_kernels", lambda self, *args: made.append(1) or original(self, *args))
    with curve(None).session(rng=0, budget=60) as session:
        told(session, 20)
        assert not session.is_over
        told(session, 4)
        told(session, 4)
        assert not made
        session.ask(1)
        session.ask(1)
    assert len(made) == 0


def test_failures_that_are_made_again_are_no_stale_samples():
    with curve(None).session(rng=0, budget=40) as session:
        asked = session.ask(16)
        session.tell(asked.ids[:14], np.sin(asked.x[:14, 0]), failures={15: "lost"})
        assert_array_equal(session.samples.failures.x, asked.x[15:])
        session.forget_failures()
        session.tell([], failures={14: "lost"})
        assert_array_equal(session.samples.failures.x, asked.x[14:15])


def curve(integrand=lambda x, theta: np.sin(x[:, 0]) + theta[0] * x[:, 0] ** 2):
    return cbq.Problem(integrand, lambda theta: Gaussian(theta, 1.0), Uniform(0.0, 1.0))


def told(session, n):
    asked = session.ask(n)
    session.tell(asked.ids, [np.sin(x[0]) + theta[0] * x[0] ** 2 for _, theta, x in asked])
    return asked.x


def gumbel(theta, scale):
    """Without embeddings."""
    return stats.gumbel_r(theta[0], scale)


@pytest.mark.parametrize("measure", [Gaussian, gumbel])
def test_a_run_without_time_of_its_own_is_finished_by_points_of_the_measures(measure, tmp_path):
    problem, path = cbq.Problem(None, lambda theta: measure(theta, 1.0), Uniform(0.0, 1.0)), tmp_path / "run.sqlite"
    with problem.session(rng=0, budget=80, checkpoint=path) as session:
        while session.n_told < 80:
            session._spent = Spent(1e9, ((16, 1e9),) * 2) if len(session.rounds) > 1 else session._spent
            session._seconds = dict.fromkeys(range(session.n_told), 0.0)
            session._keep_pace(Overhead())
            told(session, min(session.batch_size(1), 80 - session.n_told))
    stored = read_ledger(path)
    assert stored.notes["own"]["share"] == SOBOL
    assert Counter(first for first, _ in stored.choices)[stored.choices[-1][0]] > 20
    with problem.session(rng=0, budget=80, checkpoint=path) as session:
        assert session._spent.share == SOBOL
        assert session.batch_size(1) == 10  # this session has no limit: it chooses an eighth of the runs
        assert session.answer().n_runs == 80


def test_all_further_runs_may_be_one_choice():
    with curve(None).session(rng=0, budget=80) as session:
        told(session, 16)
        told(session, 4)
        session._limit, session._spent = Overhead(), Spent(share=ONE_BATCH)
        assert session.batch_size(1) == 60
        plain = session._next(60, plain=True)
        x = told(session, 60)
        assert np.mean(np.isin(x, plain.x)) < 0.5  # both are from one sequence
    with curve(None).session(rng=0, budget=80) as free:
        told(free, 16)
        told(free, 4)
        assert_array_equal(told(free, 60), x)  # chosen as any other batch


def test_kernels_are_chosen_once_a_round_also_by_sessions_that_are_opened_again(tmp_path, monkeypatch):
    """Runs of all processes are those of one session; a choice between rounds makes no fit from scratch."""
    chosen = []
    original = cbq.MOBQ._fit_points
    monkeypatch.setattr(cbq.MOBQ, "_fit_points", lambda self, samples: chosen.append(1) or original(self, samples))
    with curve(None).session(rng=0, budget=60) as session:
        told(session, 40)
        for _ in range(3):
            told(session, 1)
        expected = told(session, 2)
    assert len(chosen) == 1
    path = tmp_path / "run.sqlite"
    for n in (40, 1, 1, 1, 2):
        with curve(None).session(rng=0, budget=60, checkpoint=path) as session:
            found = told(session, n)
    assert_array_equal(found, expected)
    assert len(chosen) == 2


def test_an_estimate_that_is_shown_has_kernels_of_its_own():
    with curve(None).session(rng=0, budget=60) as session:
        told(session, 40)
        told(session, 1)
        told(session, 1)
        assert_array_equal(
            session.fit().predict([0.5]), cbq.MOBQ(structure="dense").fit(session.samples).predict([0.5])
        )


def test_a_line_of_a_log_has_runs_half_width_seconds_and_what_is_left():
    lines, ticks = [], iter(np.arange(0.0, 100.0, 10.0))
    course = Course()
    course.line = lines.append
    with curve(None).session(rtol=1e-9, rng=0, budget=60) as session:
        shown = Shown(session, course, "curve", lambda: next(ticks))
        told(session, 20)
        shown.chosen()
        assert not lines
        told(session, 5)
        shown.chosen()
        shown.chosen()
    assert len(lines) == 1
    assert lines[0].startswith("curve: 25 of at most 60 runs, half-width ")
    assert lines[0].endswith(", 10 s, at most about 14 s left")


def test_overhead_is_a_number():
    for value in (-1.0, np.nan, "fast", True):
        with pytest.raises(ValueError, match="overhead must be a number, zero or more, or None"):
            curve().solve(budget=16, rng=0, overhead=value)
