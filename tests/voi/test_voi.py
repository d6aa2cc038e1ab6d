"""Value of information from tables: each formula computed in two ways, known truths, and error messages."""

from __future__ import annotations

from collections import Counter
from dataclasses import FrozenInstanceError, replace
from itertools import combinations

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import optimize, signal, stats
from scipy.stats import norm

import cbq
from cbq.common.series import autocorrelation_times
from cbq.gp.landmark_regression import RegressionPosterior
from cbq.gp.sparse import LandmarkFeatures, Moments, State, Targets
from cbq.kernels import RBF, Matern
from cbq.nested.decisions import make_decisions
from cbq.problems import health
from cbq.voi import Evpi, EvppiRow, EvppiTable, evpi, evppi
from cbq.voi.analysis import Contrasts, SetValue
from cbq.voi.outputs import count_duplicates, scale_columns, scale_net_benefits
from cbq.voi.sets import monotone_estimates
from cbq.voi.uncertainty import NetBenefits, central_moments, expected_max, influences, orthogonal_normals, slopes
from refusals import refusals

HALF_NORMAL = 1 / np.sqrt(2 * np.pi)  # E max(theta, 0) of a standard normal theta
KERNELS = [RBF(np.array([0.8, 2.0])), Matern(2.5, np.array([0.8, 2.0])), Matern(1.5, np.array([0.8, 2.0]))]


def draws(n, seed, columns=2):
    return np.random.default_rng(seed).standard_normal((n, columns))


def bumpy(z, seed):
    """A centred output over z with noise."""
    y = np.sin(2 * z[:, 0]) + 0.3 * z[:, 1] + np.random.default_rng(seed).standard_normal(len(z))
    return y - y.mean()


def toy(n, seed, noise=1.0):
    """Net benefits (0, theta + noise), and inputs of which only the first matters."""
    u = draws(n, seed, 3)
    e = np.random.default_rng(seed + 1000).standard_normal(n)
    return {"old": np.zeros(n), "new": u[:, 0] + noise * e}, {"theta": u[:, 0], "unrelated": u[:, 1], "other": u[:, 2]}


# --- decisions


def test_outputs_without_options_are_net_benefits():
    decisions = make_decisions(3, ["a", "b", "c"])
    assert_array_equal(decisions.weights, np.eye(3)[None])
    assert decisions.willingness_to_pay is None
    assert not decisions.several


@pytest.mark.parametrize("costs", [["c0", "c1"], [2, 3], ["c0", 3]])
def test_net_benefits_of_effects_and_costs(costs):
    names, thresholds = ["e0", "e1", "c0", "c1", "text"], np.array([0.0, 2.5])
    f = draws(4, 0, 5)
    decisions = make_decisions(5, names, effects=["e0", "e1"], costs=costs, willingness_to_pay=thresholds)
    for k, threshold in enumerate(thresholds):
        assert_allclose(f @ decisions.weights[k].T, threshold * f[:, :2] - f[:, 2:4], rtol=1e-14)
    assert decisions.several
    assert not make_decisions(5, names, effects=[0, 1], costs=[2, 3], willingness_to_pay=1.0).several


def decide(**options):
    return lambda: make_decisions(4, ["e0", "e1", "c0", "c1"], **options)


BOTH = {"effects": ["e0", "e1"], "costs": ["c0", "c1"]}
test_bad_decisions = refusals(
    {
        "one output": (lambda: make_decisions(1), "at least 2 net benefits"),
        "names": (lambda: make_decisions(2, ["a"]), "2 outputs, but 1 names"),
        "without costs": (decide(effects=["e0", "e1"], willingness_to_pay=1), "came without costs"),
        "without wtp": (decide(**BOTH), "came without willingness_to_pay"),
        "wtp alone": (decide(willingness_to_pay=1), "came without effects= and costs="),
        "unknown": (
            decide(effects=["e0", "e2"], costs=["c0", "c1"], willingness_to_pay=1),
            "the columns are 'e0', 'e1'",
        ),
        "out of range": (decide(effects=[0, 9], costs=[2, 3], willingness_to_pay=1), "lists 9, which is not a column"),
        "repeated": (decide(effects=["e0", "e0"], costs=["c0", "c1"], willingness_to_pay=1), "more than once"),
        "lengths": (
            decide(effects=["e0", "e1"], costs=["c0"], willingness_to_pay=1),
            "has 2 columns and costs= has 1",
        ),
        "one decision": (decide(effects=["e0"], costs=["c0"], willingness_to_pay=1), "at least 2 options"),
        "both": (decide(effects=["e0", "c0"], costs=["c0", "c1"], willingness_to_pay=1), "as an effect and as a cost"),
        "negative": (decide(**BOTH, willingness_to_pay=[1, -2]), "holds -2"),
        "nan": (decide(**BOTH, willingness_to_pay=np.nan), "holds nan"),
        "matrix": (decide(**BOTH, willingness_to_pay=[[1.0]]), "a number or a vector"),
        "position beside numbers": (
            lambda: make_decisions(4, ["1", "2", "3", "4"], effects=[0, 1], costs=[2, 3], willingness_to_pay=1),
            "lists 0, which is not a column: .* A position is accepted only if no column name is an integer",
        ),
    },
    ValueError,
)
test_bad_types_of_decisions = refusals(
    {"string": (decide(effects="e0", costs=["c0", "c1"], willingness_to_pay=1), "list of names")}, TypeError
)


# --- influences and draws


def posterior_at(kernel, z, y, landmarks, gamma):
    features = LandmarkFeatures.of(kernel, z, landmarks)
    moments = Moments.of(features, Targets.of(y))
    state = State.at(gamma, moments)
    return RegressionPosterior(features, moments, state, gamma * state.noise, 0.0)


