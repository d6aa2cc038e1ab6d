"""Saved fits: the same answers to the last bit, no code in the file, and nothing lost when something goes wrong."""

from __future__ import annotations

import hashlib
import io
import json
import os
import pickle
import subprocess
import sys
import warnings
import zipfile
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from scipy import stats

import cbq
from cbq.estimators import CBQFit, MonteCarloFit
from cbq.estimators.conditional import StageOne
from cbq.estimators.smoothing import Smoother
from cbq.fit.base import Fit
from cbq.io import (
    Instance,
    Numbers,
    archive,
    load_file,
    pack_measure,
    registry,
    save_file,
    saved,
    saved_classes,
    unpack_measure,
)
from cbq.kernels import RBF, Additive, CustomKernel, Kernel, Matern, Radial, Stein, TensorProduct, Warped, XThetaKernel
from cbq.kernels.warped import Columns, NormalCdf
from cbq.measures import (
    Beta,
    Binomial,
    Categorical,
    Empirical,
    Exponential,
    Gamma,
    Gaussian,
    LogMeasure,
    LogNormal,
    Mixture,
    Poisson,
    Product,
    StudentT,
    TruncatedGaussian,
    Uniform,
    from_scipy,
)
from cbq.samples import Failures
from cbq.samples.conditional import UnknownMeasure
from cbq.samples.findings import SamplesFinding

pytestmark = [  # fits to hardly any samples are quick to save
    pytest.mark.filterwarnings(f"ignore:{kind}:cbq.FitWarning")
    for kind in ("few thetas", "beyond", "chains", "noise", "not learnt", "measures", "shared design")
]

RNG = np.random.default_rng(5)
THETA = RNG.uniform(1, 3, (5, 2))
X = RNG.normal(size=(5, 6))
MEASURE = Gaussian(0.0, 1.0)
F = np.sin(X) + THETA[:, :1]


def samples(T=5, p=2, outputs=(), design="iid"):
    f = F[:T] if outputs == () else np.stack([F[:T], X[:T] ** 2], axis=-1)
    return cbq.Samples(THETA[:T, :p], X[:T], f, MEASURE, design=design)


def ragged():
    counts = (3, 6, 1, 4, 5)
    return cbq.Samples(
        THETA, [x[:n] for x, n in zip(X, counts, strict=True)], [f[:n] for f, n in zip(F, counts, strict=True)], MEASURE
    )


def given(kernel):
    return lambda: cbq.CBQ(kernel_theta=kernel).fit(samples())


NESTED = {
    "rbf": RBF(0.3),
    "rbf, ard": RBF([0.1, 1 / 3]),
    "matern": Matern(2.5, [0.7, 2.0]),
    "tensor": TensorProduct(Matern(0.5, [0.3, 0.9])),
    "tensor of several": TensorProduct([RBF(0.3), 2.0 * Matern(1.5, 0.1) + RBF(1.0)]),
    "additive": Additive(RBF(0.1)),
    "additive of several": Additive([Warped(RBF(0.3), "log"), Matern(0.5, 0.7)]),
    "sum": RBF(0.1) + Matern(1.5, [1.0, 2.0]) + 3.0 * RBF(2.0),
    "product": RBF(0.1) * (Matern(1.5, 0.2) + RBF(3.0)),
    "scaled": 0.1 * RBF(1 / 7),
    "log": Warped(Matern(2.5, [0.1, 0.2]) * RBF(1.0), "log"),
    "deep": 0.7 * Warped(0.1 * (TensorProduct([0.3 * RBF(1 / 3), Matern(1.5, 1e-3)]) + Additive(RBF(1e300))), "log"),
}

FITS = {
    "automatic": lambda: cbq.CBQ().fit(samples()),
    "one coordinate": lambda: cbq.CBQ().fit(samples(p=1)),
    "two outputs": lambda: cbq.CBQ().fit(samples(outputs=(2,))),
    "sobol": lambda: cbq.CBQ().fit(samples(design="sobol")),
    "ragged": lambda: cbq.CBQ().fit(ragged()),
    "one theta": lambda: cbq.CBQ().fit(samples(T=1)),
    "two thetas": lambda: cbq.CBQ(trend=None).fit(samples(T=2)),
    "plain, with a trend": lambda: cbq.CBQ(calibrate=False, trend=np.int64(1)).fit(samples()),
    "logs": lambda: cbq.CBQ(log_theta=True, noise=0.01).fit(samples()),
    "a Stein kernel of x": lambda: cbq.CBQ(kernel_x=Stein(RBF())).fit(samples()),
    "the paper's": lambda: cbq.CBQ.paper().fit(samples(outputs=(2,))),
    "fortran order": lambda: cbq.CBQ().fit(cbq.Samples(np.asfortranarray(THETA), X, F, MEASURE)),
    "fitted kernel": given(TensorProduct([RBF(), 2.0 * Matern(1.5)])),
    "borrowed points": lambda: cbq.CBQ(borrow=9).fit(drawn()),
    "chosen": lambda: cbq.CBQ().fit(samples()).with_choice("this one, because it is the best."),
}


@pytest.fixture(scope="module")
def fit():
    return cbq.CBQ().fit(samples(outputs=(2,)))


def through_a_file(fit, tmp_path):
    path = tmp_path / "a fit"
    fit.save(path)
    return cbq.load(path)


def assert_same(one, other):
    """Equal to the last bit, in type, shape and layout."""
    if isinstance(one, tuple):
        assert len(one) == len(other)
        for a, b in zip(one, other, strict=True):
            assert_same(a, b)
        return
    assert (one.dtype, one.shape, one.flags.c_contiguous) == (other.dtype, other.shape, other.flags.c_contiguous)
    np.testing.assert_array_equal(one, other)


def assert_same_answers(fit, again, theta):
    assert type(again) is type(fit)
    assert repr(again) == repr(fit)
    assert again.summary() == fit.summary()
    assert (again.settings, again.warnings, again.design) == (fit.settings, fit.warnings, fit.design)
    assert again.choice == fit.choice
    assert_same(again.theta, fit.theta)
    assert_same(again.counts, fit.counts)
    assert (again.rows is None) == (fit.rows is None)
    if fit.rows is not None:
        assert_same(again.rows, fit.rows)
    assert_same(again.predict(theta, return_std=True), fit.predict(theta, return_std=True))
    assert_same(again.predict(theta, return_cov=True), fit.predict(theta, return_cov=True))
    assert_same(again.interval(theta, 0.8), fit.interval(theta, 0.8))
    assert_same(again.sample(theta, 3, rng=0), fit.sample(theta, 3, rng=0))
    assert_same(again.weights(theta), fit.weights(theta))
    for name in ("mean", "std", "bias", "spread", "amplitude", "weights", "counts"):
        assert_same(getattr(again.stage1, name), getattr(fit.stage1, name))
    assert again.stage1.hyperparameters == fit.stage1.hyperparameters
    assert again.stage1.warnings == fit.stage1.warnings
    if len(fit.theta) > 1:
        one, other = again.leave_one_out(), fit.leave_one_out()
        assert_same((one.residual, one.std), (other.residual, other.std))


# what comes back


@pytest.mark.parametrize("make", FITS.values(), ids=FITS)
def test_a_loaded_fit_gives_the_same_answers(make, tmp_path):
    fit = make()
    theta = np.concatenate([fit.theta, RNG.uniform(1, 3, (7, fit.p))])
    again = through_a_file(fit, tmp_path)
    assert_same_answers(fit, again, theta)
    assert_same_answers(fit, through_a_file(again, tmp_path), theta)


@pytest.mark.parametrize("kernel", NESTED.values(), ids=NESTED)
def test_a_kernel_over_theta_comes_back(kernel, tmp_path):
    text, numbers = pack_measure(kernel)  # which packs any saved object
    assert "NaN" not in text
    assert len(numbers) == 0
    again = unpack_measure(text, numbers, Kernel)
    assert repr(again) == repr(kernel)
    assert_same(again.gram(THETA), kernel.gram(THETA))
    assert_same(again.log_lengthscales, kernel.log_lengthscales)


@pytest.mark.parametrize("name", ["deep", "additive of several"])
def test_a_fit_with_a_nested_kernel_comes_back(name, tmp_path):
    fit = given(NESTED[name])()
    assert_same_answers(fit, through_a_file(fit, tmp_path), THETA[:2] + 0.1)


def test_every_kernel_is_saved_or_refused():
    exported = {kind for name in cbq.kernels.__all__ if isinstance(kind := getattr(cbq.kernels, name), type)}
    known = {cls for cls in saved_classes(Kernel).values() if cls.__module__.startswith("cbq.")}
    assert exported - known == {Kernel, Radial, CustomKernel, Stein}
    assert {type(part) for part in NESTED.values()} == known - {XThetaKernel}


def test_the_plot_of_a_loaded_fit_is_the_same(fit, tmp_path):
    def picture(fit):
        file = io.BytesIO()
        fit.plot(points=6).savefig(file, format="png", dpi=30)
        return file.getvalue()

    assert picture(fit) == picture(through_a_file(fit, tmp_path))


def test_warnings_are_not_doubled(tmp_path):
    fit = cbq.CBQ().fit(cbq.Samples(THETA[:1], X[:1, :3], F[:1, :3], MEASURE))
    assert len(fit.stage1.warnings) == 1
    assert len(fit.warnings) == 2
    again = through_a_file(through_a_file(fit, tmp_path), tmp_path)
    assert again.warnings == fit.warnings
    assert again.stage1.warnings == fit.stage1.warnings


def test_evidence_of_minus_infinity_comes_back(fit, tmp_path):
    from dataclasses import replace

    priors = [[*each, replace(each[0], evidence=-np.inf)] for each in fit.priors]
    odd = CBQFit(fit.theta, fit.stage1, priors, design="iid", calibration=fit.theta_calibration, settings=fit.settings)
    again = through_a_file(odd, tmp_path)
    assert again.priors[1][-1].evidence == -np.inf
    assert_same(again.predict(THETA), fit.predict(THETA))


