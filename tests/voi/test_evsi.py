"""EVSI and the size of a study: each formula in two ways, studies with known answers, and error messages."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import integrate
from scipy.special import ndtr
from scipy.stats import beta, betabinom, binom, norm, poisson

import cbq
from cbq.voi import studies
from cbq.voi.analysis import Contrasts, regress, value_of_learning, value_of_results
from cbq.voi.sample_information import MAX_FITS, EvsiRow, EvsiTable, between_sizes, fitted_sizes
from cbq.voi.sets import increasing_estimates, monotone_estimates

SIZES = [5, 20, 50, 200]
MEAN, TAU, SD = 0.3, 1.0, 4.0
A, B, NEEDED = 6, 4, 0.55


def normal_evsi(n):
    s = TAU**2 / np.sqrt(TAU**2 + SD**2 / n)
    return MEAN * ndtr(MEAN / s) + s * norm.pdf(MEAN / s) - MEAN


def normal_by_quadrature(n):
    """E max(posterior mean, 0) - prior mean, where the posterior mean comes from Bayes' rule on a grid."""
    theta, y = np.linspace(MEAN - 8 * TAU, MEAN + 8 * TAU, 801), np.linspace(-25, 25, 2001)
    joint = norm.pdf(theta, MEAN, TAU) * norm.pdf(y[:, None], theta, SD / np.sqrt(n))
    return float(integrate.trapezoid(np.maximum(integrate.trapezoid(joint * theta, theta), 0), y)) - MEAN


def binomial_evsi(n):
    y = np.arange(n + 1)
    return betabinom.pmf(y, n, A, B) @ np.maximum((A + y) / (A + B + n) - NEEDED, 0) - (A / (A + B) - NEEDED)


def binomial_by_quadrature(n):
    p, w = np.polynomial.legendre.leggauss(400)
    p, w = 0.5 * (p + 1), 0.5 * w
    prior = p ** (A - 1) * (1 - p) ** (B - 1)
    prior *= w / (w @ prior)
    joint = binom.pmf(np.arange(n + 1)[:, None], n, p) * prior
    return float(np.sum(np.maximum(joint @ (p - NEEDED), 0)) - prior @ (p - NEEDED))


def normal_table(rows, seed, noise=0.6):
    rng = np.random.default_rng(seed)
    theta = rng.normal(MEAN, TAU, rows)
    return {"old": noise * rng.standard_normal(rows), "new": theta + noise * rng.standard_normal(rows)}, {"x": theta}


def binomial_table(rows, seed, noise=0.2):
    rng = np.random.default_rng(seed)
    p = rng.beta(A, B, rows)
    return {"old": 0 * p, "new": p - NEEDED + noise * rng.standard_normal(rows)}, {"x": p}


def of_sizes(values, errors, correlation=0.0, price=None):
    """A table of EVSI with these values and standard errors."""
    rows = [
        EvsiRow(
            "x",
            10 * (j + 1),
            price,
            value,
            se,
            max(value - 2 * se, 0),
            value + 2 * se,
            9,
            0.1,
            9,
            0.1,
            10.0 * (j + 1),
            500,
            value,
        )
        for j, (value, se) in enumerate(zip(values, errors, strict=True))
    ]
    R = np.full((len(rows), len(rows)), correlation) + (1 - correlation) * np.eye(len(rows))
    return EvsiTable(tuple(rows), 0.95, (np.outer(errors, errors) * R)[None])


@pytest.mark.parametrize("n", SIZES)
def test_the_closed_forms_agree_with_quadrature(n):
    assert_allclose(normal_evsi(n), normal_by_quadrature(n), rtol=1e-4)
    assert_allclose(binomial_evsi(n), binomial_by_quadrature(n), rtol=1e-9)


@pytest.mark.parametrize(
    ("table", "study", "truth"),
    [
        (normal_table, studies.Normal(SD), normal_evsi),
        (binomial_table, "binomial", binomial_evsi),
        (normal_table, lambda row, n, rng: row["x"] + SD / np.sqrt(n) * rng.standard_normal(), normal_evsi),
    ],
    ids=["normal", "binomial", "a function"],
)
def test_estimates_are_within_three_standard_errors_of_the_truth(table, study, truth):
    for seed in range(2):
        outputs, inputs = table(1500, seed)
        for row in cbq.evsi(outputs, inputs, "x", study, SIZES).rows:
            assert 0 < row.se < 0.06
            assert abs(row.evsi - truth(row.size)) < 3 * row.se


def test_a_trial_of_two_arms_has_the_value_of_both():
    rng = np.random.default_rng(0)
    old, new = rng.beta(8, 12, 1500), rng.beta(9, 11, 1500)
    n, y = 30, np.arange(31)
    gain = (9 + y) / (20 + n) - ((8 + y) / (20 + n))[:, None] - 0.03
    truth = betabinom.pmf(y, n, 8, 12) @ np.maximum(gain, 0) @ betabinom.pmf(y, n, 9, 11) - 0.02
    outputs, inputs = {"old": old, "new": new - 0.03}, {"p_old": old, "p_new": new}
    (row,) = cbq.evsi(outputs, inputs, ["p_old", "p_new"], studies.BinomialCount(), [n]).rows
    (same,) = cbq.evsi(outputs, inputs, ["p_old", "p_new"], studies.Trial(["binomial", "binomial"]), n).rows
    assert abs(row.evsi - truth) < 3 * row.se
    assert row.participants == same.participants == 60
    assert abs(same.evsi - truth) < 3 * same.se