def test_influences_are_derivatives_of_the_plug_in():
    n, B = 50, np.array([[[0.0, 1.0, -0.5], [0.0, 0.4, 1.2]]])
    offset, z = np.array([[0.0, 0.1, -0.05]]), draws(50, 10)
    outputs = np.stack([bumpy(z, 11), bumpy(z[:, ::-1], 12)], axis=1)

    def posteriors(values):
        level = values.mean(axis=0)
        fits = [posterior_at(KERNELS[0], z, y, z[:10], 1.0) for y in (values - level).T]
        return fits, level

    def plug_in(values):
        fits, level = posteriors(values)
        mean = np.stack([next(iter(f.blocks())).mean for f in fits], axis=-1)
        base = offset[0] + level @ B[0]
        return np.mean(np.max(base + mean @ B[0], axis=1)) - np.max(base)

    fits, benefits = posteriors(outputs)[0], NetBenefits(offset, B)
    ((_, found, _),) = influences(fits, np.ones(n), slopes(fits, np.ones(n), benefits))
    for j, c in [(0, 0), (3, 1), (20, 0), (n - 1, 1)]:
        step = np.zeros_like(outputs)
        step[j, c] = 1e-6
        assert_allclose(found[j, 0, c], (plug_in(outputs + step) - plug_in(outputs - step)) / 2e-6, atol=1e-7)


def test_influences_through_signals_are_of_a_regression_with_these_signals_as_coefficients():
    n, B = 50, np.array([[[0.0, 1.0, -0.5], [0.0, 0.4, 1.2]]])
    benefits, z = NetBenefits(np.array([[0.0, 0.1, -0.05]]), B), draws(50, 10)
    centred = [y - y.mean() for y in (bumpy(z, 11), bumpy(z[:, ::-1], 12))]
    fits = [posterior_at(KERNELS[0], z, y, z[:10], gamma) for y, gamma in zip(centred, (1.0, 0.05), strict=True)]
    ((blocks, own, others),) = influences(fits, np.ones(n), slopes(fits, np.ones(n), benefits))
    signals = np.stack([block.mean for block in blocks], axis=1)
    best = np.argmax(benefits.offset[0] + signals @ B[0], axis=1)
    moves = B[0].T[best] - B[0][:, benefits.default[0]]
    for c, fit in enumerate(fits):
        centre = np.eye(n) - 1.0 / n
        smoother = np.stack(
            [next(iter(posterior_at(KERNELS[0], z, e, z[:10], (1.0, 0.05)[c]).blocks())).mean for e in centre]
        )
        prior = np.linalg.solve(np.eye(n) - smoother, smoother)  # of the values, relative to the noise
        prior += 1e6 * np.outer(signals[:, 1 - c], signals[:, 1 - c])  # and any multiple of the other signal
        expected = np.linalg.solve(prior + np.eye(n), prior @ moves[:, c]) + np.mean(moves[:, c])
        assert fit.zero_probability == 0.0
        assert_allclose((own + others)[:, 0, c], expected / n, atol=1e-6)


def test_draws_have_the_covariance_of_their_distribution():
    found = orthogonal_normals(40, 256, np.random.default_rng(0))
    assert_allclose(found @ found.T / 256, np.eye(40), atol=1e-12)
    assert_allclose(found.mean(axis=1), 0.0, atol=1e-12)
    many = orthogonal_normals(300, 256, np.random.default_rng(1))
    assert_allclose(np.diagonal(many @ many.T) / 256, 1.0, atol=1e-12)


# --- contrasts


@pytest.mark.parametrize("thresholds", [[3.0, 0.0, 1.5], [2.0], [0.0]])
def test_contrasts_of_effects_and_costs_determine_net_benefits(thresholds):
    f, thresholds = draws(20, 19, 6), np.array(thresholds)
    decisions = make_decisions(6, effects=[0, 1, 2], costs=[3, 4, 5], willingness_to_pay=thresholds)
    contrasts = Contrasts.of(f, decisions)
    for k, threshold in enumerate(thresholds):
        benefits = threshold * f[:, :3] - f[:, 3:]
        y = contrasts.outputs.mean + contrasts.outputs.values @ contrasts.outputs.back
        assert_allclose(y @ contrasts.maps[k], benefits - benefits[:, :1], atol=1e-12)


# --- expected maxima and the order of sets


def test_expected_max_against_quadrature_and_draws():
    B, variance = np.array([[0.0, 1.0, 0.3], [0.0, -0.4, 0.9]]), np.array([[0.5, 2.0], [0.0, 0.0]])
    g = np.array([[0.0, 0.2, -0.1], [1.0, 0.5, 2.0]])
    nodes, weights = np.polynomial.hermite_e.hermegauss(150)
    weights = weights / weights.sum()
    Z = np.stack(np.meshgrid(nodes, nodes, indexing="ij"), axis=-1) * np.sqrt(variance[0])
    three = np.sum(weights[:, None] * weights * np.max(g[0] + Z @ B, axis=-1))
    normals = np.random.default_rng(0).standard_normal((20000, 16, 2))
    many = expected_max(np.tile(g[:1], (20000, 1)), B, np.tile(variance[:1], (20000, 1)), normals)
    assert abs(many.mean() - three) < 5 * many.std() / np.sqrt(20000)
    assert expected_max(g[1:], B, variance[1:], normals[:1]) == 2.0
    two = np.sum(weights[:, None] * weights * np.max(g[0, :2] + Z @ B[:, :2], axis=-1))
    assert_allclose(expected_max(g[:1, :2], B[:, :2], variance[:1], None), two, rtol=3e-3)


def test_monotone_estimates_are_the_nearest_point_of_the_cone():
    sets = [frozenset(s) for s in ({0}, {1}, {0, 1}, {2}, {0, 1, 2})]
    raw, se = np.array([5.0, -0.3, 4.0, 1.0, 3.5]), np.array([1.0, 0.5, 2.0, 0.1, 0.7])
    rules = [(0, 2), (1, 2), (0, 4), (1, 4), (2, 4), (3, 4)]
    constraints = [{"type": "ineq", "fun": lambda x, a=a, b=b: x[b] - x[a]} for a, b in rules]
    brute = optimize.minimize(
        lambda x: np.sum(((x - raw) / se) ** 2), raw, bounds=[(0, 4.2)] * 5, constraints=constraints, tol=1e-12
    )
    assert_allclose(monotone_estimates(raw, se, sets, 4.2), brute.x, atol=1e-5)


