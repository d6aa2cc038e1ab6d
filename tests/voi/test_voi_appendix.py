"""The appendix of a submission: ICERs, the plane, acceptability, EVPI as a curve, variance reduction, and its page."""

from __future__ import annotations

import csv
import itertools

import numpy as np
import pytest
from scipy import stats

import cbq
from cbq.voi import Appendix, appendix, ce_plane, ceac, evppi_variance, icers
from cbq.voi.cost_effectiveness import efficient_frontier, threshold_interval
from cbq.voi.outputs import wilson_interval

N = 400
RNG = np.random.default_rng(5)
P, Q = RNG.normal(size=(2, N))
EFFECTS = {"none": 10 + 0.1 * Q, "drug A": 10.6 + 0.3 * P, "drug B": 11.0 + 0.2 * P + 0.1 * Q}
COSTS = {"none": 1000 + 50 * P, "drug A": 4000 + 500 * Q, "drug B": 16_000 + 900 * Q}
PRICES = np.arange(0, 60_001, 2500.0)


def constant(values):
    return np.tile(np.asarray(values, dtype=float), (5, 1))


def by_name(table):
    return {row.decision: row for row in table.rows}


# ICERs and dominance


def test_icers_of_screening_for_hiv_are_those_of_the_textbook():
    """Status quo and four screening strategies, costs and months of life: dampack's example, worked out by hand."""
    names = ["status quo", "one time", "5 years", "3 years", "annual"]
    cost, effect = [26_000, 27_000, 28_020, 28_440, 29_440], np.array([277.25, 277.57, 277.78, 277.83, 277.76]) / 12
    rows = by_name(icers((constant(effect), constant(cost)), decisions=names))
    expected = {"one time": 1000 * 12 / 0.32, "5 years": 1020 * 12 / 0.21, "3 years": 420 * 12 / 0.05}
    for name, icer in expected.items():
        assert rows[name].icer == pytest.approx(icer, rel=1e-9)
    assert rows["annual"].status == "dominated"
    assert rows["3 years"].comparator == "5 years"
    assert rows["annual"].icer is None
    assert rows["status quo"].icer is None


def test_an_extendedly_dominated_decision_is_skipped_by_the_next():
    """D costs 20,000 per unit more than B, and E after it only 4,000: D is worse than a mixture of B and E."""
    effect, cost = [1.0, 1.5, 1.4, 1.75, 2.0], [1000, 3000, 4500, 8000, 9000]
    rows = by_name(icers((constant(effect), constant(cost)), decisions=list("ABCDE")))
    assert [rows[d].status for d in "ABCDE"] == [
        "frontier",
        "frontier",
        "dominated",
        "extendedly dominated",
        "frontier",
    ]
    assert (rows["B"].icer, rows["E"].icer, rows["E"].comparator) == (4000.0, 12_000.0, "B")


def best_somewhere(effect, cost):
    """The decisions with the largest net benefit at some willingness to pay, by trying all that may matter."""
    pairs = itertools.combinations(range(len(effect)), 2)
    crossings = sorted(
        {r for i, j in pairs if (r := (cost[j] - cost[i]) / (effect[j] - effect[i])) > 0 and np.isfinite(r)}
    )
    edges = [0.0, *crossings, 10 * (crossings or [1.0])[-1] + 1.0]
    prices = [0.5 * (a + b) for a, b in itertools.pairwise(edges)]
    return {int(np.argmax(price * effect - cost)) for price in prices}


@pytest.mark.parametrize("D", [2, 3, 5, 12])
def test_the_frontier_is_what_is_best_at_some_willingness_to_pay(D):
    rng = np.random.default_rng(D)
    for _ in range(60):
        effect, cost = rng.normal(size=D), rng.normal(size=D)
        frontier, dominated = efficient_frontier(effect, cost)
        assert set(frontier) == best_somewhere(effect, cost)
        by_others = [
            d for d in range(D) if any(effect[k] >= effect[d] and cost[k] <= cost[d] for k in range(D) if k != d)
        ]
        assert sorted(dominated) == by_others
        assert np.all(np.diff(effect[frontier]) > 0)
        assert np.all(np.diff(np.diff(cost[frontier]) / np.diff(effect[frontier])) > 0)


