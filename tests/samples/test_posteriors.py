"""Posterior draws of other tools become samples, if their chains and scores are what they are said to be."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import cbq
from cbq.samples import ChainWarning
from cbq.samples.posteriors import effective_draws, split_rhat
from quiet import silent
from refusals import refusals

THETA = np.linspace(0.5, 2.0, 8)  # the prior standard deviation of mu
DATUM, NOISE2 = 1.5, 0.25  # y ~ N(mu, NOISE2)


def posterior(theta):
    """Mean and variance of mu given the datum."""
    variance = 1 / (1 / theta**2 + 1 / NOISE2)
    return variance * DATUM / NOISE2, variance


def metropolis(log_density, start, step, rng, draws=1500, warmup=200):
    """One chain of a random-walk Metropolis sampler on the line."""
    x, found = start, []
    for _ in range(warmup + draws):
        proposal = x + step * rng.standard_normal()
        if np.log(rng.random()) < log_density(proposal) - log_density(x):
            x = proposal
        found.append(x)
    return np.array(found[warmup:])


def run(theta, rng):
    mean, variance = posterior(theta)
    return np.stack(
        [
            metropolis(lambda mu: -0.5 * (mu - mean) ** 2 / variance, mean, 2.4 * np.sqrt(variance), rng)
            for _ in range(4)
        ]
    )


@pytest.fixture(scope="module")
def draws():
    rng = np.random.default_rng(1)
    return {theta: run(theta, rng) for theta in THETA}


def score(x, theta):
    mean, variance = posterior(theta[0])
    return -(x - mean) / variance


def value(x, theta):
    return np.sin(x[:, 0]) + x[:, 0] ** 2


def exact(theta):
    mean, variance = posterior(theta)
    return np.exp(-variance / 2) * np.sin(mean) + mean**2 + variance


def test_stein_quadrature_of_chains_beats_their_averages_by_far(draws):
    samples = cbq.Samples.from_arviz({t: {"mu": mu} for t, mu in draws.items()}, value, score=score, thin=10)
    assert samples.design == "mcmc"
    assert samples.counts.tolist() == [600] * 8
    with silent():
        found, std = cbq.CBQ().fit(samples.thinned(150)).predict(THETA, return_std=True)
    averages = np.array([np.mean(value(mu.reshape(-1, 1), None)) for mu in draws.values()])
    error, plain = np.max(np.abs(found - exact(THETA))), np.max(np.abs(averages - exact(THETA)))
    assert error < 0.02 * plain
    assert error < 6 * np.max(std)


def containers(mu, s):
    """The same draws, as each of the tools has them."""
    xarray = pytest.importorskip("xarray")
    arviz = pytest.importorskip("arviz")
    dataset = xarray.Dataset({"s": (("draw", "chain"), s.T), "mu": (("draw", "chain"), mu.T)})
    yield "dataset", dataset
    yield "tree", xarray.DataTree.from_dict({"posterior": dataset[["mu"]], "sample_stats": dataset[["s"]]})
    yield "mapping", {"mu": mu, "s": s}
    if arviz.__version__.startswith("0."):  # later it is a DataTree
        yield "inference data", arviz.InferenceData(posterior=dataset[["mu"]], sample_stats=dataset[["s"]])


@pytest.mark.filterwarnings("ignore::FutureWarning")  # of arviz, about its next version
def test_every_container_gives_the_same_samples(draws):
    mu = draws[THETA[3]]
    s = score(mu[..., None], [THETA[3]])[..., 0]
    found = {
        name: cbq.Samples.from_arviz({THETA[3]: data}, "mu", x="mu", score="s", thin=5)
        for name, data in containers(mu, s)
    }
    assert len(found) >= 3
    for samples in found.values():
        np.testing.assert_array_equal(samples.x, mu[:, ::5].reshape(1, -1, 1))
        np.testing.assert_array_equal(samples.f, mu[:, ::5].reshape(1, -1))
        np.testing.assert_array_equal(samples.measure(0).score(samples.points(0))[:, 0], s[:, ::5].ravel())


def test_variables_with_axes_are_side_by_side():
    rng = np.random.default_rng(0)
    data = {(0.0, 1.0): {"a": rng.standard_normal((4, 400, 2)), "b": rng.standard_normal((4, 400))}}
    samples = cbq.Samples.from_arviz(data, lambda x, theta: x @ [1.0, 2.0, 3.0] + theta[1], score=lambda x, theta: -x)
    assert (samples.d, samples.p) == (3, 2)
    a, b = data[0.0, 1.0].values()
    np.testing.assert_array_equal(samples.all_points[:400], np.concatenate([a, b[..., None]], axis=-1)[0])


def test_diagnostics_are_those_of_arviz(draws):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        arviz = pytest.importorskip("arviz")
    x = draws[THETA[0]]
    for chains in (x, x + 0.1 * np.arange(4)[:, None], x[:, :101], x**3):
        assert split_rhat(chains) == pytest.approx(float(arviz.rhat(chains)), rel=1e-10)
        assert effective_draws(chains) == pytest.approx(float(arviz.ess(chains)), rel=0.02)


def test_thinning_keeps_about_as_many_draws_as_are_independent(draws):
    mu = draws[THETA[0]]
    samples = cbq.Samples.from_arviz({0.5: {"mu": mu}}, "mu")
    worth = effective_draws(mu)
    assert worth <= samples.n_evaluations <= 2 * worth
    assert effective_draws(samples.points(0).reshape(4, -1)) > 0.6 * samples.n_evaluations


def test_draws_without_scores_serve_regressions_but_not_quadrature(draws):
    samples = cbq.Samples.from_arviz({t: {"mu": mu} for t, mu in draws.items()}, value)
    with silent():
        assert cbq.LSMC().fit(samples).predict([1.0])[0] == pytest.approx(exact(1.0), abs=0.2)
    with pytest.raises(ValueError, match="or draws of posteriors with score="):
        cbq.CBQ().fit(samples.thinned(50))


def slow_waves():
    """Chains that agree with each other, and in which draws follow each other closely."""
    return np.sin(2 * np.pi * (np.arange(400) / 100 + np.arange(4)[:, None] / 4))


def test_chains_that_do_not_mix_are_said(draws):
    mu = draws[THETA[0]]
    with pytest.warns(ChainWarning, match="at theta = 0.5, R-hat of mu is .* above 1.01") as caught:
        cbq.Samples.from_arviz({0.5: {"mu": mu + np.arange(4)[:, None]}}, "mu")
    assert caught[0].filename == __file__
    with pytest.warns(ChainWarning, match="effective sample size of 1600 draws of mu is .*, below 100"):
        cbq.Samples.from_arviz({0.5: {"mu": slow_waves()}}, "mu")


NORMAL = np.random.default_rng(3).standard_normal((4, 500))
PAIR = np.random.default_rng(4).standard_normal((4, 500, 2))


def read(data=None, value="mu", **options):
    return cbq.Samples.from_arviz({0.3: {"mu": NORMAL}} if data is None else data, value, **options)


REFUSED = {
    "sign": (lambda: read(score=lambda x, t: x), "wrong sign: .* Pass the gradient of the log density"),
    "sign, two": (lambda: read({0.3: {"mu": PAIR}}, score=lambda x, t: x), "wrong sign"),
    "scale": (
        lambda: read(score=lambda x, t: -2 * x),
        "as if they were (1.9|2|2.1) times too large",
    ),
    "one coordinate": (lambda: read({0.3: {"mu": PAIR}}, score=lambda x, t: -x * [1.0, 3.0]), "for coordinate 1"),
    "other order": (lambda: read(score=lambda x, t: -x[::-1]), "do not belong to the draws"),
    "swapped": (lambda: read({0.3: {"mu": PAIR}}, score=lambda x, t: -x[:, ::-1]), "do not belong to the draws"),
    "shifted": (lambda: read(score=lambda x, t: 1 - x), "a mean of .* where 0 is expected"),
    "shape": (lambda: read(score=lambda x, t: np.ones((3, 1))), "as many rows"),
    "width": (lambda: read({0.3: {"mu": PAIR}}, score="mu", x=["mu"], value=lambda x, t: x[:1, 0]), "as many rows"),
    "axes": (lambda: read({0.3: {"mu": NORMAL[0]}}), r"\(chain, draw\)"),
    "name": (lambda: read(value="sigma"), "value = 'sigma' is no variable .* has \\['mu'\\]"),
    "keys": (lambda: read({0.3: {"mu": NORMAL}, (1.0, 2.0): {"mu": NORMAL}}), "keys of data"),
    "empty": (lambda: read({}), "mapping from theta"),
    "draws": (lambda: read({0.3: 5.0}), "must be an InferenceData"),
    "thin": (lambda: read(thin=0), "thin must be 'auto' or a positive integer"),
    "value": (lambda: read(value=3.0), "value must be a name"),
}
test_refused = refusals(REFUSED, (TypeError, ValueError))