def test_monotone_estimates_are_not_changed():
    sets = [frozenset({0}), frozenset({0, 1})]
    raw = np.array([1.0, 2.0])
    assert_array_equal(monotone_estimates(raw, np.ones(2), sets, 3.0), raw)
    assert_allclose(
        monotone_estimates(raw[::-1], np.array([1.0, 2.0]), sets, 3.0), [1.8, 1.8], rtol=1e-9
    )  # by 1 / se^2
    assert_allclose(monotone_estimates(np.array([2.0, 1.0]), np.zeros(2), sets, 3.0), [1.5, 1.5], rtol=1e-6)
    same = [frozenset({0, 1})] * 2
    assert_allclose(monotone_estimates(raw, np.ones(2), same, 3.0), [1.5, 1.5], rtol=1e-9)


def test_a_value_that_may_be_zero_is_a_mixture():
    found = SetValue(*(np.array([x]) for x in (2.0, 1.5, 0.3, 0.2, 0.1, 0.1, 0.01, 0.5, 1.0, 100.0, 0.1, 0.05)))
    less = found.mixed_with_zero(0.4)
    worth = np.random.default_rng(0).normal(2.0, np.sqrt(0.3), 200_000)
    mixed = np.where(np.random.default_rng(1).random(200_000) < 0.4, 0.0, worth)
    assert_allclose([less.evppi[0], less.regression[0]], [mixed.mean(), mixed.var()], rtol=0.02)
    assert_allclose([less.plug_in[0], less.sampling[0], less.unseen[0]], [0.6 * 1.5, 0.6 * 0.2, 0.6 * 0.01], rtol=1e-14)


def test_errors_of_shares_are_their_scatter_over_tables():
    def row_of(seed, pars):
        x, y, z = np.random.default_rng(seed).standard_normal((3, 400))
        outputs = {"old": 0 * x, "new": x + 0.5 * y + 0.2 * z + 0.2}
        return evppi(outputs, {"x": x, "y": y, "z": z}, [pars]).rows[0]

    rows = [row_of(seed, ["x", "y"]) for seed in range(40)]
    for name in ("share", "remaining"):
        values, errors = (np.array([getattr(row, key) for row in rows]) for key in (name, f"{name}_se"))
        assert 0.7 < np.sqrt(np.mean(errors**2)) / np.std(values, ddof=1) < 1.5
    assert all(row.remaining_se < 0.2 * row.se for row in rows)  # EVPPI and EVPI err together
    assert all(row.share * row.evpi == pytest.approx(row.evppi) for row in rows)
    every = row_of(0, ["x", "y", "z"])
    assert every.remaining_se < 0.01 * every.se
    assert every.share == pytest.approx(1.0, abs=1e-3)


def test_moments_of_draws():
    found = central_moments(draws(500, 3).T)
    assert_allclose(found, stats.moment(draws(500, 3), [2, 3], axis=0), rtol=1e-12)


@pytest.mark.parametrize("level", [0.5, 0.95, 0.9999])
def test_estimates_are_in_their_intervals(level):
    rng = np.random.default_rng(0)
    risk, noise, price = rng.standard_normal((3, 300))
    outputs = (np.stack([np.ones(300), 1 + 0.05 * risk + 0.02 * noise], 1), np.stack([0 * price, 500 + 100 * price], 1))
    rows = evppi(outputs, {"risk": risk, "price": price}, willingness_to_pay=[10_000, 20_000], level=level).rows
    assert all(row.lower <= row.evppi <= row.upper for row in rows)
    assert min(row.evppi for row in rows) < 1e-3 * rows[0].evpi  # of a set that is worth next to nothing


def test_duplicated_rows_are_counted():
    rows = np.random.default_rng(0).integers(0, 4, (200, 3)).astype(float)
    repeated = sum(times - 1 for times in Counter(map(tuple, rows.tolist())).values())
    assert repeated > 100
    assert count_duplicates(rows) == repeated
    assert count_duplicates(draws(200, 0)) == 0


# --- units


def test_scaled_columns_are_near_one():
    columns = np.array([[3.0, -1e300, 0.0, 5e-324], [-0.5, 1e-300, 0.0, 0.0]])
    scaled, powers = scale_columns(columns)
    assert_array_equal(np.max(np.abs(scaled), axis=0) >= [0.5, 0.5, 0.0, 0.5], True)
    assert np.all(np.abs(scaled) < 1)
    assert_array_equal(np.ldexp(scaled[0], powers), columns[0])


def test_scaled_net_benefits_are_the_same():
    f = draws(20, 0, 5) * [1e-200, 1e-201, 1e3, 1e4, 1e300]
    options = {"effects": [0, 1], "costs": [2, 3], "willingness_to_pay": [0.0, 1e204]}
    decisions = make_decisions(5, **options)
    values, scaled, unit = scale_net_benefits(f, decisions)
    for k, weights in enumerate(decisions.weights):
        assert_allclose(unit * (values @ scaled.weights[k].T), f @ weights.T, rtol=1e-12)
        assert np.max(np.abs(values @ scaled.weights[k].T)) < 2
    assert not scaled.weights.flags.writeable
    assert scale_net_benefits(np.zeros((3, 2)), make_decisions(2))[2] == 1.0


@pytest.mark.parametrize("size", [1e-300, 1e-170, 1e200, 1e300])
def test_results_scale_with_their_units(size):
    outputs, inputs = toy(200, 39)
    plain, scaled = np.column_stack(list(outputs.values())), np.column_stack(list(inputs.values()))
    (row,) = evppi(plain, scaled, [[0, 1]]).rows
    assert row.se > 0
    (large,) = evppi(plain * size, scaled, [[0, 1]]).rows
    numbers = ["evppi", "se", "lower", "upper", "plug_in", "evpi"]
    assert_allclose([getattr(large, name) / size for name in numbers], [getattr(row, name) for name in numbers], 2e-3)
    (wide,) = evppi(plain, scaled * [size, 1 / size, 1], [[0, 1]]).rows
    assert_allclose([wide.evppi, wide.se], [row.evppi, row.se], rtol=0.02)
    one, other = evpi(plain), evpi(plain * size)
    assert_allclose([other.estimate / size, other.std / size], [one.estimate, one.std], rtol=1e-12)