def test_equal_decisions_and_equal_costs_or_effects_have_one_on_the_frontier():
    assert efficient_frontier(np.array([1.0, 1.0, 2.0]), np.array([5.0, 5.0, 9.0])) == ([0, 2], [1])
    assert efficient_frontier(np.array([1.0, 2.0]), np.array([5.0, 5.0])) == ([1], [0])
    assert efficient_frontier(np.array([1.0, 1.0]), np.array([5.0, 4.0])) == ([1], [0])
    on_a_line = efficient_frontier(np.array([0.0, 1.0, 2.0]), np.array([0.0, 3.0, 6.0]))
    assert on_a_line == ([0, 1, 2], [])


def test_the_standard_error_of_an_icer_is_that_of_repeated_tables():
    def table(rng):
        more = rng.normal(1.0, 0.3, 500)
        return (
            np.stack([0 * more, more], axis=1),
            np.stack([0 * more, 3000 + 2000 * (more - 1) + rng.normal(0, 500, 500)], axis=1),
        )

    found = [icers(table(np.random.default_rng(seed))).rows[1] for seed in range(300)]
    spread = np.std([row.icer for row in found], ddof=1)
    assert np.mean([row.se for row in found]) == pytest.approx(spread, rel=0.15)


def test_the_interval_of_an_icer_is_where_the_acceptability_curve_crosses_its_tails():
    """Where a draw favours a decision from its own ratio on, the curve is the distribution of ratios."""
    rng = np.random.default_rng(0)
    more, dearer = rng.uniform(0.5, 1.5, 2000), rng.uniform(1000, 9000, 2000)
    low, high = threshold_interval(more, dearer, 0.9)
    assert np.mean(low * more >= dearer) == pytest.approx(0.05, abs=1e-3)
    assert np.mean(high * more >= dearer) == pytest.approx(0.95, abs=1e-3)


def test_the_interval_of_an_icer_is_honest_about_draws_without_more_effect():
    more, dearer = np.array([1.0] * 8 + [-1.0] * 2), np.array([100.0] * 10)
    assert threshold_interval(more, dearer, 0.9) == (100.0, np.inf)
    assert threshold_interval(more, -dearer, 0.9) == (0.0, np.inf)  # cheaper and less effective in two draws
    assert threshold_interval(np.abs(more), -dearer, 0.9) == (0.0, 0.0)
    flat = icers((np.stack([0 * P, 0.001 + P], axis=1), np.stack([0 * P, 1 + 0 * P], axis=1)))
    last = flat.rows[-1]
    assert last.status != "frontier" or (last.se is None and "not clear of 0" in last.note)


# Acceptability


def test_acceptability_counts_the_draws_in_which_a_decision_is_best():
    found = ceac((EFFECTS, COSTS), willingness_to_pay=PRICES)
    assert found.decisions == ("none", "drug A", "drug B")
    for k, price in enumerate(PRICES):
        wins = [0, 0, 0]
        for i in range(N):
            benefits = [price * EFFECTS[name][i] - COSTS[name][i] for name in EFFECTS]
            wins[benefits.index(max(benefits))] += 1
        assert found.probability[k] == pytest.approx(np.array(wins) / N, abs=1e-15)
    assert np.all((found.lower <= found.probability) & (found.probability <= found.upper))


def test_the_frontier_changes_where_the_icers_are():
    ratios = [row.icer for row in icers((EFFECTS, COSTS)).rows if row.comparator]
    assert len(ratios) == 2
    prices = [each for icer in ratios for each in (icer * (1 - 1e-6), icer * (1 + 1e-6))]
    found = ceac((EFFECTS, COSTS), willingness_to_pay=prices)
    assert found.best.tolist() == [0, 1, 1, 2]
    assert found.frontier.tolist() == [found.probability[k, d] for k, d in enumerate((0, 1, 1, 2))]


def test_ties_are_shared_so_that_probabilities_sum_to_one():
    found = ceac({"a": [0.0, 0.0, 1.0, 0.1 + 0.2], "b": [0.0, 1.0, 0.0, 0.3]})
    assert found.probability.tolist() == [[0.5, 0.5]]
    assert found.willingness_to_pay is None


def test_bands_are_wilson_intervals_and_wider_for_a_markov_chain():
    expected = stats.binomtest(30, 100).proportion_ci(0.9, method="wilson")
    assert wilson_interval(np.array([0.3]), np.array([100.0]), 0.9) == pytest.approx([expected.low, expected.high])
    noise, chain = np.random.default_rng(0).normal(size=2000), np.zeros(2000)
    for i in range(1, 2000):
        chain[i] = 0.9 * chain[i - 1] + noise[i]

    def width(values):
        found = ceac({"old": np.zeros(2000), "new": values})
        return float((found.upper - found.lower)[0, 1])

    assert width(chain) > 2 * width(noise)
    assert width(np.sort(chain)) == pytest.approx(width(noise), rel=0.05)  # a sorted table is no chain


