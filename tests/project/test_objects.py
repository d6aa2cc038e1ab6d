"""Samples as a sequence, in files and in tables; pandas in fits; estimators as scikit-learn knows them."""

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.metrics import r2_score

import cbq
from cbq.estimators.base import registrations
from cbq.measures import Gaussian, Uniform

RNG = np.random.default_rng(7)
THETA = np.linspace(0.1, 0.9, 6)
X = THETA[:, None] + RNG.standard_normal((6, 8))


def family(theta):
    return Gaussian(theta[0], 1.0)


def made(**options):
    return cbq.Samples(THETA, X, np.sin(X) + THETA[:, None], **{"measure": family} | options)


@pytest.fixture(scope="module")
def fit():
    return cbq.LSMC().fit(made(names={"theta": "stock", "f": "profit"}))


@pytest.fixture(scope="module")
def plane():
    theta = RNG.random((12, 2))
    s = cbq.Samples(theta, X[:1].repeat(12, 0), RNG.random((12, 8, 2)), names={"theta": ["a", "b"], "f": ["u", "v"]})
    return cbq.LSMC().fit(s)


# samples


def test_samples_are_a_sequence_of_thetas():
    s = made()
    assert len(s) == 6
    assert [part.theta.tolist() for part in s] == [[[t]] for t in THETA]
    assert s[1:3] == s.select([1, 2])
    assert s[THETA > 0.5] == s[[3, 4, 5]]
    assert s[-1] == s[5]
    with pytest.raises(IndexError, match="does not fit"):
        s[6]
    with pytest.raises(TypeError, match=r"take samples\.theta"):
        np.asarray(s)


def test_samples_are_equal_if_all_that_they_hold_is():
    s = made()
    assert s == made()
    assert hash(s) == hash(made())
    assert len({s, made(), s[:2]}) == 2
    others = [
        s[::-1],
        s.with_values(np.cos(X)),
        s.with_names({"x": "demand"}),
        made(measure=Gaussian(0.0, 1.0)),
        made(measure=None),
        made(design="mcmc"),
        made(stochastic=True),
        made(depends_on_theta=False),
        made(bounds=(-9.0, 9.0)),
        made(failed=[[0.5], *[[]] * 5]),
        made(proposal=lambda theta: Gaussian(theta[0], cov=2.0)),
    ]
    assert [other == s for other in others] == [False] * len(others)
    assert made(failed=[[0.5], *[[]] * 5]) == made(failed=[[0.5], *[[]] * 5])
    assert s != "samples"
    assert s[:3] + s[3:] == made(measure=list(map(family, THETA[:, None])))


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"measure": None},
        {"measure": Gaussian(0.0, 1.0), "names": {"theta": "stock"}},
        {"bounds": (-9.0, np.inf), "stochastic": True, "design": "mcmc"},
        {"failed": [[0.5, 0.6], *[[]] * 5]},
    ],
)
def test_saved_samples_are_those_that_were_saved(options, tmp_path):
    s = made(**options)
    s.save(tmp_path / "samples.cbq")
    found = cbq.Samples.load(tmp_path / "samples.cbq", family if s.family else None)
    assert found == s
    assert found.family is s.family


def test_a_file_of_samples_needs_the_family_again_and_refuses_another(tmp_path):
    path = tmp_path / "samples.cbq"
    made().save(path)
    with pytest.raises(ValueError, match=r"holds samples of a family.*cbq\.Samples\.load\(.*family=problem\.family\)"):
        cbq.Samples.load(path)
    with pytest.raises(ValueError, match="does not go with this family"):
        cbq.Samples.load(path, lambda theta: Gaussian(theta[0], cov=2.0))


def test_files_of_samples_and_of_fits_are_told_apart(fit, tmp_path):
    made().save(tmp_path / "samples.cbq")
    fit.save(tmp_path / "fit.cbq")
    with pytest.raises(ValueError, match=r"holds samples, and not a fit: read it with cbq\.Samples\.load\(path\)"):
        cbq.load(tmp_path / "samples.cbq")
    with pytest.raises(ValueError, match=r"holds a fit, and not samples: read it with cbq\.load\(path\)"):
        cbq.Samples.load(tmp_path / "fit.cbq")