def test_powers_of_two_scale_exactly():
    outputs, inputs = toy(100, 40)
    plain = np.column_stack(list(outputs.values()))
    (row,), (other,) = (evppi(f, inputs, ["theta"]).rows for f in (plain, 2.0**600 * plain))
    assert (other.evppi, other.se, other.evpi) == tuple(2.0**600 * x for x in (row.evppi, row.se, row.evpi))


# --- known truths


def test_gaussian_toy_against_its_closed_form():
    outputs, inputs = toy(3000, 20)
    alone, irrelevant, all_ = evppi(outputs, inputs, ["theta", "unrelated", ["theta", "unrelated", "other"]]).rows
    for row in (alone, all_):
        assert abs(row.evppi - HALF_NORMAL) < 4 * row.se
        assert row.se < 0.05
    assert irrelevant.evppi < 2 * np.sqrt(2 / 3000)  # standard errors of the mean net benefit
    assert irrelevant.lower == 0.0
    assert all_.evppi >= alone.evppi
    assert abs(alone.evpi - np.sqrt(2) * HALF_NORMAL) < 0.06


def test_three_decisions():
    u, e = draws(3000, 21), draws(3000, 22)
    grid = norm.ppf((np.arange(1000) + 0.5) / 1000)
    truth = np.mean(np.maximum(np.maximum(grid[:, None] + 0.5, grid), 0)) - 0.5
    outputs = np.column_stack([np.zeros(3000), u[:, 0] + 0.5 + e[:, 0], u[:, 1] + e[:, 0] + e[:, 1]])
    (row,) = evppi(outputs, u, [[0, 1]]).rows
    assert abs(row.evppi - truth) < 4 * row.se
    assert row.se < 0.08


def test_health():
    problem = cbq.problems.get("health")
    samples = problem.collect(2000, 1, rng=23)
    inputs = {"theta1": samples.theta[:, 0], "theta2": samples.theta[:, 1]}
    (row,) = evppi(samples.table, inputs, [["theta1", "theta2"]]).rows
    assert abs(row.evppi - health.EVPPI) < 4 * row.se
    assert row.se < 80
    assert row.approximation < 0.01 * row.se


def test_columns_that_determine_net_benefits_are_worth_evpi():
    u = draws(1000, 24)
    benefit = np.sin(2 * u[:, 0]) + u[:, 1]
    (row,) = evppi(np.column_stack([np.zeros(1000), benefit]), u, [[0, 1]]).rows
    assert_allclose(row.evppi, row.evpi, rtol=0.01)
    assert row.evppi <= row.evpi


def test_binary_columns():
    rng = np.random.default_rng(25)
    b = (rng.random((2000, 2)) < 0.3).astype(float)
    outputs = np.column_stack([np.zeros(2000), 2 * b[:, 0] - 0.3 + rng.standard_normal(2000)])
    first, second, both = evppi(outputs, b, [[0], [1], [0, 1]]).rows
    assert abs(first.evppi - 0.21) < 4 * first.se  # 0.3 of 1.7, less the mean 0.3
    assert abs(both.evppi - 0.21) < 4 * both.se
    assert second.lower == 0.0


def test_skewed_columns():
    outputs, inputs = toy(1500, 26)
    (plain,) = evppi(outputs, inputs, ["theta"]).rows
    (skewed,) = evppi(outputs, {"theta": np.exp(3 * inputs["theta"])}, ["theta"]).rows
    assert abs(skewed.evppi - plain.evppi) < 0.5 * plain.se


@pytest.mark.slow
def test_intervals_cover():
    tables = [toy(1000, 10_000 + seed, noise=2.0) for seed in range(200)]
    rows = [evppi(*table, ["theta"]).rows[0] for table in tables]
    covered = np.mean([row.lower <= HALF_NORMAL <= row.upper for row in rows])
    assert 0.88 <= covered <= 0.985  # by chance 0.95 is beyond 3 times in 100,000, and 23 in 10,000
    spread = np.std([row.evppi for row in rows])
    assert 0.9 * spread < np.mean([row.se for row in rows]) < 1.6 * spread  # neither too sure nor too wide


# --- invariance


@pytest.mark.slow
def test_results_do_not_depend_on_units_or_on_the_first_decision():
    u, e = draws(600, 27), draws(600, 28, 3)
    outputs = e + u @ np.array([[1.0, 0.2, -0.4], [0.0, 0.6, 0.5]])
    (row,) = evppi(outputs, u, [[0, 1]]).rows
    for changed, columns, unit in [
        (outputs[:, [2, 0, 1]], u, 1.0),
        (7 + 1000 * outputs, u, 1000.0),
        (outputs + e[:, :1], u, 1.0),
        (outputs, 3 + u * [1e4, 1e-3], 1.0),
        (outputs, u[:, ::-1], 1.0),
    ]:
        (other,) = evppi(changed, columns, [[0, 1]]).rows
        assert_allclose([other.evppi / unit, other.plug_in / unit], [row.evppi, row.plug_in], rtol=2e-3)
        assert_allclose(other.se / unit, row.se, rtol=0.02)


def test_a_set_does_not_depend_on_other_sets_or_on_threads():
    outputs, inputs = toy(400, 29)
    (alone,) = evppi(outputs, inputs, ["theta"]).rows
    with cbq.linalg.at_most(1):
        among = evppi(outputs, inputs, ["unrelated", "theta"]).rows
    assert among[1] == alone


def test_all_types_of_tables_give_the_same_results():
    pd = pytest.importorskip("pandas")
    outputs, inputs = toy(200, 30)
    expected = evppi(outputs, inputs, ["theta", ["theta", "other"]]).rows
    frames = pd.DataFrame(outputs), pd.DataFrame(inputs | {"label": ["text"] * 200})
    structured = [np.rec.fromarrays(list(t.values()), names=list(t)) for t in (outputs, inputs)]
    for out, into in (frames, structured):
        assert evppi(out, into, ["theta", ["theta", "other"]]).rows == expected
    plain = [np.column_stack(list(t.values())) for t in (outputs, inputs)]
    for array in plain:
        array.setflags(write=False)
    for pars in ([0, [0, 2]], ["0", ["0", "2"]]):
        rows = evppi(*plain, pars).rows
        assert [row.evppi for row in rows] == [row.evppi for row in expected]
        assert rows[1].pars == "0, 2"


