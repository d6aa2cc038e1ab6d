"""Points that contradict their measures are found, and true draws of any measure and design are not."""

import numpy as np
import pytest
from scipy import stats
from scipy.stats import qmc

import cbq
from cbq.fit.findings import KINDS
from cbq.measures import (
    Beta,
    Categorical,
    Empirical,
    Gamma,
    Gaussian,
    LogNormal,
    Mixture,
    Normal,
    Poisson,
    Product,
    StudentT,
    TruncatedGaussian,
    Uniform,
    Unnormalised,
)
from cbq.measures.base import as_measure
from cbq.samples import agreement as uniformity
from cbq.samples.agreement import Transforms

T, N = 12, 40


def family(theta):
    return Normal(theta, std=1.0)


def made(x, measure=family, theta=None, **options):
    theta = np.linspace(0.0, 2.0, len(x)) if theta is None else theta
    return cbq.Samples(theta, x, [np.sin(each).sum(axis=-1) for each in x], measure, **options)


def noise(seed, *shape):
    return np.random.default_rng(seed).standard_normal(shape)


CENTRES = np.linspace(0.0, 2.0, T)[:, None, None]
WRONG = {
    "the standard deviation": (lambda e: CENTRES + 0.5 * e, lambda t: Normal(t, std=0.7), "x spreads 0."),
    "the mean": (lambda e: CENTRES + 0.5 + e, family, "standard deviations too large on average"),
    "the order of thetas": (lambda e: CENTRES[::-1] + e, family, "as if x were not in the order of theta"),
    "everything": (lambda e: CENTRES + 20 + e, family, "5 or more standard deviations too large"),
    "the shape": (lambda e: CENTRES + np.sign(e), family, "by up to 0.3"),
}


@pytest.mark.parametrize(("draw", "measure", "why"), WRONG.values(), ids=WRONG)
@pytest.mark.parametrize("seed", range(3))
def test_points_that_contradict_their_measures_are_a_warning_of_every_fit(draw, measure, why, seed):
    samples = made(draw(noise(seed, T, N, 1)), measure)
    assert why in samples.measure_contradiction
    with pytest.warns(cbq.FitWarning, match="^measures: the points do not look like draws from their measures"):
        fit = cbq.MonteCarlo().fit(samples)
    assert [each.kind for each in fit.serious_findings if each.kind == "measures"] == ["measures"]
    assert KINDS["measures"] in fit.summary()


def test_auto_says_once_that_points_contradict_their_measures():
    with pytest.warns(cbq.FitWarning) as caught:
        fit = cbq.Auto().fit(made(CENTRES + 0.5 + noise(0, T, N, 1)))
    assert sum(str(each.message).startswith("measures:") for each in caught) == 1
    assert sum(each.kind == "measures" for each in fit.findings) == 1


@pytest.mark.parametrize("d", [2, 50])
def test_correlated_inputs_that_are_declared_independent_are_found(d):
    x = noise(0, T, N, d)
    x[..., 1] = 0.6 * x[..., 0] + 0.8 * x[..., 1]
    found = made(x, Gaussian(np.zeros(d), cov=np.ones(d))).measure_contradiction
    assert "x_0 and x_1 have a correlation of 0." in found
    cov = np.eye(d)
    cov[0, 1] = cov[1, 0] = 0.6
    assert made(x, Gaussian(np.zeros(d), cov=cov)).measure_contradiction is None


def test_wrong_probabilities_of_atoms_are_found():
    rng = np.random.default_rng(0)
    assert "too large" in made(rng.poisson(3.0, (T, N, 1)), Poisson(2.0)).measure_contradiction
    assert "spreads" in made(rng.negative_binomial(1, 0.2, (T, N, 1)), Poisson(4.0)).measure_contradiction
    coins = (rng.random((T, N, 1)) < 0.3) * 1.0
    assert "too large" in made(coins, Categorical([0.9, 0.1])).measure_contradiction
    assert made(coins, Categorical([0.7, 0.3])).measure_contradiction is None


def test_few_points_of_many_thetas_are_pooled():
    theta = np.random.default_rng(0).uniform(0, 2, 3000)
    x = theta[:, None, None] + noise(0, 3000, 2, 1)
    assert made(x, family, theta).measure_contradiction is None
    assert "too large" in made(x + 0.2, family, theta).measure_contradiction
    assert made(x[::-1], family, theta).measure_contradiction is not None


@pytest.mark.parametrize("n", [1, 2, 10])
def test_points_that_are_far_off_are_found_wherever_they_are(n):
    for far in (10.0, 40.0, 1e6):
        assert "5 or more" in made(CENTRES + far + noise(0, T, n, 1)).measure_contradiction


