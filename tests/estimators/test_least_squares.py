"""Polynomial and kernel regression of plain averages, against regressions written out, and on awkward thetas."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import stats

import cbq
from cbq import KLSMC, LSMC
from cbq.kernels import RBF, Matern, Stein, TensorProduct, Warped
from cbq.measures import Gaussian
from refusals import refusals

MEASURE = Gaussian(0.0, 1.0)
METHODS = {"LSMC": LSMC, "KLSMC": KLSMC}
T = 14
RNG = np.random.default_rng(8)
THETA = RNG.uniform(1, 3, (T, 2)) * [1.0, 100.0]
NEW = RNG.uniform(1, 3, (5, 2)) * [1.0, 100.0]
MEANS = np.stack([np.sin(THETA[:, 0]) + 0.01 * THETA[:, 1], THETA[:, 0] ** 2], axis=1) + 0.1 * RNG.normal(size=(T, 2))


def at(theta, means, design="iid"):
    """Samples of one point at each theta, so that the averages are `means`."""
    means = np.asarray(means, dtype=float)
    x = stats.norm.ppf((np.arange(len(means)) + 0.5) / len(means))
    return cbq.Samples(theta, x[:, None], means[:, None], MEASURE, design=design)


def monomials(theta, degree, observed=THETA):
    """All monomials of two standardised thetas but the constant, centred and scaled as those of the observed ones."""

    def raw(points):
        a, b = ((points - observed.mean(axis=0)) / observed.std(axis=0)).T
        return np.stack([a**i * b**j for i in range(degree + 1) for j in range(degree + 1 - i) if i + j > 0], axis=1)

    return (raw(theta) - raw(observed).mean(axis=0)) / raw(observed).std(axis=0)


def polynomial_weights(theta, degree, ridge, keep=slice(None)):
    """W: mean squared residual plus ridge |b|^2, as ordinary least squares with a row for each penalty."""
    H = monomials(THETA, degree)[keep]
    q = H.shape[1]
    rows = np.block([[np.ones((len(H), 1)), H], [np.zeros((q, 1)), np.sqrt(T * ridge) * np.eye(q)]])
    targets = np.vstack([np.eye(len(H)), np.zeros((q, len(H)))])
    return (
        np.column_stack([np.ones(len(theta)), monomials(theta, degree)]) @ np.linalg.lstsq(rows, targets, rcond=None)[0]
    )


def kernel_weights(theta, kernel, ridge, keep=slice(None)):
    """W of kernel ridge regression with an unpenalised constant, as the solution of its saddle point equations."""
    some = THETA[keep]
    n = len(some)
    system = np.block([[kernel.gram(some) + ridge * np.eye(n), np.ones((n, 1))], [np.ones((1, n)), np.zeros((1, 1))]])
    solved = np.linalg.solve(system, np.vstack([np.eye(n), np.zeros((1, n))]))
    return np.column_stack([kernel.gram(theta, some), np.ones(len(theta))]) @ solved


KERNEL = Matern(1.5, [0.7, 60.0])
GIVEN = {
    "line": (LSMC(degree=1, ridge=0.0), lambda theta, keep=slice(None): polynomial_weights(theta, 1, 0.0, keep)),
    "square": (LSMC(degree=2, ridge=0.01), lambda theta, keep=slice(None): polynomial_weights(theta, 2, 0.01, keep)),
    "cube": (LSMC(degree=3, ridge=0.1), lambda theta, keep=slice(None): polynomial_weights(theta, 3, 0.1, keep)),
    "matern": (KLSMC(KERNEL, ridge=0.03), lambda theta, keep=slice(None): kernel_weights(theta, KERNEL, 0.03, keep)),
    "rbf": (
        KLSMC(TensorProduct(RBF([2.0, 90.0])), ridge=1e-3),
        lambda theta, keep=slice(None): kernel_weights(theta, RBF([2.0, 90.0]), 1e-3, keep),
    ),
}


@pytest.mark.parametrize(("method", "weights"), GIVEN.values(), ids=GIVEN)
def test_the_regression_is_the_one_written_out(method, weights):
    fit = method.fit(at(THETA, MEANS))
    W = weights(NEW)
    assert fit.weights(NEW).shape == (5, T, 2)
    assert_allclose(fit.weights(NEW)[..., 1], W, atol=1e-10)
    mean, cov = fit.predict(NEW, return_cov=True)
    assert_allclose(mean, W @ MEANS, rtol=1e-10)
    hat = weights(THETA)
    df = T - np.trace(hat)
    low, high = fit.interval(NEW, 0.9)
    for c in range(2):
        residuals = MEANS[:, c] - hat @ MEANS[:, c]
        scale2 = residuals @ residuals / df * W @ W.T
        assert_allclose(fit.smoothers[c].residual_df, df, rtol=1e-9)
        assert_allclose(cov[..., c], scale2 * df / (df - 2), rtol=1e-8, atol=1e-8 * np.max(scale2))
        measure = stats.t(df, mean[:, c], np.sqrt(np.diag(scale2)))
        assert_allclose([low[:, c], high[:, c]], measure.interval(0.9), rtol=1e-8)
    draws = fit.sample(NEW, 20_000, 0)
    assert_allclose(np.mean((low < draws) & (draws < high), axis=0), 0.9, atol=0.01)
    both = draws[:, 0, 0] - mean[0, 0] + draws[:, 1, 0] - mean[1, 0]
    scale = np.sqrt((cov[0, 0, 0] + cov[1, 1, 0] + 2 * cov[0, 1, 0]) * (df - 2) / df)
    assert stats.kstest(both / scale, stats.t(df).cdf).pvalue > 1e-3


@pytest.mark.parametrize(("method", "weights"), GIVEN.values(), ids=GIVEN)
def test_leaving_one_theta_out_is_refitting_without_it(method, weights):
    fit = method.fit(at(THETA, MEANS))
    others = [np.delete(np.arange(T), t) for t in range(T)]
    left = [MEANS[t, 0] - (weights(THETA[t : t + 1], keep) @ MEANS[keep, 0])[0] for t, keep in enumerate(others)]
    assert_allclose(fit.smoothers[0].leave_one_out(MEANS[:, 0]), left, rtol=1e-8)


def test_degree_and_ridge_are_those_that_predict_best_without_a_theta():
    fit = LSMC().fit(at(THETA, MEANS))
    for c in range(2):
        errors = {}
        for degree in (1, 2, 3):  # of degree 4 there are 15 monomials
            for ridge in LSMC().ridges:
                left = [
                    MEANS[t, c] - (polynomial_weights(THETA[t : t + 1], degree, ridge, keep) @ MEANS[keep, c])[0]
                    for t in range(T)
                    for keep in [np.delete(np.arange(T), t)]
                ]
                errors[degree, ridge] = np.mean(np.square(left))
        best = min(errors, key=errors.get)
        chosen = fit.smoothers[c]
        assert (chosen.monomials.degree, chosen.ridge) == best
        alone = LSMC().fit(at(THETA, MEANS[:, c]))
        assert_array_equal(alone.predict(NEW), fit.predict(NEW)[:, c])
    assert fit.smoothers[0] is not fit.smoothers[1]


def test_kernel_and_ridge_are_those_that_predict_best_without_a_theta():
    method = KLSMC(ridges=(1.0, 0.1, 0.01, 1e-3, 1e-4))  # that a plain solve can do, too
    fit = method.fit(at(THETA, MEANS))
    spread = np.sqrt(2) * THETA.std(axis=0)
    for c in range(2):
        errors = {}
        for family in (Matern(1.5), RBF()):
            for factor in method.lengthscales:
                for ridge in method.ridges:
                    kernel = family.with_lengthscale(factor * spread)
                    left = [
                        MEANS[t, c] - (kernel_weights(THETA[t : t + 1], kernel, ridge, keep) @ MEANS[keep, c])[0]
                        for t in range(T)
                        for keep in [np.delete(np.arange(T), t)]
                    ]
                    errors[repr(kernel), ridge] = np.mean(np.square(left))
        best = min(errors, key=errors.get)
        assert (repr(fit.smoothers[c].kernel), fit.smoothers[c].ridge) == pytest.approx(best)


@pytest.mark.filterwarnings("ignore:few thetas:cbq.FitWarning")
def test_more_thetas_than_choose_the_kernel():
    some = np.linspace(0, T - 1, 7).round().astype(int)
    few = KLSMC(RBF([1.0, 80.0])).fit(at(THETA[some], MEANS[some, 0]))
    whole = KLSMC(RBF([1.0, 80.0]), thetas=7).fit(at(THETA, MEANS[:, 0]))
    assert whole.smoothers[0].ridge == few.smoothers[0].ridge
    assert whole.weights(NEW).shape == (5, T)


def test_a_polynomial_is_found_out():
    def I(theta):  # noqa: E743
        a, b = theta.T
        return 2.0 - a + 0.01 * a * b + 3.0 * a**2

    theta = np.random.default_rng(0).uniform(1, 3, (40, 2)) * [1.0, 100.0]
    fit = LSMC(ridge=0.0).fit(at(theta, I(theta)))
    assert fit.smoothers[0].monomials.degree >= 2
    assert_allclose(fit.predict(NEW), I(NEW), rtol=1e-10)


def test_a_smooth_curve_is_followed_by_a_kernel():
    theta = np.linspace(0, 6, 40)
    fit = KLSMC().fit(at(theta, np.sin(theta)))
    assert_allclose(fit.predict(theta[:-1] + 0.05), np.sin(theta[:-1] + 0.05), atol=1e-3)
    assert isinstance(fit.smoothers[0].kernel, RBF)
    kinked = KLSMC().fit(at(theta, np.abs(theta - 3.1)))
    assert isinstance(kinked.smoothers[0].kernel, Matern)


@pytest.mark.parametrize("method", [LSMC(degree=1), KLSMC(RBF(3.0), ridge=1e-3)], ids=["LSMC", "KLSMC"])
def test_intervals_hold_the_truth_where_the_curve_can_be_straight(method):
    theta, rng = np.linspace(-1, 1, 12), np.random.default_rng(1)
    held = []
    for _ in range(300):
        low, high = method.fit(at(theta, 2.0 * theta + rng.normal(size=12))).interval([-0.5, 0.9], 0.9)
        held.append((low < [-1.0, 1.8]) & (high > [-1.0, 1.8]))
    assert np.all(np.mean(held, axis=0) > 0.86)
    assert np.all(np.mean(held, axis=0) < 0.96)


@pytest.mark.parametrize("method", METHODS.values(), ids=METHODS)
def test_ragged_samples_enter_by_their_averages(method):
    counts = RNG.integers(1, 6, T)
    x = [RNG.normal(size=n) for n in counts]
    f = [m + each for m, each in zip(MEANS[:, 0], x, strict=True)]
    fit = method().fit(cbq.Samples(THETA, x, f, MEASURE))
    same = method().fit(at(THETA, [np.mean(each) for each in f]))
    assert_allclose(fit.predict(NEW), same.predict(NEW), rtol=1e-8)
    assert_allclose(fit.averages.mean[:, 0], [np.mean(each) for each in f], rtol=1e-12)
    assert fit.predict(THETA[:1]).shape == (1,)


# awkward thetas and values


@pytest.mark.filterwarnings("ignore:beyond:cbq.FitWarning")
@pytest.mark.filterwarnings("ignore:few thetas:cbq.FitWarning")
@pytest.mark.parametrize("method", METHODS.values(), ids=METHODS)
def test_one_theta_is_a_constant_without_an_error(method):
    fit = method().fit(at([[2.0]], [7.0]))
    assert_array_equal(fit.predict([2.0, 5.0]), 7.0)
    for ask in (
        lambda: fit.interval([2.0]),
        lambda: fit.sample([2.0], 1, 0),
        lambda: fit.predict([2.0], return_std=True),
        lambda: fit.predict([2.0], return_cov=True),
    ):
        with pytest.raises(ValueError, match=r"no standard error: .* takes 1 of 1 degrees of freedom.*or cbq.CBQ"):
            ask()
    assert "no standard error" in fit.summary()


@pytest.mark.filterwarnings("ignore:beyond:cbq.FitWarning")
@pytest.mark.filterwarnings("ignore:few thetas:cbq.FitWarning")
def test_two_thetas():
    line = LSMC().fit(at([1.0, 2.0], [0.0, 4.0]))
    assert_allclose(line.predict([1.0, 9.0]), 2.0)
    assert "2 thetas with p = 1 allow no polynomial but a constant" in line.summary()
    assert_allclose(line.interval([9.0], 0.5), 2.0 + np.array([[-1.0], [1.0]]) * np.sqrt(8.0 / 2), atol=1e-9)
    given = LSMC(degree=1, ridge=0.0).fit(at([1.0, 2.0], [0.0, 4.0]))
    assert_allclose(given.predict([3.0]), 8.0)
    with pytest.raises(ValueError, match="no standard error: a polynomial of degree 1 with ridge 0 takes 2 of 2"):
        given.interval([3.0])
    curve = KLSMC().fit(at([1.0, 2.0], [0.0, 4.0]))
    assert np.all((curve.predict([1.0, 1.5, 2.0]) >= 0.0) & (curve.predict([1.0, 1.5, 2.0]) <= 4.0))
    assert KLSMC(RBF(1.0), ridge=0.0).fit(at([1.0, 2.0], [0.0, 4.0])).predict([1.0]) == pytest.approx(0.0, abs=1e-8)


@pytest.mark.filterwarnings("ignore:few thetas:cbq.FitWarning")
@pytest.mark.parametrize("method", [LSMC(), LSMC(ridge=0.0), KLSMC(), KLSMC(RBF(), ridge=0.0)], ids=repr)
def test_equal_thetas_share_what_they_say(method):
    theta = np.repeat([1.0, 2.0], 5)
    y = theta + np.tile([-0.2, -0.1, 0.0, 0.1, 0.2], 2)
    fit = method.fit(at(theta, y))
    mean, std = fit.predict([1.0, 2.0], return_std=True)
    assert_allclose(mean, [1.0, 2.0], atol=0.05)
    assert np.all((std > 0.03) & (std < 0.3))
    same = method.fit(at(np.full(6, 2.0), np.arange(6.0)))
    assert_allclose(same.predict([2.0]), 2.5, rtol=1e-5)
    fit.summary()


@pytest.mark.parametrize("method", METHODS.values(), ids=METHODS)
def test_thetas_on_a_line_in_the_plane(method):
    t = np.linspace(0, 1, 15)
    theta = np.stack([t, 3.0 - 2.0 * t], axis=1)
    fit = method().fit(at(theta, t**2 + 0.01 * np.cos(40 * t)))
    assert_allclose(fit.predict(theta[[3, 8]]), t[[3, 8]] ** 2, atol=0.03)
    flat = np.stack([t, np.full(15, 7.0)], axis=1)
    assert_allclose(method().fit(at(flat, t)).predict(flat), t, atol=1e-3)


@pytest.mark.parametrize("value", [0.0, 0.1, -1e150, 1e-150])
@pytest.mark.parametrize("method", METHODS.values(), ids=METHODS)
def test_a_constant_is_known(method, value):
    with pytest.warns(cbq.FitWarning, match="^equal values"):
        fit = method().fit(at(THETA, np.full(T, value)))
    assert_array_equal(fit.predict(NEW), value)
    mean, std = fit._replaced(unseen=None).predict(NEW, return_std=True)  # without what no point may have seen
    assert_array_equal(mean, value)
    assert_array_equal(std, 0.0)
    fit.summary()


@pytest.mark.parametrize(("f_scale", "theta_scale"), [(1e-150, 1e150), (1e150, 1e-150), (1e8, 1e-8)])
@pytest.mark.parametrize("method", METHODS.values(), ids=METHODS)
def test_values_and_thetas_of_any_size(method, f_scale, theta_scale):
    plain = method().fit(at(THETA, MEANS))
    scaled = method().fit(at(theta_scale * THETA, f_scale * MEANS))
    questions = (NEW, theta_scale * NEW)
    one, other = (fit.predict(q, return_std=True) for fit, q in zip((plain, scaled), questions, strict=True))
    assert_allclose(other[0], f_scale * one[0], rtol=1e-7)
    assert_allclose(other[1], f_scale * one[1], rtol=1e-6)
    assert_allclose(scaled.interval(questions[1]), f_scale * np.array(plain.interval(NEW)), rtol=1e-6)
    assert np.all(np.isfinite(scaled.sample(questions[1], 2, 0)))
    scaled.summary()


def test_a_far_theta_with_a_large_offset():
    theta = 1e6 + np.linspace(0, 1, 12)
    y = (theta - 1e6) ** 2
    assert_allclose(LSMC(ridge=0.0).fit(at(theta, y)).predict(theta), y, atol=1e-8)
    assert_allclose(KLSMC().fit(at(theta, y)).predict(theta), y, atol=1e-3)


# words, pictures, refusals


def test_summaries_say_what_was_chosen():
    for method, name in ((LSMC, "Least-squares"), (KLSMC, "Kernel least-squares")):
        fit = method().fit(at(THETA, MEANS, design="sobol"))
        text = fit.summary()
        assert text.startswith(f"{name} Monte Carlo: 14 thetas (p = 2), 1 Sobol point each.")
        for c, smoother in enumerate(fit.smoothers):
            assert f"Output {c}:" in text
            assert smoother.description[1:] in text
            assert f"ridge {smoother.ridge:.3g}" in text
            error = np.sqrt(np.mean(smoother.leave_one_out(MEANS[:, c]) ** 2))
            assert f"Leave-one-theta-out RMSE: {error:.3g}" in text
        assert "but not the bias of the curve" in text
        assert text.endswith("No warnings.")
        assert repr(fit) == f"{method.__name__}Fit(T=14, p=2, C=2, {fit.names.ranges('theta', fit.theta)})"


def test_configurations_and_fits_are_frozen():
    fit = LSMC().fit(at(THETA, MEANS))
    chosen_from = {"largest": "4", "ridges": repr(LSMC().ridges)}
    assert fit.settings == {"degree": "None", "ridge": "None", **chosen_from}
    with pytest.raises(AttributeError):
        LSMC().degree = 3
    with pytest.raises(AttributeError, match="cannot be changed"):
        fit.theta = THETA
    assert not fit.averages.mean.flags.writeable


@pytest.mark.parametrize("method", METHODS.values(), ids=METHODS)
def test_pictures(method):
    fit = method().fit(at(THETA[:, 0], MEANS))
    assert len(fit.plot(points=8, half_width=False).axes) == 2
    assert method().fit(at(THETA, MEANS[:, 0])).plot(points=4) is not None


def test_many_thetas_are_asked_in_blocks():
    fit = KLSMC().fit(at(THETA, MEANS))
    theta = np.resize(NEW, (5000, 2))
    blocks = fit.interval(theta[:4096]), fit.interval(theta[4096:])
    assert_array_equal(fit.interval(theta), np.concatenate(blocks, axis=1))


def test_a_kernel_on_log_theta():
    theta = np.geomspace(0.01, 100, 25)
    fit = KLSMC(Warped(RBF(), "log")).fit(at(theta, np.log(theta)))
    assert_allclose(fit.predict([0.05, 20.0]), np.log([0.05, 20.0]), atol=0.05)


test_refusals = refusals(
    {
        "degree": (lambda: LSMC(degree=-1), "degree must be a whole number, 0 or more, or None .* but it is -1"),
        "real degree": (lambda: LSMC(degree=1.5), "but it is 1.5"),
        "true": (lambda: LSMC(degree=True), "but it is True"),
        "ridge": (lambda: LSMC(ridge=-1.0), "ridge must be a number, zero or more, or None .* but it is -1.0"),
        "nan": (lambda: KLSMC(ridge=np.nan), "but it is nan"),
        "text": (lambda: KLSMC(ridge="small"), "but it is 'small'"),
        "monomials": (
            lambda: LSMC(degree=4).fit(at(THETA, MEANS)),
            "degree 4 in p = 2 coordinates has 15 monomials, but there are T = 14 thetas: take a lower degree",
        ),
        "measure": (lambda: KLSMC(Stein(RBF())).fit(at(THETA, MEANS)), "cannot act on theta: it needs a measure"),
        "batch": (lambda: KLSMC(RBF([[1.0], [2.0]])).fit(at(THETA, MEANS)), "is a batch of kernels"),
        "dimension": (lambda: KLSMC(RBF([1.0] * 3)).fit(at(THETA, MEANS)), "3 lengthscales, but the points have 2"),
    },
    ValueError,
)
test_types = refusals(
    {
        "kernel": (
            lambda: KLSMC("rbf"),
            r"kernel must be a kernel such as cbq.kernels.RBF\(\), or None, but it is 'rbf'",
        ),
        "samples": (lambda: LSMC().fit(THETA), r"fit takes cbq.Samples, but a ndarray arrived"),
        "no samples": (lambda: KLSMC().fit(None), r"fit takes cbq.Samples, but a NoneType arrived"),
    },
    TypeError,
)
