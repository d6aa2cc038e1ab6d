"""Sessions in a file: what was told is there when the file is opened again, and what is refused leaves no trace."""

from __future__ import annotations

import numpy as np
import pytest

import cbq
from cbq.adaptive.session import RefusedResult
from cbq.checkpoint.ledger import read_ledger
from cbq.measures import Gaussian, Uniform


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
    (panel,) = session.answer().plot(theta=[[0.25], [0.75]]).axes
    assert any(line.get_label() == "next runs" for line in panel.lines)


def test_the_history_has_columns_for_every_output(problem):
    session = problem.session(rtol=0.1, rng=0)
    needed = session.missing
    tell_all(session, outputs=(2,))
    columns = session.answer().history.to_columns()
    assert list(columns) == ["runs", "half_width_0", "half_width_1", "target_0", "target_1"]
    assert columns["runs"].tolist() == [needed]