def test_points_are_compared_with_what_they_were_drawn_from():
    x = CENTRES + 2.0 * noise(0, T, N, 1)
    wide = {"proposal": lambda theta: Normal(theta, std=2.0)}
    assert "spreads 2" in made(x).measure_contradiction
    assert made(x, **wide).measure_contradiction is None
    assert "spreads 0.5" in made(CENTRES + noise(0, T, N, 1), **wide).measure_contradiction
    assert made(x, design="adaptive").measure_contradiction is None  # a rule may choose any points
    assert made(x, measure=None).measure_contradiction is None
    unnormalised = Unnormalised(log_density=lambda x: -0.5 * x[..., 0] ** 2, dim=1)
    assert made(x, unnormalised).measure_contradiction is None  # there is no distribution function
    in_part = Product([unnormalised, Normal(0.0, std=1.0)])
    assert "x_1 is" in made(noise(0, T, N, 2) + np.array([0.0, 0.5]), in_part).measure_contradiction


def test_points_at_which_f_failed_were_drawn_too():
    x = CENTRES + noise(0, T, N, 1)
    kept = [each[each[:, 0] < 1.5] for each in x]
    failed = [each[each[:, 0] >= 1.5] for each in x]
    assert made(kept).measure_contradiction is not None
    samples = made(kept, failed=failed)
    assert samples.measure_contradiction is None
    assert samples.thinned(5).measure_contradiction is None  # nobody knows which points are left
    assert made([each + 0.7 for each in kept], failed=[each + 0.7 for each in failed]).measure_contradiction is not None


def test_all_atoms_are_no_sample_and_the_points_of_an_empirical_measure_may_be_others():
    poisson = Poisson(2.0)
    assert made(np.tile(poisson.points, (T, 1, 1)), poisson).measure_contradiction is None
    atoms = noise(0, 30, 2)
    drawn = atoms[np.random.default_rng(1).integers(30, size=(T, N))]
    assert made(drawn, Empirical(atoms)).measure_contradiction is None
    assert made(drawn + 5.0, Empirical(atoms)).measure_contradiction is None  # the measure may be a quadrature rule
    assert (
        "x_0 is"
        in made(atoms[np.argsort(atoms[:, 0])[:15]][None].repeat(40, 1), Empirical(atoms)).measure_contradiction
    )


class Broken(Uniform):
    """A measure of a user's, without a transform."""

    def _to_uniform(self, x):
        raise RuntimeError("not today")


def test_a_measure_that_fails_to_transform_points_does_not_fail_the_fit():
    samples = made(np.full((T, N, 1), 0.9) - 0.01 * np.arange(N)[:, None], Broken(0.0, 1.0))
    assert samples.measure_contradiction is None
    assert np.isfinite(cbq.MonteCarlo().fit(samples).predict([0.0])[0])


def chain(seed, T, N, phi):
    x = noise(seed, T, N, 1)
    for i in range(1, N):
        x[:, i] = phi * x[:, i - 1] + np.sqrt(1 - phi**2) * x[:, i]
    return x


def test_markov_chains_count_as_many_points_as_they_are_worth():
    for seed, phi, size in [(s, phi, size) for s in range(20) for phi in (0.5, 0.9) for size in ((1, 60), (12, 60))]:
        assert made(chain(seed, *size, phi), Normal(0.0, std=1.0), design="mcmc").measure_contradiction is None
    assert made(chain(0, 12, 200, 0.5) + 0.5, Normal(0.0, std=1.0), design="mcmc").measure_contradiction is not None


def test_what_was_found_is_computed_once_and_not_taken_over():
    samples = made(CENTRES + 0.5 + noise(0, T, N, 1))
    assert samples.measure_contradiction is samples.measure_contradiction
    assert samples[:1].measure_contradiction is None  # of 40 points
    assert samples.with_names({"x": "demand"}).measure_contradiction.count("demand") == 1


# True draws ---------------------------------------------------------------------------------------------------------

