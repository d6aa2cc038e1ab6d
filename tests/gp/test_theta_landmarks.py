"""Stage 2 through landmarks, where thetas are too many for a matrix between them."""

import pickle
import subprocess
import sys

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import cbq
from cbq.estimators.conditional import stage_two
from cbq.estimators.conditional.stage_two import nearest_nodes
from cbq.gp import heteroscedastic as module
from cbq.gp.heteroscedastic import GPPrior, HeteroscedasticGP, LandmarkGP, Landmarks, ThetaCoordinates
from cbq.kernels import RBF, Matern
from cbq.linalg.lapack import pivots

T = 120


def nodes(noise, p=2):
    rng = np.random.default_rng(0)
    theta = rng.uniform(0.1, 2.0, (T, p))
    return theta, np.sin(3 * theta[:, 0]) + theta[:, -1], noise * rng.uniform(1.0, 10.0, T)


def prior(kernel, theta, degree, amplitude=1.7, own_noise=1e-5):
    coordinates = ThetaCoordinates.standard(theta, np.arange(theta.shape[1]) == 1)
    return GPPrior(coordinates, kernel, amplitude, own_noise, degree, offset=0.3 if degree is None else 0.0)


def thetas(theta):
    return np.concatenate([theta[:3], np.random.default_rng(1).uniform(0.1, 2.0, (9, theta.shape[1]))])


@pytest.mark.parametrize("degree", [None, 0, 1])
@pytest.mark.parametrize("kernel", [Matern(1.5, 0.5), Matern(2.5, 1.0)], ids=repr)
def test_with_all_nodes_as_landmarks_the_process_is_the_exact_one(kernel, degree):
    theta, y, v = nodes(1e-4)
    given = prior(kernel, theta, degree)
    exact = HeteroscedasticGP(given, theta, y, v)
    found = LandmarkGP(given, theta, y, v, Landmarks(given, theta, np.zeros(T)))
    assert len(found.landmarks.z) == T
    new = thetas(theta)
    assert_allclose(found.mean(new), exact.mean(new), atol=1e-9)
    for mine, theirs in zip(found.leave_one_out(), exact.leave_one_out(), strict=True):
        assert_allclose(mine, theirs, rtol=1e-7, atol=1e-8 * np.max(np.abs(theirs)))
    for joint in (False, True):
        mine, theirs = found.predict(new, joint=joint), exact.predict(new, joint=joint)
        assert_allclose(mine.mean, theirs.mean, atol=1e-9)
        assert_allclose(mine.variance, theirs.variance, atol=1e-9)
        assert_allclose(mine.weights, theirs.weights, atol=1e-7)
        assert_allclose(theirs.weights_of(np.arange(3)), theirs.weights[:, :3], rtol=0.0)
        assert_allclose(mine.of(y), theirs.of(y), atol=1e-8)
        assert_allclose(mine.noise(v), theirs.noise(v), atol=1e-9)


@pytest.mark.parametrize("joint", [False, True])
def test_weights_say_what_values_and_noise_add(joint):
    theta, y, v = nodes(1e-2)
    given = prior(RBF(1.0), theta, 0)
    at = LandmarkGP(given, theta, y, v, Landmarks(given, theta, v)).predict(thetas(theta), joint=joint)
    assert at.e.shape[1] < T
    assert_allclose(at.of(v), at.weights @ v, rtol=1e-9)
    assert_allclose(at.weights_of(np.array([2, 0])), at.weights[:, [2, 0]], rtol=1e-12)
    noise = (at.weights * (v + given.noise)) @ at.weights.T
    assert_allclose(at.noise(v), noise if joint else np.diagonal(noise), rtol=1e-9, atol=1e-12)


def test_landmarks_are_as_many_as_the_noise_asks_for():
    theta, y, _ = nodes(1.0)
    given = prior(RBF(1.0), theta, 0)
    sizes = []
    for noise in (1e-1, 1e-3, 1e-5):
        v = np.full(T, noise)
        exact, found = HeteroscedasticGP(given, theta, y, v), LandmarkGP(given, theta, y, v, Landmarks(given, theta, v))
        new = thetas(theta)
        std = np.sqrt(exact.predict(new).variance + exact.predict(new).noise(v))
        assert np.max(np.abs(found.predict(new).mean - exact.predict(new).mean) / std) < 0.5
        total = found.predict(new).variance + found.predict(new).noise(v)
        assert_allclose(np.sqrt(total), std, rtol=0.3)
        sizes.append(len(found.landmarks.z))
    assert sizes == sorted(sizes)
    assert sizes[0] < sizes[-1] < T


def test_a_trend_that_the_features_represent_too_keeps_its_digits():
    theta, y, v = nodes(1e-9)
    given = prior(RBF(10.0), theta, 1, amplitude=1e3, own_noise=0.0)
    y = 2.0 + theta[:, 0]
    found = LandmarkGP(given, theta, y, v, Landmarks(given, theta, v))
    new = thetas(theta)
    assert_allclose(found.predict(new).mean, 2.0 + new[:, 0], atol=1e-5)
    Qy, diagonal = found.leave_one_out()
    assert np.max(np.abs(Qy / diagonal)) < 1e-5