# The plane


def test_the_ellipse_holds_its_level_of_normal_draws():
    from matplotlib.path import Path

    rng = np.random.default_rng(1)
    cov = np.array([[0.04, 30.0], [30.0, 40_000.0]])
    draws = rng.multivariate_normal([1.0, 5000.0], cov, size=20_000)
    zero = np.zeros(20_000)
    for level in (0.5, 0.95):
        plane = ce_plane((np.stack([zero, draws[:, 0]], 1), np.stack([zero, draws[:, 1]], 1)), reference=0, level=level)
        inside = Path(plane.ellipse(0, 1000)).contains_points(draws)
        assert np.mean(inside) == pytest.approx(level, abs=0.01)
        distance = plane.ellipse() - draws.mean(axis=0)
        squared = np.einsum("ij,ij->i", distance @ np.linalg.inv(np.cov(draws.T)), distance)
        assert squared == pytest.approx(np.full(200, stats.chi2(2).ppf(level)), rel=1e-9)


def test_the_plane_counts_quadrants_and_draws_below_the_line():
    plane = ce_plane((EFFECTS, COSTS), willingness_to_pay=20_000, reference="none")
    more, dearer = EFFECTS["drug A"] - EFFECTS["none"], COSTS["drug A"] - COSTS["none"]
    assert plane.decisions == ("drug A", "drug B")
    assert plane.share_below()[0][0] == np.mean(dearer < 20_000 * more)
    shares = plane.quadrants()
    assert shares["north_west"][0] == np.mean((more <= 0) & (dearer > 0))
    assert sum(shares.values()) == pytest.approx(np.ones(2))
    with pytest.raises(ValueError, match="must be a decision"):
        ce_plane((EFFECTS, COSTS), reference="drug C")
    with pytest.raises(ValueError, match="one number"):
        ce_plane((EFFECTS, COSTS), willingness_to_pay=[1.0, 2.0])
    with pytest.raises(ValueError, match="no line"):
        ce_plane((EFFECTS, COSTS)).share_below()


def test_a_constant_difference_has_an_ellipse_without_width():
    plane = ce_plane((constant([0, 1]), constant([0, 7])))
    assert np.array_equal(plane.ellipse(), np.tile([1.0, 7.0], (200, 1)))


# EVPI as a curve


def test_the_evpi_curve_is_evpi_at_each_point():
    curve = cbq.evpi((EFFECTS, COSTS), willingness_to_pay=PRICES)
    columns = curve.columns()
    for k, price in enumerate(PRICES):
        one = cbq.evpi((EFFECTS, COSTS), willingness_to_pay=price)
        assert (columns["evpi"][k], columns["se"][k]) == pytest.approx((one.estimate, one.std), rel=1e-12)
    assert columns["willingness_to_pay"] == PRICES.tolist()
    assert curve.plot().axes[0].get_xlabel() == "willingness to pay"
    assert str(curve).splitlines()[0].split() == ["willingness", "to", "pay", "evpi", "se", "lower", "upper"]
    with pytest.raises(ValueError, match="one number"):
        cbq.evpi({"old": 0 * P, "new": P}).plot()


def test_two_equal_rows_are_enough_for_evpi():
    assert cbq.evpi([[1.0, 2.0], [1.0, 2.0]]).estimate == 0.0


# Variance reduction


def linear(seed, n=1000):
    """y = 2 a + b + noise, with correlated a and b: Var E[y | a] = (2 + r)^2, Var E[y | a, b] = 5 + 4 r."""
    rng, r = np.random.default_rng(seed), 0.5
    a = rng.normal(size=n)
    b = r * a + np.sqrt(1 - r * r) * rng.normal(size=n)
    truth = {"a": (2 + r) ** 2, "b": (1 + 2 * r) ** 2, "a, b": 5 + 4 * r, "c": 0.0}
    return {"y": 2 * a + b + rng.normal(size=n)}, {"a": a, "b": b, "c": rng.normal(size=n)}, truth


SETS = ["a", "b", ["a", "b"], "c"]


def test_variance_reduction_of_a_linear_model_is_its_closed_form():
    outputs, inputs, truth = linear(0)
    found = evppi_variance(outputs, inputs, SETS)
    for row in found.rows:
        assert abs(row.reduction - truth[row.pars]) < 4 * row.se + 0.02
        assert row.share == pytest.approx(row.reduction / np.var(outputs["y"]), abs=1e-12)
    assert {row.pars: row.reduction for row in found.rows}["a, b"] >= found.rows[0].reduction