def test_the_value_of_results_is_the_posterior_expectation_over_functions():
    """By averaging draws of the regression function instead, as a function of the channel alone."""
    outputs, inputs = normal_table(400, 1)
    y = np.column_stack([*outputs.values()])
    contrasts = Contrasts.of(y, cbq.nested.decisions.make_decisions(2))
    found = regress(contrasts, inputs["x"][:, None], np.random.default_rng(0))
    theta, share = found.places[:, 0], found.outputs.counts / found.outputs.n
    L = studies.Normal(SD).result_probabilities(theta, 20)
    assert_allclose(np.sum(L, axis=1), 1)
    value = value_of_results(found, L, np.random.default_rng(0))
    (block,) = found.posteriors[0].blocks()
    B, offset = found.benefits.B[0], found.benefits.offset[0]
    draws = block.mean[:, None] + block.spread @ np.random.default_rng(2).standard_normal((block.spread.shape[1], 4000))
    gain = np.maximum((L * share[:, None]).T @ (offset[1] + (B[0, 1] - B[0, 0]) * draws - offset[0]), 0)
    by_draws = np.sum(gain, axis=0) - max(offset[1] - offset[0], 0)
    error = np.std(by_draws) / np.sqrt(4000)
    assert abs(np.mean(by_draws) - (value.evppi - value.unseen)[0] / (1 - found.all_zero)) < 5 * error


def test_a_study_that_tells_the_input_is_worth_evppi_and_one_that_tells_nothing_is_worth_nothing():
    outputs, inputs = normal_table(400, 1)
    contrasts = Contrasts.of(np.column_stack([*outputs.values()]), cbq.nested.decisions.make_decisions(2))
    found = regress(contrasts, inputs["x"][:, None], np.random.default_rng(0))
    s = len(found.outputs.counts)
    exact = value_of_learning(found, np.random.default_rng(0))
    same = value_of_results(found, np.eye(s), np.random.default_rng(0))
    for name in ("evppi", "plug_in", "sampling", "r2"):
        assert_allclose(getattr(same, name), getattr(exact, name), rtol=0.02)
    assert_allclose(same.evppi, exact.evppi, rtol=1e-10)
    nothing = value_of_results(found, np.full((s, 3), 1 / 3), np.random.default_rng(0))
    assert_allclose(nothing.plug_in, 0, atol=1e-12)


@pytest.mark.parametrize("study", [studies.Normal(SD), lambda row, n, rng: row["x"] + rng.normal(0, SD / n**0.5)])
def test_evsi_grows_with_the_size_up_to_evppi(study):
    outputs, inputs = normal_table(300, 3)
    found = cbq.evsi(outputs, inputs, "x", study, [1, 3, 10, 30, 10**6])
    values = [row.evsi for row in found.rows]
    assert values == sorted(values)
    assert values[0] >= 0
    assert values[-1] <= found.rows[0].evppi <= found.rows[0].evpi
    assert_allclose(values[-1], found.rows[0].evppi, rtol=0.01)


def test_increasing_estimates_are_those_of_nested_sets():
    rng = np.random.default_rng(0)
    for _ in range(20):
        values, errors = np.sort(rng.normal(1, 1, 6)) + rng.normal(0, 0.5, 6), rng.uniform(0.1, 1, 6)
        chain = [frozenset(range(j + 1)) for j in range(6)]
        assert_allclose(
            increasing_estimates(values, errors, 1.5), monotone_estimates(values, errors, chain, 1.5), atol=1e-8
        )


def test_evppi_is_that_of_the_table_of_evppi():
    outputs, inputs = binomial_table(300, 4)
    (row,) = cbq.evsi(outputs, inputs, "x", "binomial", 10).rows
    (same,) = cbq.evppi(outputs, inputs, ["x"]).rows
    assert_allclose([row.evppi, row.evppi_se, row.evpi], [same.evppi, same.se, same.evpi], rtol=1e-12)


def test_sizes_do_not_depend_on_which_others_are_listed():
    outputs, inputs = binomial_table(300, 4)
    several = cbq.evsi(outputs, inputs, "x", "binomial", [50, 10, 10]).rows
    (one,) = cbq.evsi(outputs, inputs, "x", "binomial", [10]).rows
    assert [row.size for row in several] == [10, 50]
    assert several[0].raw == one.raw