def test_pivots_are_the_rows_that_others_say_least_about():
    x = np.array([0.0, 0.1, 5.0, 5.0, -3.0])
    cov = np.exp(-0.5 * (x[:, None] - x) ** 2) * np.array([2.0, 1, 1, 1, 1])[:, None] ** 0.5
    cov = cov * np.array([2.0, 1, 1, 1, 1]) ** 0.5
    assert set(pivots(cov.copy(), 1e-3).tolist()) >= {0, 4}
    assert pivots(cov.copy(), 1e-3)[0] == 0
    assert len(pivots(cov.copy(), 1e-3)) == 4  # one of the two equal ones
    assert len(pivots(cov.copy(), 10.0)) == 1


@pytest.fixture
def samples():
    return cbq.problems.get("linear").collect(150, 6, rng=3, design="sobol")


def fits(samples, monkeypatch, **options):
    """The fit with matrices of all pairs of thetas, and the one through landmarks."""
    exact = cbq.CBQ(**options).fit(samples)
    monkeypatch.setattr(module, "MAX_EXACT_NODES", 100)
    monkeypatch.setattr(stage_two, "MAX_EXACT_NODES", 100)
    return exact, cbq.CBQ(**options).fit(samples)


@pytest.mark.parametrize("calibrate", [True, False])
def test_answers_of_a_fit_through_landmarks_are_those_of_the_exact_one(samples, monkeypatch, calibrate):
    exact, found = fits(samples, monkeypatch, calibrate=calibrate)
    assert exact.posteriors[0].landmarks is None
    assert len(found.posteriors[0].landmarks.z) < 150
    new = np.random.default_rng(0).uniform(1.0, 3.0, (40, 2))
    (mean, std), (other, other_std) = found.predict(new, return_std=True), exact.predict(new, return_std=True)
    assert np.max(np.abs(mean - other) / other_std) < 0.3
    assert_allclose(std, other_std, rtol=0.2)
    _, cov = found.predict(new, return_cov=True)
    assert_allclose(np.diagonal(cov), std**2, rtol=1e-6)
    assert found.leave_one_out().coverage() > 0.8
    assert "Leave-one-theta-out" in found.summary()


def test_a_fit_through_landmarks_has_weights_and_is_saved_and_loaded(samples, monkeypatch, tmp_path):
    _, plain = fits(samples, monkeypatch, calibrate=False)
    assert_allclose(np.sum(plain.weights(samples.theta[:5]) * samples.f, axis=(1, 2)), plain.predict(samples.theta[:5]))
    _, found = fits(samples, monkeypatch)
    found.save(tmp_path / "fit.cbq")
    loaded = cbq.load(tmp_path / "fit.cbq")
    for mine, theirs in zip(
        loaded.predict(samples.theta, return_std=True), found.predict(samples.theta, return_std=True), strict=True
    ):
        assert_array_equal(mine, theirs)


def test_neighbours_of_many_nodes_are_those_of_few():
    z = np.random.default_rng(4).normal(size=(2100, 2))
    found = nearest_nodes(z)
    distances = np.linalg.norm(z[:, None] - z, axis=-1)
    assert_array_equal(np.sort(found), np.sort(np.argsort(distances, axis=1)[:, : found.shape[1]]))


MANY = """
import warnings
import numpy as np
import cbq

warnings.simplefilter("ignore", cbq.FitWarning)
problem = cbq.problems.get("butterfly")
samples = problem.collect(20_000, 20, rng=0, progress=False)
fit = cbq.CBQ().fit(samples)
peak = next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("VmHWM"))
new = np.quantile(samples.theta, np.linspace(0.005, 0.995, 200))[:, None]
truth = problem.exact(new)
low, high = fit.interval(new)
some = samples.select(np.random.default_rng(1).choice(20_000, 2000, replace=False))
errors = [np.sqrt(np.mean((each.predict(new) - truth) ** 2)) for each in (fit, cbq.CBQ().fit(some))]
print(*errors, np.mean((low <= truth) & (truth <= high)), peak / 2**20)
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="reads the peak memory from /proc")
def test_twenty_thousand_thetas_beat_a_tenth_of_them_in_bounded_memory():
    done = subprocess.run([sys.executable, "-c", MANY], capture_output=True, text=True, check=True)
    error, of_some, coverage, gib = map(float, done.stdout.split())
    assert error <= of_some
    assert coverage >= 0.9
    assert gib < 1.5  # the matrix of all pairs would take 3


def test_a_fit_from_a_pickle_has_the_same_standard_deviations():
    theta = np.linspace(0.0, 1.0, 2100)
    x = np.random.default_rng(0).normal(size=(2100, 4))
    fit = cbq.CBQ().fit(cbq.Samples(theta, x, np.sin(3 * theta)[:, None] + 0.1 * x, cbq.measures.Gaussian(0.0, 1.0)))
    _, std = fit.predict([0.2, 0.7], return_std=True)
    data = pickle.dumps(fit)
    for _ in range(3):
        np.testing.assert_array_equal(pickle.loads(data).predict([0.2, 0.7], return_std=True)[1], std)
