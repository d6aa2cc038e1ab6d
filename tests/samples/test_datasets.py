"""Samples and answers as labelled arrays, and as ArviZ reads them, before and after its version 1.0."""

import sys

import numpy as np
import pytest
from numpy.testing import assert_array_equal

import cbq

xarray = pytest.importorskip("xarray")
RNG = np.random.default_rng(0)
THETA = np.linspace(0.0, 2.0, 6)
X = THETA[:, None] + RNG.standard_normal((6, 40))


def measure(theta):
    return cbq.measures.Gaussian(theta, cov=1.0)


def made(**names):
    f = np.stack([np.sin(X), X**2], axis=-1)
    return cbq.Samples(THETA, X, f, measure, names={"theta": "dose", "x": "effect", "f": ["cost", "qaly"]} | names)


def test_answers_are_selected_by_theta_and_output():
    fit = cbq.LSMC().fit(made())
    found = fit.to_dataset([0.5, 1.5], level=0.9)
    assert found.attrs == {"level": 0.9, "estimator": "LSMCFit"}
    low, high = fit.interval([0.5, 1.5], 0.9)
    for name, value in {"mean": fit.predict([0.5, 1.5]), "lower": low, "upper": high}.items():
        assert found[name].sel(dose=1.5, output="qaly").item() == value[1, 1]
    assert_array_equal(fit.to_dataset()["std"], fit.predict(THETA, return_std=True)[1])


def test_several_coordinates_are_along_one_axis():
    theta = RNG.random((12, 2))
    fit = cbq.LSMC().fit(
        cbq.Samples(theta, X[:1, None].repeat(12, 0)[:, 0], RNG.random((12, 40)), names={"theta": ["a", "b"]})
    )
    found = fit.to_dataset(theta[:3])
    assert found["mean"].dims == ("theta",)
    assert_array_equal(found["b"], theta[:3, 1])
    assert_array_equal(found["mean"], fit.predict(theta[:3]))


@pytest.mark.parametrize(("part", "name"), [("theta", "mean"), ("theta", "output")])
def test_a_name_that_an_array_of_answers_has_is_refused(part, name):
    with pytest.raises(ValueError, match=f"cannot have two arrays {name!r}: give theta, x or f another name"):
        cbq.LSMC().fit(made(**{part: name})).to_dataset()


@pytest.mark.filterwarnings("ignore::cbq.samples.ChainWarning")  # of 40 draws
def test_a_tree_has_the_draws_of_each_theta_and_gives_them_back():
    samples = made()
    posterior = samples.to_datatree()["posterior"].dataset
    assert_array_equal(posterior["qaly"].sel(dose=THETA[3], chain=0), samples.values(3)[:, 1])
    data = {theta: posterior.sel(dose=theta) for theta in THETA}
    again = cbq.Samples.from_arviz(data, ["cost", "qaly"], x="effect", thin=1)
    assert_array_equal(again.x, samples.x)
    assert_array_equal(again.f, samples.f)
    with pytest.raises(ValueError, match="cannot have two arrays 'draw'"):
        made(x="draw").to_datatree()
    with pytest.raises(ValueError, match=r"equally many points at each theta, but there are 2 to 3: .*thinned\(2\)"):
        cbq.Samples([0.0, 1.0], [[1.0, 2.0], [1.0, 2.0, 3.0]], [[0.0, 1.0], [1.0, 2.0, 3.0]]).to_datatree()


@pytest.mark.filterwarnings("ignore::FutureWarning")  # of ArviZ 0.x, about its next version
def test_arviz_reads_the_tree():
    arviz = pytest.importorskip("arviz")
    samples = made()
    tree = samples.to_datatree()
    is_old = arviz.__version__.startswith("0.")
    data = arviz.InferenceData(posterior=tree["posterior"].to_dataset()) if is_old else tree
    table = arviz.summary(data, var_names=["cost"], round_to="none")
    assert_array_equal(np.asarray(table["mean"], dtype=float), np.mean(samples.f[..., 0], axis=1))


def test_a_missing_package_is_asked_for(monkeypatch):
    monkeypatch.setitem(sys.modules, "xarray", None)
    with pytest.raises(ImportError, match="labelled arrays need xarray: python -m pip install xarray"):
        made().to_datatree()