def test_a_damaged_file_of_samples_is_refused(tmp_path):
    path = tmp_path / "samples.cbq"
    made().save(path)
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    with pytest.raises(ValueError, match=r"is damaged: .*collect and save again"):
        cbq.Samples.load(path, family)


@pytest.mark.parametrize("failed", [None, [[0.5], [], [0.1, 0.2], [], [], []]])
def test_a_table_of_samples_gives_them_back(failed):
    s = made(names=cbq.Names("stock", "demand", "profit"), failed=failed)
    frame = s.to_frame()
    assert list(frame) == ["stock", "demand", "profit", *["failed"] * (failed is not None)]
    assert len(frame) == 48 + 3 * (failed is not None)
    again = cbq.Samples.from_frame(frame, family, theta="stock", x="demand", f="profit")
    assert again == s


def test_columns_of_any_names_are_taken_and_others_left_alone():
    frame = pd.DataFrame(
        {"id": [1, 2, 3], "stock": [1.0, 1.0, 2.0], "d": [0.1, 0.2, 0.3], "p": [1, 2, 3], "c": [4, 5, 6]}
    )
    s = cbq.Samples.from_frame(frame, Gaussian(0.0, 1.0), theta="stock", x=["d"], f=["p", "c"])
    assert s.names == cbq.Names("stock", "d", ["p", "c"])
    assert s.counts.tolist() == [2, 1]
    assert s.values(0).tolist() == [[1.0, 4.0], [2.0, 5.0]]
    with pytest.raises(ValueError, match="theta is 'stocks', but the table has no column 'stocks'"):
        cbq.Samples.from_frame(frame, None, theta="stocks", x="d", f="p")
    with pytest.raises(ValueError, match=r"columns \['id', 'p', 'c'\].*say which columns to take"):
        cbq.Samples.from_frame(frame.rename(columns={"d": "x"}).assign(f=1.0), None, theta="stock")


@pytest.mark.parametrize("method", [cbq.LSMC(), cbq.KLSMC(), cbq.MonteCarlo()], ids=repr)
def test_regressions_need_no_measure(method):
    without, with_one = (method.fit(made(measure=measure)) for measure in (None, family))
    np.testing.assert_array_equal(without.predict(THETA), with_one.predict(THETA))


@pytest.mark.parametrize("method", [cbq.CBQ(), cbq.MOBQ(), cbq.Auto(), cbq.ImportanceSampling()], ids=repr)
def test_quadrature_refuses_samples_without_a_measure(method):
    with pytest.raises(ValueError, match=r"needs the measures of x, but these samples have none: .*measure="):
        method.fit(made(measure=None, depends_on_theta=False))


def test_a_default_comparison_without_a_measure_has_the_methods_that_need_none():
    found = {row.method for row in cbq.compare(made(measure=None)).rows}
    assert found == {"LSMC", "KLSMC", "MonteCarlo"}


# pandas


def test_a_series_of_thetas_gives_series_with_its_index(fit):
    theta = pd.Series([0.2, 0.4, 0.3], index=["x", "y", "z"])
    mean, std = fit.predict(theta, return_std=True)
    for found, plain in zip((mean, std), fit.predict(theta.to_numpy(), return_std=True), strict=True):
        assert isinstance(found, pd.Series)
        assert list(found.index) == ["x", "y", "z"]
        assert found.name == "profit"
        np.testing.assert_array_equal(found, plain)
    low, high = fit.interval(theta)
    assert list(low.index) == list(high.index) == ["x", "y", "z"]
    assert list(fit.band(theta)[0].index) == ["x", "y", "z"]
    assert list(fit.to_frame(theta).index) == ["x", "y", "z"]
    cov = fit.predict(theta, return_cov=True)[1]
    assert list(cov.columns) == list(cov.index) == ["x", "y", "z"]