def test_a_loaded_fit_is_frozen(fit, tmp_path):
    again = through_a_file(fit, tmp_path)
    assert not any(array.flags.writeable for array in (again.theta, again.stage1.mean, again.stage1.point_weights))
    with pytest.raises(AttributeError, match="cannot be changed"):
        again.theta = THETA


# the baselines


def family(theta):
    return Gaussian(theta[0], cov=1.0 + theta[1])


def drawn(outputs=True, counts=(3, 6, 2, 4, 5), **options):
    x = [row[:n] for row, n in zip(X, counts, strict=True)]
    f = [np.stack([np.sin(row), row**2], axis=1) if outputs else np.sin(row) for row in x]
    return cbq.Samples(THETA, x, f, family, depends_on_theta=False, **options)


BASELINES = {
    "averages": lambda: cbq.MonteCarlo().fit(drawn()),
    "averages of equal thetas": lambda: cbq.MonteCarlo().fit(
        cbq.Samples(THETA[[0, 1, 0]], X[:3], F[:3], MEASURE, design="sobol")
    ),
    "plain": lambda: cbq.ImportanceSampling("plain").fit(drawn(outputs=False, design="mcmc")),
    "self-normalised": lambda: cbq.ImportanceSampling("self-normalised").fit(drawn()),
    "balance": lambda: cbq.ImportanceSampling().fit(drawn()),
    "balance, one output and equal counts": lambda: cbq.ImportanceSampling().fit(drawn(outputs=False, counts=[6] * 5)),
    "no family but measures": lambda: cbq.ImportanceSampling().fit(
        cbq.Samples(THETA, X, F, [family(t) for t in THETA], depends_on_theta=False)
    ),
    "bounds of a random f": lambda: cbq.ImportanceSampling().fit(drawn(stochastic=True, bounds=([-1, 0], [1, np.inf]))),
    "polynomial": lambda: cbq.LSMC().fit(drawn()),
    "given polynomial": lambda: cbq.LSMC(degree=np.int64(1), ridge=np.float64(0.1)).fit(drawn(outputs=False)),
    "constant": lambda: cbq.LSMC().fit(samples(T=2)),
    "kernel": lambda: cbq.KLSMC(ridge=0.1).fit(drawn()),
    "given kernel": lambda: cbq.KLSMC(0.3 * NESTED["additive of several"], ridge=0.01).fit(drawn(outputs=False)),
}


def answers(fit):
    """All that a baseline can be asked: at its own thetas, and at others if it knows them; or why it has no answer."""
    free = not isinstance(fit, MonteCarloFit) and getattr(fit, "samples", samples()).family is not None
    theta = np.concatenate([fit.theta, THETA[:3] + 0.1]) if free else fit.theta
    found = [fit.theta, fit.predict(theta)]
    for ask in (
        lambda: fit.predict(theta, return_std=True),
        lambda: fit.predict(theta, return_cov=True),
        lambda: fit.interval(theta, 0.8),
        lambda: fit.sample(theta, 3, rng=0),
        lambda: fit.weights(theta),
        lambda: fit.effective_sample_size(theta),
    ):
        try:
            found.append(ask())
        except (ValueError, AttributeError) as error:
            found.append(str(error))
    return found, (fit.summary(), repr(fit), fit.warnings, fit.design)


@pytest.mark.parametrize("make", BASELINES.values(), ids=BASELINES)
def test_a_loaded_baseline_gives_the_same_answers(make, tmp_path):
    fit, path = make(), tmp_path / "fit"
    fit.save(path)
    again = cbq.load(path, family=getattr(fit, "samples", samples()).family)
    assert type(again) is type(fit)
    again.save(tmp_path / "again")
    assert path.read_bytes() == (tmp_path / "again").read_bytes()
    if hasattr(fit, "settings"):
        assert again.settings == fit.settings
    if hasattr(fit, "samples"):
        assert again.samples.stochastic is fit.samples.stochastic
        np.testing.assert_array_equal(again.samples.bounds, fit.samples.bounds)
    (numbers, words), (same_numbers, same_words) = answers(again), answers(fit)
    assert words == same_words
    for one, other in zip(numbers, same_numbers, strict=True):
        if isinstance(one, str):
            assert one == other
        else:
            assert_same(one, other)


NEEDS_FAMILY = (
    r"holds a fit that needs the measure of x at any theta, .* no code. Pass the function from theta to its measure "
    r"again: cbq.load\('.*fit', family=problem.family\)\.$"
)


def test_a_fit_that_needs_the_measures_is_not_loaded_without_them(tmp_path):
    path = tmp_path / "fit"
    cbq.ImportanceSampling().fit(drawn()).save(path)
    refuses(path, NEEDS_FAMILY)
    with pytest.raises(TypeError, match=r"family must be a function from theta to the measure of x, .* is a Gaussian"):
        cbq.load(path, family=MEASURE)


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        (lambda theta: Gaussian(theta[0], 1.0), r"is not the one of the fit: at theta = .* log density"),
        (lambda theta: Gaussian(theta, 1.0), "in 2 dimensions, but x has 1"),
        (lambda theta: Uniform(-0.001, 0.001), "x must lie where the density of its measure is positive"),
        (lambda theta: theta["a"], "the family gives no measure at theta index t = 0"),
        (lambda theta: None, "the family gives no measure at theta index t = 0"),
    ],
)
def test_another_family_than_that_of_the_fit_is_refused(wrong, says, tmp_path):
    path = tmp_path / "fit"
    cbq.ImportanceSampling("plain").fit(drawn()).save(path)
    with pytest.raises(ValueError, match=f"(?s)does not go with this family.*{says}") as caught:
        cbq.load(path, family=wrong)
    assert "damaged" not in str(caught.value)


def test_a_family_that_is_not_needed_is_left_unused(fit, tmp_path):
    fit.save(tmp_path / "fit")
    assert_same(cbq.load(tmp_path / "fit", family=family).predict(THETA), fit.predict(THETA))


CURVE = ("fit", "curves", 1)
WRONG_BASELINES = {
    "design": ("averages", ("fit", "design"), "grid", "one of iid, sobol, mcmc, adaptive, but it is 'grid'"),
    "single": ("averages", ("fit", "single"), True, "fit/single must be false, since C = 2, but it is True"),
    "kind": ("balance", ("fit", "kind"), "optimal", "fit/kind must be one of plain, self-normalised, balance"),
    "single kind": ("balance", ("fit", "samples", "single"), 1, "single must be true or false, but it is 1"),
    "dependent": ("balance", ("fit", "samples", "depends_on_theta"), True, "an f that does not depend on theta"),
    "curves": ("polynomial", ("fit", "curves"), [], "fit/curves must hold C = 2, but it holds 0"),
    "degree": ("polynomial", (*CURVE, "degree"), 10**9, "degree 1000000000 has too many coefficients for 5 thetas"),
    "negative degree": ("polynomial", (*CURVE, "degree"), -1, "fit/curves/1/degree must be 0 or more, but it is -1"),
    "real degree": ("polynomial", (*CURVE, "degree"), 1.0, "fit/curves/1/degree must be an integer, but it is 1.0"),
    "no degree": ("polynomial", CURVE, 3, "fit/curves/1 must be an object, but it is 3"),
    "ridge": ("polynomial", (*CURVE, "ridge"), -1.0, "fit/curves/1/ridge must be a finite number of at least 0"),
    "no ridge": ("kernel", (*CURVE, "ridge"), "removed", "fit/curves/1/ridge is missing"),
    "unknown": ("kernel", (*CURVE, "slope"), 1.0, "fit/curves/1/slope is unknown: the fields are kernel, ridge"),
    "curve": ("kernel", CURVE, "RBF", "fit/curves/1 must be an object, but it is 'RBF'"),
    "kernel": ("kernel", (*CURVE, "kernel"), {"type": "RBF", "lengthscale": [1.0] * 3}, "3 lengthscales"),
    "settings": ("kernel", ("fit", "settings"), {"ridge": 1}, "fit/settings/ridge must be a text"),
    "findings": ("kernel", ("fit", "findings"), [1], "fit/findings/0 must be an object with a type"),
    "averages": ("averages", ("fit", "averages", "type"), "Samples", None),
}


def entries_of(fit, path):
    fit.save(path)
    with zipfile.ZipFile(path) as file:
        return {name: file.read(name) for name in file.namelist()}


@pytest.mark.parametrize(("kind", "steps", "value", "says"), WRONG_BASELINES.values(), ids=WRONG_BASELINES)
def test_wrong_json_of_a_baseline_is_refused(kind, steps, value, says, tmp_path):
    entries = entries_of(BASELINES[kind](), tmp_path / "fit")
    path = written(tmp_path / "wrong", with_json(entries, *steps, value=value))
    expected = "holds fit/averages of type 'Samples'" if says is None else f"is damaged: .*{says}"
    with pytest.raises(ValueError, match=expected):
        cbq.load(path, family=family)


def npy(array, **options):
    file = io.BytesIO()
    np.save(file, array, **options)
    return file.getvalue()


WRONG_BASELINE_ARRAYS = {
    "variance": ("averages", "averages/variance", npy(np.full((5, 2), -1.0)), "variance must be at least 0"),
    "counts": ("averages", "averages/counts", npy(np.zeros(5, dtype=np.int64)), "counts must be at least 1"),
    "mean": ("polynomial", "averages/mean", npy(np.full((5, 2), np.nan)), "mean must be finite"),
    "theta": ("kernel", "averages/theta", npy(np.ones((4, 2))), r"counts must have the shape \(T = 4,\)"),
    "no correlation": ("averages", "averages/correlation", None, "it has no entry fit/averages/correlation.npy"),
    "correlation": ("kernel", "averages/correlation", npy(np.ones((2, 2)) * 2), "must be symmetric, with ones on its"),
    "points": (
        "balance",
        "samples/x",
        npy(np.ones((19, 1))),
        r"x must have the shape \(n = 20, d\), but it has \(19, 1\)",
    ),
    "values": ("balance", "samples/f", npy(np.full((20, 2), np.inf)), "f must be finite"),
    "densities": ("plain", "log_q", npy(np.full(20, np.inf)), "log_q must be finite"),
    "no densities": ("plain", "samples/log_density", None, "it has no entry fit/samples/log_density.npy"),
}


