"""Goals of `solve` other than the mean: against closed forms, derivatives by differences, and hostile input."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import log_ndtr
from scipy.stats import chi2, exponnorm, norm

import cbq
from cbq.estimators import Wanted, WantedValues, choose_points
from cbq.estimators.multioutput.suggestion import _expected_crossing
from cbq.fit import Marginals, RareEventSampling
from cbq.measures import Empirical, Gamma, Gaussian, LogNormal, Uniform
from cbq.runs.goal import Goal, Round, is_reached
from cbq.samples import Runs

ONE = Empirical([[0.0]])  # a prior of one theta
KNOWN = Marginals(
    np.array([0.1, 0.2, 0.3, 0.4]),
    np.array([-1.0, 0.3, 0.8, 2.0]),
    np.array([1.0, 0.4, 1.4, 2.0]),
    -np.inf,
    np.inf,
)


def linear(x, theta):
    """3 + x_0 + 2 x_1 of standard normal x has the standard deviation sqrt(5)."""
    return 3 + x @ [1.0, 2.0]


def problem(f=linear, family=lambda theta: Gaussian([theta[0], 0.0], std=[1.0, 1.0]), prior=ONE, **options):
    return cbq.Problem(f, family, prior, **({"depends_on_theta": False} | options))


def moved(known, i, by):
    mean = known.mean + by * np.eye(len(known.mean))[i]
    return Marginals(known.weights, mean, known.std, known.low, known.high)


@pytest.mark.parametrize(
    ("goal", "value"),
    [
        (cbq.Probability(below=0.5), lambda known: known.cdf(np.array([0.5]))[0]),
        (cbq.Probability(above=1.5), lambda known: 1 - known.cdf(np.array([1.5]))[0]),
        (cbq.Quantile(0.8), lambda known: known.ppf(np.array([0.8]))[0]),
        (cbq.Std(), lambda known: np.sqrt(known.variance(np.zeros(1))[0])),
        (cbq.Mean(), lambda known: known.weights @ known.mean),
    ],
)
def test_slopes_are_derivatives(goal, value):
    n, h = len(KNOWN.mean), 1e-5
    found = np.array([value(moved(KNOWN, i, h)) - value(moved(KNOWN, i, -h)) for i in range(n)]) / (2 * h)
    slopes = goal.slopes(KNOWN)
    if isinstance(goal, cbq.Quantile):  # up to a factor, the density at the quantile
        assert_allclose(found / np.sum(found), slopes / np.sum(slopes), rtol=1e-6, atol=1e-9)
    else:
        sign = -1 if goal == cbq.Probability(below=0.5) else 1
        assert_allclose(sign * found, slopes, rtol=1e-6)


@pytest.mark.parametrize("beta", [-2.0, 0.0, 3.0, 5.0, 6.5])
@pytest.mark.parametrize("d", [1, 3, 8])
def test_importance_points_have_the_mass_of_half_spaces(beta, d):
    direction = np.ones(d) / np.sqrt(d)
    (x, weights, rows), _ = RareEventSampling().draw(
        Gaussian(np.zeros(d), std=np.ones(d)),
        lambda x, w: log_ndtr((x @ direction - beta) / 0.05) if beta > 0 else np.zeros(len(x)),
        2**13,
        8,
        np.random.default_rng(0),
    )
    assert_allclose(np.sum(weights), 1.0, rtol=1e-12)
    assert [rows[0].start, rows[-1].stop] == [0, len(x)]
    assert_allclose([np.sum(weights[some]) for some in rows], 1 / 8, rtol=1e-12)
    assert_allclose(weights @ (x @ direction > beta), norm.sf(beta), rtol=0.05)


def test_importance_points_lie_in_the_measure():
    measure = Gamma(2.0, 1.0)
    (x, weights, _), _ = RareEventSampling().draw(
        measure, lambda x, w: log_ndtr((x[:, 0] - 15.0) / 0.1), 2**12, 8, np.random.default_rng(0)
    )
    assert_allclose(weights @ (x[:, 0] > 15.0), np.exp(-15) * 16, rtol=0.03)


def test_a_rare_probability_is_found_with_few_runs():
    answer = problem().solve(goal=cbq.Probability(below=-8.0), relative=0.05, budget=30, rng=0)
    exact = norm.cdf(-11 / np.sqrt(5))  # 4.3e-7
    probability, _, _ = answer.estimate([[0.0]])
    assert answer.reached
    assert (answer.status, answer.message.partition(":")[0]) == (0, "Reached")
    assert answer.n_runs <= 20
    assert_allclose(probability, exact, rtol=0.05)
    triples = [answer.estimate([[0.0]], size=2**k) for k in (12, 13, 14, 15)]  # each with points of its own
    assert sum(low[0] <= exact <= high[0] for _, low, high in triples) >= 3  # of intervals of 95%


def test_a_curve_of_small_probabilities_has_each_to_its_own_size():
    answer = problem(prior=Uniform(-1.0, 1.0)).solve(goal=cbq.Probability(above=11.0), relative=0.05, budget=40, rng=1)
    theta = np.linspace(-0.9, 0.9, 5)
    exact = norm.sf((8 - theta) / np.sqrt(5))
    assert answer.reached
    assert_allclose(answer.estimate(theta)[0], exact, rtol=0.1)


def test_several_goals_have_their_own_tolerances():
    goal = [
        cbq.Mean(tolerance=0.05),
        cbq.Quantile(0.99, tolerance=0.1),
        cbq.Std(relative=0.05),
        cbq.Probability(above=9.0),
    ]
    answer = problem(prior=Uniform(-1.0, 1.0)).solve(goal=goal, relative=0.2, budget=60, rng=0)
    theta = np.array([-0.5, 0.5])
    assert answer.reached
    exact = [3 + theta, 3 + theta + np.sqrt(5) * norm.ppf(0.99), np.full(2, np.sqrt(5)), norm.sf((6 - theta) / 5**0.5)]
    for k, (value, rtol) in enumerate(zip(exact, [0.01, 0.01, 0.02, 0.1], strict=True)):
        assert_allclose(answer.estimate(theta, goal=k)[0], value, rtol=rtol)
    assert list(answer.history.to_columns())[2:6] == [
        "half_width_E f",
        "half_width_the 0.99 quantile of f",
        "half_width_the standard deviation of f",
        "half_width_P(f > 9)",
    ]
    assert answer.history.half_width.shape == (len(answer.rounds), 4)
    text = answer.summary()
    assert "P(f > 9) is" in text


def test_f_may_depend_on_theta():
    def scaled(x, theta):
        return theta[0] * x[:, 0]

    made = problem(scaled, lambda theta: LogNormal(0.0, std=0.5), Uniform(1.0, 2.0), depends_on_theta=True)
    answer = made.solve(goal=cbq.Probability(above=6.0), relative=0.1, budget=60, rng=0)
    theta = np.array([1.2, 1.8])
    assert_allclose(answer.estimate(theta)[0], norm.sf(np.log(6 / theta) / 0.5), rtol=0.1)


def test_an_event_of_two_parts_is_not_missed():
    def distance(x, theta):
        return np.abs(x[:, 0] + 0.3 * x[:, 1])

    exact = 2 * norm.sf(3.2 / np.sqrt(1.09))
    for seed in range(2):
        answer = problem(distance).solve(goal=cbq.Probability(above=3.2), relative=0.1, budget=60, rng=seed)
        assert_allclose(answer.estimate([[0.0]])[0], exact, rtol=0.2)


def test_discrete_measures_are_summed():
    atoms = np.random.default_rng(0).normal(size=(500, 2))
    made = problem(family=lambda theta: Empirical(atoms))
    answer = made.solve(goal=cbq.Probability(above=6.0), budget=40, rng=0)
    assert_allclose(answer.estimate([[0.0]])[0], np.mean(linear(atoms, None) > 6.0), atol=0.005)


def test_runs_of_a_random_f_count_its_noise():
    def noisy(x, theta, rng):
        return x[:, 0] + rng.normal(size=len(x))

    made = problem(noisy, lambda theta: Gaussian(0.0, std=1.0), stochastic=True)
    answer = made.solve(goal=cbq.Probability(above=2.0), budget=150, rng=0)
    probability, low, high = answer.estimate([[0.0]])
    exact = norm.sf(2.0 / np.sqrt(2.0))
    assert low[0] <= exact <= high[0]
    assert_allclose(probability, exact, rtol=0.3)


def test_the_default_is_the_mean():
    plain = problem(prior=Uniform(-1.0, 1.0)).solve(budget=24, rng=0)
    named = problem(prior=Uniform(-1.0, 1.0)).solve(goal=cbq.Mean(), budget=24, rng=0)
    assert_array_equal(plain.runs.x, named.runs.x)
    assert_array_equal(plain.rounds[-1].half_width, named.rounds[-1].half_width)
    assert_array_equal(named.estimate([0.1])[0], named.fit.predict([0.1]))
    assert (plain.status, plain.message.partition(":")[0]) == (0, "No accuracy was asked for")


def test_an_event_that_never_occurs_has_an_upper_bound():
    answer = problem(lambda x, theta: np.tanh(x[:, 0])).solve(
        goal=cbq.Probability(above=50.0), relative=0.05, budget=30, rng=0
    )
    probability, low, high = answer.estimate([[0.0]])
    assert not answer.reached
    assert (answer.status, answer.message.partition(":")[0]) == (1, "Not reached")
    assert probability[0] < 1e-12
    assert low[0] == 0
    assert 0 < high[0] <= 1 - 0.05 ** (1 / 30) + 1e-12


def test_an_event_that_always_occurs_has_a_lower_bound():
    answer = problem(lambda x, theta: np.tanh(x[:, 0])).solve(
        goal=cbq.Probability(above=-50.0, tolerance=0.2), budget=30, rng=0
    )
    probability, low, high = answer.estimate([[0.0]])
    assert_allclose(probability, 1.0, atol=1e-12)
    assert high[0] == pytest.approx(1.0)
    assert 0.8 < low[0] < 1


def test_a_relative_goal_is_met_theta_by_theta():
    goal = Goal.of(relative=0.1, goal=cbq.Probability(above=1.0))
    mean, half = np.array([[0.1], [0.001]]), np.array([[0.005], [0.0002]])
    relative = np.sqrt(np.mean((half / mean) ** 2))  # 0.146
    size = np.sqrt(np.mean(half**2))
    assert_allclose(goal.target(mean, half), size * 0.1 / relative)
    assert is_reached([Round(9, mean, half, True)] * 2, goal) == (relative <= 0.1)
    assert is_reached([Round(9, mean, half / 2, True)] * 2, goal)
    assert not is_reached([Round(9, mean, half / 2, True)], goal)
    assert not is_reached([Round(9, 0 * mean, half / 2, True)] * 2, goal)


def test_a_resumed_run_has_the_goal_of_the_call(tmp_path):
    path, goal = tmp_path / "run.sqlite", cbq.Probability(below=-3.0)
    first = problem().solve(goal=goal, budget=8, rng=0, checkpoint=path)
    second = problem().solve(goal=goal, budget=12, rng=0, checkpoint=path)
    assert_array_equal(second.runs.x[:8], first.runs.x)
    assert [each.runs for each in second.rounds][: len(first.rounds) - 1] == [r.runs for r in first.rounds[:-1]]
    other = problem().solve(goal=cbq.Quantile(0.9), budget=14, rng=0, checkpoint=path)
    assert other.n_runs == 14
    assert all(each.quantities == other.rounds[-1].quantities for each in other.rounds)


def test_records_give_goals_back():
    goals = [cbq.Mean(), cbq.Probability(above=2.0, relative=0.05), cbq.Quantile(0.9, output="g"), cbq.Std(rtol=0.1)]
    goal = Goal.of(relative=0.1, goal=goals)
    again = Goal.of(**goal.record)
    assert again.estimands == tuple(goals)
    assert again.record == goal.record
    assert Goal.of(**Goal.of(goal=cbq.Mean()).record).of_mean_only


def test_an_output_is_named_or_numbered():
    def two(x, theta):
        return np.column_stack([linear(x, theta), x[:, 0]])

    made = problem(two, names={"f": ["load", "heat"]})
    answer = made.solve(goal=cbq.Probability(above=1.0, output="heat"), budget=24, rng=0)
    assert_allclose(answer.estimate([[0.0]])[0], norm.sf(1.0), rtol=0.05)
    assert "P(heat > 1)" in answer.summary()
    with pytest.raises(ValueError, match=r"f has 2 outputs: name the one that Probability is about, as in output=0"):
        made.solve(goal=cbq.Probability(above=1.0), budget=24, rng=0)
    with pytest.raises(ValueError, match=r"output must be a number or one of \['load', 'heat'\], but it is 'cold'"):
        made.solve(goal=cbq.Std(output="cold"), budget=24, rng=0)
    with pytest.raises(ValueError, match=r"output is 2, but f has 2 outputs: count from 0"):
        made.solve(goal=cbq.Quantile(0.5, output=2), budget=24, rng=0)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: cbq.Probability(above=np.nan), "above"),
        (lambda: cbq.Probability(below=np.inf), "below"),
        (lambda: cbq.Probability(above=[1.0, 2.0]), "above must be a number"),
        (lambda: cbq.Probability(), "either above=c"),
        (lambda: cbq.Probability(above=1.0, below=2.0), "either above=c"),
        (lambda: cbq.Quantile(0.0), "q must be between 0 and 1"),
        (lambda: cbq.Quantile(1.5), "q must be between 0 and 1"),
        (lambda: cbq.Quantile(np.nan), "q"),
        (lambda: cbq.Std(relative=0.0), "relative must be a number above 0"),
        (lambda: cbq.Std(tolerance=-1.0), "tolerance must be a number above 0"),
        (lambda: cbq.Std(rtol=np.nan), "rtol"),
        (lambda: cbq.Mean(output=1.5), "output must be the number or the name"),
        (lambda: Goal.of(relative=-0.1), "relative must be a number above 0"),
        (lambda: Goal.of(relative=np.nan), "relative"),
        (lambda: Goal.of(goal="median"), "goal must be cbq.Mean"),
        (lambda: Goal.of(goal=[]), "goal must be cbq.Mean"),
        (lambda: Goal.of(goal=[cbq.Std(), 0.5]), "goal must be cbq.Mean"),
        (lambda: Goal.of(goal=cbq.Probability), "goal must be cbq.Mean"),
        (lambda: Goal.of(goal=[cbq.Std(), cbq.Std(tolerance=1.0)]), "twice"),
        (lambda: Goal.of(tolerance=[0.1, 0.2], goal=cbq.Std()), "each goal its own tolerance"),
    ],
)
def test_hostile_goals_are_refused_in_a_sentence(make, message):
    with pytest.raises((ValueError, TypeError), match=message) as caught:
        make()
    assert "\n" not in str(caught.value)


def test_an_unknown_number_of_a_goal_is_refused():
    answer = problem().solve(goal=cbq.Std(), budget=10, rng=0)
    for goal in (1, -1, 0.5, None):
        with pytest.raises(ValueError, match="goal must be a number from 0 to 0"):
            answer.estimate([[0.0]], goal=goal)
    with pytest.raises(ValueError, match="level"):
        answer.estimate([[0.0]], level=2.0)


@pytest.mark.parametrize("goal", [cbq.Probability(above=1.0, tolerance=0.1), cbq.Std(tolerance=0.1)])
def test_equal_values_show_nothing(goal):
    answer = problem(lambda x, theta: np.full(len(x), 2.0)).solve(goal=goal, budget=12, rng=0)
    assert not answer.reached
    with pytest.raises(ValueError, match="all of its values are equal"):
        answer.estimate([[0.0]])


def test_a_plateau_at_the_first_runs_is_left():
    exact = norm.sf(2.5)
    answer = problem(lambda x, theta: np.maximum(x[:, 0] - 2.0, 0.0)).solve(
        goal=cbq.Probability(above=0.5), relative=0.1, budget=60, rng=0
    )
    assert_allclose(answer.estimate([[0.0]])[0], exact, rtol=0.2)


def test_a_session_takes_the_goal():
    made = problem(None)
    with made.session(goal=cbq.Probability(below=-2.0), relative=0.1, budget=30, rng=0) as session:
        while not session.is_over:
            runs = session.ask(2)
            session.tell(runs.ids, linear(runs.x, None))
        answer = session.answer()
    assert answer.reached
    assert_allclose(answer.estimate([[0.0]])[0], norm.cdf(-5 / np.sqrt(5)), rtol=0.1)


def test_importance_points_of_a_shell_agree_with_chi2():
    measure = Gaussian(np.zeros(3), std=np.ones(3))
    (x, weights, _), _ = RareEventSampling().draw(
        measure, lambda x, w: log_ndtr((np.linalg.norm(x, axis=1) - 5.0) / 0.05), 2**13, 8, np.random.default_rng(1)
    )
    assert_allclose(weights @ (np.linalg.norm(x, axis=1) > 5.0), chi2.sf(25.0, 3), rtol=0.1)


def test_an_expected_crossing_is_the_mean_of_draws():
    margin, variance = np.array([0.0, 0.3, 1.0]), np.array([0.5, 0.09, 2.0])
    errors = np.sqrt(variance) * norm.ppf((np.arange(10**5) + 0.5) / 10**5)[:, None]
    expected = np.mean(np.maximum(errors - margin, 0.0), axis=0)
    assert_allclose(_expected_crossing(margin, variance), expected, rtol=1e-3)


def test_the_first_points_after_a_doubt_lie_where_an_event_could_be():
    """Of candidates all over a square, those where f is far from the threshold are not taken."""
    made = problem()
    samples = made.collect(N=16, theta=[[0.0]], rng=0, design="sobol")
    fit, wanted = cbq.MOBQ().fit(samples), Wanted.at(np.zeros((1, 1)), made.family)
    x = np.random.default_rng(0).uniform(-4.0, 4.0, (300, 2))
    candidates, known = Runs(np.zeros((300, 1)), x), Runs(np.zeros((16, 1)), samples.all_points)
    values = WantedValues(x[:50], np.ones(50))
    margin = np.where(np.arange(300) < 50, np.inf, np.abs(x[:, 0] - 3.0))
    (row,) = choose_points(
        1, candidates, wanted, known, fit, of_theta=False, wishes=[(values, None)], margin=margin, doubted=True
    )
    assert row >= 50
    assert margin[row] < 1.5


@pytest.mark.parametrize("unit", [1e-120, 1e120])
def test_units_of_f_do_not_matter(unit):
    answer = problem(lambda x, theta: unit * linear(x, theta)).solve(
        goal=cbq.Probability(above=9.0 * unit), relative=0.1, budget=16, rng=0
    )
    assert_allclose(answer.estimate([[0.0]])[0], norm.sf(6 / np.sqrt(5)), rtol=0.05)


def test_a_probability_needs_a_model_of_f():
    made = problem(family=lambda theta: exponnorm(1.0, theta[0]), prior=Uniform(0.0, 1.0))
    with pytest.raises(ValueError, match=r"goal=Std\(.*needs a model of f, .*take goal=cbq.Mean"):
        made.session(goal=cbq.Std(), rng=0)