def test_several_prices_give_the_values_of_each():
    rng = np.random.default_rng(0)
    p = rng.beta(A, B, 300)
    effects, costs = np.column_stack([0.55 + 0 * p, p]), np.column_stack([0 * p, 0 * p + 100])
    both = cbq.evsi((effects, costs), {"x": p}, "x", "binomial", [10, 50], willingness_to_pay=[2000, 4000])
    one = cbq.evsi((effects, costs), {"x": p}, "x", "binomial", [10, 50], willingness_to_pay=4000)
    assert [row.evsi for row in both.at(4000)] == pytest.approx([row.evsi for row in one.rows], rel=0.02)
    assert both.covariance.shape == (2, 2, 2)
    for k, price in enumerate(both.prices):
        assert_allclose(np.diag(both.covariance[k]), [row.se**2 for row in both.at(price)])
    assert np.all(np.linalg.eigvalsh(both.covariance) >= 0)


def test_constant_inputs_and_equal_decisions_are_worth_nothing():
    outputs, _ = normal_table(100, 0)
    (row,) = cbq.evsi(outputs, {"x": np.full(100, 0.3)}, "x", "binomial", 10).rows
    assert row.evsi == row.se == 0
    assert "constant" in row.note
    for study in ("binomial", lambda row, n, rng: row["x"]):
        (row,) = cbq.evsi(
            {"a": outputs["old"], "b": outputs["old"]}, {"x": np.linspace(0.1, 0.9, 100)}, "x", study, 10
        ).rows
        assert row.evsi == row.se == 0


def test_a_study_without_events_is_worth_nothing():
    rate = np.random.default_rng(0).uniform(1e-12, 2e-12, 100)
    study = studies.Survival(follow_up=1e-3)
    (row,) = cbq.evsi({"a": 0 * rate, "b": 1e12 * rate - 1.5}, {"x": rate}, "x", study, 5).rows
    assert row.evsi < 0.1 * row.evppi


# Studies.


def test_results_have_the_probabilities_of_their_distributions():
    p = np.array([0.0, 0.2, 0.9, 1.0])
    assert_allclose(
        studies.BinomialCount().result_probabilities(p, 7), binom.pmf(np.arange(8), 7, p[:, None]), atol=1e-12
    )
    rate = np.array([0.0, 0.5, 2.0])
    found = studies.PoissonCount(exposure=2.0).result_probabilities(rate, 3)
    assert_allclose(found[:, :-1], poisson.pmf(np.arange(found.shape[1] - 1), 6 * rate[:, None]), atol=1e-12)
    for study, theta in ((studies.BinomialCount(), p), (studies.PoissonCount(), rate), (studies.Normal(2.0), rate)):
        for n in (1, 10, 10**4, 10**8):
            grouped = study.result_probabilities(theta, n)
            assert np.all(grouped >= 0)
            assert grouped.shape[1] <= studies.MAX_CELLS + 1
            assert_allclose(np.sum(grouped, axis=1), 1)


def moments(study, theta, n, seed=0, rows=20_000):
    """The mean and the covariance of the totals of a study."""
    totals = study.totals(np.full(rows, theta), n, np.random.default_rng(seed))
    return totals.mean(axis=0), np.cov(totals.T), rows


def test_events_have_the_moments_of_their_distributions():
    for study, theta, n, mean, variance in (
        (studies.BinomialCount(), 0.3, 12, 3.6, 2.52),
        (studies.PoissonCount(2.0), 0.3, 10, 6.0, 6.0),
    ):
        found, spread, rows = moments(study, theta, n)
        assert abs(found[0] - mean) < 5 * np.sqrt(variance / rows)
        assert_allclose(spread, variance, rtol=0.05)


@pytest.mark.parametrize("n", [7, 900], ids=["times drawn", "times of a normal sum"])
def test_survival_has_the_moments_of_censored_exponential_times(n):
    """Those of one participant by quadrature over the time at which one leaves."""
    rate, dropout, end = 0.4, 0.1, 3.0
    leaving = rate + dropout
    moment = [integrate.quad(lambda t, k=k: t**k * leaving * np.exp(-leaving * t), 0, end)[0] for k in range(3)]
    stay = np.exp(-leaving * end)
    time, square = moment[1] + end * stay, moment[2] + end**2 * stay
    events = moment[0] * rate / leaving
    both = moment[1] * rate / leaving  # E[event time]
    mean, spread, rows = moments(studies.Survival(end, dropout), rate, n)
    covariance = n * np.array([[events * (1 - events), both - events * time], [both - events * time, square - time**2]])
    assert np.all(np.abs(mean - n * np.array([events, time])) < 5 * np.sqrt(np.diag(covariance) / rows))
    assert_allclose(spread, covariance, rtol=0.05, atol=0.02 * n)


def test_a_normal_study_observes_the_standard_deviation_if_it_is_an_input():
    rows, n = 20_000, 6
    columns = {"m": np.full(rows, 2.0), "s": np.full(rows, 3.0)}
    *_, found = studies.Normal("s").summaries(columns, [2, n], np.random.default_rng(0))
    mean, within = found[:, 0], np.exp(found[:, 1])
    assert abs(np.mean(mean) - 2) < 5 * 3 / np.sqrt(n * rows)
    assert_allclose(np.var(mean), 9 / n, rtol=0.05)
    assert_allclose(np.mean(within), 9 * (n - 1), rtol=0.02)
    assert abs(np.corrcoef(mean, within)[0, 1]) < 0.03
    rng = np.random.default_rng(0)
    sd = np.exp(rng.normal(0, 0.7, 300))
    found = cbq.evsi({"a": 0 * sd, "b": sd - 1.2}, {"m": rng.normal(size=300), "s": sd}, "m", studies.Normal("s"), [50])
    assert found.rows[0].pars == "m"
    assert found.rows[0].evsi > 0.8 * found.rows[0].evppi > 0


