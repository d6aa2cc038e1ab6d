"""Where further runs help most, as fits say it: `fit.suggest`."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal

import cbq
from cbq.kernels import Matern
from cbq.measures import Gaussian, Uniform

THETA = np.linspace(-1.0, 1.0, 9)


def samples(theta=THETA, N=6, seed=0, **options):
    """Samples of f = x / 2 + max(x, 0) or, if it depends on theta, x / 2 + max(x, theta), x ~ N(theta, 1)."""
    options = {"depends_on_theta": False, **options}
    x = theta[:, None] + np.random.default_rng(seed).standard_normal((len(theta), N))
    level = theta[:, None] if options["depends_on_theta"] else 0.0
    return cbq.Samples(theta, x, 0.5 * x + np.maximum(x, level), lambda t: Gaussian(t, 1.0), **options)


@pytest.mark.parametrize("depends_on_theta", [False, True])
def test_one_process_names_thetas_and_points(depends_on_theta):
    fit = cbq.MOBQ().fit(samples(depends_on_theta=depends_on_theta))
    found = fit.suggest(5)
    assert found.theta.shape == (5, 1)
    assert found.x.shape == (5, 1)
    assert len(np.unique(found.x)) == 5
    assert np.all(np.abs(found.theta) <= 1.0)  # the region of the observed thetas
    assert_array_equal(fit.suggest(5).x, found.x)
    assert_array_equal(fit.suggest(2).x, found.x[:2])  # the best come first
    assert list(found.to_columns()) == ["theta", "x"]


def test_two_stages_name_thetas():
    found = cbq.CBQ().fit(samples()).suggest(7)
    assert found.theta.shape == (7, 1)
    assert found.x is None
    assert list(found.to_columns()) == ["theta"]


def test_a_prior_says_where_it_counts():
    fit = cbq.MOBQ().fit(samples())
    assert np.all(fit.suggest(8, Uniform(2.0, 3.0)).theta >= 2.0)
    with pytest.raises(ValueError, match="one measure of theta, in p = 1 dimensions"):
        fit.suggest(8, Uniform(np.zeros(2), 1.0))


def test_runs_go_where_there_are_none():
    left = cbq.MOBQ().fit(samples(THETA[:5])).suggest(6, Uniform(-1.0, 4.0))  # seen up to theta = 0
    assert np.mean(left.x > 1.5) > 0.5


@pytest.mark.parametrize("kernel", [Matern(2.5), Matern(0.5)], ids=["rougher", "none is rougher"])
def test_once_f_is_learnt_runs_go_where_kernels_disagree(kernel):
    """At a kink; with a kernel that none is rougher than, the gain alone decides."""
    x = np.linspace(-4.03, 3.97, 65)
    theta = np.clip(x, -1.0, 1.0)
    made = cbq.Samples(theta, x[:, None], np.abs(x)[:, None], lambda t: Gaussian(t, std=0.5), depends_on_theta=False)
    found = cbq.MOBQ(kernel_x=kernel).fit(made).suggest(7)
    near = np.mean(np.abs(found.x) < 0.2)
    assert (near > 0.5) == (kernel.nu == 2.5)


@pytest.mark.filterwarnings("ignore:(few points|not learnt):cbq.FitWarning")
def test_suggested_runs_lower_the_variance_more_than_draws():
    before = samples(THETA[:4], N=4)
    fit = cbq.MOBQ(kernel_x=cbq.kernels.Matern(1.5, 1.0)).fit(before)
    grid = np.linspace(-1.0, -0.25, 20)
    suggested = fit.suggest(4)

    def variance_with(theta, x):
        more = cbq.Samples(
            theta,
            x[:, None],
            (0.5 * x + np.maximum(x, 0.0))[:, None],
            before.family,
            depends_on_theta=False,
            design="adaptive",
        )
        # the variance of the process itself: its amplitude and calibration depend on the values
        process = cbq.MOBQ(kernel_x=cbq.kernels.Matern(1.5, 1.0)).fit(before + more)._parts[0][0].process
        integrals = cbq.embeddings.many.Integrals(
            cbq.kernels.Matern(1.5, 1.0), [Gaussian(t, 1.0) for t in grid], grid[:, None]
        )
        return np.mean(process.variance(integrals.mean(process.nodes), integrals.variance()))

    rng = np.random.default_rng(2)
    drawn = []
    for _ in range(20):
        theta = rng.uniform(-1.0, -0.25, 4)
        drawn.append(variance_with(theta, theta + rng.standard_normal(4)))
    assert variance_with(suggested.theta[:, 0], suggested.x[:, 0]) < np.quantile(drawn, 0.1)


def test_refusals():
    with pytest.raises(ValueError, match=r"fit cbq\.MOBQ\(\) or cbq\.CBQ\(\)"):
        cbq.LSMC().fit(samples()).suggest(3)
    with pytest.raises(ValueError, match="from 1 to 10000, but it is 0"):
        cbq.MOBQ().fit(samples()).suggest(0)
    with pytest.raises(ValueError, match=r"n must be at most 1000 runs, .* but it is 5000: make some of them first"):
        cbq.MOBQ().fit(samples()).suggest(5000)
    without = cbq.Samples(THETA, samples().x, samples().f, [Gaussian(t, 1.0) for t in THETA], depends_on_theta=False)
    with pytest.raises(ValueError, match="no family"):
        cbq.MOBQ().fit(without).suggest(3)
