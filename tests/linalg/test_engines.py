"""Engines give the answers of NumPy, wherever their matrices are, and the record of a fit says which one made it."""

import subprocess
import sys

import numpy as np
import pytest

import cbq
from cbq.embeddings import embed
from cbq.gp.heteroscedastic import GPPrior, HeteroscedasticGP, ThetaCoordinates
from cbq.gp.likelihood import Likelihood
from cbq.gp.process import FLAT
from cbq.gp.quadrature import GPData, embedding_means, evidence_and_gradient
from cbq.kernels import RBF, Additive, Kernel, Matern, Stein, TensorProduct, Warped, XThetaKernel
from cbq.linalg import Jitter, LinAlgError, NotPositiveDefinite, engines, factor, factor_gram
from cbq.linalg.engines import NumpyEngine, current_engine
from cbq.linalg.threads import run_in_pool
from cbq.measures import Gaussian

torch = pytest.importorskip("torch", reason="engines other than numpy need torch")
from cbq.linalg.torch_engine import TorchEngine  # noqa: E402, it imports torch

no_device = pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device")
on_engines = pytest.mark.parametrize("name", ["torch", pytest.param("cuda", marks=no_device)])

CLOSE, WITH_JITTER = 1e-9, 1e-6  # relative differences, and where the jitter had to grow
KERNELS = {
    "RBF": RBF(0.5),
    "Matern 1/2": Matern(0.5, 1.0),
    "Matern 3/2": Matern(1.5, [0.7, 1.5]),
    "Matern 5/2": Matern(2.5, 0.4),
    "batch": RBF(np.array([[[0.3]], [[0.6]]])),
    "tensor product": TensorProduct(Matern(1.5, 0.5)),
    "additive": Additive(Matern(2.5, [0.5, 0.8])),
    "sum": RBF(0.4) + Matern(1.5, 1.0) * 2.0,
    "product": RBF(0.8) * Matern(1.5, 1.0),
    "warped": Warped(Matern(2.5, 0.4), lambda x: x**3),
    "x and theta": XThetaKernel(RBF(0.3), Matern(1.5, 0.5), 1),
    "Stein, RBF": Stein(RBF(1.0), Gaussian([0.0, 0.0], cov=[1.0, 2.0])),
    "Stein, Matern": Stein(Matern(2.5, [1.0, 0.5]), Gaussian([0.0, 0.0], cov=[1.0, 2.0])),
}
rng = np.random.default_rng(0)
X, B, NUGGET = rng.normal(size=(3, 25, 2)), rng.normal(size=(3, 25, 2)), rng.uniform(1e-4, 1e-3, (3, 25))


def close(found, expected, tolerance=CLOSE):
    np.testing.assert_allclose(found, expected, rtol=0, atol=tolerance * np.max(np.abs(expected)))


def eager(name, **options):
    """An engine whose device does what it would leave to the host."""
    return TorchEngine(name, least_on_device=0, **options)


def both(name, call, **options):
    """What `call` returns with an engine, and with NumPy."""
    with cbq.engine(eager(name, **options)):
        found = call()
    return found, call()


def answers(factor):
    return {
        "lower": factor.lower,
        "logdet": factor.logdet,
        "solve_lower": factor.solve_lower(B),
        "solve": factor.solve(B),
        "inverse": factor.inverse(),
        "inverse_diagonal": factor.inverse_diagonal(),
        "jitter": factor.jitter,
        "relative_jitter": factor.relative_jitter,
    }


@on_engines
@pytest.mark.parametrize("kernel", KERNELS.values(), ids=KERNELS)
def test_factors_of_gram_matrices_are_those_of_numpy(name, kernel):
    found, expected = both(name, lambda: factor_gram(kernel, X, nugget=None if kernel is KERNELS["batch"] else NUGGET))
    assert (found.batch_shape, found.n) == (expected.batch_shape, expected.n)
    assert type(found) is not type(expected)
    for key, value in answers(expected).items():
        close(answers(found)[key], value)
        assert answers(found)[key].shape == value.shape


@on_engines
@pytest.mark.parametrize("kernel", KERNELS.values(), ids=KERNELS)
def test_gradients_in_the_lengthscales_are_those_of_numpy(name, kernel):
    if kernel.log_lengthscales.ndim > 1:
        pytest.skip("a search has one kernel at a time")
    data = GPData(X, B)
    found, expected = both(name, lambda: evidence_and_gradient(kernel, data, FLAT, 1e-3))
    close(found[0], expected[0])
    close(found[1], expected[1])