@pytest.mark.parametrize(("kind", "name", "data", "says"), WRONG_BASELINE_ARRAYS.values(), ids=WRONG_BASELINE_ARRAYS)
def test_wrong_arrays_of_a_baseline_are_refused(kind, name, data, says, tmp_path):
    entries = entries_of(BASELINES[kind](), tmp_path / "fit")
    path = written(tmp_path / "wrong", with_array(entries, name, data))
    with pytest.raises(ValueError, match=f"is damaged: .*{says}"):
        cbq.load(path, family=family)


def test_the_names_of_fits_in_files():
    assert set(saved_classes(Fit)) == {
        "CBQ",
        "MonteCarlo",
        "ImportanceSampling",
        "LSMC",
        "KLSMC",
        "MOBQ",
        "MOBQ.kronecker",
        "LatentBQ",
    }


# multi-output Bayesian quadrature, which needs the family


def dependent(outputs=True):
    f = np.stack([np.sin(X) + THETA[:, :1], X**2 * THETA[:, 1:]], axis=-1)
    return cbq.Samples(THETA, X, f if outputs else f[..., 0], family)


def on_a_grid(outputs=True):
    """Samples whose thetas share a design, in normal scores."""
    v = np.linspace(-1.5, 1.5, 5)
    x = np.stack([family(theta).transport(v[:, None], "normal")[:, 0] for theta in THETA])
    f = np.stack([np.sin(x) + THETA[:, :1], x**2 * THETA[:, 1:]], axis=-1)
    return cbq.Samples(THETA, x, f if outputs else f[..., 0], family)


POOLED = {
    "exact": lambda: cbq.MOBQ().fit(drawn(outputs=False)),
    "ragged, two outputs in one process": lambda: cbq.MOBQ(outputs="shared").fit(drawn(design="mcmc")),
    "landmarks": lambda: cbq.MOBQ(nystrom=6, seed=3).fit(drawn()),
    "x and theta": lambda: cbq.MOBQ().fit(dependent(outputs=False)),
    "x and theta, two processes": lambda: cbq.MOBQ(ard=False, jitter=cbq.linalg.Jitter(1e-9)).fit(dependent()),
    "x and theta, landmarks": lambda: cbq.MOBQ(nystrom=7).fit(dependent()),
    "given kernels": lambda: cbq.MOBQ(RBF() + 0.5 * Matern(1.5), Warped(Matern(2.5), "log")).fit(dependent()),
    "a grid": lambda: cbq.MOBQ(structure="kronecker").fit(on_a_grid()),
    "draws": lambda: cbq.MOBQ().fit(
        cbq.Samples(THETA, X, np.sin(X) + 0.1 * np.cos(50 * X), family, depends_on_theta=False, stochastic=True)
    ),
    "repeated points": lambda: cbq.MOBQ(kernel_x=RBF(0.5), nystrom=6).fit(
        cbq.Samples(THETA, X[:, [0, 1, 2, 0]], X[:, [0, 1, 2, 3]], family, depends_on_theta=False)
    ),
}


@pytest.mark.parametrize("make", POOLED.values(), ids=POOLED)
def test_a_loaded_pooled_fit_gives_the_same_answers(make, tmp_path):
    fit, path = make(), tmp_path / "fit"
    fit.save(path)
    again = cbq.load(path, family=family)
    assert type(again) is type(fit)
    assert (again.summary(), repr(again)) == (fit.summary(), repr(fit))
    assert (again.settings, again.warnings, again.jitter) == (fit.settings, fit.warnings, fit.jitter)
    assert again.calibrated_by == fit.calibrated_by
    theta = np.concatenate([fit.theta, THETA[:3] + 0.1])
    assert_same(again.theta, fit.theta)
    assert_same(again.predict(theta, return_std=True), fit.predict(theta, return_std=True))
    assert_same(again.predict(theta, return_cov=True), fit.predict(theta, return_cov=True))
    assert_same(again.interval(theta, 0.8), fit.interval(theta, 0.8))
    assert_same(again.sample(theta, 3, rng=0), fit.sample(theta, 3, rng=0))
    for one, other in zip(again.groups, fit.groups, strict=True):
        assert (one.outputs, one.chosen.tried) == (other.outputs, other.chosen.tried)
        assert_same(one.chosen.weights, other.chosen.weights)
        for member, same in zip(one.chosen.members, other.chosen.members, strict=True):
            assert_same(member.kernel.log_lengthscales, same.kernel.log_lengthscales)
            assert (member.error, member.residual, member.noise) == (same.error, same.residual, same.noise)
        found, saved = (getattr(group, "landmarks", None) for group in (one, other))  # a grid has none
        assert (found is None) == (saved is None)
        if found is not None:
            assert_same(found, saved)
    again.save(tmp_path / "again")
    assert path.read_bytes() == (tmp_path / "again").read_bytes()


def test_the_pooled_fits_that_come_back_are_of_all_kinds():
    """Landmarks or none, one process or several, x alone or x and theta, merged points: the list above has them."""
    fits = {name: make() for name, make in POOLED.items()}
    assert [len(fits[name].groups) for name in ("x and theta, two processes", "exact")] == [2, 1]
    assert all(part.landmarks is not None for part in fits["x and theta, landmarks"].groups)
    assert fits["landmarks"].groups[0].outputs == (0, 1)
    (noise,) = (each.text for each in fits["repeated points"].findings if each.kind == "noise")
    assert "different values at equal points" in noise


def test_a_pooled_fit_without_a_family_is_loaded_with_one(tmp_path):
    fit = cbq.MOBQ().fit(cbq.Samples(THETA, X, np.sin(X), [family(t) for t in THETA], depends_on_theta=False))
    fit.save(tmp_path / "fit")
    again = cbq.load(tmp_path / "fit", family=family)
    assert_same(again.predict(THETA, return_cov=True), fit.predict(THETA, return_cov=True))
    assert again.predict(THETA + 0.1).shape == (5,)


def test_a_pooled_fit_is_not_loaded_without_its_measures(tmp_path):
    path = tmp_path / "fit"
    POOLED["exact"]().save(path)
    refuses(path, NEEDS_FAMILY)
    with pytest.raises(ValueError, match=r"does not go with this family.*log density") as caught:
        cbq.load(path, family=lambda theta: Gaussian(theta[0], 1.0))
    assert "damaged" not in str(caught.value)


def test_measures_without_densities_are_told_by_their_integrals(tmp_path):
    def atoms(theta):
        return Empirical([-1.0, 0.5, 2.0, theta[0]])

    x = np.stack([np.append([-1.0, 0.5, 2.0], t) for t in THETA[:, 0]])
    fit, path = cbq.MOBQ().fit(cbq.Samples(THETA, x, np.sin(x), atoms, depends_on_theta=False)), tmp_path / "fit"
    fit.save(path)
    assert_same(cbq.load(path, family=atoms).predict(THETA), fit.predict(THETA))
    with pytest.raises(
        ValueError, match=r"does not go with this family.*at theta = .* its measure has other integrals"
    ):
        cbq.load(path, family=lambda theta: Empirical([-1.0, 0.5, 2.0, theta[0] + 0.01]))


PART = ("fit", "groups", 0)
CHOSEN, CALIBRATION = (*PART, "chosen"), ("fit", "calibrated_by")
MEMBER = (*CHOSEN, "members", 0)
KERNEL_X, KERNEL_THETA = (*MEMBER, "kernel", "kernel_x"), (*MEMBER, "kernel", "kernel_theta")
WRONG_POOLED = {
    "design": (("fit", "samples", "design"), "grid", "fit/samples/design must be one of iid, sobol, mcmc, adaptive"),
    "depends": (("fit", "samples", "depends_on_theta"), 1, "depends_on_theta must be true or false, but it is 1"),
    "independent": (("fit", "samples", "depends_on_theta"), False, "the kernel must be one of x, but it is"),
    "no depends": (("fit", "samples", "depends_on_theta"), "removed", "fit/samples/depends_on_theta is missing"),
    "single": (("fit", "samples", "single"), True, "fit/samples/single must be false, since C = 2"),
    "groups": (("fit", "groups"), {}, "fit/groups must be a list"),
    "no parts": (("fit", "groups"), [], "fit/groups must hold 1 or more, but it holds 0"),
    "part": (PART, 3, "fit/groups/0 must be an object with a type, but it is 3"),
    "outputs": ((*PART, "outputs"), [2], "the outputs of all groups must be the numbers below 2, each of them once"),
    "negative output": ((*PART, "outputs"), [-1], "fit/groups/0/outputs/0 must be 0 or more, but it is -1"),
    "true output": ((*PART, "outputs"), [True], "fit/groups/0/outputs/0 must be an integer, but it is True"),
    "no output": ((*PART, "outputs"), [], "fit/groups/0/outputs must hold 1 or more, but it holds 0"),
    "equal outputs": ((*PART, "outputs"), [1], "must be the numbers below 2, each of them once"),
    "members": ((*CHOSEN, "members"), [], "chosen/members must hold 1 or more, but it holds 0"),
    "residual": ((*MEMBER, "residual"), -1.0, "members/0/residual must be a finite number of at least 0"),
    "noise": ((*MEMBER, "noise"), "none", "members/0/noise must be a number"),
    "weight": ((*MEMBER, "weight"), 0.5, "members/0/weight is unknown: the fields are kernel, error, residual, noise"),
    "error": ((*MEMBER, "error"), -1.0, "members/0/error must be a finite number of at least 0"),
    "no error": ((*MEMBER, "error"), "removed", "fit/groups/0/chosen/members/0/error is missing"),
    "tried": ((*CHOSEN, "tried"), 0, "chosen/tried must be 1 or more, but it is 0"),
    "tried kind": ((*CHOSEN, "tried"), 2.0, "chosen/tried must be an integer"),
    "landmarks": ((*PART, "landmarks"), "no", "must be 'fit/groups/0/landmarks.npy', the name of an entry"),
    "no landmarks": ((*PART, "landmarks"), None, "entries that do not belong to it: fit/groups/0/landmarks.npy"),
    "kernels": ((*MEMBER, "kernel"), "RBF", "chosen/members/0/kernel must be an object with a type"),
    "kernel of x": (KERNEL_X, "removed", "chosen/members/0/kernel/kernel_x is missing"),
    "kernel of theta": (KERNEL_THETA, "removed", "chosen/members/0/kernel/kernel_theta is missing"),
    "kernel of x alone": ((*MEMBER, "kernel"), {"type": "RBF", "lengthscale": 1.0}, "must be one of x and theta"),
    "dimension": ((*MEMBER, "kernel", "d"), 2, "the kernel is for x in 2 dimensions, but x has 1"),
    "no dimension": ((*MEMBER, "kernel", "d"), 0, "kernel/d must be 1 or more, but it is 0"),
    "lengthscales": (KERNEL_X, {"type": "RBF", "lengthscale": [1.0] * 2}, "2 lengthscales"),
    "lengthscales of theta": (KERNEL_THETA, {"type": "RBF", "lengthscale": [1.0] * 3}, "3 lengthscales"),
    "a batch": (KERNEL_X, {"type": "RBF", "lengthscale": [[1.0], [2.0]]}, "has the lengthscales of several kernels"),
    "no lengthscale": (KERNEL_X, {"type": "RBF", "lengthscale": None}, "kernel_x/lengthscale must be a number"),
    "jitter": (("fit", "jitter"), 1e-9, "fit/jitter must be an object"),
    "start": (("fit", "jitter", "start"), -1.0, "fit/jitter/start must be a finite number of at least 0"),
    "ceiling": (("fit", "jitter", "ceiling"), 0.0, "fit/jitter: jitter needs 0 <= start <= ceiling"),
    "no ceiling": (("fit", "jitter", "ceiling"), "removed", "fit/jitter/ceiling is missing"),
    "settings": (("fit", "settings"), {"nystrom": 1}, "fit/settings/nystrom must be a text"),
    "findings": (("fit", "findings"), [1], "fit/findings/0 must be an object with a type"),
    "factor": ((*CALIBRATION, "factor"), 0.5, "factor must be a finite number of at least 1"),
    "common": ((*CALIBRATION, "common"), None, "calibrated_by/common must be a number, but it is None"),
    "negative common": ((*CALIBRATION, "common"), -1.0, "common must be a finite number of at least 0"),
    "points": ((*CALIBRATION, "points"), 2, "points must be 3 or more"),
    "no calibration": (CALIBRATION, "removed", "fit/calibrated_by is missing"),
}


