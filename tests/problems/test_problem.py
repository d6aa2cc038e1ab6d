"""Problem: draws, evaluations of f, and checks of what f returns."""

from __future__ import annotations

import pickle
import subprocess
import sys

import numpy as np
import pytest
from scipy import stats

from cbq.measures import Gamma, Gaussian, LogNormal, Uniform, Unnormalised
from cbq.problems.problem import Problem
from cbq.runs import IntegrandError


def family(theta):
    return Gaussian(theta, cov=np.array([[1.0, 0.5], [0.5, 2.0]]))


def f(x, theta):
    return x[:, 0] ** 2 + theta[1] * x[:, 1]


def f_one(x, theta):
    return x[0] ** 2 + theta[1] * x[1]


def truth(theta):
    return theta[:, 0] ** 2 + 1 + theta[:, 1] ** 2


PRIOR = Uniform([0.0, 1.0], [1.0, 4.0])
PROBLEM = Problem(f, family, PRIOR, exact=truth, name="quadratic")


def changed(**options):
    return Problem(**{"integrand": f, "family": family, "prior": PRIOR, **options})


# collecting


@pytest.mark.parametrize("design", ["iid", "sobol"])
def test_collect(design):
    s = PROBLEM.collect(6, 5, rng=0, design=design)
    assert (s.T, s.p, s.d, s.C, s.design, s.depends_on_theta) == (6, 2, 2, None, design, True)
    assert s.family is family
    assert s.counts.tolist() == [5] * 6
    assert np.all(np.isfinite(PRIOR.logpdf(s.theta)))
    for t in range(6):
        np.testing.assert_array_equal(s.values(t), f(s.points(t), s.theta[t]))


@pytest.mark.parametrize("design", ["iid", "sobol"])
def test_the_seed_determines_the_samples(design):
    one, two = (PROBLEM.collect(4, 6, rng=0, design=design) for _ in range(2))
    other = PROBLEM.collect(4, 6, rng=1, design=design)
    np.testing.assert_array_equal(one.x, two.x)
    np.testing.assert_array_equal(one.theta, two.theta)
    assert not np.any(one.theta == other.theta)
    assert not np.any(one.x == other.x)
    rng = np.random.default_rng(0)
    first, second = PROBLEM.collect(4, 6, rng=rng, design=design), PROBLEM.collect(4, 6, rng=rng, design=design)
    np.testing.assert_array_equal(first.x, one.x)
    assert not np.any(second.x == one.x)


@pytest.mark.parametrize("design", ["iid", "sobol"])
def test_theta_t_and_its_points_depend_only_on_the_seed_and_t(design):
    long = PROBLEM.collect(7, 9, rng=3, design=design)
    short = PROBLEM.collect(3, [9, 4, 6], rng=3, design=design)
    np.testing.assert_array_equal(short.theta, long.theta[:3])
    for t, n in enumerate((9, 4, 6)):
        np.testing.assert_array_equal(short.points(t), long.points(t)[:n])
    given = PROBLEM.collect(None, 9, rng=3, design=design, theta=long.theta[[0, 5]])
    np.testing.assert_array_equal(given.points(0), long.points(0))


def test_points_of_different_thetas_are_independent():
    s = changed(family=lambda theta: Gaussian(np.zeros(2), 1.0)).collect(200, 2, rng=0, design="sobol")
    assert len(np.unique(s.x)) == 200 * 2 * 2
    correlation = np.corrcoef(s.x[:, 0, 0], s.theta[:, 0])[0, 1]
    assert abs(correlation) < 4 / np.sqrt(200)


def test_draws_follow_their_measures():
    s = PROBLEM.collect(2000, 1, rng=0)
    v = (s.x[:, 0, 0] - s.theta[:, 0]).ravel()
    assert stats.kstest(v, stats.norm().cdf).pvalue > 1e-3
    assert stats.kstest(s.theta[:, 1], stats.uniform(1, 3).cdf).pvalue > 1e-3


@pytest.mark.parametrize("n", [1, 2, 8, 64])
def test_sobol_points_are_stratified_in_every_coordinate(n):
    problem = changed(family=lambda theta: Uniform(np.zeros(2), np.ones(2)))
    s = problem.collect(n, n, rng=0, design="sobol")
    cells = [*np.floor(n * s.x[0].T), *np.floor(n * s.x[-1].T), *np.floor(n * PRIOR.inverse_transport(s.theta).T)]
    for cell in cells:
        assert sorted(cell) == list(range(n))


@pytest.mark.parametrize("n", [3, 5, 100])
def test_any_number_of_sobol_points_is_accepted_without_a_warning(n):
    assert PROBLEM.collect(n, n, rng=0, design="sobol").x.shape == (n, n, 2)