MEASURES = {
    "normal": lambda t: Normal(t, std=0.5 + t),
    "correlated": lambda t: Gaussian([t[0], 1.0], cov=[[1.0, 0.4 * t[0]], [0.4 * t[0], 1.0]]),
    "many": lambda t: Gaussian(np.full(20, t[0]), cov=np.full(20, 2.0)),
    "gamma": lambda t: Gamma(0.1 + t, 2.0),
    "beta": lambda t: Beta(0.3 + t, 2.0),
    "lognormal": lambda t: LogNormal(t, cov=2.0),
    "cauchy": lambda t: StudentT(1.0, loc=t, scale=0.5),
    "truncated": lambda t: TruncatedGaussian(t, 1.0, -0.5, 1.0),
    "mixture": lambda t: Mixture([0.3, 0.7], [Normal(t, std=0.3), Normal(-2.0, std=1.0)]),
    "product": lambda t: Product([Gamma(1.0 + t, 1.0), Uniform(0.0, 2.0), Poisson(1.0 + t)]),
    "poisson": lambda t: Poisson(0.1 + t),
    "coin": lambda t: Categorical([0.9, 0.1]),
    "scipy": lambda t: as_measure(stats.weibull_min(0.5 + t[0])),
}
DESIGNS = {
    "iid": lambda rng, T, N, d: rng.random((T, N, d)),
    "common": lambda rng, T, N, d: np.repeat(rng.random((1, N, d)), T, axis=0),
    "half in common": lambda rng, T, N, d: np.where(
        np.arange(T)[:, None, None] % 2, rng.random((1, N, d)), rng.random((T, N, d))
    ),
    "first input in common": lambda rng, T, N, d: np.concatenate(
        [np.repeat(rng.random((1, N, 1)), T, axis=0), rng.random((T, N, d - 1))], axis=2
    ),
    "antithetic": lambda rng, T, N, d: np.concatenate([u := rng.random((T, -(-N // 2), d)), 1 - u], axis=1),
    "replicates": lambda rng, T, N, d: np.repeat(rng.random((T, -(-N // 4), d)), 4, axis=1),
    "latin hypercube": lambda rng, T, N, d: np.stack([qmc.LatinHypercube(d, rng=rng).random(N) for _ in range(T)]),
    "halton": lambda rng, T, N, d: np.stack([qmc.Halton(d, rng=rng).random(N) for _ in range(T)]),
    "sorted": lambda rng, T, N, d: np.sort(rng.random((T, N, d)), axis=1) if d == 1 else rng.random((T, N, d)),
}


@pytest.mark.parametrize("measure", MEASURES.values(), ids=MEASURES)
@pytest.mark.parametrize("design", DESIGNS)
def test_true_draws_are_never_called_into_question(measure, design):
    rng = np.random.default_rng(0)
    for size in [(1, 50), (4, 1), (5, 8), (20, 10), (60, 2)]:
        theta = rng.uniform(0.0, 2.0, (size[0], 1))
        measures = [as_measure(measure(each)) for each in theta]
        u = np.clip(DESIGNS[design](rng, *size, measures[0].dim), 1e-12, 1 - 1e-12)
        x = [each.transport(v) for each, v in zip(measures, u, strict=True)]
        assert made(x, measures, theta, stochastic=design == "replicates").measure_contradiction is None


@pytest.mark.parametrize("n", [3, 10, 40])
def test_every_bound_on_p_holds(n):
    """Of p-values of true draws, no more than a share q is below q."""
    rng, repeats, q = np.random.default_rng(n), 4000, 0.1
    found = {
        name: [] for name in ("location", "scale", "shape", "correlation", "of designs", "thetas", "twice the mean")
    }
    owners = np.repeat(np.arange(n), 2)
    for _ in range(repeats):
        each = Transforms.of(rng.random((2 * n, 2)), owners, np.zeros(2, dtype=bool), replicated=False)
        together = np.zeros(2 * n, dtype=int)
        found["location"].append(uniformity.location(each, together)[0, 0])
        found["scale"].append(uniformity.scale(each, together)[0, 0])
        found["shape"].append(uniformity.shape(each, together)[0][0, 0])
        found["correlation"].append(uniformity.correlation(each, together)[0, 1])
        found["of designs"].append(uniformity.correlation_of_designs(each)[0, 1])
        found["thetas"].append(uniformity.thetas(each)[0])
        found["twice the mean"].append(uniformity.combined(uniformity.location(each, owners))[0])
    for name, log_p in found.items():
        share = np.mean(np.exp(log_p) <= q)
        assert share <= q + 3 * np.sqrt(q / repeats), name


def test_atoms_have_smaller_statistics_than_uniform_variables():
    rng, atoms = np.random.default_rng(0), Categorical([0.5, 0.3, 0.2])
    shares = np.zeros(2)
    for _ in range(2000):
        u = atoms.inverse_transport(atoms.sample(30, rng))
        each = Transforms.of(u, np.zeros(30, dtype=int), np.ones(1, dtype=bool), replicated=False)
        shares += [
            test(each, np.zeros(30, dtype=int))[0, 0] <= np.log(0.1) for test in (uniformity.location, uniformity.scale)
        ]
    assert np.all(shares / 2000 <= 0.1)
