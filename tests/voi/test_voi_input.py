"""Tables of decision models as people have them: what counts as an input, an output or neither, and what is said."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import cbq
from cbq.samples.columns import ColumnTable
from cbq.voi import evpi, evppi
from cbq.voi.roles import (
    decision_names,
    guess_effects_and_costs,
    guess_net_benefits,
    numbers_rows,
    output_name,
    outputs_beside,
    select_inputs,
)
from cbq.voi.sets import MAX_LEVELS, column_sets
from refusals import refusals

N = 60
RNG = np.random.default_rng(0)
A, B = RNG.standard_normal((2, N))
OUT = {"old": np.zeros(N), "new": A + 0.5 * B + 0.3 * RNG.standard_normal(N)}
IN = {"a": A, "b": B}


def sets_of(inputs, pars):
    return column_sets(pars, ColumnTable.of(inputs, "inputs"), tuple(OUT))


def value(inputs, pars, outputs=OUT, **options):
    return evppi(outputs, inputs, pars, **options)


# --- sets that say nothing, or the same twice


def test_a_constant_column_is_worth_nothing_and_has_a_note():
    constant, informative = value(IN | {"k": np.full(N, 0.1)}, ["k", "a"]).rows
    assert (constant.evppi, constant.se, constant.lower, constant.upper, constant.plug_in) == (0, 0, 0, 0, 0)
    assert constant.note == "constant, so that there is nothing to learn"
    assert informative.evppi > 0
    assert informative.note == ""


def test_constant_and_dependent_columns_change_nothing_but_the_note():
    inputs = IN | {"k": np.full(N, 3.0), "twice": 2 * A - 1, "sum": A - 2 * B}
    plain, more = value(inputs, [["a", "b"], ["a", "k", "b", "twice", "sum"]]).rows
    assert (more.evppi, more.se) == (plain.evppi, plain.se)
    assert more.note == (
        "'k' left out, because constant; 'twice', 'sum' left out, because other columns of the set determine it: EVPPI "
        "is the same"
    )


@pytest.mark.parametrize("p", [1, 3, 8])
def test_kept_columns_span_what_all_columns_span(p):
    base = np.random.default_rng(p).standard_normal((N, p))
    mixed = np.concatenate([base, base @ np.random.default_rng(1).standard_normal((p, 4)), np.ones((N, 1))], axis=1)
    (found,), _ = sets_of(mixed, [list(range(p + 5))])
    assert found.columns.shape == (N, p)
    centred = found.columns - found.columns.mean(axis=0)
    assert np.linalg.matrix_rank(centred) == p


# --- categories


def test_two_words_are_worth_the_same_as_a_number():
    on = A > 0.3
    rows = value({"number": on * 1.0, "flag": on, "word": np.where(on, "TRUE", "FALSE")}, [[0], [1], [2]]).rows
    assert rows[0].evppi == rows[1].evppi > 0
    assert_allclose(rows[2].evppi, rows[1].evppi, rtol=1e-6)  # FALSE is 1, and TRUE is 0


def test_categories_are_indicators_of_one_set():
    words = np.array(["mild", "severe", "none"])[np.digitize(A, [-0.5, 0.5])]
    (found,), _ = sets_of({"state": words, "b": B}, [["state", "b"]])
    assert found.columns.shape == (N, 3)
    assert found.notes == ("'state' has 3 categories",)
    kinds = {tuple(row) for row in np.round(found.columns[:, :2], 6)}
    assert len(kinds) == 3
    for word in ("mild", "severe", "none"):
        assert len({tuple(row) for row in found.columns[words == word, :2]}) == 1


def test_the_rarest_of_many_categories_are_taken_together():
    words = [f"w{min(i % 20, 15)}" for i in range(200)]
    (found,), _ = sets_of({"state": words}, ["state"])
    assert found.columns.shape[1] == MAX_LEVELS - 1
    assert found.notes == ("the 5 rarest of 16 categories of 'state' are taken together",)


# --- what pars may be


def test_all_and_pairs_leave_out_what_is_no_input():
    inputs = {
        "id": [f"r{i}" for i in range(N)],
        "Unnamed: 0": np.arange(N),
        "count": RNG.permutation(N) + 1,
        "a": A,
        "b": B,
        "k": np.full(N, 2.0),
        "cost_old": B,
        "cost_new": A,
        "c_drug": A * B,
        "hole": np.where(A > 0, A, np.nan),
    }
    table = value(inputs, "all", outputs=_net())
    assert [row.pars for row in table.rows] == ["a", "b", "k", "c_drug"]
    (note,) = table.notes
    for name in ("id", "Unnamed: 0", "count", "cost_old", "cost_new", "hole"):
        assert repr(name) in note
    stated = "the same as pars=['a', 'b', 'k', 'c_drug']"
    assert note.endswith(f"name a column in pars= to value it all the same; {stated}")
    pairs = value(inputs, "pairs", outputs=_net())
    assert [row.pars for row in pairs.rows] == ["a, b", "a, c_drug", "b, c_drug"]
    (forced,) = value(inputs, ["count"], outputs=_net()).rows
    assert forced.pars == "count"


def _net():
    """Net benefits whose names are not among the inputs."""
    return {"nb_old": OUT["old"], "nb_new": OUT["new"]}


def test_all_is_the_default_and_values_each_input_alone():
    assert [row.pars for row in evppi(OUT, IN).rows] == ["a", "b"]
    assert value(IN, "all").rows == value(IN, ["a", "b"]).rows


def test_a_mapping_names_the_sets():
    table = value(IN, {"both of them": ["a", "b"], "one": "a"})
    assert [row.pars for row in table.rows] == ["both of them", "one"]
    assert table.notes == ("Sets: both of them (a, b), one (a)",)
    assert table.rows[0].evppi == value(IN, [["a", "b"], "a"]).rows[0].evppi
    assert str(table).endswith("\nSets: both of them (a, b), one (a).")


# --- outputs


def test_one_column_is_a_difference_from_a_decision_with_net_benefit_0():
    single = value(IN, ["a"], outputs={"new": OUT["new"]})
    assert single.rows == value(IN, ["a"], outputs={"new": OUT["new"], "old": OUT["old"]}).rows
    assert single.notes == ("Incremental: 'new', against a decision with net benefit 0 in all rows",)
    assert evpi({"new": OUT["new"]}).estimate == evpi(OUT).estimate
    options = {"effects": ["e"], "costs": ["c"], "willingness_to_pay": [1.0, 2.0]}
    pair = value(IN, ["a"], outputs={"e": A, "c": 0.1 * B}, **options)
    options = {"effects": ["z", "e"], "costs": ["y", "c"], "willingness_to_pay": [1.0, 2.0]}
    both = value(IN, ["a"], outputs={"z": 0 * A, "y": 0 * A, "e": A, "c": 0.1 * B}, **options)
    assert [row.evpi for row in pair.rows] == [row.evpi for row in both.rows]
    assert pair.notes == ("Incremental: 'e', 'c', against a decision with effect and cost 0 in all rows",)


def test_effects_and_costs_in_two_tables():
    effects, costs = {"old": 0.1 * B, "new": A}, {"new": 0.2 * B, "old": 0 * A}
    pair = value(IN, ["a"], outputs=(effects, costs), willingness_to_pay=2.0)
    columns = {"e0": effects["old"], "e1": effects["new"], "c0": costs["old"], "c1": costs["new"]}
    options = {"effects": ["e0", "e1"], "costs": ["c0", "c1"], "willingness_to_pay": 2.0}
    (row,), (expected,) = pair.rows, value(IN, ["a"], outputs=columns, **options).rows
    assert_allclose([row.evppi, row.se, row.evpi], [expected.evppi, expected.se, expected.evpi], rtol=1e-6)
    arrays = np.column_stack(list(effects.values())), np.column_stack([costs["old"], costs["new"]])
    (row,) = value(IN, ["a"], outputs=arrays, willingness_to_pay=2.0).rows
    assert_allclose([row.evppi, row.se, row.evpi], [expected.evppi, expected.se, expected.evpi], rtol=1e-6)
    assert evpi(arrays, willingness_to_pay=2.0).estimate == pair.rows[0].evpi


def test_a_whole_table_may_hold_the_inputs():
    assert value(WHOLE, ["a"], outputs=_net()).rows == value(IN, ["a"], outputs=_net()).rows
    table = value(WHOLE, "all", outputs=_net())
    assert [row.pars for row in table.rows] == ["a", "b"]
    assert "'nb_old', 'nb_new' (an output)" in table.notes[0]
    effects, costs = {"e1": A, "e2": B}, {"c1": B, "c2": 0.5 * A}
    pair = value(effects | costs | {"x": A * B}, "all", outputs=(effects, costs), willingness_to_pay=1.0)
    assert [row.pars for row in pair.rows] == ["x"]


WHOLE = {"id": np.arange(N), **IN, **_net()}
COSTED = {"qaly_old": A, "qaly_new": B, "cost_old": A + B, "cost_new": A - B}
test_tables_that_may_be_misread_are_refused = refusals(
    {
        "ids": (lambda: evpi(WHOLE), "'id' of outputs= would count as a decision, but numbers or labels the rows"),
        "inputs": (
            lambda: value(IN, ["a"], outputs=IN | OUT),
            "'a' of outputs= would count as a decision, but is a column of pars=, too: "
            "pass the columns of net benefits",
        ),
        "other columns": (
            lambda: evpi({k: v for k, v in WHOLE.items() if k != "id"}),
            "'nb_old', 'nb_new' of outputs= are net benefits, by their names, and 'a', 'b' would count as decisions",
        ),
        "effects and costs": (
            lambda: cbq.evppi(COSTED, IN, ["a"]),
            r"are costs, by their names, .* pass effects=\['qaly_old', 'qaly_new'\], costs=\['cost_old', 'cost_new'\] ",
        ),
        "pair without a price": (
            lambda: cbq.evppi((np.ones((N, 2)), np.ones((N, 2))), IN, ["a"]),
            "effects and costs, which came without willingness_to_pay=: pass the value of one unit of effect",
        ),
        "labels": (lambda: value({"w": [f"r{i}" for i in range(N)]}, ["w"]), "holds 60 different words in 60 rows"),
        "nothing to value": (lambda: value({"id": np.arange(N)}, "all"), r"inputs has no columns to value\. .*'id'"),
        "pair of different widths": (
            lambda: value(IN, ["a"], outputs=(np.ones((N, 2)), np.ones((N, 3))), willingness_to_pay=1.0),
            "the effects have 2 columns .* and the costs 3",
        ),
        "pair of different lengths": (
            lambda: value(IN, ["a"], outputs=(np.ones((N, 2)), np.ones((3, 2))), willingness_to_pay=1.0),
            "the effects of outputs has 60 rows and the costs of outputs has 3",
        ),
    },
    ValueError,
)


# --- intervals and rounding


def test_intervals_do_not_exceed_that_of_evpi():
    for seed in range(3):
        theta, noise = np.random.default_rng(seed).standard_normal((2, N))
        (row,) = value({"theta": theta}, ["theta"], outputs={"old": 0 * theta, "new": theta + 0.05 * noise}).rows
        perfect = evpi({"old": 0 * theta, "new": theta + 0.05 * noise})
        assert (row.evpi, row.evpi_se) == (perfect.estimate, perfect.std)
        assert row.upper <= perfect.interval(0.95)[1]
        assert row.upper > row.evpi  # which has an error of its own, so that its estimate is no bound
        assert 0 <= row.lower <= row.evppi <= row.upper


def test_no_plug_in_is_rounding_noise():
    for seed in range(2):  # both had plug-ins below 1e-15 of EVPI
        theta, unrelated = np.random.default_rng(seed).standard_normal((2, N))
        outputs = {"old": 1e5 + 0 * theta, "new": 1e5 + 0.5 + theta}
        (row,) = value({"unrelated": unrelated}, ["unrelated"], outputs=outputs).rows
        assert row.plug_in == 0 or row.plug_in > 1e-9 * row.evpi


# --- names


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (["id", "nb1", "nb2", "p"], ["nb1", "nb2"]),
        (["NB.SoC", "NB.new drug", "x"], ["NB.SoC", "NB.new drug"]),
        (["A_nmb", "B_nmb"], ["A_nmb", "B_nmb"]),
        (["Net benefit (A)", "Net benefit (B)"], ["Net benefit (A)", "Net benefit (B)"]),
        (["inmb", "x"], ["inmb"]),
        (["nb1", "x"], []),
        (["nb1", "nb2", "nmb1", "nmb2"], []),
        (["nbr_visits", "nbr_days"], []),
    ],
)
def test_net_benefits_are_found_by_name(names, expected):
    assert guess_net_benefits(names) == expected


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (["qaly1", "qaly2", "cost1", "cost2", "p"], (["qaly1", "qaly2"], ["cost1", "cost2"])),
        (["c.B", "c.A", "c.drug", "e.A", "e.B"], (["e.A", "e.B"], ["c.A", "c.B"])),
        (["QALYs old", "QALYs new", "Cost new", "Cost old"], (["QALYs old", "QALYs new"], ["Cost old", "Cost new"])),
        (["old_qaly", "new_qaly", "old_cost", "new_cost"], (["old_qaly", "new_qaly"], ["old_cost", "new_cost"])),
        (["qaly1", "qaly2", "ly1", "ly2", "cost1", "cost2"], ([], [])),
        (["qaly1", "qaly2", "cost1"], ([], [])),
        (["cure", "efficacy", "c_drug", "c_visit"], ([], [])),
        (["inc_qaly", "inc_cost"], (["inc_qaly"], ["inc_cost"])),
        (  # inputs, whose names have the other order
            ["stroke_qaly", "stroke_cost", "qaly_old", "qaly_new", "cost_old", "cost_new"],
            (["qaly_old", "qaly_new"], ["cost_old", "cost_new"]),
        ),
        (["a_qaly", "b_qaly", "a_cost", "b_cost", "qaly_1", "qaly_2", "cost_1", "cost_2"], ([], [])),
    ],
)
def test_effects_and_costs_are_found_by_name(names, expected):
    assert guess_effects_and_costs(names) == expected


def test_names_of_decisions_keep_their_brackets():
    columns = ["QALY FIT (half)", "QALY - Drug A", "QALY (B)", "qaly_1", "QALY No. 5 [mg/d]"]
    expected = ("FIT (half)", "Drug A", "B", "decision 1", "No. 5 [mg/d]")
    assert decision_names(columns, columns) == expected


def test_costs_of_the_decisions_are_outputs_and_prices_are_not():
    names = ["nb_A", "nb_B", "cost_A", "cost_B", "cost_nurse", "qaly_A", "inc_cost", "x"]
    assert set(outputs_beside(names, ["nb_A", "nb_B"])) == {"cost_A", "cost_B", "inc_cost"}
    assert set(outputs_beside(["old", "new", "cost_old", "cost_new"], ["old", "new"])) == {"cost_old", "cost_new"}
    assert output_name("cDrug") is None


def test_columns_that_number_rows():
    assert numbers_rows("x", np.arange(5))
    assert numbers_rows("x", [2.0, 1.0, 4.0, 3.0])
    assert numbers_rows("x", [3, 7, 20])
    assert numbers_rows("iter", [1, 2, 1, 2])
    assert numbers_rows("patient_id", ["a", "b"])
    assert numbers_rows("", [5, 5])
    assert not numbers_rows("id", [0.5, 0.25])
    assert not numbers_rows("x", [1, 1, 2])
    assert not numbers_rows("x", [True, False])
    assert not numbers_rows("x", [1e308, -1e308])
    assert not numbers_rows("width", [1, 2])


def test_inputs_are_selected_with_reasons():
    columns = {"id": [1, 2, 3], "x": [0.1, 0.3, 0.2], "nb1": [1.0, 2.0, 1.5], "nb2": [1.0, 2.0, 1.5], "inb": [0.0] * 3}
    columns |= {"scenario": ["base"] * 3, "arm": ["a", "b", "a"]}
    chosen, left = select_inputs(list(columns), columns.__getitem__, ["nb1", "nb2"])
    assert chosen == ["x", "arm"]
    assert left == {
        "scenario": "the same word in each row",
        "id": "numbers or labels the rows",
        "nb1": "an output",
        "nb2": "an output",
        "inb": "a net benefit, by its name",
    }
    assert_array_equal(columns["x"], [0.1, 0.3, 0.2])