def test_a_larger_study_contains_the_smaller_ones():
    small, large = studies.BinomialCount().summaries({"p": np.full(50, 0.5)}, [4, 6], np.random.default_rng(0))
    more = 6 * large - 4 * small
    assert np.all((more >= 0) & (more <= 2))


def test_a_function_may_take_all_rows_at_once():
    columns = {"p": np.linspace(0.1, 0.9, 40), "q": np.linspace(5, 6, 40)}

    def simulate(row, n, rng):
        return np.stack([row["p"] + n, row["q"]], axis=-1)

    for vectorised in (False, True):
        (found,) = studies.Custom(simulate, vectorised).summaries(columns, [3], np.random.default_rng(0))
        assert_array_equal(found, np.column_stack([columns["p"] + 3, columns["q"]]))


def test_sizes_between_fitted_ones_are_interpolated():
    sizes = list(range(10, 500, 10))
    fitted = fitted_sizes(sizes)
    assert len(fitted) == MAX_FITS
    assert (fitted[0], fitted[-1]) == (10, 490)
    outputs, inputs = normal_table(200, 0)
    contrasts = Contrasts.of(np.column_stack([*outputs.values()]), cbq.nested.decisions.make_decisions(2))
    template = value_of_learning(
        regress(contrasts, inputs["x"][:, None], np.random.default_rng(0)), np.random.default_rng(0), np.arange(5)
    )
    values = [replace(template, evppi=np.array([normal_evsi(n)])) for n in fitted]
    found = between_sizes(fitted, values, sizes)
    assert_allclose([each.evppi[0] for each in found], [normal_evsi(n) for n in sizes], rtol=2e-3)
    assert_allclose(found[3].effects, template.effects)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: studies.Normal(0), "sd must be above 0"),
        (lambda: studies.Survival(-1), "follow_up must be above 0"),
        (lambda: studies.Survival(1, dropout=-1), "dropout must be a rate"),
        (lambda: studies.Trial([]), "arms must be a list of studies, not"),
        (lambda: studies.Trial(["binomial"], ratio=(1, 2)), "ratio must have a whole number"),
        (lambda: studies.Trial([studies.Normal("sd")]), "arms must be studies of one input"),
        (lambda: studies.Custom(3), "simulate must be a function"),
    ],
)
def test_impossible_studies_are_refused(make, message):
    with pytest.raises((ValueError, TypeError), match=message):
        make()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"study": "normal"}, "study must be a study of cbq.voi.studies"),
        ({"study": "binomial"}, "column 'x' of inputs must be a probability, from 0 to 1"),
        ({"study": studies.PoissonCount()}, "must be a rate, at least 0"),
        ({"study": studies.Survival(1.0)}, "must be a rate of events, above 0"),
        ({"study": studies.Normal("s")}, "'s', which is no column of inputs"),
        ({"study": studies.Trial(["binomial", "binomial"])}, "has 2 arms about 2 inputs together, but pars= has 1"),
        ({"study": lambda row, n, rng: [[1.0]] * 2 if row["x"] > 0 else [0.0]}, "what simulate of the study returns"),
        ({"study": lambda row, n, rng: np.nan}, "what simulate of the study returns for 10"),
        ({"study": lambda row, n, rng: row["y"]}, "simulate of the study raised KeyError"),
        ({"study": studies.Custom(lambda row, n, rng: 1.0, vectorised=True)}, r"must be an array \(60, q\)"),
        ({"study": lambda row, n, rng: rng.normal(size=20)}, "needs at least 105 rows"),
        ({"sizes": []}, "sizes must be a list of 1 to"),
        ({"sizes": [0]}, "sizes must be whole numbers from 1"),
        ({"sizes": [2.5]}, "sizes must be whole numbers from 1"),
        ({"sizes": "10"}, "sizes must be a list"),
        ({"pars": []}, "pars must be the name of a column"),
        ({"pars": "z"}, "'z'"),
        ({"pars": [["x"], ["y"]]}, "pars"),
        ({"level": 2}, "level must lie between 0 and 1"),
    ],
)
def test_bad_arguments_are_refused(change, message):
    outputs, inputs = normal_table(60, 0)
    arguments = {"pars": "x", "study": studies.Normal(SD), "sizes": [10]} | change
    with pytest.raises((ValueError, TypeError), match=message):
        cbq.evsi(outputs, inputs, **arguments)


# Populations and the net benefit of sampling.


@pytest.mark.parametrize(("discount", "delay"), [(0.0, 0.0), (0.035, 0.0), (0.035, 2.5), (0.1, 20.0)])
def test_a_population_is_the_integral_of_discounted_arrivals(discount, delay):
    expected = integrate.quad(lambda t: 70 * (1 + discount) ** -t, min(delay, 12), 12)[0]
    assert_allclose(cbq.voi.population(70, 12, discount, delay=delay), expected, rtol=1e-10, atol=1e-12)