@pytest.fixture(scope="module")
def pooled_entries(tmp_path_factory):
    return entries_of(POOLED["x and theta, landmarks"](), tmp_path_factory.mktemp("pooled") / "fit")


def refuses_damage(path, says):
    with pytest.raises(ValueError, match=f"(?s)is damaged: .*{says}") as caught:
        cbq.load(path, family=family)
    assert str(caught.value).startswith(str(path))


@pytest.mark.parametrize(("steps", "value", "says"), WRONG_POOLED.values(), ids=WRONG_POOLED)
def test_wrong_json_of_a_pooled_fit_is_refused(steps, value, says, pooled_entries, tmp_path):
    refuses_damage(written(tmp_path / "wrong", with_json(pooled_entries, *steps, value=value)), says)


WRONG_POOLED_ARRAYS = {
    "points": ("samples/x", npy(np.ones((29, 1))), r"x must have the shape \(n = 30, d\), but it has \(29, 1\)"),
    "values": ("samples/f", npy(np.full((30, 2), np.inf)), "f must be finite"),
    "other outputs": ("samples/f", npy(np.ones((30, 3))), "samples/names/f must hold C = 3, but it holds 2"),
    "densities": ("samples/log_density", npy(np.full(30, np.nan)), "log_density must be finite"),
    "no densities": ("samples/log_density", None, "it has no entry fit/samples/log_density.npy"),
    "counts": ("samples/counts", npy(np.zeros(5, dtype=np.int64)), "counts must be at least 1"),
    "theta": ("samples/theta", npy(np.ones((4, 2))), r"counts must have the shape \(T = 4,\)"),
    "embedding": ("embedding", npy(np.ones((5, 4))), r"embedding must have the shape \(5, 5\), but it has \(5, 4\)"),
    "no landmarks": ("groups/0/landmarks", None, "it has no entry fit/groups/0/landmarks.npy"),
    "real landmarks": ("groups/0/landmarks", npy(np.ones(3)), "landmarks.npy must hold values of type int64"),
    "empty landmarks": (
        "groups/1/landmarks",
        npy(np.ones(0, dtype=np.int64)),
        r"fit/groups/1/landmarks must have the shape \(m,\)",
    ),
    "negative landmarks": ("groups/0/landmarks", npy(np.array([0, -1])), "landmarks must be at least 0"),
    "far landmarks": (
        "groups/0/landmarks",
        npy(np.array([0, 30])),
        "landmarks of a group must be different .* below 30",
    ),
    "equal landmarks": ("groups/0/landmarks", npy(np.array([4, 4])), "landmarks of a group must be different numbers"),
}


@pytest.mark.parametrize(("name", "data", "says"), WRONG_POOLED_ARRAYS.values(), ids=WRONG_POOLED_ARRAYS)
def test_wrong_arrays_of_a_pooled_fit_are_refused(name, data, says, pooled_entries, tmp_path):
    refuses_damage(written(tmp_path / "wrong", with_array(pooled_entries, name, data)), says)


def test_groups_of_other_outputs_than_those_of_the_samples_are_refused(pooled_entries, tmp_path):
    more = with_array(pooled_entries, "samples/f", npy(np.ones((30, 3))))
    named = with_json(more, "fit", "samples", "names", "f", value=["f_0", "f_1", "f_2"])
    refuses_damage(written(tmp_path / "wrong", named), "the outputs of all groups must be the numbers below 3")


def test_a_pooled_fit_with_other_points_is_refused_with_its_family(pooled_entries, tmp_path):
    path = written(tmp_path / "wrong", with_array(pooled_entries, "samples/x", npy(np.full((30, 1), 0.5))))
    with pytest.raises(ValueError, match="does not go with this family"):
        cbq.load(path, family=family)


def test_kernels_of_x_that_hold_code_are_refused(tmp_path):
    s = cbq.Samples([1.0, 2.0], X[:2], np.sin(X[:2]), lambda t: Empirical(X[:2].ravel()), depends_on_theta=False)
    fit = cbq.MOBQ(kernel_x=Warped(RBF(1.0), own_warp)).fit(s)
    with pytest.raises(
        ValueError, match=r"fit/groups/0/chosen/members/0/kernel/warp is UserTransform\('own_warp'\) .* holds a"
    ):
        fit.save(tmp_path / "fit")
    theta = cbq.MOBQ(kernel_theta=Warped(RBF(1.0), own_warp)).fit(dependent())
    with pytest.raises(ValueError, match=r"kernel_theta/warp is UserTransform\('own_warp'\) of .* holds a function"):
        theta.save(tmp_path / "fit")
    assert os.listdir(tmp_path) == []


# measures in the file, in place of a family


def known_measures():
    """One measure for all thetas, of every kind; and several, in all the ways in which they can be given."""
    positive = np.exp(X)
    for measure in (
        Gaussian(0.3, cov=2.0),
        from_scipy(stats.gumbel_r(0.1, 0.9)),
        Mixture([0.25, 0.75], [Gaussian(0.0, 1.0), StudentT(3.0, 0.5, 2.0)]),
        TruncatedGaussian(0.1, 1.3, -9.0, np.inf),
        Uniform(-9.0, 8.0),
    ):
        yield type(measure).__name__, X, measure
    for measure in (Gamma(2.0, 0.7), LogNormal(0.1, cov=0.9), Exponential(0.3)):
        yield type(measure).__name__, positive, measure
    yield "two dimensions", np.stack([X, positive], axis=-1), Product([Gaussian(0.0, cov=1.1), Gamma(2.0, 0.7)])
    yield "correlated", np.stack([X, X**2], axis=-1), Gaussian([0.1, 0.2], [[1.0, 0.3], [0.3, 2.0]])
    yield "a list", X, [family(t) for t in THETA]
    yield "a list of kinds", X, [Gaussian(0.1, 1.0), *(StudentT(3.0, 0.0, t) for t in THETA[1:, 0])]
    yield "a list of one object", X, [Gaussian(0.3, cov=2.0)] * 5
    yield "a batch", X, Gaussian(THETA[:, :1], cov=1.0 + THETA[:, 1:])


NEED_MEASURES = {"mobq": cbq.MOBQ(), "importance sampling": cbq.ImportanceSampling()}
KNOWN = {
    f"{estimator}, {name}": (x, measure, NEED_MEASURES[estimator])
    for name, x, measure in known_measures()
    for estimator in NEED_MEASURES
    if (estimator, name) != ("mobq", "ScipyDistribution")  # which has no embedding
}


@pytest.mark.filterwarnings("ignore:tails:cbq.FitWarning")  # some of the measures fall as a power
@pytest.mark.parametrize(("x", "measure", "estimator"), KNOWN.values(), ids=KNOWN)
def test_a_fit_of_known_measures_is_loaded_without_a_family(x, measure, estimator, tmp_path):
    values = np.sin(x) if x.ndim == 2 else np.sin(x[..., 0]) * x[..., 1]
    fit = estimator.fit(cbq.Samples(THETA, x, values, measure, depends_on_theta=False))
    fit.save(tmp_path / "fit")
    again = cbq.load(tmp_path / "fit")
    everywhere = fit.samples.conditional.everywhere
    assert again.samples.conditional.everywhere == everywhere
    theta = np.concatenate([THETA, THETA + 0.1]) if everywhere else THETA
    assert_same(again.predict(theta, return_cov=True), fit.predict(theta, return_cov=True))
    assert_same(again.interval(theta), fit.interval(theta))
    assert again.summary() == fit.summary()
    assert "family=" not in fit.summary()
    again.save(tmp_path / "again")
    assert (tmp_path / "fit").read_bytes() == (tmp_path / "again").read_bytes()
    if not everywhere:
        with pytest.raises(ValueError, match="the measure of x is not known at theta"):
            again.predict(THETA + 0.1)


