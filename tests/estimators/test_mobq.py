"""Multi-output Bayesian quadrature as a user meets it: against finite sums, with odd data, and what it refuses."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import stats
from threadpoolctl import threadpool_limits

import cbq
from cbq import MOBQ
from cbq.kernels import RBF, Additive, Matern, Stein, TensorProduct, Warped
from cbq.linalg import Jitter
from cbq.linalg.engines import NumpyEngine
from cbq.measures import Beta, Empirical, Gamma, Gaussian, LogNormal, Mixture, Product, StudentT, Uniform, Unnormalised
from refusals import refusals

NONE = Jitter(start=0.0)
NEW = np.linspace(1.1, 2.9, 7)


def normal(theta):
    return Gaussian(theta[0], 1.0)


def drawn(f=lambda x, theta: np.sin(x), T=8, N=10, seed=0, family=normal, depends_on_theta=False, theta=None):
    """Samples of f (x (N,), theta) on the line."""
    rng = np.random.default_rng(seed)
    theta = np.linspace(1.0, 3.0, T) if theta is None else np.asarray(theta)
    x = [family(np.atleast_1d(t)).sample(N, rng)[:, 0] for t in theta]
    f = [f(row, t) for row, t in zip(x, theta, strict=True)]
    return cbq.Samples(theta, np.array(x), np.array(f), family, depends_on_theta=depends_on_theta)


def two_outputs(x, theta):
    return np.stack([np.sin(x) * theta, np.abs(x - 2.0)], axis=-1)


def answers(fit, theta=NEW):
    mean, std = fit.predict(theta, return_std=True)
    return np.stack([mean, std, *fit.interval(theta, 0.9)])


# Against finite sums -----------------------------------------------------------------------------------------------


def atoms(theta):
    """A measure on the line with 6 atoms that move with theta."""
    weights = np.array([1.0, 2.0, 3.0, 2.0, 1.0, theta[0]])
    return Empirical(np.linspace(-1.0, 1.5, 6) + 0.7 * theta[0], weights / weights.sum())


def on_atoms(depends_on_theta, outputs):
    theta = np.array([1.0, 1.4, 2.1, 2.8])
    x = np.stack([atoms([t]).points[[0, 2, 3, 5], 0] for t in theta])
    f = two_outputs(x, theta[:, None]) if outputs else np.sin(2 * x) * theta[:, None]
    return cbq.Samples(theta, x, f, atoms, depends_on_theta=depends_on_theta)


def by_sums(samples, kernel, theta, rows=slice(None)):
    """The posterior of integrals, given some of the values, as sums over all atoms: mean (M, C), covariance at A = 1.

    Kriging with an unknown constant, from the saddle-point system of its weights.
    """

    def gram(a, b):
        k = kernel[0](a[:, :1], b[:, :1])
        return k * kernel[1](a[:, 1:], b[:, 1:]) if samples.depends_on_theta else k

    u = np.column_stack([samples.all_points, samples.theta[samples.owners]])[rows]
    every = np.concatenate([np.column_stack([atoms([t]).points, np.full(6, t)]) for t in theta])
    W = np.kron(np.eye(len(theta)), np.ones(6)) * np.concatenate([atoms([t]).weights for t in theta])
    n, K, q = len(u), gram(u, u), gram(u, every)
    saddle = np.block([[K, np.ones((n, 1))], [np.ones((1, n)), np.zeros((1, 1))]])
    w = np.linalg.solve(saddle, np.vstack([q, np.ones((1, q.shape[1]))]))[:n]
    errors = gram(every, every) - w.T @ q - q.T @ w + w.T @ K @ w
    return W @ w.T @ samples.table[rows], W @ errors @ W.T


def moved(samples, kernel, theta):
    """The amplitudes (M, C) of integrals: what refitting without each theta moves, over what it should move."""
    mean, cov = by_sums(samples, kernel, theta)
    without = [by_sums(samples, kernel, theta, samples.owners != t) for t in range(samples.T)]
    moves2 = sum((mean - other) ** 2 for other, _ in without)
    return moves2 / sum(np.diag(other - cov) for _, other in without)[:, None]


KERNELS = (Matern(1.5, 0.8), Matern(2.5, 1.1))
ASKED = np.array([1.0, 2.1, 1.7, 2.5])  # two of them observed


@pytest.mark.filterwarnings("ignore:few thetas:cbq.FitWarning")
@pytest.mark.filterwarnings("ignore:not learnt:cbq.FitWarning")
@pytest.mark.parametrize("outputs", [False, True], ids=["one output", "two outputs"])
@pytest.mark.parametrize("depends_on_theta", [False, True], ids=["x", "x and theta"])
def test_answers_are_those_of_sums_over_atoms(depends_on_theta, outputs):
    samples = on_atoms(depends_on_theta, outputs)
    fit = MOBQ(*KERNELS, jitter=NONE).fit(samples)
    mean, cov = by_sums(samples, KERNELS, ASKED)
    C = mean.shape[1]
    assert_allclose(fit.predict(ASKED).reshape(4, C), mean, rtol=1e-9)
    found = fit.predict(ASKED, return_cov=True)[1].reshape(4, 4, C)
    std = fit.predict(ASKED, return_std=True)[1].reshape(4, C)
    low, high = (ends.reshape(4, C) for ends in fit.interval(ASKED, 0.9))
    root = np.sqrt(moved(samples, KERNELS, ASKED))  # (4, C)
    observed = by_sums(samples, KERNELS, samples.theta[:, 0])[1]
    at_observed = moved(samples, KERNELS, samples.theta[:, 0]) * np.diag(observed)[:, None]
    options, scale = cbq.Calibration(), samples.table.std(axis=0)
    for c in range(C):
        squared = np.outer(root[:, c], root[:, c]) * cov + (options.common * np.mean(np.sqrt(at_observed[:, c]))) ** 2
        expected = np.mean(options.ratios2) * squared  # of the mixture
        assert_allclose(found[:, :, c], expected, atol=1e-9 * scale[c] ** 2)
        assert_allclose(std[:, c], np.sqrt(np.diag(expected)), rtol=1e-6)
        parts = [stats.norm(mean[:, c], ratio * np.sqrt(np.diag(squared))) for ratio in np.sqrt(options.ratios2)]
        assert_allclose(np.mean([part.cdf(low[:, c]) for part in parts], axis=0), 0.05, rtol=1e-5)
        assert_allclose(np.mean([part.cdf(high[:, c]) for part in parts], axis=0), 0.95, rtol=1e-5)


def test_all_atoms_observed_are_known():
    theta = np.array([1.0, 2.0])
    x = np.stack([atoms([t]).points[:, 0] for t in theta])
    samples = cbq.Samples(theta, x, np.sin(x), atoms, depends_on_theta=False)
    fit = MOBQ(Matern(1.5, 0.8)).fit(samples)
    exact = [np.sin(row) @ atoms([t]).weights for row, t in zip(x, theta, strict=True)]
    assert_allclose(fit.predict(theta), exact, atol=1e-11)
    assert np.all(fit.predict(theta, return_std=True)[1] < 1e-3)  # halves of the atoms are not sure of it


def test_gaussian_measures_are_sums_over_quadrature_nodes():
    nodes, weights = np.polynomial.hermite_e.hermegauss(60)
    samples = drawn(T=3, N=6)
    dots = cbq.Samples(
        samples.theta,
        samples.x,
        samples.f,
        lambda t: Empirical(t[0] + nodes, weights / weights.sum()),
        depends_on_theta=False,
    )
    kernel = RBF(0.9)
    one, other = (MOBQ(kernel).fit(s) for s in (samples, dots))
    assert_allclose(one.predict(NEW), other.predict(NEW), rtol=1e-7)  # 18 smooth points: the Gram matrix costs digits
    assert_allclose(one.predict(NEW, return_cov=True)[1], other.predict(NEW, return_cov=True)[1], rtol=1e-6, atol=1e-10)


# What the default promises -----------------------------------------------------------------------------------------

PROBLEMS = {
    "smooth": (lambda x, t: np.sin(x), lambda t: np.exp(-0.5) * np.sin(t), False, 1e-3),
    "kinked": (
        lambda x, t: np.maximum(x - 1.5, 0.0),
        lambda t: (t - 1.5) * stats.norm.cdf(t - 1.5) + stats.norm.pdf(t - 1.5),
        False,
        1e-2,
    ),
    "smooth, of theta": (
        lambda x, t: t * np.sin(x) + t**2,
        lambda t: t * np.exp(-0.5) * np.sin(t) + t**2,
        True,
        1e-2,
    ),
}


ON_LANDMARKS = [pytest.param(*each, {"nystrom": 20}, id=f"{name}, landmarks") for name, each in PROBLEMS.items()]
EXACT = [pytest.param(*each, {}, id=name) for name, each in PROBLEMS.items()]


@pytest.mark.parametrize(("f", "exact", "dependent", "accuracy", "options"), EXACT + ON_LANDMARKS)
def test_it_is_accurate_and_its_intervals_hold_the_truth(f, exact, dependent, accuracy, options):
    """A smoke test, ten seeds at seven thetas: 95% intervals hold at least 60 of 70, and say more than nothing."""
    held, errors, claims = [], [], []
    for seed in range(10):
        fit = MOBQ(**options).fit(drawn(f, seed=seed, depends_on_theta=dependent))
        mean, std = fit.predict(NEW, return_std=True)
        low, high = fit.interval(NEW)
        held.append((low < exact(NEW)) & (exact(NEW) < high))
        errors.append(np.abs(mean - exact(NEW)))
        claims.append(std)
    assert np.sum(held) >= 60
    assert np.median(errors) < accuracy
    assert np.median(claims) < 20 * np.median(errors)


FAMILIES = {
    "uniform": lambda t: Uniform(0.0, t[0]),
    "gamma": lambda t: Gamma(t[0], 2.0),
    "beta": lambda t: Beta(t[0], 2.0),
    "lognormal": lambda t: LogNormal(0.1 * t[0], cov=0.2),
    "student": lambda t: StudentT(5.0, t[0], 0.5),
    "mixture": lambda t: Mixture([0.5, 0.5], [Gaussian(0.0, cov=0.2), Gaussian(t[0], cov=0.1)]),
    "of two kinds": lambda t: Gaussian(t[0], 1.0) if t[0] < 2 else Uniform(0.0, t[0]),
    "scipy": lambda t: stats.gamma(t[0], scale=0.5),
    "product": lambda t: Product([Gamma(t[0], 2.0), Uniform(-1.0, 1.0)]),
    "correlated gaussian": lambda t: Gaussian([t[0], 0.0], [[1.0, 0.5], [0.5, 2.0]]),
    "correlated lognormal": lambda t: LogNormal([0.0, 0.1 * t[0]], [[0.2, 0.1], [0.1, 0.2]]),
}


@pytest.mark.parametrize("family", FAMILIES.values(), ids=FAMILIES)
def test_it_works_for_measures_of_all_kinds(family):
    def f(x, theta):
        return np.sin(x).sum(axis=1)

    samples = cbq.Problem(f, family, Uniform(1.0, 3.0), depends_on_theta=False).collect(8, 15, rng=4)
    fit = MOBQ().fit(samples)
    theta = np.array([1.3, 2.4])
    mean, std = fit.predict(theta, return_std=True)
    # what is left of a prior variance of order one, of which rounding errors are up to 1e-13
    assert_allclose(np.diag(fit.predict(theta, return_cov=True)[1]), std**2, rtol=1e-4, atol=1e-13)
    for i, t in enumerate(theta):  # against plain averages of many points
        many = f(cbq.measures.as_measure(family([t])).sample(40_000, 9), None)
        assert abs(mean[i] - many.mean()) < 5 * many.std() / 200 + 5 * std[i]


def test_it_beats_estimates_from_the_points_of_each_theta_alone():
    target = cbq.problems.get("linear", dim=2)
    samples = target.collect(15, 10, rng=1)
    error = {
        name: np.sqrt(np.mean((method.fit(samples).predict(samples.theta) - target.exact(samples.theta)) ** 2))
        for name, method in {"pooled": MOBQ(), "cbq": cbq.CBQ(), "plain": cbq.MonteCarlo()}.items()
    }
    assert error["pooled"] < 0.3 * error["cbq"]
    assert error["pooled"] < 0.01 * error["plain"]


@pytest.mark.parametrize(
    "kernel",
    [
        RBF(),
        Matern(0.5),
        Matern(2.5, 0.8),
        TensorProduct(Matern(1.5)),
        Additive(RBF()),
        3.0 * RBF(),
        RBF() + 0.5 * Matern(1.5),
        RBF(3.0) * Matern(2.5, 3.0),
    ],
    ids=repr,
)
def test_any_kernel_with_an_embedding_will_do(kernel):
    samples = drawn(T=12, N=12)
    fit = MOBQ(kernel_x=kernel).fit(samples)
    assert type(fit.groups[0].chosen.kernel) is type(kernel)
    assert_allclose(fit.predict(NEW), np.exp(-0.5) * np.sin(NEW), atol=0.03)


@pytest.mark.parametrize("kernel", [RBF(), Matern(1.5, 2.0), Warped(RBF(), "log"), RBF() + Matern(1.5)], ids=repr)
def test_any_kernel_of_theta_will_do(kernel):
    samples = drawn(lambda x, t: t * np.sin(x), depends_on_theta=True, T=12, N=12)
    fit = MOBQ(kernel_x=RBF(), kernel_theta=kernel).fit(samples)
    assert_allclose(fit.predict(NEW), NEW * np.exp(-0.5) * np.sin(NEW), atol=0.03)
    assert type(fit.groups[0].chosen.kernel.on_theta) is type(kernel)


# Landmarks ---------------------------------------------------------------------------------------------------------


def test_landmarks_come_from_the_seed_and_all_points_are_the_exact_process():
    samples = drawn(lambda x, t: np.abs(x - 2.0))
    exact = MOBQ().fit(samples)
    some = MOBQ(nystrom=30).fit(samples)
    assert len(some.groups[0].landmarks) == 30
    assert_array_equal(answers(some), answers(MOBQ(nystrom=30).fit(samples)))
    assert_array_equal(answers(some), answers(MOBQ(nystrom=30, seed=0).fit(samples)))
    assert not np.array_equal(answers(some), answers(MOBQ(nystrom=30, seed=1).fit(samples)))
    for enough in (80, 1000):
        all_points = MOBQ(nystrom=enough).fit(samples)
        assert all_points.groups[0].landmarks is None
        assert_array_equal(answers(all_points), answers(exact))
    mean, std = some.predict(NEW, return_std=True)
    assert np.all(np.abs(mean - exact.predict(NEW)) < 3 * std)


class Small(NumpyEngine):
    """An engine of small matrices."""

    def __init__(self, largest_exact):
        self.largest_exact = largest_exact


def test_many_points_ask_for_landmarks():
    says = r"there are 80 points, but an exact fit takes at most 79.*nystrom='auto'"
    with cbq.engine(Small(79)):
        with pytest.raises(ValueError, match=says):
            MOBQ().fit(drawn())
        assert MOBQ(nystrom=20).fit(drawn()).predict(NEW).shape == (7,)


def test_landmarks_are_taken_by_themselves_where_points_are_many():
    samples = drawn(lambda x, t: np.abs(x - 2.0))
    exact = MOBQ().fit(samples)
    assert_array_equal(answers(MOBQ(nystrom="auto").fit(samples)), answers(exact))
    with cbq.engine(Small(2 * 79)):
        fit = MOBQ(nystrom="auto", landmarks=cbq.LandmarkSelection(fewest=20, many=40)).fit(samples)
        assert_array_equal(answers(MOBQ().fit(samples)), answers(exact))
    assert 20 <= len(fit.groups[0].landmarks) <= 40
    _, std = exact.predict(NEW, return_std=True)
    assert np.all(np.abs(fit.predict(NEW) - exact.predict(NEW)) < 5 * std)


# Values that are draws ---------------------------------------------------------------------------------------------


def random_values(N=40, noise=0.5, seed=0, T=8, f=np.sin):
    """Samples whose values are f and noise."""
    rng = np.random.default_rng(seed)
    theta = np.linspace(1.0, 3.0, T)
    x = rng.normal(theta[:, None], 1.0, (T, N))
    values = f(x) + noise * rng.normal(size=x.shape)
    return cbq.Samples(theta, x, values, normal, depends_on_theta=False, stochastic=True)


def test_the_noise_of_draws_is_found_and_counted():
    """A smoke test, ten seeds at seven thetas: the truth is inside at least 60 of 70 intervals of 95%."""
    exact, held, errors, averaged = np.exp(-0.5) * np.sin(NEW), [], [], []
    for seed in range(10):
        fit = MOBQ().fit(random_values(seed=seed))
        assert_allclose(fit.noise_std, 0.5, rtol=0.25)
        assert f"the standard deviation of their noise is {fit.noise_std[0]:.3g}" in fit.summary()
        low, high = fit.interval(NEW)
        held.append((low < exact) & (exact < high))
        errors.append(fit.predict(NEW) - exact)
        averaged.append(fit.averages.mean - np.exp(-0.5) * np.sin(fit.theta[:, 0]))
    assert np.sum(held) >= 60
    assert np.std(errors) < 0.7 * np.std(averaged)


def test_pure_noise_is_averaged():
    """Where f is nothing but noise, the answer is its average, and the interval that of an average."""
    samples = random_values(N=100, noise=1.0, f=np.zeros_like)
    mean, std = MOBQ().fit(samples).predict(NEW, return_std=True)
    assert_allclose(mean, np.mean(samples.table), atol=0.1)
    assert np.all(std < 5 / np.sqrt(800))
    assert np.all(std > 0.5 / np.sqrt(800))


def test_equal_points_with_draws_stay_apart():
    once = random_values(N=10)
    x, f = np.concatenate([once.x[..., 0]] * 2, axis=1), np.concatenate([once.f, once.f + 0.1], axis=1)
    samples = cbq.Samples(once.theta, x, f, normal, depends_on_theta=False, stochastic=True)
    fit = MOBQ().fit(samples)
    assert fit._points.n == 160
    assert "noise" not in [finding.kind for finding in fit.findings]


def test_many_draws_have_landmarks_without_being_asked():
    fit = MOBQ(landmarks=cbq.LandmarkSelection(draws=300, noisy=30)).fit(random_values())
    assert len(fit.groups[0].landmarks) <= 30
    assert_allclose(fit.noise_std, 0.5, rtol=0.25)
    assert_allclose(fit.predict(NEW), np.exp(-0.5) * np.sin(NEW), atol=0.3)


def test_outputs_of_draws_have_a_noise_each():
    samples = random_values(T=6, N=30)
    rng = np.random.default_rng(3)
    second = np.cos(samples.x[..., 0]) + 0.1 * rng.normal(size=(6, 30))
    both = cbq.Samples(
        samples.theta,
        samples.x,
        np.stack([samples.f, second], axis=-1),
        normal,
        depends_on_theta=False,
        stochastic=True,
    )
    fit = MOBQ(outputs="shared").fit(both)
    assert [group.outputs for group in fit.groups] == [(0,), (1,)]
    assert_allclose(fit.noise_std, [0.5, 0.1], rtol=0.3)


# Shapes and odd data -----------------------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore:not learnt:cbq.FitWarning")
def test_shapes_with_and_without_an_axis_of_outputs():
    one, two = MOBQ().fit(drawn()), MOBQ().fit(drawn(two_outputs))
    mean, cov = one.predict(NEW, return_cov=True)
    assert (mean.shape, cov.shape, one.sample(NEW, 3, 0).shape) == ((7,), (7, 7), (3, 7))
    mean, cov = two.predict(NEW, return_cov=True)
    assert (mean.shape, cov.shape, two.sample(NEW, 3, 0).shape) == ((7, 2), (7, 7, 2), (3, 7, 2))
    assert two.interval(NEW)[0].shape == (7, 2)
    assert one.predict(2.0).shape == (1,)
    assert_allclose(one.predict(NEW)[2:3], one.predict(NEW[2:3]), rtol=1e-8)  # a smooth kernel costs digits
    ranges = one.names.ranges("theta", one.theta)
    assert (repr(one), repr(two)) == (f"MOBQFit(T=8, p=1, C=None, {ranges})", f"MOBQFit(T=8, p=1, C=2, {ranges})")
    assert list(one.to_frame(NEW).columns) == ["theta", "mean", "std", "lower", "upper"]


def test_all_answers_speak_of_one_measure():
    fit = MOBQ(kernel_x=Matern(1.5, 1.0)).fit(drawn(lambda x, t: np.abs(x - 2.0)))
    mean, std = fit.predict(NEW, return_std=True)
    _, cov = fit.predict(NEW, return_cov=True)
    draws = fit.sample(NEW, 200_000, 0)
    low, high = fit.interval(NEW, 0.8)
    assert_allclose(np.diag(cov), std**2, rtol=1e-5)  # rounding errors of 1e-13 of the prior variance
    assert_allclose(draws.mean(axis=0), mean, atol=4 * np.max(std) / 400)
    assert_allclose(np.mean((low < draws) & (draws < high), axis=0), 0.8, atol=0.01)
    many = fit.predict(np.resize(NEW, 15_000), return_std=True)  # in blocks
    assert_allclose(many, [np.resize(each, 15_000) for each in (mean, std)], rtol=1e-8)


@pytest.mark.filterwarnings("ignore:beyond:cbq.FitWarning")
def test_lines_of_independent_coordinates_change_answers_by_far_less_than_their_error(monkeypatch, tmp_path):
    def family(theta):
        return LogNormal([0.1 * theta[0], -0.1 * theta[0]], cov=[0.09, 0.04])

    problem = cbq.Problem(
        lambda x, _: np.abs(x[:, 0] + x[:, 1] - 2.2), family, Uniform(1.0, 3.0), depends_on_theta=False
    )
    samples, theta = problem.collect(8, 10, rng=1), [*NEW, 6.0]  # the last one is beyond the lines
    estimator = MOBQ(kernel_x=TensorProduct(Matern(1.5, [0.8, 0.8])))
    fit = estimator.fit(samples)
    mean, std = fit.predict(theta, return_std=True)
    fit.save(tmp_path / "fit.npz")
    loaded = cbq.load(tmp_path / "fit.npz", family=family)
    assert_array_equal(loaded.predict(theta, return_std=True), [mean, std])
    assert fit._parts[0][0].n_nodes == fit._parts[0][0].line.n_nodes > fit._points.n
    monkeypatch.setattr("cbq.estimators.multioutput.fit.line_for", lambda *_, **__: None)
    own = estimator.fit(samples).predict(theta, return_std=True)
    assert np.any(own[0] != mean)
    assert np.max(np.abs(own[0] - mean) / own[1]) < 1e-3
    assert_allclose(std, own[1], rtol=1e-3)


@pytest.mark.filterwarnings("ignore:not learnt:cbq.FitWarning")
def test_outputs_apart_or_together():
    def f(x, theta):
        return np.stack([np.sin(x[:, 0]), x[:, 1] ** 2], axis=1)

    family = lambda t: Gaussian([t[0], t[0]], [1.0, 1.0])  # noqa: E731
    samples = cbq.Problem(f, family, Uniform(1.0, 3.0), depends_on_theta=False).collect(8, 12, rng=1)
    apart, together = (MOBQ(outputs=o).fit(samples) for o in ("separate", "shared"))
    assert [part.outputs for part in apart.groups] == [(0,), (1,)]
    assert [part.outputs for part in together.groups] == [(0, 1)]
    for c in range(2):
        assert_allclose(apart.predict(NEW)[:, c], MOBQ().fit(samples.output(c)).predict(NEW), rtol=1e-6)
    exact = np.stack([np.exp(-0.5) * np.sin(NEW), 1 + NEW**2], axis=1)
    assert_allclose(together.predict(NEW), exact, atol=0.1)
    assert_allclose(apart.predict(NEW), exact, atol=0.01)
    line = MOBQ().fit(drawn(two_outputs))  # one lengthscale: nothing to have apart
    assert [part.outputs for part in line.groups] == [(0, 1)]


@pytest.mark.filterwarnings("ignore:few thetas:cbq.FitWarning")
def test_ragged_samples_are_those_points():
    whole = drawn(lambda x, t: t * np.sin(x), depends_on_theta=True, T=4, N=6)
    counts = (6, 1, 3, 5)
    x = [row[:n, 0] for row, n in zip(whole.x, counts, strict=True)]
    f = [row[:n] for row, n in zip(whole.f, counts, strict=True)]
    fit = MOBQ(*KERNELS).fit(cbq.Samples(whole.theta, x, f, normal))
    theta = np.repeat(whole.theta[:, 0], counts)  # each point with a theta to itself: the same pool
    alone = MOBQ(*KERNELS).fit(cbq.Samples(theta, np.concatenate(x)[:, None], np.concatenate(f)[:, None], normal))
    assert_allclose(fit.predict(NEW), alone.predict(NEW), rtol=1e-9)
    assert "1 to 6 iid points each" in fit.summary()


@pytest.mark.filterwarnings("ignore:few thetas:cbq.FitWarning")
@pytest.mark.parametrize("depends_on_theta", [False, True])
def test_one_theta_and_one_point_for_each_of_many(depends_on_theta):
    one = MOBQ().fit(drawn(theta=[-0.5], N=15, depends_on_theta=depends_on_theta))
    exact = np.exp(-0.5) * np.sin(-0.5)
    low, high = one.interval([-0.5])
    assert abs(one.predict([-0.5])[0] - exact) < 0.02
    assert low[0] < exact < high[0]
    thin = MOBQ().fit(drawn(T=40, N=1, depends_on_theta=depends_on_theta))
    assert_allclose(thin.predict(NEW), np.exp(-0.5) * np.sin(NEW), atol=0.02)


@pytest.mark.filterwarnings("ignore:beyond:cbq.FitWarning")
def test_a_theta_far_from_all_is_uncertain_where_f_depends_on_it():
    fit = MOBQ().fit(drawn(lambda x, t: np.sin(x) * np.cos(2 * t), depends_on_theta=True))
    std = fit.predict([2.0, 30.0], return_std=True)[1]
    assert std[1] > 20 * std[0]


@pytest.mark.filterwarnings("ignore:few thetas:cbq.FitWarning")
@pytest.mark.filterwarnings("ignore:not learnt:cbq.FitWarning")
@pytest.mark.parametrize("depends_on_theta", [False, True])
def test_equal_thetas_are_one_with_the_points_of_both(depends_on_theta):
    samples = drawn(lambda x, t: t * np.sin(x), theta=[1.0, 2.0, 1.0, 3.0], depends_on_theta=depends_on_theta)
    x, f = samples.x[..., 0], samples.f
    joined = cbq.Samples(
        [1.0, 2.0, 3.0],
        [np.concatenate([x[0], x[2]]), x[1], x[3]],
        [np.concatenate([f[0], f[2]]), f[1], f[3]],
        normal,
        depends_on_theta=depends_on_theta,
    )
    one, other = (MOBQ(*KERNELS).fit(s).predict(NEW) for s in (samples, joined))
    assert_allclose(one, other, rtol=1e-8)


def test_repeated_points_say_nothing_new():
    samples = drawn(lambda x, t: np.abs(x - 2.0), T=4, N=6)
    x, f = samples.x[..., 0], samples.f
    twice = cbq.Samples(
        samples.theta, np.tile(x, (1, 2)), np.tile(f, (1, 2)), normal, depends_on_theta=False, design="mcmc"
    )
    one, other = MOBQ().fit(samples), MOBQ().fit(twice)
    assert_allclose(answers(one), answers(other), rtol=1e-9)
    assert other.warnings == ()
    with pytest.warns(cbq.FitWarning, match="^noise: f has different values at equal points"):
        noisy = MOBQ().fit(twice.with_values(np.concatenate([f, f + 0.1], axis=1)))
    assert "different values at equal points" in noisy.warnings[0]
    assert f"Warning: {noisy.warnings[0]}" in noisy.summary()


@pytest.mark.parametrize("value", [0.0, 0.1, -1e6])
def test_of_a_constant_f_the_mean_is_known_and_the_error_is_not(value):
    with pytest.warns(cbq.FitWarning, match="equal values"):
        fit = MOBQ().fit(drawn(lambda x, t: np.full_like(x, value)))
    mean, std = fit.predict(NEW, return_std=True)
    assert_allclose(mean, value, rtol=1e-14)
    assert np.all(np.isinf(std))


@pytest.mark.parametrize("outputs", ["separate", "shared"])
def test_a_constant_output_does_not_trouble_the_others(outputs):
    samples = drawn(lambda x, t: np.stack([np.sin(x), np.full_like(x, 0.1)], axis=-1))
    both = MOBQ(outputs=outputs).fit(samples)
    mean, std = both.predict(NEW, return_std=True)
    assert_allclose(mean[:, 1], 0.1, rtol=1e-14)
    assert np.all(std[:, 1] < 1e-12)
    assert_allclose(mean[:, 0], np.exp(-0.5) * np.sin(NEW), atol=1e-3)


# What must not change ----------------------------------------------------------------------------------------------

# Answers are equal but for rounding errors, which the Gram matrix of smooth kernels multiplies by up to 1e13: with a
# rough kernel little of that is left, a part in 1e4 of the small standard deviations.
KINK = drawn(lambda x, t: np.abs(x - 2.0))
ROUGH = Matern(1.5, 5.0)


def test_the_kernels_that_are_chosen_do_not_depend_on_units():
    def chosen(samples):
        members = MOBQ().fit(samples).groups[0].chosen.members
        return [(type(each.kernel), each.kernel.log_lengthscales[0], each.error) for each in members]

    def x_times(unit):
        family = lambda t: Gaussian(unit * t[0], cov=unit**2)  # noqa: E731
        return cbq.Samples(KINK.theta, unit * KINK.x, KINK.f, family, depends_on_theta=False)

    plain = chosen(KINK)
    for factor in (1e-120, -2.0, 1e120):
        for one, other in zip(chosen(KINK.with_values(factor * KINK.f)), plain, strict=True):
            assert one[0] is other[0]
            assert_allclose(one[1:], other[1:], rtol=1e-6)
    for unit in (1e-8, 1e8):
        for one, other in zip(chosen(x_times(unit)), plain, strict=True):
            assert one[0] is other[0]
            assert_allclose(one[1] - np.log(unit), other[1], rtol=1e-6)


@pytest.mark.parametrize("options", [{}, {"nystrom": 30}], ids=["exact", "landmarks"])
@pytest.mark.parametrize("scale", [1e-120, 1e-3, -2.0, 1e120])
def test_answers_follow_the_units_of_f(scale, options):
    mean, std, low, high = answers(MOBQ(ROUGH, **options).fit(KINK))
    scaled = answers(MOBQ(ROUGH, **options).fit(KINK.with_values(scale * KINK.f)))
    ends = (low, high) if scale > 0 else (high, low)
    assert_allclose(scaled / scale, [mean, np.sign(scale) * std, *ends], rtol=1e-4)


@pytest.mark.parametrize("options", [{}, {"nystrom": 30}], ids=["exact", "landmarks"])
def test_answers_follow_a_shift_of_f(options):
    mean, std, low, high = answers(MOBQ(ROUGH, **options).fit(KINK))
    shifted = answers(MOBQ(ROUGH, **options).fit(KINK.with_values(KINK.f + 100.0)))
    assert_allclose(shifted, [mean + 100.0, std, low + 100.0, high + 100.0], rtol=1e-4)


@pytest.mark.parametrize("unit", [1e-8, 1e3, 1e8])
def test_answers_do_not_depend_on_the_units_of_x(unit):
    far = cbq.Samples(
        KINK.theta, unit * KINK.x, KINK.f, lambda t: Gaussian(unit * t[0], cov=unit**2), depends_on_theta=False
    )
    assert_allclose(answers(MOBQ(Matern(1.5, 5.0 * unit)).fit(far)), answers(MOBQ(ROUGH).fit(KINK)), rtol=1e-4)


@pytest.mark.parametrize("stochastic", [False, True])
@pytest.mark.filterwarnings("ignore:few points:cbq.FitWarning")
def test_few_points_may_have_coordinates_in_different_units(stochastic):
    theta, units = np.linspace(-1.0, 1.0, 7)[:, None], np.array([1e3, 1.0, 1e-2])
    x = np.random.default_rng(0).normal(size=(7, 2, 3)) + theta[:, None]
    f = np.sum(x * [1.0, 2.0, 3.0], axis=-1)

    def fit(unit):
        family = lambda t: cbq.measures.Gaussian(t * unit, cov=unit**2)  # noqa: E731
        samples = cbq.Samples(theta, x * unit, f, family, depends_on_theta=False, stochastic=stochastic)
        return cbq.MOBQ(kernel_x=cbq.kernels.RBF()).fit(samples).predict(theta)

    np.testing.assert_allclose(fit(units), fit(np.ones(3)), rtol=1e-4, atol=1e-4)


def test_the_order_of_thetas_and_of_points_hardly_matters():
    """The mean depends on it by rounding alone; the intervals, by which points make the two halves, by some."""
    rng = np.random.default_rng(0)
    mean, std, *_ = answers(MOBQ().fit(KINK))
    for order in (KINK.select(rng.permutation(8)), KINK.select(np.arange(8)[::-1])):
        assert_allclose(MOBQ().fit(order).predict(NEW), mean, rtol=1e-4)
    rows = rng.permutation(10)
    mixed = cbq.Samples(KINK.theta, KINK.x[:, rows], KINK.f[:, rows], normal, depends_on_theta=False)
    again = answers(MOBQ().fit(mixed))
    assert_allclose(again[0], mean, rtol=1e-4)
    assert np.all((again[1] < 5 * std) & (std < 5 * again[1]))


def test_answers_do_not_depend_on_the_number_of_blas_threads():
    samples = drawn(T=22, N=50)  # LAPACK would factor a matrix of this size in threads

    def with_threads(n):
        with threadpool_limits(n):
            return answers(MOBQ(kernel_x=RBF(1.0)).fit(samples))

    one = with_threads(1)
    assert_array_equal(with_threads(2), one)
    assert_array_equal(with_threads(4), one)


@pytest.mark.parametrize("lengthscale", [3.0, 50.0, 300.0])
def test_standard_deviations_hold_rounding_errors(lengthscale):
    """In exact arithmetic the order of the thetas moves no estimate."""
    rng = np.random.default_rng(0)
    theta = np.linspace(1.0, 3.0, 10)
    x = theta[:, None, None] + rng.standard_normal((10, 40, 2))

    def family(theta):
        return Gaussian(np.full(2, theta[0]), np.ones(2))

    def fit(order):
        values = np.sin(x[order]).sum(axis=-1)
        samples = cbq.Samples(theta[order], x[order], values, family, depends_on_theta=False)
        return MOBQ(kernel_x=RBF(lengthscale)).fit(samples)

    first = fit(np.arange(10))
    mean, std = first.predict(NEW, return_std=True)
    for _ in range(3):
        assert np.all(np.abs(fit(rng.permutation(10)).predict(NEW) - mean) <= 0.5 * std)


def test_fitting_changes_nothing_and_gives_the_same_again():
    samples = drawn(two_outputs, depends_on_theta=True)
    x, f, theta = samples.x.copy(), samples.f.copy(), samples.theta.copy()
    method = MOBQ(nystrom=30)
    fit = method.fit(samples)
    assert_array_equal(answers(fit), answers(method.fit(samples)))
    assert_array_equal(answers(fit), answers(fit))
    for kept, now in ((x, samples.x), (f, samples.f), (theta, samples.theta)):
        assert_array_equal(kept, now)
    assert method == MOBQ(nystrom=30)
    with pytest.raises(AttributeError, match="cannot be changed"):
        fit.theta = theta
    with pytest.raises(AttributeError):
        method.nystrom = 3


# Measures where nothing was observed ----------------------------------------------------------------------------------


def test_without_a_family_only_the_observed_thetas_can_be_asked_about():
    samples = drawn()
    listed = cbq.Samples(samples.theta, samples.x, samples.f, list(samples.measures), depends_on_theta=False)
    known, other = MOBQ().fit(listed), MOBQ().fit(samples)
    assert_allclose(known.predict(samples.theta), other.predict(samples.theta), rtol=1e-10)
    with pytest.raises(ValueError, match=r"the measure of x is not known at theta = \[1.5\].*pass the family"):
        known.predict([1.0, 1.5])
    assert "this fit predicts at the observed thetas only" in known.warnings[0]
    assert other.warnings == ()


@pytest.mark.filterwarnings("ignore:few thetas:cbq.FitWarning")
def test_one_measure_for_all_thetas():
    x = np.random.default_rng(0).normal(size=(4, 8))
    theta = np.array([1.0, 2.0, 3.0, 4.0])
    samples = cbq.Samples(theta, x, theta[:, None] * np.exp(0.3 * x), Gaussian(0.0, 1.0))
    fit = MOBQ().fit(samples)
    assert_allclose(fit.predict([1.5, 2.5]), np.array([1.5, 2.5]) * np.exp(0.045), rtol=0.03)
    same = MOBQ().fit(cbq.Samples(theta, x, np.exp(0.3 * x), Gaussian(0.0, 1.0), depends_on_theta=False))
    mean, cov = same.predict(theta, return_cov=True)
    assert_allclose(mean, np.exp(0.045), rtol=1e-3)
    assert_allclose(cov, cov[0, 0], rtol=1e-9)  # it is one number


# Words and pictures ------------------------------------------------------------------------------------------------


def test_the_summary_says_what_was_done():
    fit = MOBQ(nystrom=20).fit(drawn(two_outputs, depends_on_theta=True))
    text = fit.summary()
    assert "Multi-output Bayesian quadrature: 8 thetas (p = 1), 10 iid points each." in text
    assert "Output 1:" in text
    for group in fit.groups:
        assert " ".join(repr(group.chosen.kernel).split()) in text
        assert f"One Gaussian process on 80 points ({len(group.landmarks)} landmarks): " in text
    assert "the best of 14 kernels." in text
    assert "Predictive distribution: normal, with a scale that is known within a factor of 2.5." in text
    assert text.endswith("No warnings.")
    exact = MOBQ(kernel_x=RBF(1.0)).fit(drawn()).summary()
    assert "on 80 points (exact): RBF(lengthscale=1.), the best of 1 kernels." in exact
    assert fit.settings["nystrom"] == "20"
    assert fit.settings["kernel_x"] == "'auto'"


@pytest.mark.filterwarnings("ignore:not learnt:cbq.FitWarning")
def test_a_picture():
    assert MOBQ().fit(drawn()).plot(points=5) is not None
    assert MOBQ(nystrom=10).fit(drawn(two_outputs)).plot(points=5) is not None


# Refusals ----------------------------------------------------------------------------------------------------------

KNOWN_UP_TO_A_CONSTANT = Unnormalised(lambda x: -np.sum(x**2, axis=-1), dim=1)


def some(measure, x=((0.5, 2.0), (1.0, 3.0))):
    return cbq.Samples([1.0, 2.0], x, x, measure, depends_on_theta=False)


def fitted(kernel_x="auto", **options):
    return lambda: MOBQ(kernel_x, **options).fit(drawn())


test_refusals = refusals(
    {
        "stein": (
            fitted(Stein(RBF())),
            r"Stein\(.*cannot be shared by all thetas: a Stein kernel .* score of one measure",
        ),
        "scaled stein": (fitted(2.0 * Stein(RBF())), "cannot be shared by all thetas: it is made from a measure"),
        "gaussianised": (
            fitted(Warped(RBF(), "gaussianise")),
            r"cannot be shared.*it is made from a measure.*cbq.CBQ\(",
        ),
        "whitened": (fitted(Warped(RBF(), "whiten")), "cannot be shared by all thetas: it is made from a measure"),
        "batch": (fitted(RBF([[1.0], [2.0]])), "has lengthscales for a batch, but one process has one kernel"),
        "dimension": (fitted(RBF([1.0, 2.0])), "2 lengthscales, but the points have 1 coordinates"),
        "two points": (
            lambda: MOBQ().fit(some(normal, x=[[0.0, -1.0], [0.0, -1.0]])),
            "there are 2 different points, but a process takes 3 or more",
        ),
        "outputs": (lambda: MOBQ(outputs="both"), "outputs must be 'separate' or 'shared', but it is 'both'"),
        "ard": (lambda: MOBQ(ard=1), "ard must be True or False, but it is 1"),
        "one landmark": (lambda: MOBQ(nystrom=1), "nystrom must be a number of landmarks, 2 or more, 'auto' or None"),
        "real landmarks": (lambda: MOBQ(nystrom=100.0), "2 or more, 'auto' or None, but it is 100.0"),
        "true landmarks": (lambda: MOBQ(nystrom=True), "2 or more, 'auto' or None, but it is True"),
        "text landmarks": (lambda: MOBQ(nystrom="all"), "2 or more, 'auto' or None, but it is 'all'"),
        "p": (lambda: MOBQ().fit(drawn()).predict([[1.0, 2.0]]), "2 coordinates, but this fit has p = 1"),
        "infinite theta": (lambda: MOBQ().fit(drawn()).predict([np.inf]), "theta must be finite"),
        "level": (lambda: MOBQ().fit(drawn()).interval([2.0], 95), "level must lie between 0 and 1"),
        "both": (lambda: MOBQ().fit(drawn()).predict([2.0], True, True), "not both"),
        "huge": (
            lambda: MOBQ().fit(drawn(lambda x, t: 1e150 * x)),
            r"of about .*e\+1\d\d are too large: their squares",
        ),
        "no measure there": (
            lambda: MOBQ().fit(drawn(family=lambda t: Gaussian(1.0, cov=4.0 - t[0]))).predict([5.0]),
            "the family gives no measure at theta index t = 0",
        ),
    },
    ValueError,
)

test_refusals_of_types = refusals(
    {
        "samples": (lambda: MOBQ().fit([[1.0]]), "fit takes cbq.Samples, but a list arrived"),
        "kernel_x": (lambda: MOBQ(kernel_x="rbf"), "kernel_x must be 'auto', a kernel such as .*list.* is 'rbf'"),
        "kernel_theta": (lambda: MOBQ(kernel_theta=None), "kernel_theta must be 'auto', a kernel such as"),
        "jitter": (lambda: MOBQ(jitter=1e-10), r"jitter must be a cbq.linalg.Jitter.*but it is 1e-10"),
        "unnormalised": (
            lambda: MOBQ().fit(some(KNOWN_UP_TO_A_CONSTANT)),
            r"no kernel on x or on log x has an embedding .*Unnormalised.* Use cbq.CBQ\(\)",
        ),
        "given, unnormalised": (
            lambda: MOBQ(RBF(1.0)).fit(some(KNOWN_UP_TO_A_CONSTANT)),
            "only Stein kernels have one",
        ),
        "quantiles": (
            lambda: MOBQ().fit(some(lambda t: stats.exponnorm(t[0]))),
            "no kernel on x or on log x .*ScipyDistribution",
        ),
        "no embedding": (
            lambda: MOBQ(kernel_x=Warped(RBF(1.0), np.tanh)).fit(drawn()),
            "no closed form for Warped.*tanh",
        ),
        "correlated": (
            lambda: MOBQ(kernel_x=TensorProduct(Matern(1.5))).fit(
                cbq.Samples(
                    [1.0, 2.0],
                    np.arange(12.0).reshape(2, 3, 2),
                    np.ones((2, 3)),
                    Gaussian([0.0, 0.0], [[1.0, 0.5], [0.5, 1.0]]),
                    depends_on_theta=False,
                )
            ),
            "no closed form for TensorProduct.* its coordinates are not independent",
        ),
    },
    TypeError,
)


def test_a_prediction_asks_the_family_once_for_each_theta():
    asked = []

    def family(theta):
        asked.append(theta[0])
        return Gaussian(theta[0], 1.0)

    fit = MOBQ().fit(drawn(family=family))
    for call in (fit.predict, fit.interval, lambda theta: fit.predict(theta, return_cov=True)):
        asked.clear()
        call(NEW)
        assert sorted(asked) == sorted(NEW)