def test_values_are_multiplied_by_the_population():
    outputs, inputs = binomial_table(200, 0)
    evpi, evppi = cbq.evpi(outputs), cbq.evppi(outputs, inputs)
    evsi = cbq.evsi(outputs, inputs, "x", "binomial", [10])
    assert evpi.for_population(1000).estimate == 1000 * evpi.estimate
    assert evpi.for_population(1000).std == 1000 * evpi.std
    for table in (evppi, evsi):
        name, many = "evppi" if table is evppi else "evsi", table.for_population(1000)
        for each in (name, "se", "lower", "upper", "evpi", "raw"):
            assert_allclose(getattr(many.rows[0], each), 1000 * getattr(table.rows[0], each))
        assert many.rows[0].n == table.rows[0].n
        assert "population of 1000" in str(many)
        with pytest.raises(ValueError, match="count it twice"):
            many.for_population(2)
    assert_allclose(evsi.for_population(1000).covariance, 1e6 * evsi.covariance)
    with pytest.raises(ValueError, match="count it twice"):
        cbq.enbs(evsi.for_population(10), 1.0, 100)


def test_enbs_is_evsi_for_the_population_less_the_cost():
    table = of_sizes([1.0, 2.0], [0.1, 0.2])
    found = cbq.enbs(table, cost=3.0, population=50, horizon=10, discount=0.03, fixed_cost=7.0, delay=lambda n: n / 10)
    for row, value, se in zip(found.rows, (1.0, 2.0), (0.1, 0.2), strict=True):
        served = cbq.voi.population(50, 10, 0.03, delay=row.size / 10)
        assert_allclose(row.population, served)
        assert row.cost == 3.0 * row.size + 7.0
        assert_allclose(row.enbs, served * value - row.cost)
        assert_allclose(row.se, served * se)
        (given,) = [each for each in table.rows if each.size == row.size]
        assert_allclose([row.lower, row.upper], [served * each - row.cost for each in (given.lower, given.upper)])
    whole = cbq.enbs(table, cost=lambda n: 100.0 + n**2, population=500)
    assert [row.cost for row in whole.rows] == [200.0, 500.0]
    assert [row.enbs for row in whole.rows] == [300.0, 500.0]
    assert whole.best().size == 20


@pytest.mark.parametrize("correlation", [0.0, 0.9])
def test_the_probability_of_the_best_size_is_that_of_the_larger_of_two_normals(correlation):
    se = np.array([0.1, 0.2])
    found = cbq.enbs(of_sizes([1.0, 1.15], se, correlation), cost=lambda n: n / 100, population=1)
    spread = np.sqrt(se @ se - 2 * correlation * se[0] * se[1])
    expected = ndtr((1.15 - 0.2 - 1.0 + 0.1) / spread)
    assert abs(found.rows[1].best - expected) < 5 * np.sqrt(0.25 / 20_000)
    assert_allclose(sum(row.best for row in found.rows), 1)
    dear = cbq.enbs(of_sizes([1.0, 1.1], [0.1, 0.1]), cost=lambda n: 1.0 + n / 100, population=1)
    assert_allclose(dear.rows[0].worthwhile, ndtr(-1.0), atol=0.02)


def test_no_size_may_be_worth_its_cost():
    found = cbq.enbs(of_sizes([1.0, 1.1], [0.1, 0.1]), cost=5.0, population=1)
    assert found.best().enbs < 0
    assert sum(row.best for row in found.rows) == 0
    assert "No size is worth its cost (probability >99%)" in str(found)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"evsi": 3}, "evsi must be what cbq.evsi returned"),
        ({"cost": -1}, "cost must be a number from 0"),
        ({"cost": lambda n: "a"}, "cost must return a number"),
        ({"population": -1}, "population must be a number from 0"),
        ({"discount": 0.03}, "discount needs horizon"),
        ({"delay": 1.0}, "delay needs horizon"),
    ],
)
def test_bad_costs_and_populations_are_refused(change, message):
    arguments = {"evsi": of_sizes([1.0], [0.1]), "cost": 1.0, "population": 10} | change
    with pytest.raises((ValueError, TypeError), match=message):
        cbq.enbs(**arguments)


def test_best_needs_a_price_if_there_are_several():
    rows = (*of_sizes([1.0], [0.1], price=100.0).rows, *of_sizes([2.0], [0.1], price=200.0).rows)
    found = cbq.enbs(EvsiTable(rows, 0.95, np.full((2, 1, 1), 0.01)), 1.0, 100)
    assert found.best(200.0).evsi == 200
    for price in (None, 3.0, "a"):
        with pytest.raises(ValueError, match="willingness_to_pay must be one of"):
            found.best(price)


# Results.