def test_effects_and_costs_give_the_same_as_net_benefits():
    u, e = draws(500, 31), draws(500, 32)
    effects = np.column_stack([np.zeros(500), 0.1 * u[:, 0] + 0.1 * e[:, 0]])
    costs = np.column_stack([np.zeros(500), 100 * u[:, 1] + 50 * e[:, 1]])
    table = {"e0": effects[:, 0], "e1": effects[:, 1], "c0": costs[:, 0], "c1": costs[:, 1], "unused": ["a"] * 500}
    options = {"effects": ["e0", "e1"], "costs": ["c0", "c1"]}
    (at_one,) = evppi(table, u, [[0, 1]], **options, willingness_to_pay=1000).rows
    (direct,) = evppi(1000 * effects - costs, u, [[0, 1]]).rows
    assert at_one.willingness_to_pay == 1000
    assert_allclose(at_one.evpi, direct.evpi, rtol=1e-12)
    assert abs(at_one.evppi - direct.evppi) < 0.1 * direct.se  # two regressions against one
    assert_allclose(at_one.se, direct.se, rtol=0.1)
    several = evppi(table, u, [[0, 1], [0]], **options, willingness_to_pay=[0, 1000, 3000])
    assert [row.willingness_to_pay for row in several.rows] == [0, 1000, 3000] * 2
    assert abs(several.rows[1].evppi - direct.evppi) < direct.se
    for superset, subset in zip(several.rows[:3], several.rows[3:], strict=True):
        assert superset.evppi >= subset.evppi * (1 - 1e-9)


@pytest.mark.parametrize("sets", [["0"], [["0", "1"]]])
def test_one_willingness_to_pay_has_the_result_of_a_grid(sets):
    u, e = draws(600, 50), draws(600, 51, 4)
    table = np.column_stack([e[:, 0], 0.1 * u[:, 0] + e[:, 1], 2 * e[:, 2], 3 * u[:, 1] ** 2 + e[:, 3]])
    options = {"effects": [0, 1], "costs": [2, 3]}
    grid = evppi(table, u, sets, **options, willingness_to_pay=np.linspace(1.0, 30.0, 7)).rows
    for row in (grid[0], grid[2], grid[6]):
        (alone,) = evppi(table, u, sets, **options, willingness_to_pay=row.willingness_to_pay).rows
        assert abs(alone.evppi - row.evppi) <= 1e-3 * row.se
        assert_allclose([alone.se, alone.plug_in], [row.se, row.plug_in], rtol=1e-3, atol=1e-3 * row.se)


def rows_of_pandas(order, n=100):
    """Net benefits, with their rows in this order, and inputs, as DataFrames."""
    pd = pytest.importorskip("pandas")
    outputs, inputs = toy(n, 41)
    return pd.DataFrame(outputs).iloc[order], pd.DataFrame(inputs)


def test_different_row_labels_raise():
    outputs, inputs = rows_of_pandas(np.argsort(draws(100, 42)[:, 0]))
    with pytest.raises(ValueError, match=r"rows of outputs and inputs have different labels \(row 0 is .* reset_index"):
        evppi(outputs, inputs, ["theta"])
    columns = {"old": inputs["other"], "new": outputs["new"]}
    with pytest.raises(ValueError, match="column 'old' of outputs and column 'new' of outputs have different labels"):
        evpi(columns)
    with pytest.raises(ValueError, match="have different labels"):
        evppi(outputs, inputs["theta"], ["theta"])


def test_equal_row_labels_are_accepted():
    outputs, inputs = rows_of_pandas(np.arange(100))
    (expected,) = evppi(outputs, inputs, ["theta"]).rows
    named = {f"draw {i}": i for i in range(100)}
    alike = [frame.set_axis(list(named)) for frame in (outputs, inputs)]
    floats = inputs.set_axis(np.arange(100.0))
    for out, into in [alike, (outputs, floats), (outputs.to_numpy(), alike[1]), (alike[0], inputs.to_dict("list"))]:
        assert evppi(out, into, ["theta"]).rows[0].evppi == expected.evppi


def test_a_series_keeps_its_name():
    outputs, inputs = rows_of_pandas(np.arange(100))
    (row,) = evppi(outputs, inputs["theta"], ["theta"]).rows
    assert row == evppi(outputs, inputs, ["theta"]).rows[0]
    (row,) = evppi(outputs, inputs["theta"].rename(None), ["0"]).rows
    assert row.pars == "0"


@pytest.mark.parametrize(("dtype", "says"), [("category", "category"), (object, "object")])
def test_the_error_for_text_names_the_type_of_the_column(dtype, says):
    outputs, inputs = rows_of_pandas(np.arange(100))
    inputs["theta"] = inputs["theta"].astype(object).where(inputs.index != 7, "none").astype(dtype)
    with pytest.raises(TypeError, match=f"'theta' of inputs must hold .* its type is {says} .row 7 holds 'none'"):
        evppi(outputs, inputs, ["theta"])


def test_an_integer_is_a_name_before_it_is_a_position():
    outputs, inputs = rows_of_pandas(np.arange(100))
    inputs.columns = [1, 2, "other"]
    assert [row.pars for row in evppi(outputs, inputs, [[2], 1]).rows] == ["2", "1"]
    with pytest.raises(ValueError, match="lists 0, which is not a column"):
        evppi(outputs, inputs, [[0]])
    inputs.columns = ["a", "b", "1st"]
    assert evppi(outputs, inputs, [[2]]).rows[0].pars == "1st"


def test_a_note_counts_duplicated_rows():
    outputs, inputs = toy(100, 43)
    twice = [{name: np.concatenate([x, x[:30]]) for name, x in table.items()} for table in (outputs, inputs)]
    rows = evppi(*twice, ["theta", ["theta", "unrelated"]]).rows
    assert all("30 of 130 rows repeat other rows" in row.note for row in rows)
    assert all("repeat" not in row.note for row in evppi(outputs, inputs, ["theta"]).rows)