@pytest.mark.parametrize("T", [2, None])
def test_thetas_of_the_user(T):
    theta = np.array([[5.0, 6.0], [5.0, 6.0]])
    s = PROBLEM.collect(T, [3, 2], rng=0, theta=theta)
    np.testing.assert_array_equal(s.theta, theta)
    assert s.counts.tolist() == [3, 2]


def test_one_point_at_a_time():
    single = changed(integrand=f_one, vectorized=False)
    s, reference = single.collect(3, 4, rng=0), PROBLEM.collect(3, 4, rng=0)
    np.testing.assert_array_equal(s.f, reference.f)
    two = changed(integrand=lambda x, theta: (x[0], theta[0]), vectorized=False).collect(3, 4, rng=0)
    assert two.C == 2
    np.testing.assert_array_equal(two.output(0).f, reference.x[..., 0])


@pytest.mark.parametrize("C", [1, 2, 3])
def test_several_outputs(C):
    s = changed(integrand=lambda x, theta: np.outer(x[:, 0], np.arange(C))).collect(3, 4, rng=0)
    assert s.C == C
    assert s.f.shape == (3, 4, C)


@pytest.mark.parametrize(
    ("values", "kind"), [(lambda x, theta: x[:, 0] > 0, bool), (lambda x, theta: [1] * len(x), int)]
)
def test_booleans_and_integers_become_floats(values, kind):
    assert changed(integrand=values).collect(2, 4, rng=0).f.dtype == np.float64


def test_scipy_distributions_are_accepted_as_prior_and_measures():
    problem = Problem(lambda x, theta: x[:, 0], lambda theta: stats.norm(theta[0], 1), stats.gamma(3))
    s = problem.collect(3, 4, rng=0, design="sobol")
    assert isinstance(problem.prior, Gamma)
    assert isinstance(s.batched_measure(), Gaussian)


def test_the_integrand_is_probed_once_and_then_called_once_for_each_theta():
    sizes = []

    def counting(x, theta):
        sizes.append(len(x))
        return x[:, 0]

    changed(integrand=counting).collect(3, 10, rng=0)
    assert sizes == [3, 10, 10, 10]
    sizes.clear()
    changed(integrand=counting).collect(2, 1, rng=0)
    assert sizes == [1, 1, 1]


def test_an_integrand_may_change_its_arguments():
    def in_place(x, theta):
        value = x[:, 0].copy()
        x[:] = theta[:] = 0
        return value

    s = changed(integrand=in_place).collect(3, 4, rng=0)
    np.testing.assert_array_equal(s.f, s.x[..., 0])
    assert np.all(s.theta[:, 1] >= 1)


# evaluations and the exact answer


def test_evaluate():
    x = np.arange(6.0).reshape(3, 2)
    np.testing.assert_array_equal(PROBLEM.evaluate([0.5, 2.0], x), f(x, [0.5, 2.0]))
    line = Problem(lambda x, theta: x[:, 0] * theta[0], lambda theta: Gaussian(theta, 1.0), Uniform(0, 1))
    np.testing.assert_array_equal(line.evaluate(2.0, [1.0, 2.0]), [2.0, 4.0])
    with pytest.raises(ValueError, match=r"evaluate takes one theta \(p,\), but theta has shape \(2, 2\)"):
        PROBLEM.evaluate(np.ones((2, 2)), x)
    with pytest.raises(ValueError, match="the prior has p = 2"):
        PROBLEM.evaluate(1.0, x)
    with pytest.raises(ValueError, match=r"x has shape \(3, 1\)"):
        PROBLEM.evaluate([0.5, 2.0], x[:, :1])
    with pytest.raises(ValueError, match="x must hold one point or more, but it holds none"):
        PROBLEM.evaluate([0.5, 2.0], x[:0])


@pytest.mark.parametrize("kind", [np.array, list])
def test_an_f_may_return_the_same_buffer_each_time(kind):
    """As wrappers of Fortran and C do."""
    buffer = kind([0.0, 0.0])

    def fill(x, theta):
        buffer[:] = x[0], 2 * x[0]
        return buffer

    problem = Problem(fill, lambda theta: Gaussian(theta, std=1.0), Uniform(0, 1), vectorized=False)
    np.testing.assert_array_equal(problem.evaluate(0.5, [1.0, 2.0, 3.0]), [[1.0, 2.0], [2.0, 4.0], [3.0, 6.0]])
    samples = problem.collect(2, 3, rng=0)
    np.testing.assert_array_equal(samples.f, samples.x * [1.0, 2.0])