@pytest.mark.slow
def test_intervals_of_variance_reductions_hold_the_truth():
    held = []
    for seed in range(60):
        outputs, inputs, truth = linear(seed)
        rows = evppi_variance(outputs, inputs, SETS[:3]).rows
        held += [row.lower <= truth[row.pars] <= row.upper for row in rows]
    assert 0.9 < np.mean(held) <= 1.0


def test_an_output_that_inputs_determine_is_reduced_by_all_of_its_variance():
    found = evppi_variance({"y": 1e6 * P**3, "const": 0 * P + 3}, {"p": P, "fixed": 0 * P}, ["p", "fixed"])
    exact, nothing, *rest = found.rows
    assert exact.share == pytest.approx(1.0, abs=1e-3)
    assert (nothing.reduction, nothing.se) == (0.0, 0.0)
    assert [row.reduction for row in rest] == [0.0, 0.0]


def test_outputs_among_the_inputs_are_not_valued():
    table = {"y": P + Q, "p": P, "q": Q}
    assert [row.pars for row in evppi_variance({"y": table["y"]}, table).rows] == ["p", "q"]
    both = np.stack([P, Q], axis=1)
    assert [row.pars for row in evppi_variance(P + Q, both).rows] == ["0", "1"]
    found = cbq.evppi(np.stack([0 * P, P], axis=1), both)
    assert [row.pars for row in found.rows] == ["0", "1"]


def test_names_with_commas_are_drawn_as_the_single_inputs_and_pairs_that_they_are():
    names = ["rate, first line", "rate, second line", "cost, drug", "cost, visit"]
    inputs = dict(zip(names, np.random.default_rng(0).normal(size=(4, 60)), strict=True))
    outputs = {"nb_old": np.zeros(60), "nb_new": 2.0 * inputs[names[0]] + inputs[names[2]]}
    alone = cbq.evppi(outputs, inputs)
    assert [row.inputs for row in alone.rows] == [(name,) for name in names]
    assert "inputs" not in alone.columns
    assert len(alone.plot().axes[0].patches) == 4  # bars
    pairs = cbq.evppi(outputs, inputs, "pairs")
    assert not pairs.plot().axes[0].patches  # a map
    assert pairs.plot().axes[0].collections


# All of it


def test_decisions_are_named_by_their_columns_or_by_the_user():
    table = {"qaly_old": P, "qaly_newDrug": Q, "cost_old": Q, "cost_newDrug": P}
    options = {"effects": ["qaly_old", "qaly_newDrug"], "costs": ["cost_old", "cost_newDrug"]}
    assert ceac(table, **options, willingness_to_pay=0).decisions == ("old", "newDrug")
    assert ceac({"nb1": P, "nb2": Q}).decisions == ("decision 1", "decision 2")
    assert ceac({"inb": P}).decisions == ("inb", "reference")
    assert ceac(table, **options, willingness_to_pay=1, decisions=["x", "y"]).decisions == ("x", "y")
    with pytest.raises(ValueError, match="2 different names"):
        ceac(table, **options, willingness_to_pay=1, decisions=["x", "x"])


def test_the_appendix_is_its_parts(tmp_path):
    inputs = {"p": P, "q": Q}
    found = appendix((EFFECTS, COSTS), inputs, willingness_to_pay=PRICES)
    assert found.plane.willingness_to_pay == 30_000
    alone = cbq.evppi((EFFECTS, COSTS), inputs, willingness_to_pay=PRICES)
    assert found.evppi.rows == alone.rows
    assert np.array_equal(found.evpi.estimate, cbq.evpi((EFFECTS, COSTS), willingness_to_pay=PRICES).estimate)
    assert str(found).count("30000") >= 2
    assert found.icers.frontier == ("none", "drug A", "drug B")
    found.report(tmp_path / "page.html", title="A <drug>")
    html = (tmp_path / "page.html").read_text(encoding="utf-8")
    for heading in ("A &lt;drug&gt;", "Costs and effects", "Which decision is best", "The value of learning inputs"):
        assert heading in html
    net_benefits = appendix({"old": 0 * P, "new": P})
    assert (net_benefits.icers, net_benefits.plane, net_benefits.evppi) == (None, None, None)
    net_benefits.report(tmp_path / "other.html")
    assert "Costs and effects" not in (tmp_path / "other.html").read_text(encoding="utf-8")