@on_engines
def test_factors_of_given_matrices_are_those_of_numpy(name):
    K = RBF(0.5).gram(X)
    found, expected = both(name, lambda: factor(K, nugget=NUGGET))
    for key, value in answers(expected).items():
        close(answers(found)[key], value)
    part, whole = found[1:], expected[1:]
    close(part.solve(B[1:]), whole.solve(B[1:]))
    close(part.solve(B[0]), whole.solve(B[0]))


@on_engines
def test_right_hand_sides_that_share_a_factor_are_solved_together(name):
    b = rng.normal(size=(4, 3, 25, 2))
    found, expected = both(name, lambda: factor_gram(RBF(0.5), X, nugget=1e-3))
    close(found.solve(b), expected.solve(b))
    single = both(name, lambda: factor_gram(RBF(0.5), X[0], nugget=1e-3))
    close(*(each.solve_lower(b) for each in single))


@on_engines
def test_the_jitter_grows_as_with_numpy(name):
    x = np.stack([X[0, :, :1], np.repeat(X[1, :5, :1], 5, axis=0), X[2, :, :1]])  # equal points in the second
    found, expected = both(name, lambda: factor_gram(RBF(30.0), x, jitter=Jitter(start=0.0)))
    assert np.max(expected.relative_jitter) > 0
    assert np.all(np.abs(np.log10(found.relative_jitter + 1e-16) - np.log10(expected.relative_jitter + 1e-16)) < 1.5)
    assert np.all((found.relative_jitter > 0) == (expected.relative_jitter > 0))
    repeated, values = np.repeat(X[0, :5], 5, axis=0), np.repeat(B[0, :5], 5, axis=0)
    found, expected = both(name, lambda: factor_gram(Matern(1.5, 1.0), repeated, jitter=Jitter(start=0.0)))
    assert found.relative_jitter > 0
    query = Matern(1.5, 1.0).gram(X[1], repeated)
    close(query @ found.solve(values), query @ expected.solve(values), WITH_JITTER)


WRONG = {
    "a NaN": (np.stack([np.eye(3), np.full((3, 3), np.nan), -np.eye(3)]), {}),
    "an inf above the diagonal": (np.array([[1.0, np.inf], [0.0, 1.0]]), {}),
    "not positive definite": (np.stack([np.eye(3), -np.eye(3), np.full((3, 3), np.nan)]), {}),
    "one matrix": (-np.eye(3), {}),
    "no rows": (np.zeros((2, 0, 0)), {}),
    "not square": (np.zeros((2, 3)), {}),
    "a negative nugget": (np.eye(3), {"nugget": -1.0}),
    "a nugget of another shape": (np.eye(3), {"nugget": [1.0, 2.0]}),
    "no jitter": (np.eye(3), {"jitter": 1e-8}),
}


@on_engines
@pytest.mark.parametrize("case", WRONG.values(), ids=WRONG)
def test_what_is_refused_is_refused_with_the_same_words(name, case):
    K, options = case
    with pytest.raises((ValueError, TypeError)) as expected:
        factor(K, **options)
    with pytest.raises(type(expected.value)) as found, cbq.engine(eager(name)):
        factor(K, **options)
    assert str(found.value) == str(expected.value)
    if isinstance(expected.value, NotPositiveDefinite):
        assert found.value.index == expected.value.index


@on_engines
def test_so_are_right_hand_sides_and_an_overflow_in_the_kernel(name):
    class Overflowing(RBF):
        def fill(self, fx, fy, out):
            super().fill(fx, fy, out)
            out *= np.inf

    for call in (lambda: factor(np.eye(3)).solve(np.ones(3)), lambda: factor_gram(Overflowing(1.0), X)):
        with pytest.raises(ValueError) as expected:  # noqa: PT011, its words are compared below
            call()
        with pytest.raises(ValueError) as found, cbq.engine(eager(name)):  # noqa: PT011
            call()
        assert str(found.value) == str(expected.value)


class Own(Kernel):
    """A kernel as a user may write it, with functions of NumPy alone."""

    smoothness = 0.5
    log_lengthscales = np.zeros(1)

    def diag(self, x):
        return np.ones(x.shape[:-1])

    def with_log_lengthscales(self, values):
        return self

    def _to_fit(self, x, ard):
        return self, np.zeros(1, dtype=bool)

    def check_dim(self, d):
        pass

    def features(self, x):
        return (np.array(x),)

    def fill(self, fx, fy, out):
        np.exp(-np.sum(np.abs(fx[0][..., :, None, :] - fy[0][..., None, :, :]), axis=-1), out=out)

    def fill_derivatives(self, fx, fy, out):
        np.negative(out.shape, out=out)


@on_engines
def test_a_kernel_that_is_written_for_numpy_is_filled_on_the_host(name):
    found, expected = both(name, lambda: factor_gram(Own(), X), block=60)  # some rows at a time
    close(found.lower, expected.lower)
    mixed = both(name, lambda: factor_gram(Own() + RBF(1.0), X), block=60)
    close(*(each.solve(B) for each in mixed))