def test_exact():
    assert PROBLEM.has_exact
    np.testing.assert_array_equal(PROBLEM.exact([[1.0, 2.0], [3.0, 4.0]]), [6.0, 26.0])
    assert Problem(f, family, Uniform(0, 1), exact=lambda theta: theta).exact([1.0, 2.0]).shape == (2, 1)
    unknown = changed()
    assert not unknown.has_exact
    with pytest.raises(ValueError, match="exact I of 'problem' is not known"):
        unknown.exact([[1.0, 2.0]])
    with pytest.raises(ValueError, match=r"exact returned shape \(\), but for 1 thetas it must be \(1,\)"):
        changed(exact=lambda theta: 3.0).exact([[1.0, 2.0]])
    with pytest.raises(ValueError, match=r"theta has shape \(2,\).*p = 2"):
        PROBLEM.exact([1.0, 2.0])


def test_a_problem_is_immutable_and_can_be_pickled():
    again = pickle.loads(pickle.dumps(PROBLEM))
    np.testing.assert_array_equal(again.collect(2, 3, rng=0).f, PROBLEM.collect(2, 3, rng=0).f)
    with pytest.raises(AttributeError, match="cannot be changed"):
        PROBLEM.name = "other"
    assert "quadratic" in repr(PROBLEM)


def test_slow_imports_are_lazy():
    code = "import sys, cbq.problems; assert not {'scipy.stats', 'scipy.integrate', 'pandas'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)


# failures of the integrand


def fails_at(value):
    def broken(x, theta):
        return np.where(np.arange(len(x)) == 5, value, x[:, 0]) if theta[0] > 0.9 else x[:, 0]

    return broken


THETAS = np.array([[0.5, 2.0], [0.95, 3.0], [0.99, 2.0]])


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_a_value_that_is_not_finite_is_located(value):
    with pytest.raises(
        IntegrandError, match=r"returned (nan|inf) at theta index t = 1 .*0.95.*point i = 5 \(x = "
    ) as caught:
        changed(integrand=fails_at(value)).collect(3, 8, rng=0, theta=THETAS)
    error = caught.value
    assert (error.t, error.i) == (1, 5)
    np.testing.assert_array_equal(error.theta, THETAS[1])
    np.testing.assert_array_equal(error.x, PROBLEM.collect(3, 8, rng=0, theta=THETAS).x[1, 5])
    again = pickle.loads(pickle.dumps(error))
    assert (str(again), again.t, again.i) == (str(error), 1, 5)


def test_an_exception_is_located_and_kept():
    def one(x, theta):
        if theta[0] > 0.9 and x[0] > theta[0]:
            raise ZeroDivisionError("flat")
        return x[0]

    with pytest.raises(
        IntegrandError, match=r"raised ZeroDivisionError at theta index t = 1 .*point i = .*: flat"
    ) as caught:
        changed(integrand=one, vectorized=False).collect(3, 8, rng=0, theta=THETAS)
    assert isinstance(caught.value.__cause__, ZeroDivisionError)
    assert caught.value.x[0] > 0.95

    with pytest.raises(IntegrandError, match=r"among the 3 points from x = .*: 'a'") as caught:
        changed(integrand=lambda x, theta: {}["a"]).collect(3, 8, rng=0)
    assert isinstance(caught.value.__cause__, KeyError)
    assert (caught.value.t, caught.value.i) == (0, None)
    with pytest.raises(IntegrandError, match=r"raised KeyError at theta = \[0.5 2. \] among"):
        changed(integrand=lambda x, theta: {}["a"]).evaluate([0.5, 2.0], [[1.0, 2.0]])


@pytest.mark.parametrize(
    ("integrand", "vectorized", "message"),
    [
        (
            lambda x, theta: 1.0,
            True,
            r"returned shape \(\) for 3 points .* but \(3,\) or \(3, C\) is needed.*vectorized=False",
        ),
        (lambda x, theta: x.T, True, r"returned shape \(2, 3\)"),
        (lambda x, theta: x[:, :0], True, r"returned shape \(3, 0\)"),
        (lambda x, theta: x[..., None], True, r"returned shape \(3, 2, 1\)"),
        (lambda x, theta: x[:, 0] * 1j, True, r"must return real numbers.*its type is complex128"),
        (lambda x, theta: None, True, r"must return real numbers.*its type is NoneType"),
        (lambda x, theta: [x[0], 1.0], True, r"must return real numbers.*inhomogeneous"),
        (lambda x, theta: [[1.0]], False, r"returned shape \(1, 1, 1\) for 1 points"),
        (
            lambda x, theta: x[:, : 1 + (len(x) > 3)],
            True,
            r"returned shape \(8, 2\) for 8 points .*t = 0.* but \(8, 1\) is",
        ),
        (
            lambda x, theta: x[:, 0] if theta[0] < 0.9 else x,
            True,
            r"returned shape \(8, 2\).*t = 1.* but \(8,\) is needed",
        ),
    ],
)
def test_what_the_integrand_returns_is_checked(integrand, vectorized, message):
    with pytest.raises(IntegrandError, match=message):
        changed(integrand=integrand, vectorized=vectorized).collect(3, 8, rng=0, theta=THETAS)


