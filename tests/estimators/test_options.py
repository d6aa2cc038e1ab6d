"""Frozen options of processes, estimators and adaptive runs: a field that cannot be meant is refused by its name."""

from dataclasses import fields

import pytest

import cbq
from cbq.common.arrays import blocks, evenly
from cbq.estimators.multioutput.suggestion import Exploration
from cbq.gp.landmarks import LandmarkSelection
from cbq.gp.likelihood import LikelihoodOptions
from cbq.runs.session import Pace

OPTIONS = (LandmarkSelection, LikelihoodOptions, Exploration, Pace)
NAMES = [(kind, field.name) for kind in OPTIONS for field in fields(kind)]
ids = [f"{kind.__name__}-{name}" for kind, name in NAMES]


@pytest.mark.parametrize(("kind", "name"), NAMES, ids=ids)
@pytest.mark.parametrize("value", ["1", None, float("nan"), -float("inf"), True, [1.0, 2.0], (), (2.0, 1.0, "3")])
def test_every_field_refuses_what_cannot_be_meant(kind, name, value):
    with pytest.raises(ValueError, match=f"^{name} must be"):
        kind(**{name: value})


@pytest.mark.parametrize("kind", OPTIONS)
def test_defaults_are_accepted_when_they_are_passed(kind):
    default = kind()
    assert kind(**{field.name: getattr(default, field.name) for field in fields(kind)}) == default


@pytest.mark.parametrize(
    ("estimator", "options"),
    [
        (cbq.LSMC, {"largest": 0}),
        (cbq.LSMC, {"ridges": ()}),
        (cbq.LSMC, {"ridges": (1.0, -1.0)}),
        (cbq.KLSMC, {"ridges": [1.0]}),
        (cbq.KLSMC, {"lengthscales": (0.0,)}),
        (cbq.KLSMC, {"thetas": 1}),
    ],
)
def test_grids_of_regressions_are_refused_by_name(estimator, options):
    with pytest.raises(ValueError, match=f"^{next(iter(options))} must be"):
        estimator(**options)


def test_a_grid_of_one_is_what_is_chosen():
    samples = cbq.problems.get("butterfly").collect(T=12, N=20, rng=0)
    assert cbq.LSMC(largest=1, ridges=(0.5,)).fit(samples).smoothers[0].ridge == 0.5
    smoother = cbq.KLSMC(cbq.kernels.RBF(), lengthscales=(2.0,), ridges=(0.25,)).fit(samples).smoothers[0]
    assert smoother.ridge == 0.25


@pytest.mark.parametrize(("n", "size"), [(0, 3), (1, 3), (3, 3), (10, 3)])
def test_blocks_cover_all_rows_once(n, size):
    rows = [i for block in blocks(n, size) for i in range(n)[block]]
    assert rows == list(range(n))


def test_evenly_spaced_rows_are_at_most_all_of_them():
    assert evenly(5, 10**12).tolist() == [0, 1, 2, 3, 4]
    assert evenly(5, 3).tolist() == [0, 2, 4]