def test_results_print_plot_and_report(tmp_path):
    outputs, inputs = binomial_table(200, 0)
    evsi = cbq.evsi(outputs, inputs, "x", "binomial", [10, 50, 200])
    enbs = cbq.enbs(evsi, 1e-4, 10)
    for found, name in ((evsi, "EVSI"), (enbs, "ENBS")):
        assert list(found.to_frame().columns) == found.columns
        assert "willingness_to_pay" not in found.columns
        assert found._repr_html_().count("<tr") == 4
        assert str(found).splitlines()[0].split()[:2] == ["pars", "size"]
        axes = found.plot(title="a title").axes[0]
        assert axes.get_xscale() == "log"
        assert name in axes.get_ylabel()
        found.report(tmp_path / "report.html", title="A study", repeat="as before")
        text = (tmp_path / "report.html").read_text()
        assert "A study" in text
        assert "as before" in text
        assert name in text


def test_the_program_prints_and_writes_the_same_as_the_library(tmp_path):
    pytest.importorskip("typer")
    from command_line import ok, read, refused

    outputs, inputs = binomial_table(200, 0)
    columns = {"nb_old": outputs["old"], "nb_new": outputs["new"], "p": inputs["x"], "s": 1 + inputs["x"]}
    table, out = tmp_path / "psa.csv", tmp_path / "evsi.csv"
    lines = [",".join(columns), *(",".join(map(repr, row)) for row in np.column_stack([*columns.values()]).tolist())]
    table.write_text("\n".join(lines))
    expected = cbq.evsi(outputs, inputs, "x", "binomial", [10, 20, 30])
    text = ok("evsi", table, "--pars", "p", "--study", "binomial", "--sizes", "10:30:10", "--out", out)
    assert_allclose([float(each) for each in read(out)["evsi"]], [row.evsi for row in expected.rows])
    assert "Study: BinomialCount(), all sizes from one regression" in text
    assert (tmp_path / "evsi.png").exists()
    assert "What the study is worth" in (tmp_path / "evsi.html").read_text()
    money = ("--cost", "1e-4", "--population", "1", "--horizon", "9", "--discount", "0.03", "--fixed-cost", "0.01")
    text = ok("evsi", table, "--pars", "p", "--study", "binomial", "--sizes", "10,20", *money, "--out", out)
    benefit = cbq.enbs(cbq.evsi(outputs, inputs, "x", "binomial", [10, 20]), 1e-4, 1, 9, 0.03, fixed_cost=0.01)
    assert_allclose([float(each) for each in read(out)["enbs"]], [row.enbs for row in benefit.rows])
    assert "The best size is" in text
    assert "Normal(sd='s')" in ok("evsi", table, "--pars", "p", "--study", "normal", "--sd", "s", "--sizes", "5")
    for arguments, message in (
        (("--study", "binomial"), "--pars must name the inputs of one study"),
        (("--pars", "p; s", "--study", "binomial"), "--pars must name the inputs of one study"),
        (("--pars", "p", "--study", "gamma"), "--study must be one of 'binomial', 'poisson', 'normal', 'survival'"),
        (("--pars", "p", "--study", "normal"), "--study normal needs --sd"),
        (("--pars", "p", "--study", "binomial", "--sd", "2"), "--sd is for --study normal"),
        (("--pars", "p", "--study", "binomial", "--sizes", "5:1"), "--sizes must be whole numbers"),
        (("--pars", "p", "--study", "binomial", "--cost", "5"), "--cost came without --population"),
        (("--pars", "s", "--study", "binomial"), "must be a probability, from 0 to 1, for this study"),
    ):
        assert message in refused("evsi", table, *arguments)


def test_names_of_studies_in_r_are_aliases():
    assert studies.as_study("binary") == studies.as_study("Trial_Binary") == studies.BinomialCount()
    with pytest.raises(TypeError, match=r"such as BinomialCount\(\) or Normal\(sd=2.0\)"):
        studies.as_study("normal_known")


# --- a trial of two arms, from the risk in one of them and the odds ratio

WORTH, PRICE_OF_DRUG = 10.0, 0.75
RISK, LOG_ODDS = (12.0, 28.0), (-0.4, 0.35)  # a beta and a normal distribution


def with_odds(p, ratio):
    return p * ratio / (1 - p + p * ratio)


def two_arm_table(rows, seed):
    rng = np.random.default_rng(seed)
    p, ratio = rng.beta(*RISK, rows), np.exp(rng.normal(*LOG_ODDS, rows))
    gain = WORTH * (p - with_odds(p, ratio)) - PRICE_OF_DRUG
    return {"old": 0 * p, "new": gain + 0.3 * rng.standard_normal(rows)}, {"p": p, "ratio": ratio}


def two_arm_evsi(n, nodes=60):
    """By Bayes' rule for each pair of counts, on a grid of quantiles of both inputs."""
    u = (np.arange(nodes) + 0.5) / nodes
    p, ratio = np.meshgrid(beta.ppf(u, *RISK), np.exp(norm.ppf(u, *LOG_ODDS)), indexing="ij")
    p, treated = p.ravel(), with_odds(p, ratio).ravel()
    gain, y = WORTH * (p - treated) - PRICE_OF_DRUG, np.arange(n + 1)[:, None]
    one, other = binom.pmf(y, n, p), binom.pmf(y, n, treated)
    return float(np.sum(np.maximum((one * gain) @ other.T, 0)) / nodes**2 - max(np.mean(gain), 0))