def test_the_plug_in_is_below_the_estimate():
    for seed in range(44, 50):
        for name in ("theta", "unrelated"):
            (row,) = evppi(*toy(100, seed, noise=3.0), [name]).rows
            assert row.plug_in <= row.evppi * (1 + 1e-9)


# --- diagnostics


def chain(n, phi, seed):
    """A stationary Gaussian chain with autocorrelations phi^k, of variance 1."""
    return signal.lfilter([np.sqrt(1 - phi**2)], [1.0, -phi], draws(n + 500, seed, 1)[:, 0])[500:]


def test_extreme_and_rare_values_are_no_chain():
    rng = np.random.default_rng(62)
    extreme, rare = np.sinh(3.0 * rng.standard_normal((1000, 200))), (rng.random((1000, 200)) < 0.004) * 1.0
    assert np.mean(autocorrelation_times(extreme) > 1) <= 0.01
    assert np.mean(autocorrelation_times(rare) > 1) <= 0.01
    assert autocorrelation_times(np.exp(2.0 * chain(1000, 0.5, 63))[:, None]) > 1.0


@pytest.mark.parametrize("phi", [0.5, 0.9])
def test_the_autocorrelation_time_of_a_chain_is_known(phi):
    series = np.column_stack([chain(20_000, phi, seed) for seed in range(6)])
    found = autocorrelation_times(series)
    assert_allclose(found.mean(), (1 + phi) / (1 - phi), rtol=0.12)
    assert_array_equal(autocorrelation_times(draws(5000, 58, 20)), 1.0)  # exactly, for independent rows
    assert_array_equal(autocorrelation_times(-np.cumsum(draws(1, 58, 3), axis=0).repeat(50, axis=0)), 1.0)  # constant


def test_standard_errors_allow_for_the_rows_of_a_markov_chain():
    n, phi = 2000, 0.9
    x, unrelated, e = (chain(n, phi, seed) for seed in (59, 60, 61))
    values = np.column_stack([np.zeros(n), 0.3 + x + e])
    slow, null = evppi(values, np.column_stack([x, unrelated]), [[0], [1]]).rows
    order = np.random.default_rng(0).permutation(n)
    mixed = evppi(values[order], x[order], [[0]]).rows[0]
    factor = (1 + phi) / (1 - phi)
    assert 0.5 * factor < n / slow.effective_n < 2 * factor
    assert mixed.effective_n == n
    assert 0.5 * factor < (slow.se / mixed.se) ** 2 < 2 * factor
    assert "autocorrelated" in slow.note
    assert "autocorrelated" not in mixed.note
    assert null.lower == 0.0
    assert evpi(values).std > 2 * evpi(values[order]).std


def test_net_benefits_that_the_input_determines_have_no_note():
    x = draws(300, 0, 1)[:, 0]
    (row,) = evppi({"old": 0 * x, "new": 5 * x}, {"x": x}).rows
    assert_allclose(row.evppi, row.evpi, rtol=1e-6)
    assert row.note == ""


def test_a_sorted_table_is_no_markov_chain():
    outputs, inputs = toy(1500, 72)
    (plain,) = evppi(outputs, inputs, ["theta"]).rows
    for column in (inputs["theta"], -outputs["new"]):
        order = np.argsort(column)
        tables = [{name: x[order] for name, x in table.items()} for table in (outputs, inputs)]
        (row,) = evppi(*tables, ["theta"]).rows
        assert row.effective_n == 1500
        assert abs(row.evppi - plain.evppi) < 0.2 * plain.se
        assert_allclose(row.se, plain.se, rtol=0.1)
    assert_allclose(evpi(tables[0]).std, evpi(outputs).std, rtol=1e-12)


def test_r2_is_the_explained_share_of_variance():
    outputs, inputs = toy(4000, 62, noise=2.0)
    known, null = evppi(outputs, inputs, ["theta", "unrelated"]).rows
    assert abs(known.r2 - 0.2) < 0.03  # 1 of 1 + 4
    assert null.r2 < 0.01
    assert abs(known.misfit) < 4
    assert 0.8 < known.noise_ratio < 1.25
    assert known.effective_n == 4000
    assert known.note == ""


def test_a_curve_that_the_regression_misses_has_a_note():
    u, e = np.random.default_rng(65).uniform(-1, 1, (3000, 2)), draws(3000, 66, 1)[:, 0]
    wild = np.column_stack([np.zeros(3000), 0.1 + np.sin(100 * u[:, 0]) + e])
    (row,) = evppi(wild, u, [[0, 1]]).rows
    assert row.misfit > 6
    assert "regression has missed" in row.note


def test_rows_that_do_not_belong_together_have_a_note():
    outputs, inputs = toy(1500, 67)
    order = np.random.default_rng(1).permutation(1500)
    shuffled = {name: column[order] for name, column in inputs.items()}
    assert all("same draw" in row.note for row in evppi(outputs, shuffled, ["theta", "other"]).rows)
    assert not any("same draw" in row.note for row in evppi(outputs, inputs, ["theta", "other"]).rows)


def test_a_step_is_not_smeared():
    rng, n = np.random.default_rng(68), 4000
    x = rng.standard_normal((n, 2))
    outputs = np.column_stack([np.zeros(n), 400.0 * (x[:, 0] > 0.5) - 160.0 + 300.0 * rng.standard_normal(n)])
    above = 1 - norm.cdf(0.5)
    truth = above * 240.0 - max(above * 400.0 - 160.0, 0.0)
    for row in evppi(outputs, x, [[0], [0, 1]]).rows:
        assert abs(row.evppi - truth) < 2.5 * row.se
        assert row.se < 5
        assert row.plug_in > row.evppi - 0.2 * row.se  # the means alone find the step


def test_standard_errors_from_draws_at_some_rows_are_those_of_all_rows(monkeypatch):
    outputs, inputs = toy(2500, 69, noise=2.0)
    pair = [["theta", "other"]]
    (some,) = evppi(outputs, inputs, pair).rows
    monkeypatch.setattr("cbq.voi.uncertainty.MAX_DRAW_SITES", 2500)
    (every,) = evppi(outputs, inputs, pair).rows
    assert_allclose(some.se, every.se, rtol=0.05)