def test_columns_of_thetas_are_found_by_their_names(plane):
    theta = RNG.random((3, 2))
    frame = pd.DataFrame({"b": theta[:, 1], "other": 9.0, "a": theta[:, 0]}, index=[7, 8, 9])
    found = plane.predict(frame)
    assert list(found.columns) == ["u", "v"]
    assert list(found.index) == [7, 8, 9]
    np.testing.assert_array_equal(found, plane.predict(theta))
    np.testing.assert_array_equal(plane.to_frame(frame)[["a", "b"]], theta)
    np.testing.assert_array_equal(plane.sample(frame, 3, 0), plane.sample(theta, 3, 0))
    with pytest.raises(ValueError, match=r"theta has no column 'b': .*but it has 'a', 'c'"):
        plane.predict(frame[["a"]].assign(c=1.0))


def test_a_fit_without_names_takes_the_columns_of_a_table_in_their_order(fit):
    plain = cbq.LSMC().fit(made())
    np.testing.assert_array_equal(plain.predict(pd.DataFrame({"stock": THETA})), plain.predict(THETA))
    np.testing.assert_array_equal(plain.predict(pd.DataFrame({"n": 1, "theta": THETA})), plain.predict(THETA))
    with pytest.raises(ValueError, match="theta has no column 'theta'"):
        plain.predict(pd.DataFrame({"stock": THETA, "n": 1}))


def test_arrays_give_arrays(fit, plane):
    assert type(fit.predict(THETA)) is np.ndarray
    assert type(fit.predict(list(THETA))) is np.ndarray
    assert type(plane.predict(RNG.random((2, 2)))) is np.ndarray


# scikit-learn


@pytest.mark.parametrize("registration", registrations(), ids=lambda each: each.name)
def test_clone_makes_an_equal_estimator(registration):
    estimator = registration.create()
    copy = clone(estimator)
    assert type(copy) is type(estimator)
    assert copy is not estimator
    assert copy.get_params() == estimator.get_params()


def test_set_params_returns_a_copy():
    estimator = cbq.LSMC(degree=2)
    assert estimator.set_params(ridge=0.5) == cbq.LSMC(degree=2, ridge=0.5)
    assert estimator == cbq.LSMC(degree=2)
    assert clone(cbq.CBQ(kernel_x=cbq.kernels.RBF(0.5))).kernel_x.lengthscale == 0.5
    with pytest.raises(ValueError, match="LSMC has no option 'degre': it has degree, ridge"):
        estimator.set_params(degre=1)
    with pytest.raises(ValueError, match="degree must be a whole number"):
        estimator.set_params(degree=-1)


def test_the_score_is_r_squared(fit, plane):
    truth = np.sin(THETA)
    np.testing.assert_allclose(fit.score(THETA, truth), r2_score(truth, fit.predict(THETA)), rtol=1e-12)
    theta, truths = RNG.random((5, 2)), RNG.random((5, 2))
    np.testing.assert_allclose(plane.score(theta, truths), r2_score(truths, plane.predict(theta)), rtol=1e-12)
    with pytest.raises(ValueError, match="truth has shape"):
        fit.score(THETA, truth[:2])
    with pytest.raises(ValueError, match="no variance to explain"):
        fit.score(THETA, np.ones(6))


def test_thetas_may_be_given_without_their_number():
    problem = cbq.Problem(lambda x, theta: x[:, 0], family, Uniform([0.0], [1.0]))
    expected = problem.collect(None, 4, theta=THETA, rng=0)
    assert problem.collect(N=4, theta=THETA, rng=0) == expected
    assert problem.collect(6, N=4, theta=THETA, rng=0) == expected
    with pytest.raises(ValueError, match="T is 5, but theta= holds 6 thetas"):
        problem.collect(5, 4, theta=THETA, rng=0)
    with pytest.raises(ValueError, match=r"T, the number of thetas, is missing"):
        problem.collect(N=4, rng=0)
