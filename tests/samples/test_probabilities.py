"""Thetas that share points are recognised, whatever the design, and their errors are taken for common ones."""

import numpy as np
import pytest

import cbq
from cbq.measures import Categorical, Gamma, Gaussian, LogNormal, Normal, Poisson, Product, StudentT
from quiet import silent

T, N = 20, 10
THETA = np.random.default_rng(5).uniform(0.0, 2.0, (T, 1))


def shifted(theta):
    return Normal(theta, std=1.0)


def made(x, measure=shifted, **options):
    return cbq.Samples(THETA, x, [np.sin(each).sum(axis=-1) for each in x], measure, **options)


def noise(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape)


def moved(v, measure):
    return [measure(theta).transport(each, "normal") for theta, each in zip(THETA, v, strict=True)]


COMMON = noise(1, N, 1).repeat(T, axis=0)
OWN = noise(T, N, 1, seed=1)
ROWS = np.random.default_rng(2)
FAMILIES = {
    "gamma": lambda t: Gamma(1.0 + t, 2.0),
    "lognormal": lambda t: LogNormal(t, cov=0.5 + t),
    "heavy": lambda t: StudentT(1.0, loc=t, scale=1.0),
}


@pytest.mark.parametrize("measure", FAMILIES.values(), ids=FAMILIES)
def test_the_same_random_numbers_are_recognised_behind_any_measure(measure):
    assert made(moved(COMMON, measure), measure).thetas_per_point == pytest.approx(T, abs=0.5)
    assert not made(moved(OWN, measure), measure).shares_design


def test_points_are_recognised_in_any_order_and_number():
    x = THETA[:, None] + COMMON
    assert made([ROWS.permutation(each) for each in x]).thetas_per_point == pytest.approx(T, abs=0.5)
    assert made([each[: 1 + t % N] for t, each in enumerate(x)]).shares_design
    assert made(np.where(np.arange(T)[:, None, None] % 2, x, THETA[:, None] + OWN)).shares_design  # half of the thetas
    assert made(x.astype(np.float32)).shares_design
    assert made(x.repeat(3, axis=1), stochastic=True).shares_design
    assert not made((THETA[:, None] + OWN).repeat(3, axis=1), stochastic=True).shares_design


def test_the_same_x_is_shared_where_measures_differ():
    wide = {"proposal": Normal(1.0, std=2.0)}
    assert made(1.0 + 2.0 * COMMON, **wide).shares_design
    assert not made(1.0 + 2.0 * OWN, **wide).shares_design


def test_points_that_coincide_by_chance_are_not_shared():
    rng = np.random.default_rng(3)
    rounded = np.round(noise(T, 40, 1), 2)
    assert not made(rounded, Normal(0.0, std=1.0)).shares_design
    assert not made(rng.integers(2, size=(T, N, 1)), Categorical([0.5, 0.5])).shares_design
    assert not made(rng.poisson(2.0, (T, N, 1)), Poisson(2.0)).shares_design
    assert not made(np.tile([[0.0], [1.0]], (T, 1, 1)), Categorical([0.5, 0.5])).shares_design  # all atoms
    heavy = np.random.default_rng(0).standard_cauchy((T, N, 1))
    assert not made(heavy, StudentT(1.0, loc=0.0, scale=1.0)).shares_design
    assert not made(noise(T, N, 1), measure=None).shares_design
    assert not made(40.0 + noise(T, N, 1)).shares_design  # where probabilities are all 1


def test_a_continuous_input_shows_what_atoms_hide():
    measure = Product([Poisson(2.0), Normal(0.0, std=1.0)])
    counts = np.random.default_rng(0).poisson(2.0, (T, N, 1))
    assert made(np.concatenate([counts, COMMON], axis=2), measure).shares_design
    assert not made(np.concatenate([counts, OWN], axis=2), measure).shares_design


@pytest.mark.parametrize("estimator", [cbq.CBQ(), cbq.LSMC(), cbq.KLSMC(), cbq.ImportanceSampling()], ids=repr)
def test_a_shared_design_is_a_warning_where_errors_are_averaged_over_thetas(estimator):
    options = {"depends_on_theta": False}
    with pytest.warns(cbq.FitWarning, match="shared design: all 20 thetas have the same points"):
        estimator.fit(made(THETA[:, None] + COMMON, **options))
    with silent():
        fit = estimator.fit(made(THETA[:, None] + OWN, **options))
    assert "shared design" not in {each.kind for each in fit.findings}


def test_errors_of_common_random_numbers_are_in_common(tmp_path):
    """Of 95% intervals that take the errors of thetas for independent, less than half hold the truth."""
    new = np.linspace(0.2, 1.8, 17)
    true = np.sin(3 * new) * np.exp(-4.5) + new * np.cos(2 * new) * np.exp(-2)
    held = []
    for seed in range(4):
        x = THETA[:, None] + noise(1, N, 1, seed=seed)
        f = np.sin(3 * x[..., 0]) + THETA * np.cos(2 * x[..., 0])
        with silent():
            fit = cbq.CBQ().fit(cbq.Samples(THETA, x, f, shifted))
        assert fit.shared
        assert np.all(fit.stage1.stretch >= np.sqrt(2))
        low, high = fit.interval(new)
        held.append(np.mean((low <= true) & (true <= high)))
    assert np.mean(held) > 0.8
    fit.save(tmp_path / "fit.cbq")
    again = cbq.load(tmp_path / "fit.cbq")
    assert again.shared
    assert np.array_equal(again.interval(new), (low, high))


def test_many_inputs_and_thetas_are_looked_at_quickly():
    theta = np.random.default_rng(0).uniform(0, 2, (3000, 1))
    measure = Gaussian(np.broadcast_to(theta, (3000, 50)), cov=np.ones((3000, 50)))
    own, common = (theta[:, None] + noise(size, 2, 50) for size in (3000, 1))
    f = np.zeros((3000, 2))
    assert not cbq.Samples(theta, own, f, measure).shares_design
    assert cbq.Samples(theta, common, f, measure).thetas_per_point == pytest.approx(3000, rel=0.01)