def test_small_numbers_have_no_notes():
    u, e = draws(400, 70), draws(400, 71, 4)
    table = np.column_stack([e[:, 0], 0.1 * u[:, 0] + e[:, 1], 2 * e[:, 2], 1e6 + 3 * u[:, 1] + e[:, 3]])
    rows = evppi(table, u, [[0], [0, 1]], effects=[0, 1], costs=[2, 3], willingness_to_pay=[0, 5]).rows
    assert [(row.evppi, row.note) for row in rows] == [(0.0, "")] * 4  # one decision is better in all rows


# --- EVPI


def test_evpi_against_its_definition():
    f = draws(500, 33, 3)
    found = evpi(f)
    gains = f.max(axis=1) - f[:, np.argmax(f.mean(axis=0))]
    assert_allclose(found.estimate, f.max(axis=1).mean() - f.mean(axis=0).max(), rtol=1e-12)
    assert_allclose(found.std, np.std(gains, ddof=1) / np.sqrt(500), rtol=1e-12)
    assert_allclose(found.interval(0.95), found.estimate + np.array([-1, 1]) * norm.ppf(0.975) * found.std, rtol=1e-12)
    assert abs(found.estimate - 1.5 / np.sqrt(np.pi)) < 5 * found.std  # the largest of three normals


def test_evpi_over_willingness_to_pay():
    f = draws(100, 34, 4)
    found = evpi(f, effects=[0, 1], costs=[2, 3], willingness_to_pay=[1.0, 2.0])
    for k, threshold in enumerate([1.0, 2.0]):
        one = evpi(f, effects=[0, 1], costs=[2, 3], willingness_to_pay=threshold)
        assert isinstance(one.estimate, float)
        assert (one.estimate, one.std) == (found.estimate[k], found.std[k])
        assert one.estimate == pytest.approx(evpi(threshold * f[:, :2] - f[:, 2:]).estimate)


def test_evpi_is_immutable():
    given = np.array([1.0, 2.0])
    found = Evpi(given, given, given)
    given[0] = 9.0
    assert_array_equal(found.estimate, [1.0, 2.0])
    asked = evpi(draws(50, 34, 4), effects=[0, 1], costs=[2, 3], willingness_to_pay=[1.0, 2.0])
    for each in (found, asked):
        for array in (each.estimate, each.std, each.willingness_to_pay):
            with pytest.raises(ValueError, match="read-only"):
                array[0] = 0.0


def test_evpi_of_samples_treats_thetas_as_independent_draws():
    problem = cbq.problems.get("health")
    samples = problem.collect(40, [5] * 20 + [9] * 20, rng=35)
    found = evpi(samples)
    means = np.mean([values.mean(axis=0) for values in samples.f], axis=0)
    gains = [np.mean(values.max(axis=1) - values[:, np.argmax(means)]) for values in samples.f]
    assert_allclose(found.estimate, np.mean(gains), rtol=1e-12)
    assert_allclose(found.std, np.std(gains, ddof=1) / np.sqrt(40), rtol=1e-12)


# --- the result


def small():
    outputs, inputs = toy(60, 36)
    return evppi(outputs, inputs, ["theta", ["theta", "unrelated"]])


def test_the_result_prints_and_is_immutable():
    of_evpi = {"share": 0.25 / 0.75, "share_se": 0.02, "remaining": 0.5, "remaining_se": 0.03}
    row = EvppiRow("theta", None, 0.25, 0.125, 0.0, 0.5, 0.2, 0.75, 60, 48, 0.0, "", **of_evpi)
    table = EvppiTable((row, replace(row, pars="theta, unrelated")))
    head = [
        "pars",
        "evppi",
        "se",
        "lower",
        "upper",
        "evpi",
        "of",
        "EVPI",
        "its",
        "se",
        "EVPI",
        "-",
        "EVPPI",
        "its",
        "se",
    ]
    numbers = ["0.25", "0.12", "0", "0.5", "0.75", "33.3%", "2.0%", "0.5", "0.03"]
    lines = str(table).splitlines()
    assert lines[0].split() == head
    assert [line.split() for line in lines[1:3]] == [["theta", *numbers], ["theta,", "unrelated", *numbers]]
    assert lines[3:] == ["Intervals of 95%; 60 rows."]
    with_note = str(EvppiTable((row, replace(row, note="such and such")), 0.9)).splitlines()
    assert with_note[0].split() == [*head, "note"]
    assert [line.split() for line in with_note[1:3]] == [["theta", *numbers], ["theta", *numbers, "[1]"]]
    assert with_note[3:] == ["Intervals of 90%; 60 rows.", "[1] such and such."]
    with pytest.raises(FrozenInstanceError):
        table.rows = ()
    with pytest.raises(ValueError, match="needs at least one row"):
        EvppiTable(())


def test_data_frame():
    pytest.importorskip("pandas")
    outputs, inputs = toy(60, 36)
    frame = evppi(outputs, inputs, ["theta", ["theta", "unrelated"]]).to_frame()
    estimates = ["evppi", "se", "lower", "upper", "plug_in", "evpi", "n", "landmarks", "approximation"]
    diagnostics = ["evpi_se", "raw", "r2", "misfit", "noise_ratio", "effective_n"]
    shares = ["share", "share_se", "remaining", "remaining_se"]
    assert list(frame.columns) == ["pars", *estimates, *diagnostics, *shares, "doubtful", "note"]
    assert frame.pars.tolist() == ["theta", "theta, unrelated"]
    assert frame.evppi.tolist() == [row.evppi for row in small().rows]
    assert (frame.lower >= 0).all()
    assert (frame.n == 60).all()


