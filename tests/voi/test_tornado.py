"""Tornados: expectations given one input, against closed forms and averages over slices of the table."""

import numpy as np
import pytest

from cbq.voi import tornado

N = 3000


def table(seed):
    """Net benefits that are linear in two correlated normal inputs, with noise."""
    rng = np.random.default_rng(seed)
    a = rng.normal(size=N)
    b = 0.6 * a + 0.8 * rng.normal(size=N)
    new = 1.0 + 2.0 * a - b + 0.5 * rng.normal(size=N)
    return {"old": np.zeros(N), "new": new}, {"a": a, "b": b}


def test_ends_are_conditional_expectations_with_their_errors():
    scores = []
    for seed in range(8):
        outputs, inputs = table(seed)
        found = tornado(outputs, inputs)
        assert (found.decision, found.reference) == ("new", "old")
        assert found.average == pytest.approx(outputs["new"].mean(), rel=1e-12)
        # E[new | a] = 1 + (2 - 0.6) a and E[new | b] = 1 + (2 * 0.6 - 1) b.
        slopes = {"a": 1.4, "b": 0.2}
        for row in found.rows:
            ends = (row.low, row.at_low, row.at_low_se), (row.high, row.at_high, row.at_high_se)
            scores += [(value - 1.0 - slopes[row.pars] * at) / se for at, value, se in ends]
        assert [row.pars for row in found.rows] == ["a", "b"]
        assert found.rows[0].swing > found.rows[1].swing
    assert len(scores) == 32
    assert np.max(np.abs(scores)) < 4
    assert np.sqrt(np.mean(np.square(scores))) < 1.6


def test_ends_agree_with_averages_of_slices():
    outputs, inputs = table(0)
    row = tornado(outputs, inputs, ["a"], between=(0.2, 0.7)).rows[0]
    for at, value, share in ((row.low, row.at_low, 0.2), (row.high, row.at_high, 0.7)):
        low, high = np.quantile(inputs["a"], [share - 0.02, share + 0.02])
        inside = (inputs["a"] > low) & (inputs["a"] < high)
        assert low < at < high
        mean = outputs["new"][inside].mean()
        assert abs(value - mean) < 4 * outputs["new"][inside].std() / np.sqrt(inside.sum())
    assert (row.best_at_low, row.best_at_high) == ("old", "new")


def test_effects_and_costs_give_the_same_as_net_benefits():
    outputs, inputs = table(1)
    effects, costs = {"old": outputs["old"], "new": outputs["new"] / 100}, {"old": np.zeros(N), "new": np.zeros(N)}
    one = tornado(outputs, inputs).rows
    other = tornado((effects, costs), inputs, willingness_to_pay=100).rows
    assert [row.at_high for row in other] == pytest.approx([row.at_high for row in one], abs=1e-6)


def test_comparisons_are_chosen_and_inputs_that_do_not_vary_are_left_out():
    outputs, inputs = table(2)
    outputs["third"] = outputs["new"] - 5.0
    found = tornado(outputs, inputs | {"k": np.ones(N), "w": ["x", "y", "z"] * (N // 3)}, reference="third", decision=1)
    assert (found.decision, found.reference) == ("new", "third")
    assert [row.pars for row in found.rows] == ["a", "b"]
    assert [row.at_low for row in found.rows] == pytest.approx([5.0, 5.0])
    assert "Not drawn, because not a single input of numbers that vary: k, w" in found.notes
    pytest.importorskip("matplotlib")
    assert found.in_currency("EUR").plot().axes[0].get_xlabel() == "net benefit of new less third (EUR)"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"between": (0.9, 0.1)}, "between must be rising"),
        ({"between": 0.5}, "between must be two shares"),
        ({"decision": "new", "reference": "new"}, "decision and reference must be different"),
        ({"reference": "neu"}, "reference must be a decision.*did you mean 'new'"),
        ({"pars": "a"}, "pars must be 'all' or a list"),
        ({"willingness_to_pay": [1, 2]}, "willingness_to_pay must be one number"),
    ],
)
def test_bad_arguments_are_refused(options, message):
    with pytest.raises((TypeError, ValueError), match=message):
        tornado(*table(0), **options)