def test_a_wrong_shape_is_found_by_one_small_call():
    calls = []

    def expensive(x, theta):
        calls.append(len(x))
        return 1.0

    with pytest.raises(IntegrandError):
        changed(integrand=expensive).collect(50, 100, rng=0)
    assert calls == [3]


# errors


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"T": 0}, "T must be a whole number, at least 1, but it is 0"),
        ({"T": 2.0}, r"T must be a whole number, at least 1, but it is 2\.0"),
        ({"T": None}, "T, the number of thetas, is missing: pass T=20, for example, or thetas as theta="),
        ({"N": 0}, "N must be a whole number, at least 1, but it is 0"),
        ({"N": [1, 2]}, r"N has shape \(2,\), but with T = 3 thetas it must be a number or of shape \(3,\)"),
        ({"N": [1, 0, 2]}, r"N\[1\] must be a whole number"),
        ({"N": [1.5, 2, 2]}, r"N\[0\] must be a whole number"),
        ({"design": "mcmc"}, r"'iid' or 'sobol', but it is 'mcmc': .*cbq.Samples"),
        ({"theta": THETAS[:2]}, "T is 3, but theta= holds 2 thetas: leave T= out, or pass T=2"),
        ({"theta": THETAS[:, 0]}, "p = 2"),
        ({"theta": THETAS * np.nan}, "theta must be finite"),
    ],
)
def test_collect_refuses(arguments, message):
    with pytest.raises(ValueError, match=message):
        PROBLEM.collect(**{"T": 3, "N": 4, "rng": 0, **arguments})


def test_a_seed_is_required():
    with pytest.raises(TypeError, match="rng must be"):
        PROBLEM.collect(3, 4, rng=None)


@pytest.mark.parametrize(
    ("options", "kind", "message"),
    [
        ({"integrand": 3.0}, TypeError, "integrand must be a function, but it is a float"),
        ({"family": SystemExit()}, TypeError, "family must be a function"),
        ({"exact": [1.0]}, TypeError, "exact must be a function, but it is a list"),
        ({"prior": 3.0}, TypeError, "a measure of cbq.measures"),
        ({"prior": Gamma([1.0, 2.0], 1)}, ValueError, "prior must be one distribution of theta"),
    ],
)
def test_problem_refuses(options, kind, message):
    with pytest.raises(kind, match=message):
        changed(**options)


def test_measures_are_checked_before_anything_is_evaluated():
    calls = []
    problem = changed(
        integrand=lambda x, theta: calls.append(x), family=lambda t: Gaussian(np.zeros(1 + (t[0] > 0.9)), 1)
    )
    with pytest.raises(ValueError, match=r"t = 1 .*in 2 dimensions, but the measure at theta index 0 has 1"):
        problem.collect(3, 4, rng=0, theta=THETAS)
    with pytest.raises(ValueError, match=r"x must be finite, but it is .*inf"):
        changed(integrand=lambda x, theta: calls.append(x), family=lambda t: LogNormal(700.0, cov=1e4)).collect(
            3, 9, rng=0
        )
    with pytest.raises(TypeError, match="Unnormalised has no sample"):
        changed(family=lambda theta: Unnormalised(score=lambda x: -x, dim=2)).collect(3, 4, rng=0)
    assert not calls


# a simulator that runs elsewhere


@pytest.mark.parametrize("stochastic", [False, True])
def test_a_problem_may_have_no_integrand_and_says_how_its_values_are_found(stochastic):
    elsewhere = changed(integrand=None, stochastic=stochastic, exact=truth, name="lab")
    random = ", stochastic=True" * elsewhere.stochastic
    assert repr(elsewhere) == f"Problem('lab', prior={PRIOR!r}, integrand=None{random})"
    assert elsewhere.exact([[0.5, 2.0]]).shape == (1,)
    rng = np.random.default_rng(0)
    before = rng.bit_generator.state
    ways = r"'lab' is None, .* problem\.session\(\) .*ask\(n\).*tell\(ids, values\)"
    with pytest.raises(ValueError, match=ways):
        elsewhere.collect(3, 4, rng=rng)
    assert rng.bit_generator.state == before
    with pytest.raises(ValueError, match=ways):
        elsewhere.evaluate([0.5, 2.0], [[1.0, 2.0]])