def test_bars_are_sorted_and_lines_over_willingness_to_pay():
    pytest.importorskip("matplotlib")
    table = small()
    (ax,) = table.plot().axes
    widths = [bar.get_width() for bar in ax.patches]
    assert widths == sorted((row.evppi for row in table.rows), reverse=True)
    assert [line.get_xdata()[0] for line in ax.lines if line.get_label() == "EVPI"] == [table.rows[0].evpi]
    f = draws(60, 37, 4)
    options = {"effects": [0, 1], "costs": [2, 3], "willingness_to_pay": [1.0, 2.0, 0.5]}
    (ax,) = evppi(f, f, [[0], [1]], **options).plot().axes
    assert [line.get_label() for line in ax.lines] == ["0", "1", "EVPI"]
    assert_array_equal(ax.lines[0].get_xdata(), [0.5, 1.0, 2.0])


def table_of(sets, price=None):
    rows = [
        EvppiRow(name, price, value, 0.1, value - 0.1, value + 0.1, value, 9.0, 60, 10, 0.0, "") for name, value in sets
    ]
    return EvppiTable(tuple(rows))


def test_the_largest_of_many_sets_are_drawn_and_the_others_counted():
    pytest.importorskip("matplotlib")
    table = table_of(
        (f"the input with number {i} and a name that is far too long for a tick " * 2, i / 10) for i in range(40)
    )
    (ax,) = table.plot().axes
    assert [bar.get_width() for bar in ax.patches] == [i / 10 for i in range(39, 19, -1)]
    assert "20 more sets, each up to 2, are not drawn" in ax.get_xlabel()
    assert all(len(line) <= 34 for text in ax.get_yticklabels() for line in text.get_text().split("\n"))
    assert len(table.plot(most=3).axes[0].patches) == 3
    assert [row.evppi for row in table.largest(2)] == [3.9, 3.8]


def test_pairs_are_a_map_with_single_inputs_on_the_diagonal():
    pytest.importorskip("matplotlib")
    singles = [("a", 0.1), ("b", 0.4), ("c", 0.2), ("d", 0.3)]
    pairs = [(f"{a}, {b}", v + w) for (a, v), (b, w) in combinations(singles, 2)]
    ax, _ = table_of([*singles, *pairs]).plot().axes
    (cells,) = ax.collections
    assert [text.get_text() for text in ax.get_yticklabels()] == ["b", "d", "c", "a"]
    single = np.array([0.4, 0.3, 0.2, 0.1])
    both = np.where(np.eye(4, dtype=bool), single, single[:, None] + single)
    assert_allclose(np.ma.filled(cells.get_array(), np.nan), np.where(np.tri(4), both, np.nan), rtol=1e-12)
    assert len(table_of([*singles, *pairs]).plot(kind="bars").axes[0].patches) == 10
    assert len(table_of([*singles, *pairs[:2]]).plot().axes[0].patches) == 6  # few pairs are bars
    with pytest.raises(ValueError, match="one or two inputs, but this table has none"):
        table_of([("a, b, c", 1.0)]).plot(kind="map")


# --- errors

OUT, IN = toy(100, 38)
HOLED = IN | {"theta": np.where(np.arange(100) % 40 == 3, np.nan, IN["theta"])}


def asked(outputs=OUT, inputs=IN, pars=("theta",), **options):
    return lambda: evppi(outputs, inputs, list(pars) if isinstance(pars, tuple) else pars, **options)


def short_table(n):
    return {name: column[:n] for name, column in OUT.items()}, {name: column[:n] for name, column in IN.items()}


test_bad_tables = refusals(
    {
        "rows": (asked(outputs=short_table(90)[0]), "outputs has 90 rows and inputs has 100"),
        "ragged": (asked(inputs=IN | {"unrelated": np.zeros(3)}), "of equal length"),
        "unknown": (asked(pars=["thetta"]), "did you mean 'theta'"),
        "unknown, far": (asked(pars=["qqq"]), "the columns are 'theta', 'unrelated', 'other'"),
        "nan": (asked(inputs=HOLED), r"'theta' of inputs is NaN or inf in 3 of 100 rows \(first in row 3\)"),
        "nan in outputs": (asked(outputs=OUT | {"new": np.full(100, np.inf)}), "'new' of outputs is NaN or inf in 100"),
        "twice": (asked(pars=[["theta", "theta"]]), "'theta' more than once"),
        "empty set": (asked(pars=["theta", []]), "set 2 of pars= is empty"),
        "no sets": (asked(pars=[]), "pars is empty"),
        "few rows": (asked(*short_table(20)), "at least 30 rows, but there are 20"),
        "same names": (asked(inputs={"1": IN["theta"], 1: IN["unrelated"]}, pars=["1"]), "several columns called '1'"),
        "level": (asked(level=95), "level must lie between 0 and 1"),
        "no columns": (asked(inputs={}), "inputs has no columns"),
        "one draw": (lambda: evpi([[1.0, 2.0]]), "at least 2 independent draws"),
        "huge": (
            asked(outputs=OUT | {"new": 1e308 * np.tanh(OUT["new"])}),
            "net benefits of about 1e308 would overflow",
        ),
        "huge products": (
            lambda: evpi(1e200 * draws(9, 0, 4), effects=[0, 1], costs=[2, 3], willingness_to_pay=1e200),
            "net benefits of about 1e40[01] would overflow float64",
        ),
        "tiny": (asked(outputs={name: 1e-310 * x for name, x in OUT.items()}), "about 1e-309 would underflow float64"),
        "out of proportion": (asked(outputs=OUT | {"old": np.full(100, -1e200)}), "out of proportion"),
    },
    ValueError,
)
test_bad_types_of_tables = refusals(
    {
        "text": (asked(outputs=OUT | {"old": ["a"] * 100}), "column 'old' of outputs must hold real numbers"),
        "text between numbers": (
            asked(inputs=IN | {"theta": ["0.5", "a"] * 50}),
            "column 'theta' of inputs must hold real numbers",
        ),
        "gaps between words": (asked(inputs=IN | {"theta": ["a", ""] * 50}), "column 'theta' of inputs must hold real"),
        "pars": (asked(pars="theta"), "pars must be a list of sets"),
        "table": (asked(inputs=3.0), "inputs must be a table with named columns, such as a pandas or polars DataFrame"),
        "no seed": (asked(rng=None), "rng must be"),
    },
    TypeError,
)