@on_engines
def test_few_large_matrices_go_one_by_one(name):
    found, expected = both(name, lambda: factor_gram(Matern(2.5, 0.7), X, nugget=1e-3), large=20)
    close(found.lower, expected.lower)
    close(found.solve(B), expected.solve(B))
    single, other = both(name, lambda: factor_gram(Matern(2.5, 0.7), X[0], nugget=1e-3), large=20)
    close(single.inverse(), other.inverse())


@on_engines
@pytest.mark.parametrize("block", [40, 700, 2000])  # rows of a matrix, one matrix, several
def test_matrices_can_be_filled_in_pieces(name, block):
    found, expected = both(name, lambda: factor_gram(Matern(2.5, 0.7), X, nugget=1e-3), block=block)
    close(found.lower, expected.lower)
    twice = np.concatenate([X, X], axis=1)
    doubled, _ = both(name, lambda: factor_gram(RBF(1.0), twice, jitter=Jitter(start=0.0)), block=block)
    assert np.all(doubled.relative_jitter > 0)


@on_engines
def test_the_inverse_of_a_triangle_by_halves_is_that_of_lapack(name):
    x = rng.normal(size=(2, 301, 2))
    found, expected = both(name, lambda: factor_gram(Matern(1.5, 1.0), x, nugget=1e-4))
    close(found.inverse(), expected.inverse())
    close(found.inverse_diagonal(), expected.inverse_diagonal())
    np.testing.assert_array_equal(found.inverse(), found.inverse().swapaxes(-1, -2))


@pytest.mark.parametrize("which", ["one", "each"])
def test_embeddings_do_not_depend_on_how_many_thetas_go_together(which):
    x = rng.normal(size=(2400, 100, 2))  # in eight pieces, enough for threads
    measure = Gaussian([0.0, 0.0] if which == "one" else x[:, 0], cov=[1.0, 2.0])
    kernel = RBF(np.array([[[0.5]], [[1.0]]]))
    np.testing.assert_array_equal(embedding_means(kernel, GPData(x, x, measure)), embed(kernel, measure).mean(x))


@on_engines
def test_decompositions_are_those_of_numpy(name):
    a = rng.normal(size=(40, 12))
    with cbq.engine(eager(name, large=1)):
        values, V = engines.eigh(a.T @ a)
    close(values, np.linalg.eigvalsh(a.T @ a))
    close((V * values) @ V.T, a.T @ a)


@on_engines
@pytest.mark.parametrize("degree", [None, 1])
def test_stage_two_is_that_of_numpy(name, degree):
    theta = np.sort(rng.uniform(0.0, 1.0, (40, 1)), axis=0)
    y, v = np.sin(5 * theta[:, 0]), rng.uniform(1e-4, 1e-3, 40)
    H = np.ones((40, 0)) if degree is None else np.column_stack([np.ones(40), theta])
    likelihood = Likelihood(Matern(2.5, 0.5), np.array([True]), theta, H, y, v, None)
    found, expected = both(name, lambda: likelihood(np.array([0.1, -8.0, -0.5])))
    for one, other in zip(found, expected, strict=True):
        close(one, other)
    prior = GPPrior(ThetaCoordinates.identity(1), Matern(2.5, 0.5), 1.0, 1e-6, degree)
    new = np.linspace(0.0, 1.2, 9)[:, None]

    def call():
        process = HeteroscedasticGP(prior, theta, y, v)
        at = process.predict(new, joint=True)
        return at.mean, at.weights, at.variance, *process.leave_one_out()

    for one, other in zip(*both(name, call), strict=True):
        close(one, other)


def family(theta):
    return Gaussian(theta * np.ones(2), np.ones(2))


def samples(T=12, N=10):
    draws = np.random.default_rng(1)
    theta = draws.uniform(0.5, 1.5, (T, 1))
    x = theta[:, None] + draws.standard_normal((T, N, 2))
    f = np.abs(x[..., 0]) + np.sin(x[..., 1])
    return cbq.Samples(theta, x, f, family, depends_on_theta=False)


KERNEL = TensorProduct(Matern(1.5, [1.0, 2.0]))
ESTIMATORS = {
    "CBQ": cbq.CBQ(kernel_x=KERNEL, kernel_theta=Matern(2.5, 0.5)),
    "CBQ, shared": cbq.CBQ(kernel_x=KERNEL, kernel_theta=Matern(2.5, 0.5), borrow=20),
    "MOBQ": cbq.MOBQ(kernel_x=KERNEL),
    "MOBQ, landmarks": cbq.MOBQ(kernel_x=KERNEL, nystrom=40),
    "KLSMC": cbq.KLSMC(),
}


