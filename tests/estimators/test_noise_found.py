"""Whether f is random: found where values scatter, and not where f has kinks, jumps and steps."""

from __future__ import annotations

import numpy as np
import pytest

import cbq
from cbq.measures import Gaussian, Uniform
from quiet import silent


def kinked(x, theta):
    """A kink that no coordinate is alone responsible for."""
    return np.maximum(x.sum(axis=1) - 1.0, 0.0)


def jump(x, theta):
    return (x.sum(axis=1) > 1.0) * x[:, 0]


def capped(x, theta):
    """A product of two coordinates between two limits, in different units."""
    return np.minimum(np.clip(0.2 * x[:, 0], 0.0, 1.0) * (180.0 + 50.0 * x[:, 1]), 150.0)


def stairs(x, theta):
    return np.floor(2.0 * x[:, 0])


def smooth(x, theta):
    return np.sin(x[:, 0]) + x[:, -1] ** 2


def looks_random(f, d, T, N, rng, design="sobol"):
    problem = cbq.Problem(
        f, lambda theta: Gaussian(np.repeat(theta, d), np.ones(d)), Uniform(0.0, 2.0), depends_on_theta=False
    )
    with silent():
        fit = cbq.CBQ().fit(problem.collect(T, N, rng=rng, design=design))
    return any(finding.kind == "noise" for finding in fit.findings)


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize(("f", "d", "T", "N"), [(kinked, 2, 12, 16), (jump, 3, 12, 32), (capped, 2, 12, 8)])
def test_kinks_and_jumps_across_the_coordinates_are_no_noise(f, d, T, N, seed):
    assert not looks_random(f, d, T, N, seed)


@pytest.mark.parametrize("design", ["sobol", "iid"])
def test_a_staircase_is_no_noise(design):
    assert not looks_random(stairs, 1, 10, 30, 0, design)


@pytest.mark.parametrize("seed", range(2))
def test_noise_is_found_in_one_coordinate_and_in_several(seed):
    rng = np.random.default_rng(seed)
    for d in (1, 2):
        assert looks_random(lambda x, theta: smooth(x, theta) + 0.3 * rng.standard_normal(len(x)), d, 12, 20, seed)


@pytest.mark.parametrize("seed", range(2))
def test_random_counts_and_events_are_no_staircases(seed):
    rng = np.random.default_rng(seed)
    assert looks_random(lambda x, theta: 1.0 * rng.poisson(np.exp(x[:, 0])), 1, 12, 20, seed)
    assert looks_random(lambda x, theta: 1.0 * (rng.random(len(x)) < 1.0 / (1.0 + np.exp(-x[:, 0]))), 1, 12, 20, seed)


@pytest.mark.parametrize("seed", range(2))
def test_auto_names_noise_whichever_estimator_it_chooses(seed):
    rng = np.random.default_rng(seed)
    theta = rng.uniform(0.0, 2.0, (10, 1))
    x = theta + rng.standard_normal((10, 20))
    f = np.sin(x) + 0.05 * np.std(np.sin(x)) * rng.standard_normal(x.shape)
    with silent():
        fit = cbq.Auto().fit(cbq.Samples(theta, x, f, lambda t: Gaussian(t, cov=1.0), depends_on_theta=False))
    assert type(fit).__name__ == "MOBQFit"
    assert [finding.kind for finding in fit.findings].count("noise") == 1