def test_a_trial_of_two_arms_against_bayes_rule():
    outputs, inputs = two_arm_table(3000, 1)
    study = studies.TwoArm(ratio="odds")
    found = cbq.evsi(outputs, inputs, ["p", "ratio"], study, sizes=[10, 30, 100, 200])
    assert [row.participants for row in found.rows] == [20, 60, 200, 400]  # in both arms
    for row in found.rows:
        assert abs(row.evsi - two_arm_evsi(row.size)) < 3 * row.se


@pytest.mark.parametrize(
    "study", [studies.TwoArm(), studies.TwoArm(studies.PoissonCount(2.0)), studies.TwoArm(studies.Survival(1.5))]
)
def test_a_ratio_multiplies_the_baseline(study):
    base, ratio = np.full(4000, 0.3), np.full(4000, 1.5)
    (found,) = study.summaries({"p": base, "ratio": ratio}, [40], np.random.default_rng(0))
    (expected,) = study.end_point.summaries({"p": base, "q": base * ratio}, [40], np.random.default_rng(0))
    assert_allclose(found, expected, rtol=1e-12)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: studies.TwoArm(studies.Normal(1.0)), r"end_point must be BinomialCount"),
        (lambda: studies.TwoArm(studies.PoissonCount(), ratio="odds"), "'odds' of a BinomialCount"),
        (lambda: studies.TwoArm().check({"p": np.ones(1)}), "pars must be a baseline and a ratio"),
        (lambda: studies.TwoArm().check({"p": np.ones(1), "r": np.zeros(1)}), "'r' of inputs must be a ratio"),
        (lambda: studies.TwoArm().check({"p": np.full(1, 0.8), "r": np.full(1, 2.0)}), "'p times r' .* a probability"),
    ],
)
def test_bad_trials_of_two_arms_are_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_participants_of_all_arms_of_a_custom_study_count():
    assert studies.Custom(lambda row, n, rng: 0.0, arms=2).participants(50, 2) == 100
    with pytest.raises((ValueError, TypeError), match="arms must be"):
        studies.Custom(lambda row, n, rng: 0.0, arms=0)


def test_a_weak_study_of_informative_inputs_is_not_worth_nothing():
    """The results of few participants explain too little of noisy net benefits to show that they matter; inputs do."""
    truth, scores = two_arm_evsi(5), []
    for seed in range(4):
        outputs, inputs = two_arm_table(2000, 50 + seed)
        noisy = outputs["new"] + np.random.default_rng(seed).normal(0, 4.0, 2000)
        (row,) = cbq.evsi(outputs | {"new": noisy}, inputs, ["p", "ratio"], studies.TwoArm(ratio="odds"), [5]).rows
        scores.append((row.evsi - truth) / row.se)
    assert np.max(np.abs(scores)) < 4


# --- parts of studies, and several studies together


def test_lost_participants_tell_nothing_and_count():
    lost, rng = studies.LossToFollowUp(studies.TwoArm(ratio="odds"), lost=0.3), np.random.default_rng(2)
    outputs, inputs = two_arm_table(1500, 3)
    found = cbq.evsi(outputs, inputs, ["p", "ratio"], lost, sizes=[10, 100], rng=5)
    fewer = cbq.evsi(outputs, inputs, ["p", "ratio"], lost.study, sizes=[7, 70], rng=5)
    assert [row.evsi for row in found.rows] == [row.evsi for row in fewer.rows]
    assert [row.participants for row in found.rows] == [20, 200]
    one = studies.LossToFollowUp("binomial", lost=0.5)
    assert_allclose(
        one.result_probabilities(np.array([0.3]), 8), studies.BinomialCount().result_probabilities(np.array([0.3]), 4)
    )
    sizes = [1, 2, 3, 10]  # 1 participant stays of 1 to 3
    kept = studies.LossToFollowUp(studies.Normal(1.0), lost=0.6).summaries({"a": np.zeros(50)}, sizes, rng)
    first, second, third, last = kept
    assert_array_equal(first, second)
    assert_array_equal(first, third)
    assert np.any(first != last)


def test_end_points_are_those_of_the_same_participants():
    response, utility = studies.TwoArm(ratio="odds"), studies.Trial([studies.Normal(0.2), studies.Normal(0.3)])
    both = studies.EndPoints([response, utility])
    assert (both.own_inputs, both.participants(50, 4)) == (4, 100)
    columns = {name: np.full(30, value) for name, value in zip("pruv", (0.3, 1.2, 0.7, 0.8), strict=True)}
    both.check(columns)
    (found,) = both.summaries(columns, [40], np.random.default_rng(1))
    rng = np.random.default_rng(1)
    (one,) = response.summaries({"p": columns["p"], "r": columns["r"]}, [40], rng)
    (other,) = utility.summaries({"u": columns["u"], "v": columns["v"]}, [40], rng)
    assert_array_equal(found, np.concatenate([one, other], axis=1))


