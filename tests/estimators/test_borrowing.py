"""Points that thetas borrow from each other: which ones, what they gain, and what becomes of their weights."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import stats

import cbq
from cbq.estimators.conditional.estimator import borrowed, fit_borrowing_stage_one
from cbq.estimators.conditional.stage_one import StageOneOptions, fit_stage_one
from cbq.measures import Empirical, Gaussian, Uniform, Unnormalised
from refusals import refusals


def problem(f=lambda x, theta: np.sin(2 * x[:, 0]), **options):
    options = {"depends_on_theta": False, **options}
    return cbq.Problem(f, lambda theta: Gaussian(theta[0], 1.0), Uniform(0.0, 3.0), **options)


def exact(theta):
    return np.exp(-2.0) * np.sin(2 * theta)


def correlated(T=6, N=10, seed=0):
    family = lambda theta: Gaussian(theta, [[1.0, 0.8], [0.8, 1.0]])  # noqa: E731
    plane = cbq.Problem(
        lambda x, theta: x[:, 0] * x[:, 1], family, Uniform([0.0, 0.0], [2.0, 2.0]), depends_on_theta=False
    )
    return plane.collect(T, N, rng=seed)


def test_a_theta_keeps_its_own_points_and_fills_up_to_the_number_wanted():
    samples = problem().collect(10, 8, rng=0)
    more, rows = borrowed(samples, 30)
    assert np.all(more.counts <= 30)
    assert np.all(more.counts > 8)
    assert_allclose(more.all_points, samples.all_points[rows], rtol=0)
    assert_allclose(more.table, samples.table[rows], rtol=0)
    for t in range(samples.T):
        mine = rows[more.starts[t] : more.starts[t] + more.counts[t]]
        assert np.array_equal(mine[:8], np.flatnonzero(samples.owners == t))
        assert len(set(mine)) == len(mine)


def test_borrowed_points_lie_in_the_bulk_of_the_measure_of_the_borrower():
    samples = correlated()
    more, rows = borrowed(samples, 25)
    limit = stats.chi2.ppf(1 - 1e-4, 2)
    for t in range(samples.T):
        lent = samples.all_points[rows[more.starts[t] + 10 : more.starts[t] + more.counts[t]]]
        apart = lent - samples.theta[t]
        distance2 = np.einsum("ni,ij,nj->n", apart, np.linalg.inv([[1.0, 0.8], [0.8, 1.0]]), apart)
        assert len(lent)
        assert np.all(distance2 <= limit)


def test_each_borrowed_point_is_the_farthest_from_those_before():
    samples = problem().collect(5, 6, rng=1)
    _, rows = borrowed(samples, 12)
    x, own = samples.all_points[:, 0], samples.owners
    mine = rows[:12]
    bulk = np.flatnonzero((own != 0) & ((x - samples.theta[0, 0]) ** 2 <= stats.chi2.ppf(1 - 1e-4, 1)))
    taken = list(np.flatnonzero(own == 0))
    for row in mine[6:]:
        nearest = [np.min(np.abs(x[each] - x[taken])) for each in bulk]
        assert np.min(np.abs(x[row] - x[taken])) == pytest.approx(np.max(nearest))
        taken.append(row)


def test_nothing_is_borrowed_where_a_theta_has_enough_or_others_are_far():
    samples = problem().collect(4, 20, rng=0)
    more, rows = borrowed(samples, 15)
    assert np.array_equal(rows, np.arange(80))
    assert np.array_equal(more.counts, samples.counts)
    far = cbq.Samples(
        [0.0, 100.0], np.array([[0.1, 0.2], [99.5, 100.2]]), np.ones((2, 2)), Gaussian([[0.0], [100.0]], [[1.0], [1.0]])
    )
    assert np.array_equal(borrowed(far, 10)[1], np.arange(4))


def test_borrowing_makes_the_estimates_more_accurate():
    gains = []
    for seed in range(3):
        samples = problem().collect(12, 10, rng=seed)
        errors = [
            np.sqrt(np.mean((method.fit(samples).stage1.mean - exact(samples.theta[:, 0])) ** 2))
            for method in (cbq.CBQ(), cbq.CBQ(borrow=60))
        ]
        gains.append(errors[0] / errors[1])
    assert min(gains) > 3


CUBE = (lambda x, theta: x[:, 0] ** 3, lambda theta: theta**3 + 3 * theta)
SINE = (lambda x, theta: np.sin(2 * x[:, 0]), exact)


@pytest.mark.parametrize(("f", "answer"), [pytest.param(*CUBE, marks=pytest.mark.slow), SINE], ids=["cube", "sine"])
def test_intervals_hold_the_truth_with_as_many_points_as_there_are(f, answer):
    theta = np.linspace(0.2, 2.8, 50)
    truth = answer(theta)
    inside = []
    for seed in range(8):
        low, high = cbq.CBQ(borrow=200).fit(problem(f).collect(15, 20, rng=seed)).interval(theta, 0.95)
        inside.append(np.mean((low <= truth) & (truth <= high)))
    assert np.mean(inside) > 0.85


def test_what_halves_of_the_points_disagree_about_is_part_of_the_variance():
    samples = problem(lambda x, theta: x[:, 0] ** 3).collect(15, 20, rng=1)
    found, rows = fit_borrowing_stage_one(samples, 200, StageOneOptions())
    whole, same = borrowed(samples, 200)
    assert np.array_equal(rows, same)
    claimed = fit_stage_one(whole, StageOneOptions())
    halves = []
    for k in (0, 1):
        part, used = borrowed(samples, 200, slice(k, None, 2))
        assert np.all(used % 2 == k)
        halves.append(fit_stage_one(part, StageOneOptions()).mean)
    apart2 = np.mean((np.stack(halves) - claimed.mean) ** 2, axis=0)
    assert_allclose(found.std**2, np.maximum(claimed.std**2, 0.25 * apart2), rtol=1e-12)
    assert np.any(found.std > claimed.std)


@pytest.mark.parametrize("ragged", [False, True])
def test_weights_of_all_points_reproduce_the_plain_mean(ragged):
    samples = problem().collect(6, [5, 9, 4, 7, 6, 8] if ragged else 6, rng=2)
    fit = cbq.CBQ(borrow=20, calibrate=False).fit(samples)
    theta = [0.5, 1.5, 2.5]
    weights = fit.weights(theta)
    if ragged:
        assert [w.shape for w in weights] == [(3, n) for n in samples.counts]
        total = sum(w @ f for w, f in zip(weights, samples.f, strict=True))
    else:
        assert weights.shape == (3, 6, 6)
        total = np.einsum("mtn,tn->m", weights, samples.f)
    assert_allclose(total, fit.predict(theta), rtol=1e-9)


def test_several_outputs_borrow_the_same_points():
    two = problem(lambda x, theta: np.stack([np.sin(2 * x[:, 0]), x[:, 0] ** 2], axis=1))
    samples = two.collect(10, 8, rng=0)
    fit = cbq.CBQ(borrow=40).fit(samples)
    for c in range(2):
        alone = cbq.CBQ(borrow=40).fit(samples.output(c))
        assert np.array_equal(alone.rows, fit.rows)
        assert_allclose(alone.predict([1.0, 2.0]), fit.predict([1.0, 2.0])[:, c], rtol=1e-6)


def test_none_is_the_default_and_the_summary_says_what_was_borrowed():
    samples = problem().collect(6, 8, rng=0)
    plain = cbq.CBQ().fit(samples)
    assert plain.rows is None
    assert "borrow" not in plain.summary()
    assert "Borrowing: stage 1 uses 20 points at each theta." in cbq.CBQ(borrow=20).fit(samples).summary()


def of_measure(measure):
    x = np.array([[0.1, 0.5, 0.9], [0.2, 0.4, 0.8]])
    return cbq.Samples([0.0, 1.0], x, x**2, [measure, measure], depends_on_theta=False)


test_what_cannot_be_borrowed = refusals(
    {
        "f depends on theta": (
            lambda: cbq.CBQ(borrow=20).fit(problem(depends_on_theta=True).collect(4, 5, rng=0)),
            "uses values of f at other thetas.*depends_on_theta=False",
        ),
        "no bulk": (
            lambda: cbq.CBQ(borrow=20).fit(of_measure(Unnormalised(score=lambda x: -x, dim=1))),
            "borrow needs measures whose bulk is known.*Unnormalised.*borrow=0",
        ),
        "atoms": (
            lambda: cbq.CBQ(borrow=20).fit(of_measure(Empirical([0.1, 0.2, 0.4, 0.5, 0.8, 0.9]))),
            "borrow needs measures whose bulk is known.*Empirical",
        ),
        "negative": (lambda: cbq.CBQ(borrow=-1), "borrow must be a number of points"),
        "a fraction": (lambda: cbq.CBQ(borrow=0.5), "borrow must be a number of points"),
        "a flag": (lambda: cbq.CBQ(borrow=True), "borrow must be a number of points"),
    },
    ValueError,
)