class OwnMeasure(Gaussian):
    pass


def test_a_fit_says_that_loading_it_needs_a_family(tmp_path):
    says = "Saving: a file holds no code, so loading needs the family again: cbq.load(path, family=...)."
    assert says in POOLED["exact"]().summary().splitlines()
    assert says in BASELINES["balance"]().summary().splitlines()
    for fit in (FITS["borrowed points"](), BASELINES["averages"](), BASELINES["kernel"]()):
        assert "family" not in fit.summary()
    own = cbq.MOBQ().fit(cbq.Samples(THETA, X, F, OwnMeasure(0.0, 1.0), depends_on_theta=False))
    assert says in own.summary().splitlines()
    own.save(tmp_path / "fit")
    refuses(tmp_path / "fit", NEEDS_FAMILY)
    assert_same(
        cbq.load(tmp_path / "fit", family=lambda theta: OwnMeasure(0.0, 1.0)).predict(THETA), own.predict(THETA)
    )


@pytest.mark.parametrize("estimator", NEED_MEASURES.values(), ids=NEED_MEASURES)
def test_measures_in_a_file_that_are_not_those_of_its_points_are_refused(estimator, tmp_path):
    fit = estimator.fit(cbq.Samples(THETA, X, np.sin(X), [family(t) for t in THETA], depends_on_theta=False))
    entries = entries_of(fit, tmp_path / "fit")
    wrong = with_array(entries, "samples/measure/1/mean", npy(np.array([0.5])))
    refuses(written(tmp_path / "a", wrong), "is damaged: .*its measures do not match its points: at theta = .* log")
    listed = json.loads(entries["fit.json"])["fit"]["samples"]["measure"]
    few = written(tmp_path / "b", with_json(entries, "fit", "samples", "measure", value=listed[:2]))
    refuses(few, "is damaged: .* a list of 2 measures, but theta has T = 5 rows")


# the file


def test_the_file_is_json_and_plain_arrays(fit, tmp_path):
    path = tmp_path / "fit.cbq"
    fit.save(path)
    with zipfile.ZipFile(path) as file:
        header = json.loads(file.read("fit.json"))
        others = set(file.namelist()) - {"fit.json"}
        arrays = {name: np.load(io.BytesIO(file.read(name)), allow_pickle=False) for name in others}
    assert list(header) == [
        "format",
        "version",
        "cbq",
        "choice",
        "failures",
        "bounds",
        "unseen",
        "about_samples",
        "calibration",
        "fit",
        "names",
    ]
    assert [header[name] for name in ("format", "version", "cbq", "choice")] == ["cbq-fit", 11, cbq.__version__, None]
    assert header["fit"]["type"] == "CBQ"
    assert header["fit"]["settings"] == fit.settings
    assert header["fit"]["priors"][1][0]["amplitude"] == fit.priors[1][0].amplitude
    assert header["fit"]["stage1"]["mean"] == "fit/stage1/mean.npy"
    columns = {"mean", "variance", "bias", "spread2", "amplitude", "noise", "point_weights", "counts"}
    columns |= {"correlation", "stretch"}
    assert others == {f"fit/{name}.npy" for name in {"theta", "counts"} | {f"stage1/{name}" for name in columns}}
    np.testing.assert_array_equal(arrays["fit/theta.npy"], THETA)
    assert not any(array.dtype.hasobject for array in arrays.values())