def test_a_second_end_point_adds_the_value_of_its_input():
    """Both gains are added and independent, so that posterior means are normal with the sum of both variances."""
    rng = np.random.default_rng(4)
    a, b = rng.normal(size=(2, 4000))
    outputs = {"old": 0 * a, "new": a + 0.5 * b + 0.2 * rng.normal(size=4000)}
    study = studies.EndPoints([studies.Normal(3.0), studies.Normal(1.0)])
    for row in cbq.evsi(outputs, {"a": a, "b": b}, ["a", "b"], study, sizes=[4, 25]).rows:
        variance = 1 / (1 + 9 / row.size) + 0.25 / (1 + 1 / row.size)
        assert abs(row.evsi - np.sqrt(variance / (2 * np.pi))) < 3 * row.se
        assert row.participants == row.size


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: studies.EndPoints([]), "end_points must be a list of studies"),
        (lambda: studies.EndPoints([studies.Normal("sd")]), "without further inputs"),
        (lambda: studies.EndPoints(["binomial"]).check({"a": np.zeros(1), "b": np.zeros(1)}), "1 inputs together, but"),
        (lambda: studies.EndPoints(["binomial"]).check({"a": np.full(1, 2.0)}), "'a' of inputs must be a probability"),
        (lambda: studies.LossToFollowUp("binomial", lost=1.0), "lost must be a share from 0 to below 1"),
        (lambda: studies.Trial([studies.TwoArm()]), "arms must be studies of one input each"),
    ],
)
def test_bad_parts_of_studies_are_refused(make, message):
    with pytest.raises((TypeError, ValueError), match=message):
        make()


def planned():
    """A cohort of 9 and a survey of 4 about independent normal inputs that add to the gain of a decision."""
    rng = np.random.default_rng(6)
    a, b = rng.normal(size=(2, 4000))
    outputs = {"old": 0 * a, "new": a + 0.8 * b + 0.2 * rng.normal(size=4000)}
    plans = {
        "cohort": cbq.voi.PlannedStudy("a", studies.Normal(3.0), 9, cost=100.0),
        "survey": cbq.voi.PlannedStudy("b", studies.Normal(1.0), 4, cost=250.0),
    }
    return outputs, {"a": a, "b": b}, plans


def test_a_portfolio_against_closed_forms():
    outputs, inputs, plans = planned()
    table = cbq.voi.portfolio(outputs, inputs, plans, population=100, horizon=10, uptake=4)
    variances = {"cohort": 1 / 2, "survey": 0.64 * 4 / 5, "cohort + survey": 1 / 2 + 0.64 * 4 / 5}
    assert [row.studies for row in table.rows] == list(variances)
    for row in table.rows:  # 800 people profit
        assert abs(row.evsi - 800 * np.sqrt(variances[row.studies] / (2 * np.pi))) < 3 * row.se
        assert row.enbs == row.evsi - row.cost
    one, other, both = table.rows
    assert (one.cost, other.cost, both.cost) == (100, 250, 350)
    assert (one.participants, other.participants, both.participants) == (9, 4, 13)
    assert max(one.evsi, other.evsi) <= both.evsi < one.evsi + other.evsi
    # sqrt(0.5), sqrt(0.512) and sqrt(1.012) over sqrt(2 pi) are 0.282, 0.285 and 0.401.
    assert table.best().studies == "cohort"


def test_results_do_not_repeat_the_random_numbers_of_a_table_with_the_same_seed():
    gain = np.random.default_rng(0).normal(size=400)
    plans = {"noise": cbq.voi.PlannedStudy("constant", studies.Normal(1.0), 5)}
    table = cbq.voi.portfolio({"old": 0 * gain, "new": gain}, {"constant": 0 * gain}, plans, population=1, rng=0)
    assert table.rows[0].evsi < 0.02  # EVPI is about 0.4


def test_bad_portfolios_are_refused():
    outputs, inputs, plans = planned()
    with pytest.raises(TypeError, match="studies must be a mapping from 1 to 6 names"):
        cbq.voi.portfolio(outputs, inputs, {}, population=1)
    with pytest.raises(ValueError, match="pars of 'cohort' in studies, columns of inputs, lists 'a'"):
        cbq.voi.portfolio(outputs, {"x": inputs["a"]}, plans, population=1)
    with pytest.raises(ValueError, match="uptake needs horizon="):
        cbq.voi.portfolio(outputs, inputs, plans, population=1, uptake=2)


def test_a_best_size_at_the_end_of_the_table_is_said_to_be_so():
    outputs, inputs, _ = planned()
    found = cbq.evsi(outputs, inputs, "a", studies.Normal(3.0), sizes=[5, 10, 20])
    assert (
        "; it is the largest size of the table, and larger" in cbq.enbs(found, cost=0.001, population=1000).in_words()
    )
    assert "; it is the smallest size of the table, and smaller" in cbq.enbs(found, cost=20, population=1000).in_words()
    inside = cbq.enbs(found, cost=lambda n: abs(n - 10) * 1e6, population=1e6)
    assert inside.best().size == 10
    assert "size of the table" not in inside.in_words()
