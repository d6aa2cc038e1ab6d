"""Sessions in a file: what was told is there when the file is opened again, and what is refused leaves no trace."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import cbq
from cbq import problems
from cbq.checkpoint.ledger import read_ledger
from cbq.measures import Gaussian, Uniform
from cbq.runs.asked import RefusedResult
from cbq.runs.policies import MeasuredCost
from cbq.samples.runs import Runs


@pytest.fixture
def problem():
    return cbq.Problem(None, lambda theta: Gaussian(theta, 1.0), Uniform(0.0, 1.0), depends_on_theta=False)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "run.sqlite"


def tell_all(session, *, outputs=()):
    """Make as many runs as an estimate needs, and tell x, once for each output."""
    asked = session.ask(session.missing)
    session.tell(asked.ids, np.repeat(asked.x, outputs[0], axis=1) if outputs else asked.x[:, 0])


@pytest.mark.parametrize(
    ("told", "id"),
    [
        ({"ids": [1, 9], "values": [0.5, 0.5]}, 9),
        ({"ids": [1, 0], "values": [0.5, 0.75]}, 0),
        ({"ids": [1, 2], "values": [0.5, np.nan]}, 2),
        ({"ids": [], "failures": {1: "diverged", 0: "diverged"}}, 0),
    ],
)
def test_a_refused_result_names_its_run_and_nothing_is_taken(problem, path, told, id):
    with problem.session(rng=0, checkpoint=path) as session:
        session.ask(3)
        session.tell(0, 0.5)
        with pytest.raises(RefusedResult) as caught:
            session.tell(**told)
        assert caught.value.id == id
        assert session.n_told == 1
    assert len(read_ledger(path).results) == 1


def test_a_file_keeps_what_was_last_asked_for(problem, path):
    problem.session(tolerance=[0.5], budget=40, rng=0, checkpoint=path).close()
    problem.session(rtol=0.1, criterion="max", rng=0, checkpoint=path).close()
    expected = {"tolerance": None, "rtol": 0.1, "criterion": "max", "level": 0.95, "budget": 500}
    assert read_ledger(path).notes["goal"] == expected


def test_an_answer_without_enough_values_is_refused(problem):
    session = problem.session(rng=0)
    needed = session.missing
    asked = session.ask(needed)
    with pytest.raises(ValueError, match=f"0 runs have values, but an estimate needs {needed}"):
        session.answer()
    session.tell(asked.ids[1:], asked.x[1:, 0], failures={0: "diverged"})
    assert session.missing == 1


def test_the_figure_of_an_answer_takes_thetas(problem):
    session = problem.session(rng=0)
    tell_all(session)
    lowest = session.answer().plot(theta=[[0.25], [0.75]]).axes[-1]
    assert any("next runs" in text.get_text() for text in lowest.texts)
    x = session.answer().plot(half_width=False).axes[0].lines[0].get_xdata()
    ends = problem.prior.transport([[0.005], [0.995]]).ravel()
    assert x[0] <= ends[0] < ends[1] <= x[-1]


def test_the_history_has_columns_for_every_output(problem):
    session = problem.session(rtol=0.1, rng=0)
    needed = session.missing
    tell_all(session, outputs=(2,))
    columns = session.answer().history.to_columns()
    expected = [f"{name}_{c}" for name in ("half_width", "target") for c in (0, 1)]
    assert list(columns) == ["runs", "chosen", *expected]
    assert columns["runs"].tolist() == [needed]


@pytest.mark.parametrize("estimator", [cbq.MOBQ(), cbq.CBQ(), cbq.LSMC()])
def test_a_calibrated_fit_has_other_deviations_everywhere_also_in_a_file(tmp_path, estimator):
    problem = cbq.problems.get("linear")
    fit = estimator.fit(problem.collect(12, 8, rng=0, progress=False))
    theta, narrow = fit.theta[:4], fit.calibrated(0.5)
    assert_allclose(narrow.predict(theta), fit.predict(theta))
    assert_allclose(narrow.predict(theta, return_std=True)[1], 0.5 * fit.predict(theta, return_std=True)[1])
    assert_allclose(narrow.predict(theta, return_cov=True)[1], 0.25 * fit.predict(theta, return_cov=True)[1])
    assert_allclose(np.ptp(narrow.interval(theta), axis=0), 0.5 * np.ptp(fit.interval(theta), axis=0), rtol=1e-6)
    assert "standard deviations are 0.5 times" in narrow.summary()
    narrow.save(tmp_path / "fit.cbq")
    again = cbq.load(tmp_path / "fit.cbq", family=problem.family)
    assert_array_equal(again.interval(theta), narrow.interval(theta))
    with pytest.raises(ValueError, match="positive"):
        fit.calibrated(-1.0)


def test_measured_costs_lead_runs_to_where_they_are_quick():
    theta, x = np.linspace(0.0, 1.0, 40)[:, None], np.linspace(-2.0, 3.0, 40)[:, None]
    cost = MeasuredCost(Runs(theta, x), np.where(theta[:, 0] < 0.5, 1.0, 100.0))
    assert cost(np.array([0.2]), np.array([-1.0])) == pytest.approx(1.0)
    assert cost(np.array([0.8]), np.array([2.0])) == pytest.approx(100.0)


def test_the_time_that_runs_took_is_kept_and_told(path):
    problem = problems.get("linear")
    answer = problem.solve(budget=16, rng=0, checkpoint=path, cost="measured", progress=False)
    assert 0 < answer.seconds < 60
    assert len(read_ledger(path).notes["seconds"]) == 16
    again = problem.solve(budget=16, rng=0, checkpoint=path, cost="measured", progress=False)
    assert again.seconds == answer.seconds
    assert "s of f." in again.summary()


def test_a_cost_is_a_function_or_measured():
    with pytest.raises(TypeError, match="'measured' or None"):
        problems.get("linear").session(rng=0, cost="cheap")