def test_the_same_fit_makes_the_same_file(fit, tmp_path):
    for name in "ab":
        fit.save(tmp_path / name)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def test_the_name_is_taken_as_it_is(fit, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = ["plain", "with.suffix", "ünïcode name", "." + 200 * "x"]
    for name in names:
        fit.save(name)
        assert_same(cbq.load(name).theta, THETA)
        assert_same(cbq.load(Path(name)).theta, THETA)
    fit.save(tmp_path / "plain")
    assert sorted(os.listdir()) == sorted(names)


def test_a_link_stays_a_link_and_permissions_stay(fit, tmp_path):
    path, link = tmp_path / "fit", tmp_path / "link"
    fit.save(path)
    path.chmod(0o640)
    link.symlink_to(path)
    path.write_bytes(b"")
    fit.save(link)
    assert link.is_symlink()
    assert path.stat().st_mode & 0o777 == 0o640
    assert_same(cbq.load(path).theta, THETA)


# saving that fails


@pytest.mark.parametrize("existing", [False, True])
@pytest.mark.parametrize("error", [OSError("disk full"), KeyboardInterrupt()])
@pytest.mark.parametrize("where", ["write_array", "replace"])
def test_a_failed_save_leaves_all_as_it_was(fit, tmp_path, monkeypatch, existing, error, where):
    def fail(*arguments, **options):
        raise error

    path = tmp_path / "fit"
    if existing:
        path.write_bytes(b"precious")
    with monkeypatch.context() as patch:
        patch.setattr(np.lib.format if where == "write_array" else os, where, fail)
        with pytest.raises(type(error)):
            fit.save(path)
    assert os.listdir(tmp_path) == (["fit"] if existing else [])
    assert not existing or path.read_bytes() == b"precious"


def own_warp(x):
    return x**2


class OwnKernel(RBF):
    pass


MEASURE_2 = Gaussian([2.0, 2.0], 1.0)
REFUSED = {
    "function": (
        Warped(RBF(1.0), own_warp),
        r"fit/priors/0/0/kernel/warp is UserTransform\('own_warp'\) of type UserTransform, .* holds a function",
    ),
    "whiten": (Warped(RBF(1.0), "whiten").bind(MEASURE_2), "holds a function or a measure, and a file holds no code"),
    "gaussianise": (Warped(RBF(1.0), "gaussianise").bind(MEASURE_2), "keep the samples and fit again when needed"),
    "stein": (Stein(RBF(1.0), MEASURE_2), r"kernel is Stein\(.*\) of type Stein, which is code of your own or holds"),
    "subclass": (OwnKernel(1.0), "of type OwnKernel, .* Use RBF, Matern, SumKernel, .*TensorProduct"),
    "inside": (RBF(1.0) + 2.0 * Warped(RBF(1.0), own_warp), "this fit cannot be saved: .*parts/1/kernel/warp is User"),
}


@pytest.mark.parametrize(("kernel", "says"), REFUSED.values(), ids=REFUSED)
def test_kernels_that_hold_code_or_measures_are_refused(kernel, says, tmp_path):
    fit = given(kernel)()
    path = tmp_path / "fit"
    path.write_bytes(b"precious")
    with pytest.raises(ValueError, match=says):
        fit.save(path)
    assert os.listdir(tmp_path) == ["fit"]
    assert path.read_bytes() == b"precious"


def test_what_could_not_be_loaded_is_not_saved(fit, tmp_path):
    old = fit.stage1
    columns = {**old.columns, "amplitude": np.full((5, 2), np.nan)}
    rest = {"point_weights": old.point_weights, "counts": old.counts, "hyperparameters": old.hyperparameters}
    stage1 = StageOne(**columns, **rest, findings=(), single=False)
    odd = CBQFit(fit.theta, stage1, fit.priors, design="iid", calibration=fit.theta_calibration, settings={})
    with pytest.raises(ValueError, match="cannot be saved: fit/stage1/amplitude must be finite, but 10 values are NaN"):
        odd.save(tmp_path / "fit")
    assert os.listdir(tmp_path) == []


def test_fits_of_other_kinds_are_refused(fit, tmp_path):
    class Other(CBQFit):
        pass

    class Unknown(Fit):
        theta, C, _predictives, _description = np.zeros((1, 1)), None, *(lambda self: None,) * 2

    other = Other(fit.theta, fit.stage1, fit.priors, design="iid", calibration=fit.theta_calibration, settings={})
    for thing in (other, Unknown()):
        with pytest.raises(TypeError, match=r"cannot be saved: only fits of the classes CBQFit, .*KLSMCFit.* can"):
            thing.save(tmp_path / "fit")
    for thing in (other, Unknown(), None, fit.stage1):
        with pytest.raises(ValueError, match=r"this fit cannot be saved: fit is .* Use CBQ, .*KLSMC"):
            save_file(tmp_path / "fit", {"fit": Instance(Fit)}, {"fit": thing})
    assert os.listdir(tmp_path) == []


def test_places_that_cannot_be_written_are_refused(fit, tmp_path):
    with pytest.raises(FileNotFoundError, match=r"there is no folder .*none\. Make it first"):
        fit.save(tmp_path / "none" / "fit")
    with pytest.raises(ValueError, match=r"it is a folder or a device\. Pass the name of a file"):
        fit.save(tmp_path)
    with pytest.raises(ValueError, match="it is a folder or a device"):
        fit.save(os.devnull)
    with pytest.raises(TypeError):
        fit.save(io.BytesIO())
    assert os.listdir(tmp_path) == []


# loading what should not be loaded


@pytest.fixture(scope="module")
def entries(fit, tmp_path_factory):
    path = tmp_path_factory.mktemp("saved") / "fit"
    fit.save(path)
    with zipfile.ZipFile(path) as file:
        return {name: file.read(name) for name in file.namelist()}


def written(path, entries, **options):
    """A file of these entries, with the checksum that belongs to them."""
    with zipfile.ZipFile(path, "w", **options) as file:
        file.comment = bytes(64)
        for name, data in entries.items():
            file.writestr(name, data)
    return sealed(path)


def sealed(path):
    """The file with the right checksum at its end."""
    data = path.read_bytes()[:-64]
    path.write_bytes(data + hashlib.sha256(data).hexdigest().encode())
    return path


def with_json(entries, *steps, value="removed"):
    """The entries with the value at `steps` in fit.json replaced or removed."""
    header = json.loads(entries["fit.json"])
    *before, last = steps
    record = header
    for step in before:
        record = record[step]
    if value == "removed":
        del record[last]
    else:
        record[last] = value
    return entries | {"fit.json": json.dumps(header)}


def with_array(entries, name, data):
    """The entries with an array of the fit replaced, or without it where `data` is None."""
    entry = f"fit/{name}.npy"
    assert entry in entries
    return {key: data if key == entry else old for key, old in entries.items() if key != entry or data is not None}


def refuses(path, says):
    with pytest.raises(ValueError, match=says) as caught:
        cbq.load(path)
    assert str(caught.value).startswith(str(path))
    assert caught.value.__cause__ is not None


def test_a_file_that_is_not_there(tmp_path):
    with pytest.raises(FileNotFoundError):
        cbq.load(tmp_path / "none")


@pytest.mark.parametrize("name", ["/", "/dev/zero", "/dev/null"])
def test_what_is_no_file_is_not_read(name):
    with pytest.raises(
        ValueError, match=rf"path is '{name}', but it is a folder or a device\. Pass the name of a file"
    ):
        cbq.load(name)


PRIOR = ("fit", "priors", 0, 0)
STAGE1, COORDINATES, KERNEL = ("fit", "stage1"), (*PRIOR, "coordinates"), (*PRIOR, "kernel")
WRONG_JSON = {
    "no format": (("format",), "removed", "is not a fit of cbq: its format is None, not 'cbq-fit'. Pass a file"),
    "format": (("format",), "cbq-samples", "is not a fit of cbq: its format is 'cbq-samples'"),
    "newer": (("version",), 12, "has version 12 of its format, but this cbq reads version 11: .*install --upgrade cbq"),
    "older": (("version",), 3, "has version 3 .* older development version wrote it. Fit and save again"),
    "no version": (("version",), 0, "damaged: version must be 1 or more, but it is 0"),
    "version": (("version",), "4", "damaged: version must be an integer, but it is '4'"),
    "version bool": (("version",), True, "damaged: version must be an integer, but it is True"),
    "header": (
        ("extra",),
        1,
        "damaged: extra is unknown: the fields are choice, failures, bounds, unseen, about_samples, calibration, fit",
    ),
    "no choice": (("choice",), "removed", "damaged: choice is missing"),
    "type": (("fit", "type"), "Oracle", "holds fit of type 'Oracle', but this cbq knows only CBQ, .*--upgrade cbq"),
    "no type": (("fit", "type"), "removed", "damaged: fit must be an object with a type"),
    "no fit": (("fit",), "removed", "damaged: fit is missing. Restore it from a copy, or fit and save again"),
    "fit": (("fit",), [], r"damaged: fit must be an object with a type, but it is \[\]"),
    "another class": (("fit",), {"type": "RBF", "lengthscale": 1.0}, "holds fit of type 'RBF', but this cbq knows"),
    "design": (("fit", "design"), "grid", "fit/design must be one of iid, sobol, mcmc, adaptive, but it is 'grid'"),
    "calibration": (("fit", "calibration"), 1, "fit/calibration must be an object with a type, but it is 1"),
    "unknown": (("fit", "noise"), 1.0, "damaged: fit/noise is unknown: the fields are theta, stage1, "),
    "settings": (("fit", "settings"), {"noise": 1}, "fit/settings/noise must be a text, but it is 1"),
    "findings": (("fit", "findings"), [1], "fit/findings/0 must be an object with a type"),
    "an array": (("fit", "theta"), "fit/stage1/mean.npy", "fit/theta must be 'fit/theta.npy', the name of an entry"),
    "no array": (("fit", "theta"), None, "fit/theta must be 'fit/theta.npy', the name of an entry, but it is None"),
    "no correlation": ((*STAGE1, "correlation"), "removed", "damaged: fit/stage1/correlation is missing"),
    "single": ((*STAGE1, "single"), True, "fit/stage1/single must be false, since C = 2, but it is True"),
    "share": ((*STAGE1, "hyperparameters", 0, 0, "share"), "removed", "stage1/hyperparameters/0/0/share is missing"),
    "no shares": ((*STAGE1, "hyperparameters"), [[], []], "hyperparameters/0 must hold 1 or more, but it holds 0"),
    "shares": ((*STAGE1, "hyperparameters"), [], "hyperparameters must hold C = 2, but it holds 0"),
    "priors": (("fit", "priors"), [[]], "fit/priors must hold C = 2, but it holds 1"),
    "no priors": (("fit", "priors"), [[], []], "fit/priors/0 must hold 1 or more, but it holds 0"),
    "prior": (PRIOR, 3, "fit/priors/0/0 must be an object with a type, but it is 3"),
    "amplitude": ((*PRIOR, "amplitude"), -1.0, "0/amplitude must be a finite number of at least 0, but it is -1.0"),
    "noise": ((*PRIOR, "noise"), "much", "0/noise must be a number, but it is 'much'"),
    "evidence": ((*PRIOR, "evidence"), True, "0/evidence must be a number, but it is True"),
    "degree": ((*PRIOR, "degree"), 3, "a trend of degree 3 has too many coefficients for 5 thetas"),
    "logs": ((*COORDINATES, "logs"), [True], r"logs must have the shape \(p = 2,\), but it has \(1,\)"),
    "logs kind": ((*COORDINATES, "logs"), [1, 0], "coordinates/logs must be true or false, but it is 1"),
    "scale": ((*COORDINATES, "scale"), [1.0, 0.0], "scale must be at least 4.94.*, but its smallest value is 0"),
    "centre": ((*COORDINATES, "centre"), [1.0, None], "coordinates/centre must be a number, but it is None"),
    "centre length": ((*COORDINATES, "centre"), [1.0], r"centre must have the shape \(p = 2,\), but it has \(1,\)"),
    "ragged": ((*COORDINATES, "centre"), [1.0, [2.0]], "centre must be a rectangular list of numbers"),
    "kernel": (KERNEL, {"type": "os.system"}, "kernel of type 'os.system', but this cbq knows only .*RBF, "),
    "kernel type": (KERNEL, {"type": ["RBF"]}, "0/kernel must be an object with a type, but it is"),
    "argument": (KERNEL, {"type": "RBF", "x": 1}, "0/kernel/lengthscale is missing"),
    "arguments": (KERNEL, {"type": "RBF", "lengthscale": 1.0, "x": 1}, "kernel/x is unknown: .* lengthscale"),
    "lengthscale": (KERNEL, {"type": "RBF", "lengthscale": -1.0}, "0/kernel: lengthscale must be positive"),
    "lengthscales": (KERNEL, {"type": "RBF", "lengthscale": [1.0] * 3}, "3 lengthscales, but the points have 2"),
    "no lengthscale": (KERNEL, {"type": "RBF", "lengthscale": None}, "lengthscale must be a number, but it is None"),
    "text": (KERNEL, {"type": "RBF", "lengthscale": "long"}, "lengthscale must be a number, but it is 'long'"),
    "nu": (KERNEL, {"type": "Matern", "nu": 0, "lengthscale": 1.0}, "nu must be a number from 0.1 to 20"),
    "warp": (
        KERNEL,
        {"type": "Warped", "base": {"type": "RBF", "lengthscale": 1.0}, "warp": {"type": "Whiten"}},
        "kernel/warp of type 'Whiten', but this cbq knows only Log",
    ),
    "parts": (KERNEL, {"type": "SumKernel", "parts": [1.0]}, "kernel/parts/0 must be an object with a type"),
    "no parts": (
        KERNEL,
        {"type": "SumKernel", "parts": []},
        "0/kernel: SumKernel takes a list of one or more kernels",
    ),
    "of both": (
        KERNEL,
        {
            "type": "XThetaKernel",
            "kernel_x": {"type": "RBF", "lengthscale": 1.0},
            "kernel_theta": {"type": "RBF", "lengthscale": [1.0, 1.0]},
            "d": 1,
        },
        "2 lengthscales, but the points have 1",
    ),
}


@pytest.mark.parametrize(("steps", "value", "says"), WRONG_JSON.values(), ids=WRONG_JSON)
def test_wrong_json_is_refused(steps, value, says, entries, tmp_path):
    refuses(written(tmp_path / "fit", with_json(entries, *steps, value=value)), says)


def values_in(record, *before):
    """The steps to each value of an object in JSON with the value, in the objects and lists inside it too."""
    for step, value in record.items() if isinstance(record, dict) else enumerate(record):
        yield (*before, step), value
        if isinstance(value, dict | list):
            yield from values_in(value, *before, step)


SMALL = {
    "CBQ": lambda: cbq.CBQ(kernel_theta=RBF(0.3), kernel_x=RBF(1.0)).fit(samples(outputs=(2,))),
    "MonteCarlo": BASELINES["averages"],
    "ImportanceSampling": BASELINES["no family but measures"],
    "LSMC": BASELINES["polynomial"],
    "KLSMC": BASELINES["kernel"],
    "MOBQ": POOLED["x and theta, landmarks"],
    "MOBQ.kronecker": lambda: cbq.MOBQ(structure="kronecker").fit(on_a_grid(outputs=False)),
    "LatentBQ": lambda: cbq.LatentBQ(priors=2, draws=100, size=64).fit(
        cbq.Samples(THETA, X, np.where(np.median(X) < X, 1.0, 0.0), family, depends_on_theta=False)
    ),
}
# A sentence or none, a trend or none, minus infinity; a plain posterior, and no second curve.
MAY_BE_NULL = {"choice", "degree", "evidence", "calibration", "significance"}


def test_a_process_that_only_reads_knows_all_saved_classes():
    """Whatever room declares them: `cbq.estimators` imports them all."""
    source = Path(cbq.__file__).parent
    modules = [path.relative_to(source.parent) for path in source.rglob("*.py") if "@saved" in path.read_text()]
    names = ", ".join(".".join(path.with_suffix("").parts) for path in modules)
    code = f"from cbq.io import saved_classes as all; a = set(all()); import {names}; print(set(all()) - a)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert len(modules) > 20
    assert done.stdout == "set()\n"


def test_there_is_a_small_fit_of_every_kind():
    assert set(SMALL) == set(saved_classes(Fit))


@pytest.mark.parametrize("make", SMALL.values(), ids=SMALL)
def test_nothing_in_the_json_may_be_missing_or_null(make, tmp_path):
    """At any depth: a field that is lost, such as a correlation, must not become a default."""
    entries = entries_of(make(), tmp_path / "fit")
    for steps, value in values_in(json.loads(entries["fit.json"])):
        if "settings" in steps[:-1] or not isinstance(steps[-1], str):  # free names, and items of lists
            continue
        path = written(tmp_path / "wrong", with_json(entries, *steps))
        with pytest.raises(ValueError, match=f"^{path} is "):
            cbq.load(path, family=family)
        if value is not None and steps[-1] not in MAY_BE_NULL:
            path = written(tmp_path / "wrong", with_json(entries, *steps, value=None))
            with pytest.raises(ValueError, match=f"^{path} "):
                cbq.load(path, family=None if "measure" in steps else family)


def test_priors_without_evidence_are_refused(entries, tmp_path):
    priors = json.loads(entries["fit.json"])["fit"]["priors"]
    value = [[prior | {"evidence": None} for prior in each] for each in priors]
    path = written(tmp_path / "fit", with_json(entries, "fit", "priors", value=value))
    refuses(path, "fit: the evidence must be a number for")


NOT_JSON = {
    "empty": b"",
    "text": b"{",
    "bytes": b"\xff",
    "nan": b'{"a": NaN}',
    "inf": b"[-Infinity]",
    "deep": b"[" * 10**5,
}


@pytest.mark.parametrize("data", NOT_JSON.values(), ids=NOT_JSON)
def test_what_is_not_json_is_refused(data, entries, tmp_path):
    refuses(written(tmp_path / "fit", entries | {"fit.json": data}), r"is damaged: fit.json is not JSON \(")


WRONG_ARRAYS = {
    "missing": ("theta", None, "it has no entry fit/theta.npy"),
    "no array": ("stage1/mean", b"not an array", "mean.npy is not an array"),
    "cut": (
        "stage1/mean",
        npy(np.ones((5, 2)))[:-8],
        r"mean.npy declares the shape \(5, 2\), but it holds another number",
    ),
    "longer": ("stage1/mean", npy(np.ones((5, 2))) + b"12345678", "but it holds another number of values"),
    "huge": (
        "stage1/mean",
        npy(np.ones((5, 2))).replace(b"(5, 2), }        ", b"(5, 2000000000),}"),
        "another number of values",
    ),
    "newer npy": (
        "stage1/mean",
        npy(np.ones((5, 2))).replace(b"\x01\x00", b"\x02\x00", 1),
        r"version \(2, 0\) of the npy format",
    ),
    "type": (
        "stage1/mean",
        npy(np.ones((5, 2), dtype=np.float32)),
        "mean.npy must hold values of type float64, but it holds float32",
    ),
    "complex": ("stage1/mean", npy(np.ones((5, 2), dtype=complex)), "but it holds complex128"),
    "order of bytes": ("stage1/mean", npy(np.ones((5, 2), dtype=">f8")), "but it holds >f8"),
    "structured": ("stage1/mean", npy(np.ones((5, 2), dtype=[("a", "f8")])), "must hold values of type float64"),
    "axes": ("theta", npy(np.ones(5)), r"fit/theta must have the shape \(T, p\), but it has \(5,\)"),
    "no theta": ("theta", npy(np.ones((0, 2))), r"fit/theta must have the shape \(T, p\), but it has \(0, 2\)"),
    "other T": ("theta", npy(np.ones((4, 2))), r"mean must have the shape \(T = 4, C\), but it has \(5, 2\)"),
    "other C": ("stage1/bias", npy(np.ones((5, 3))), r"bias must have the shape \(T = 5, C = 2\), but it has \(5, 3\)"),
    "nan": ("stage1/mean", npy(np.full((5, 2), np.nan)), "mean must be finite, but 10 values are NaN or inf"),
    "inf": ("theta", npy(np.full((5, 2), np.inf)), "theta must be finite"),
    "negative": (
        "stage1/variance",
        npy(np.full((5, 2), -1.0)),
        "fit/stage1/variance must be at least 0, but its smallest value is -1",
    ),
    "counts": (
        "stage1/counts",
        npy(np.array([6, 6, 6, 6, 7])),
        "fit/stage1/counts must have the sum n = 30, but it is 31",
    ),
    "huge counts": (
        "stage1/counts",
        npy(np.full(5, 2**62)),
        f"fit/stage1/counts must have the sum n = 30, but it is {5 * 2**62}",
    ),
    "no points": (
        "stage1/counts",
        npy(np.array([6, 6, 6, 12, 0])),
        "fit/stage1/counts must be at least 1, but its smallest value is 0",
    ),
    "real counts": (
        "stage1/counts",
        npy(np.full(5, 6.0)),
        "counts.npy must hold values of type int64, but it holds float",
    ),
    "own counts": ("counts", npy(np.array([5, 7, 6, 6, 6])), "counts must be those of stage 1"),
    "correlation": ("stage1/correlation", npy(np.array([[1.0, 0.5], [0.4, 1.0]])), "correlation must be symmetric"),
    "large correlation": ("stage1/correlation", npy(np.full((2, 2), -2.0)), "correlation must be at least -1"),
    "no correlation": ("stage1/correlation", None, "it has no entry fit/stage1/correlation.npy"),
}


@pytest.mark.parametrize(("name", "data", "says"), WRONG_ARRAYS.values(), ids=WRONG_ARRAYS)
def test_wrong_arrays_are_refused(name, data, says, entries, tmp_path):
    refuses(written(tmp_path / "fit", with_array(entries, name, data)), f"is damaged: .*{says}")


def test_entries_that_do_not_belong_to_a_file_are_refused(entries, tmp_path):
    refuses(written(tmp_path / "a", entries | {"more.npy": npy(THETA)}), "entries that do not belong to it: more.npy")
    with zipfile.ZipFile(written(tmp_path / "b", entries), "a") as file, pytest.warns(UserWarning, match="Duplicate"):
        file.writestr("fit/theta.npy", npy(THETA + 1))
    refuses(sealed(tmp_path / "b"), "is damaged: it has entries that do not belong to it: fit/theta.npy")


WRONG_BORROWED = {
    "a row beyond the points": ("rows", lambda a: a + 1000, "rows must be numbers below 20, .* but the largest is"),
    "a negative row": ("rows", lambda a: a - 1000, "fit/rows must be at least 0"),
    "rows of another number": ("rows", lambda a: a[:-1], r"fit/rows must have the shape \(n = "),
    "no point at a theta": ("counts", lambda a: a * 0, "fit/counts must be at least 1"),
    "counts of other thetas": ("counts", lambda a: a[:-1], r"fit/counts must have the shape \(T = 5,\)"),
}


@pytest.mark.parametrize(("name", "change", "says"), WRONG_BORROWED.values(), ids=WRONG_BORROWED)
def test_wrong_borrowed_points_are_refused(name, change, says, tmp_path):
    borrowing = cbq.CBQ(borrow=9).fit(drawn())
    entries = entries_of(borrowing, tmp_path / "fit")
    found = change(getattr(borrowing, name).astype(np.int64))
    refuses(written(tmp_path / "wrong", with_array(entries, name, npy(found))), says)


def test_rows_do_not_vanish_silently(tmp_path):
    entries = entries_of(cbq.CBQ(borrow=9).fit(drawn()), tmp_path / "fit")
    refuses(written(tmp_path / "a", with_array(entries, "rows", None)), "it has no entry fit/rows.npy")
    refuses(written(tmp_path / "b", with_json(entries, "fit", "rows", value=None)), "is damaged: fit: counts must be")


def test_a_choice_that_is_no_text_is_refused(entries, tmp_path):
    refuses(written(tmp_path / "fit", with_json(entries, "choice", value=3)), "choice must be a text, but it is 3")


class Bomb:
    """What pickle would execute."""

    def __reduce__(self):
        return (os.mkdir, ("executed",))


def test_nothing_in_a_file_is_executed(entries, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    bomb = np.array([[Bomb()]], dtype=object)
    refuses(written(tmp_path / "a", entries | {"fit/theta.npy": npy(bomb, allow_pickle=True)}), "but it holds object")
    refuses(written(tmp_path / "b", entries | {"fit/theta.npy": pickle.dumps(Bomb())}), "theta.npy is not an array")
    (tmp_path / "c").write_bytes(pickle.dumps(Bomb()))
    refuses(tmp_path / "c", "is not a fit of cbq")
    assert not (tmp_path / "executed").exists()


def test_files_of_other_programs_are_refused(tmp_path):
    for name, data in {"empty": b"", "text": b"a text\n", "npy": npy(THETA)}.items():
        (tmp_path / name).write_bytes(data)
        refuses(
            tmp_path / name,
            "is not a fit of cbq: it is not a zip file, or it was cut short .* Pass a file that fit.save wrote",
        )
    np.savez(tmp_path / "other.npz", theta=THETA)
    refuses(tmp_path / "other.npz", "is not a fit of cbq: it has no entry fit.json. Pass")


def test_a_compressed_file_is_refused(entries, tmp_path):
    path = written(tmp_path / "fit", entries, compression=zipfile.ZIP_DEFLATED)
    refuses(path, "fit.json is compressed or encrypted, but cbq writes plain entries only")


@pytest.fixture(scope="module")
def small():
    """The bytes of a small file."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "fit"
        cbq.MonteCarlo().fit(samples(T=2, p=1)).save(path)
        return path.read_bytes()


def test_the_last_bytes_are_the_checksum_of_all_others(small):
    assert small[-64:] == hashlib.sha256(small[:-64]).hexdigest().encode()
    with zipfile.ZipFile(io.BytesIO(small)) as file:
        assert file.comment == small[-64:]
        assert file.testzip() is None


def refuses_changed(path, data):
    path.write_bytes(data)
    refuses(path, f"^{path} is damaged: ")


def refuses_flipped(path, bits):
    """Flip one bit at a time, in place. bits: the place of a byte and of a bit in it, for each."""
    data = path.read_bytes()
    with open(path, "r+b", buffering=0) as file:
        for i, bit in bits:
            file.seek(i)
            file.write(bytes([data[i] ^ 1 << bit]))
            refuses(path, f"^{path} is damaged: ")
            file.seek(i)
            file.write(data[i : i + 1])
    assert path.read_bytes() == data


def test_a_changed_byte_is_noticed_wherever_it_is(small, tmp_path):
    (tmp_path / "fit").write_bytes(small)
    refuses_flipped(tmp_path / "fit", ((i, i % 8) for i in range(len(small))))


@pytest.mark.slow
@pytest.mark.parametrize("make", SMALL.values(), ids=SMALL)
def test_every_flipped_bit_is_noticed(make, tmp_path):
    path = tmp_path / "fit"
    make().save(path)
    refuses_flipped(path, np.ndindex(path.stat().st_size, 8))


def test_a_file_cut_short_is_refused_wherever_it_ends(small, tmp_path):
    path, begun = tmp_path / "fit", small.index(b"fit.json") + len("fit.json")
    path.write_bytes(small)
    for n in reversed(range(len(small))):
        os.truncate(path, n)
        refuses(path, f"is {'damaged' if n >= begun else 'not a fit of cbq'}: .*cut short")


def test_bytes_before_or_after_a_file_are_noticed(small, tmp_path):
    refuses_changed(tmp_path / "fit", small + b"\n")
    refuses_changed(tmp_path / "fit", b"\n" + small)
    refuses_changed(tmp_path / "fit", small + small)


def test_entries_that_were_removed_repeated_or_exchanged_are_noticed(entries, fit, tmp_path):
    """With the checksum that the file had, as a program that repairs or repacks archives would leave it."""
    fit.save(tmp_path / "fit")
    old = (tmp_path / "fit").read_bytes()[-64:]

    def refuses_entries(changed):
        with zipfile.ZipFile(tmp_path / "changed", "w") as file, warnings.catch_warnings(action="ignore"):
            file.comment = old
            for name, data in changed:
                file.writestr(name, data)
        refuses(tmp_path / "changed", "is (damaged|not a fit of cbq): ")

    pairs = list(entries.items())
    refuses_entries(pairs)  # in an archive that differs in its dates
    for i, (name, data) in enumerate(pairs):
        refuses_entries(pairs[:i] + pairs[i + 1 :])
        refuses_entries([*pairs, pairs[i]])
        for other, its_data in pairs[:i]:
            refuses_entries((entries | {name: its_data, other: data}).items())


def test_exchanged_columns_are_noticed(entries, fit, tmp_path):
    """Arrays of one shape whose names were exchanged in the archive: each entry is right by itself."""
    fit.save(tmp_path / "fit")
    data = (tmp_path / "fit").read_bytes()
    end = data.index(entries["fit.json"]) + len(entries["fit.json"])
    mean, bias, other = b"fit/stage1/mean.npy", b"fit/stage1/bias.npy", b"fit/stage1/none.npy"
    exchanged = data[end:].replace(mean, other).replace(bias, mean).replace(other, bias)
    assert exchanged != data[end:]
    refuses_changed(tmp_path / "fit", data[:end] + exchanged)


def test_noise_under_a_right_checksum_is_refused_or_harmless(fit, tmp_path):
    """The checksum tells accidents; a file that someone changed and sealed again still meets all other checks."""
    path = tmp_path / "fit"
    fit.save(path)
    data = path.read_bytes()
    rng = np.random.default_rng(0)
    for _ in range(150):
        noisy = bytearray(data)
        end = len(data) - 64 if rng.random() < 0.5 else 900  # in the directory at the end as often as anywhere
        noisy[len(data) - 64 - int(rng.integers(1, end + 1))] = int(rng.integers(256))
        path.write_bytes(noisy)
        try:
            again = cbq.load(sealed(path))
        except ValueError as error:
            assert str(error).startswith(str(path))  # noqa: PT017
        else:
            assert_same(again.predict(THETA), fit.predict(THETA))


def test_a_flipped_bit_under_a_right_checksum_is_noticed(fit, tmp_path):
    path = tmp_path / "fit"
    fit.save(path)
    data = path.read_bytes()
    place = data.index(fit.stage1.columns["mean"].tobytes()) + 7
    path.write_bytes(data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :])
    refuses(sealed(path), r"is damaged: fit/stage1/mean.npy cannot be read \(Bad CRC-32")


def test_a_file_without_a_checksum_is_told_from_a_damaged_one(entries, tmp_path):
    path = tmp_path / "fit"
    with zipfile.ZipFile(path, "w") as file:  # which had no checksum
        for name, data in with_json(entries, "version", value=3).items():
            file.writestr(name, data)
    refuses(path, "has version 3 of its format, but this cbq reads version 11: an older development version wrote it")


def test_a_path_with_a_nul_is_refused(fit, tmp_path):
    says = r"path must be the name of a file, but .* is empty, too long or contains NUL"
    for path in (f"{tmp_path}/fit\0.cbq", os.fsencode(f"{tmp_path}/fit\0.cbq"), tmp_path / "fit\0.cbq"):
        with pytest.raises(ValueError, match=says):
            fit.save(path)
        with pytest.raises(ValueError, match=says):
            cbq.load(path)
    assert os.listdir(tmp_path) == []


def test_the_archive_asks_for_little_endian_arrays(tmp_path):
    save_file(tmp_path / "a", {"x": Numbers()}, {"x": np.arange(3.0).astype(">f8")})
    with open(tmp_path / "a", "rb") as file:
        x = archive.Archive(file).array("x.npy", np.dtype(np.float64))
    assert x.dtype == np.float64
    np.testing.assert_array_equal(x, [0, 1, 2])


# every saved class, discovered from the registry


def parts_of(value):
    """A saved object, and all saved objects that it holds."""
    if isinstance(value, list | tuple):
        return [part for each in value for part in parts_of(each)]
    found = [value] if type(value) in saved_classes().values() else []
    inside = getattr(value, "__dict__", {}) if found or isinstance(value, Smoother) else {}
    return found + [part for each in inside.values() for part in parts_of(each)]


def examples():
    """An object of every saved class."""
    fits = [FITS["two outputs"](), *(BASELINES[name]() for name in ("averages", "balance", "polynomial", "kernel"))]
    fits += [
        POOLED["x and theta, landmarks"](),
        POOLED["a grid"](),
        given(NESTED["deep"])(),
        given(NESTED["product"])(),
        SMALL["LatentBQ"](),
    ]
    measures = [
        Mixture([0.25, 0.75], [LogNormal(0.1, cov=0.2), TruncatedGaussian(0.0, 1.0, -1.0, np.inf)]),
        Product([Gamma(2.0, [1.0, 2.0]), Beta(2.0, 3.0), Exponential(3.0), Uniform(0.0, 1.0), StudentT(3.0, 0.0, 1.0)]),
        LogMeasure(from_scipy(stats.weibull_min(1.5, 0.0, 2.0))),
        Product([Binomial(3, 0.3), Poisson([1.0, 20.0]), Categorical([0.25, 0.75], [1.0, 4.0])]),
        Product([Empirical([0.0, 1.0], [0.25, 0.75]), Gaussian([0.0, 1.0], [[1.0, 0.5], [0.5, 2.0]])]),
    ]
    failures = Failures.of(np.array([[0.0], [1.0]]), [np.ones((2, 3)), np.zeros((0, 3))], [np.zeros((4, 3))] * 2)
    kernels = [Warped(RBF(1.0), warp) for warp in (Columns([1, 0]), NormalCdf())]
    others = [failures, UnknownMeasure(2), SamplesFinding("ratio", "p / q is unbounded.", np.array([0.5]))]
    return {type(part): part for part in parts_of([*fits, *measures, *kernels, *others])}


def test_every_saved_class_comes_back(tmp_path):
    found = examples()
    ours = {name: cls for name, cls in saved_classes().items() if cls.__module__.startswith("cbq.")}
    for name, cls in ours.items():
        assert cls in found, f"{name} has no example here: add an object that holds one"
        fields = {"value": Instance(cls)}
        for path, value in ((tmp_path / "one", found[cls]), (tmp_path / "two", None)):
            value = load_file(tmp_path / "one", fields, context=family)["value"] if value is None else value
            assert type(value) is cls
            save_file(path, fields, {"value": value})
        assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes(), name


def test_every_field_of_every_saved_class_is_needed_and_no_other_is_taken(tmp_path):
    for cls, value in examples().items():
        fields = {"value": Instance(cls)}
        save_file(tmp_path / "fit", fields, {"value": value})
        with zipfile.ZipFile(tmp_path / "fit") as file:
            entries = {name: file.read(name) for name in file.namelist()}
        for name in json.loads(entries["fit.json"])["value"]:
            wrong = written(tmp_path / "wrong", with_json(entries, "value", name))
            with pytest.raises(ValueError, match=f"value must be an object with a type|value/{name} is missing"):
                load_file(wrong, fields, context=family)
        wrong = written(tmp_path / "wrong", with_json(entries, "value", "more", value=1))
        with pytest.raises(ValueError, match="value/more is unknown"):
            load_file(wrong, fields, context=family)


def test_two_classes_cannot_have_one_name():
    with pytest.raises(ValueError, match=r"the name 'RBF' of .*OwnKernel.* belongs to .*RBF"):
        saved("RBF")(OwnKernel)


def test_a_user_can_declare_a_kernel(tmp_path, monkeypatch):
    monkeypatch.setattr(registry, "REGISTRY", dict(registry.REGISTRY))
    saved("OwnKernel", lengthscale=Numbers(inline=True))(OwnKernel)
    fit = given(OwnKernel(0.5))()
    fit.save(tmp_path / "fit")
    again = cbq.load(tmp_path / "fit")
    assert type(again.priors[0][0].kernel) is OwnKernel
    assert_same(again.predict(THETA), fit.predict(THETA))
    monkeypatch.undo()
    refuses(tmp_path / "fit", "kernel of type 'OwnKernel', .* or import the module that declares 'OwnKernel'")