def results() -> list[object]:
    found = appendix((EFFECTS, COSTS), {"p": P}, willingness_to_pay=[10_000, 20_000])
    assert isinstance(found, Appendix)
    return [found.icers, found.plane, found.ceac, found.evpi, evppi_variance(P + Q, {"p": P})]


@pytest.mark.parametrize("i", range(5))
def test_a_result_prints_draws_and_turns_into_a_frame(i):
    result = results()[i]
    figure = result.plot(title="A title")
    assert figure.get_suptitle() == "A title"
    assert cbq.plot(result).axes
    assert str(result) == repr(result)
    assert "<table" in result._repr_html_()
    frame = result.to_frame()
    columns = result.columns() if callable(result.columns) else result.columns
    assert list(frame) == list(columns)


def test_effects_and_costs_must_be_told_apart():
    with pytest.raises(ValueError, match="must be effects and costs"):
        icers({"old": P, "new": Q})
    with pytest.raises(ValueError, match="at least 2 draws"):
        ceac([[1.0, 2.0]])


# The command line


def save(path, columns):
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, delimiter=";")
        writer.writerow(columns)
        rows = zip(*(np.asarray(each).tolist() for each in columns.values()), strict=True)
        writer.writerows([str(cell).replace(".", ",") for cell in row] for row in rows)
    return path


@pytest.fixture
def table(tmp_path):
    columns = {"": range(N), "id": range(1, N + 1), "rr[1,2]": P, "cost of GP, visit": Q, "fixed": np.full(N, 0.7)}
    columns |= {f"QALY {name}": each for name, each in EFFECTS.items()}
    columns |= {f"Cost {name}": each for name, each in COSTS.items()}
    return save(tmp_path / "table.csv", columns)


def test_a_hostile_table_becomes_an_appendix(table, tmp_path):
    pytest.importorskip("typer")
    from command_line import ok, read, refused

    assert "cbq psa" in refused("psa", table)  # a command to paste
    text = ok("psa", table, "--wtp", "0:60000:2500", "--out", tmp_path / "appendix")
    assert "Not taken for inputs: 'id'" in text
    names = {path.name for path in (tmp_path / "appendix").iterdir()}
    parts = ("icers", "plane", "net_benefits", "ceac", "evpi", "evppi", "tornado")
    assert names == {"report.html", *(f"{part}.{kind}" for part in parts for kind in ("csv", "png"))}
    curve = ceac((EFFECTS, COSTS), willingness_to_pay=PRICES)
    written = read(tmp_path / "appendix" / "ceac.csv")
    assert [float(p) for p in written["probability"]] == pytest.approx(curve.probability.ravel())
    assert set(written["decision"]) == set(EFFECTS)
    assert set(read(tmp_path / "appendix" / "evppi.csv")["pars"]) == {"rr[1,2]", "cost of GP, visit", "fixed"}
    page = (tmp_path / "appendix" / "report.html").read_text(encoding="utf-8")
    assert "cbq psa" in page
    inside = tmp_path / "appendix" / "ceac.csv"
    assert "would overwrite" in refused("psa", inside, "--wtp", "1", "--out", tmp_path / "appendix")


def test_ceac_and_evpi_need_no_inputs(table, tmp_path):
    pytest.importorskip("typer")
    from command_line import ok, read

    effects, costs = save(tmp_path / "e.csv", EFFECTS), save(tmp_path / "c.csv", COSTS)
    files = ["--effects-file", effects, "--costs-file", costs, "--wtp", "20000"]
    words = ok("ceac", *files, "--decisions", "usual care, A, B", "--out", tmp_path / "ceac.csv")
    assert "usual care" in words
    assert read(tmp_path / "ceac.csv")["decision"] == ["usual care", "A", "B"]
    ok("evpi", table, "--wtp", "20000,30000", "--level", "0.9", "--out", tmp_path / "evpi.csv")
    written = read(tmp_path / "evpi.csv")
    expected = cbq.evpi((EFFECTS, COSTS), willingness_to_pay=[20_000, 30_000])
    assert [float(each) for each in written["evpi"]] == pytest.approx(expected.estimate.tolist())
    assert [float(each) for each in written["lower"]] == pytest.approx(expected.interval(0.9)[0].tolist())
    for name in ("ceac", "evpi"):
        assert (tmp_path / f"{name}.png").exists()
        assert (tmp_path / f"{name}.html").exists()