@pytest.mark.filterwarnings("ignore::cbq.FitWarning")
@on_engines
@pytest.mark.parametrize("estimator", ESTIMATORS.values(), ids=ESTIMATORS)
def test_fits_answer_as_those_of_numpy_and_say_which_engine_made_them(name, estimator, tmp_path):
    theta = np.linspace(0.6, 1.4, 7)
    found, expected = both(name, lambda: estimator.fit(samples()))
    close(found.predict(theta, return_std=True), expected.predict(theta, return_std=True))  # outside of the context
    assert "engine" not in expected.settings
    assert "Engine" not in expected.summary()
    assert found.settings["engine"].startswith(name)
    assert f"Engine: {found.settings['engine']}." in found.summary()
    found.save(tmp_path / "fit.cbq")
    loaded = cbq.load(tmp_path / "fit.cbq", **({"family": family} if isinstance(estimator, cbq.MOBQ) else {}))
    assert loaded.settings == found.settings
    close(loaded.predict(theta), expected.predict(theta))


@pytest.mark.filterwarnings("ignore::cbq.FitWarning")
@on_engines
@pytest.mark.parametrize("estimator", [cbq.CBQ(), cbq.MOBQ(), cbq.Auto()], ids=repr)
def test_so_do_fits_that_search_for_lengthscales_as_far_as_the_search_goes(name, estimator):
    """A search ends where the evidence is flat to 1e-5: rounding errors decide where, which answers hardly notice."""
    theta = np.linspace(0.6, 1.4, 7)
    found, expected = both(name, lambda: estimator.fit(samples()))
    (mean, std), (other, scale) = (each.predict(theta, return_std=True) for each in (found, expected))
    # the best kernel may be nearly singular: what rounding moves then is part of the intervals
    rounding = expected._points.scale * expected._parts[0][0].process.rounding if estimator != cbq.CBQ() else 0.0
    assert np.all(np.abs(mean - other) < 0.01 * scale + rounding)
    assert np.all(np.abs(std - scale) < 0.01 * scale + rounding)


@on_engines
def test_values_of_learning_are_those_of_numpy(name):
    draws = np.random.default_rng(2)
    inputs = draws.standard_normal((400, 2))
    outputs = np.column_stack([np.zeros(400), np.sin(2 * inputs[:, 0]) + 0.3 * draws.standard_normal(400)])
    found, expected = both(name, lambda: cbq.evppi(outputs, inputs, [[0], [0, 1]]))
    for one, other in zip(found.rows, expected.rows, strict=True):  # lengthscales are searched for
        assert one.evppi == pytest.approx(other.evppi, rel=WITH_JITTER)


@on_engines
def test_threads_of_a_batch_use_the_engine_of_their_caller(name):
    used = [""] * 4

    def task(t):
        used[t] = current_engine().name

    with cbq.engine(name):
        run_in_pool(task, len(used), 2)
        expected = current_engine().name
    assert used == [expected] * len(used) != [NumpyEngine.name] * len(used)


def test_engines_nest_and_end_with_their_context():
    assert current_engine().name == "numpy"
    with cbq.engine("torch"):
        assert current_engine().name == "torch (CPU)"
        with cbq.engine("numpy"):
            assert current_engine().name == "numpy"
        with pytest.raises(LinAlgError):
            factor(-np.eye(2))
        assert current_engine().name == "torch (CPU)"
    assert current_engine().name == "numpy"


def test_torch_is_imported_only_if_it_is_asked_for():
    code = "import sys, cbq; cbq.CBQ(); assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_without_torch_the_error_names_the_package():
    code = "import sys, cbq; sys.modules['torch'] = None; cbq.engine('cuda').__enter__()"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "ImportError: engine 'cuda' needs torch: python -m pip install torch" in done.stderr


def test_without_a_device_the_error_says_what_to_do(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with (
        pytest.raises(ValueError, match=r"engine 'cuda' needs a CUDA device.*or use engine 'numpy'"),
        cbq.engine("cuda"),
    ):
        pass


class Device(NumpyEngine):
    """NumPy, with the memory of a device."""

    name, largest_exact = "device", 50

    def available_memory(self):
        return 1000.0


@pytest.mark.filterwarnings("ignore::cbq.FitWarning")
def test_the_engine_says_how_many_points_an_exact_process_takes_and_what_fits():
    with (
        pytest.raises(ValueError, match="there are 120 points, but an exact fit takes at most 50"),
        cbq.engine(Device()),
    ):
        cbq.MOBQ().fit(samples())
    with pytest.raises(MemoryError, match=r"takes at least .* GiB of memory, but 9.31e-07 GiB"), cbq.engine(Device()):
        engines.require_matrices(10**8, "a matrix", "pass less")
