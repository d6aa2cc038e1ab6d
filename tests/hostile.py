"""Malformed calls of the public interface, discovered from signatures, and what each of them may do.

A call begins as a valid one, in which one argument, or two, are replaced by hostile values. It passes if it returns
numbers that are not NaN, or raises an error that cbq raises on purpose and that names a replaced argument; `verdict`
has the rules. A worker process makes the calls one after the other, so that a crash or a hang is caught and has a name.

    python tests/hostile.py            # every call, some minutes; prints those that fail, by callable and argument
    python tests/hostile.py Problem    # the calls of callables whose name contains this text
"""

from __future__ import annotations

import array
import dataclasses
import decimal
import faulthandler
import fractions
import inspect
import json
import linecache
import os
import random
import re
import resource
import signal
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from functools import cache, partial
from itertools import count, islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from scipy import stats

import cbq
from cbq import embeddings, integrands, kernels, linalg, measures, nested, problems, voi
from cbq.embeddings import NoEmbedding
from cbq.fit.figures import plot_fit
from cbq.io import IncompatibleFile
from cbq.problems.registry import builder

SOURCE = str(Path(cbq.__file__).parent)
SECONDS = 20  # for one call
MEMORY = 6 * 2**30  # bytes of address space of a worker
LONGEST_MESSAGE = 2000  # characters


# Hostile values. Each is made anew for each call, since some can be used once only.


def raises(*args: Any, **options: Any) -> Any:
    raise KeyError("hostile")


class RaisingArray:
    def __array__(self, *args: Any, **options: Any) -> Any:
        raise RuntimeError("hostile")


class RaisingEverywhere:
    """An object that cannot be compared, printed, counted or tested."""

    __eq__ = __bool__ = __len__ = __float__ = __int__ = __index__ = __iter__ = raises
    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        raise KeyError("hostile")


class Pretender:
    """It has the methods of an estimator, and returns nonsense."""

    def fit(self, samples: Any) -> Any:
        return "a fit"


def self_referential() -> list[Any]:
    values: list[Any] = []
    values.append(values)
    return values


def twice_self_referential() -> list[Any]:
    values: list[Any] = []
    values.extend([values, values])
    return values


def deep() -> list[Any]:
    values: list[Any] = [1.0]
    for _ in range(2000):
        values = [values]
    return values


def objects(*values: Any) -> Any:
    made = np.empty(len(values), dtype=object)
    made[:] = values
    return made


HALF_MASKED = {"data": [0.5, -999.0, 1.0], "mask": [False, True, False]}
POOL: dict[str, Callable[[], Any]] = {
    "None": lambda: None,
    "True": lambda: True,
    "False": lambda: False,
    "np.True_": lambda: np.True_,
    "'a'": lambda: "a",
    "''": lambda: "",
    "'False'": lambda: "False",
    "a long text": lambda: "a" * 10**6,
    "bytes": lambda: b"x",
    "-1": lambda: -1,
    "0": lambda: 0,
    "1": lambda: 1,
    "1.5": lambda: 1.5,
    "nan": lambda: float("nan"),
    "inf": lambda: float("inf"),
    "-inf": lambda: float("-inf"),
    "10**400": lambda: 10**400,
    "-10**400": lambda: -(10**400),
    "10**5000": lambda: 10**5000,
    "10**12": lambda: 10**12,
    "1e308": lambda: 1e308,
    "-1e308": lambda: -1e308,
    "1e-308": lambda: 1e-308,
    "1j": lambda: 1j,
    "Decimal": lambda: decimal.Decimal("0.5"),
    "Fraction": lambda: fractions.Fraction(1, 3),
    "[]": list,
    "[[]]": lambda: [[]],
    "()": tuple,
    "{}": dict,
    "dict": lambda: {"a": [1.0, 2.0]},
    "set": lambda: {1.0, 2.0},
    "ragged": lambda: [[1.0, 2.0], [3.0]],
    "more ragged": lambda: [[1.0, [2.0]], 3.0, [[[]]]],
    "list of None": lambda: [None, None],
    "list of texts": lambda: ["a", "b"],
    "a long list": lambda: [0.5] * 10**5,
    "list with 10**400": lambda: [10**400, 1],
    "itself": self_referential,
    "itself twice": twice_self_referential,
    "deep list": deep,
    "objects with None": lambda: objects(None, 1.0),
    "objects with text": lambda: objects(1.0, "a"),
    "objects with arrays": lambda: objects(np.ones(2), np.ones(3)),
    "structured": lambda: np.array([(1.0, 2)], dtype=[("a", float), ("b", int)]),
    "masked": lambda: np.ma.array(**HALF_MASKED),
    "masked (3, 1)": lambda: np.ma.array(**HALF_MASKED).reshape(3, 1),
    "masked everywhere": lambda: np.ma.masked_all((3, 2)),
    "masked constant": lambda: np.ma.masked,
    "list of masked": lambda: [np.ma.array(**HALF_MASKED)] * 3,
    "list with masked": lambda: [0.5, np.ma.masked],
    "masked objects": lambda: objects(np.ma.array(**HALF_MASKED), np.ma.array(**HALF_MASKED)),
    "array of nan": lambda: np.full((3, 1), np.nan),
    "array with inf": lambda: np.array([0.5, np.inf, 1.0]),
    "(0,)": lambda: np.empty(0),
    "(0, 3)": lambda: np.empty((0, 3)),
    "(3, 0)": lambda: np.empty((3, 0)),
    "0-d": lambda: np.array(0.5),
    "(3,)": lambda: np.array([0.25, 0.5, 0.75]),
    "(2, 2)": lambda: np.array([[2.0, 0.5], [0.5, 1.0]]),
    "(2, 3, 2, 2)": lambda: np.ones((2, 3, 2, 2)),
    "float16": lambda: np.array([0.5, 60000.0], dtype=np.float16),
    "booleans": lambda: np.array([True, False, True]),
    "uint8": lambda: np.array([0, 255, 3], dtype=np.uint8),
    "int64 extremes": lambda: np.array([np.iinfo(np.int64).min, np.iinfo(np.int64).max]),
    "smallest int64": lambda: np.int64(np.iinfo(np.int64).min),
    "longdouble": lambda: np.array([np.longdouble("1e4000"), 1.0]),
    "array of 1e308": lambda: np.array([1e308, -1e308, 1e308]),
    "texts": lambda: np.array(["a", "b", "c"]),
    "np.str_": lambda: np.str_("a"),
    "dates": lambda: np.array(["2020-01-01", "2021-01-01"], dtype="datetime64[D]"),
    "NaT": lambda: np.datetime64("NaT"),
    "huge (n,)": lambda: np.broadcast_to(0.5, (10**13,)),
    "huge (n, n)": lambda: np.broadcast_to(0.5, (10**7, 10**7)),
    "huge (1, n, 1)": lambda: np.broadcast_to(0.5, (1, 10**13, 1)),
    "array.array": lambda: array.array("d", [0.5, 1.0]),
    "memoryview": lambda: memoryview(b"abcdefgh"),
    "raises": lambda: raises,
    "returns None": lambda: lambda *args, **options: None,
    "returns nan": lambda: lambda *args, **options: np.nan,
    "returns text": lambda: lambda *args, **options: "a",
    "returns masked": lambda: lambda *args, **options: np.ma.array(**HALF_MASKED),
    "returns huge": lambda: lambda *args, **options: np.broadcast_to(0.5, (10**13,)),
    "takes nothing": lambda: lambda: 0.5,
    "generator": lambda: (each for each in [0.5, 1.0]),
    "iterator": lambda: iter([0.5, 1.0]),
    "range": lambda: range(3),
    "a class": lambda: measures.Gaussian,
    "a module": lambda: np,
    "object": object,
    "__array__ raises": RaisingArray,
    "everything raises": RaisingEverywhere,
    "pretender": Pretender,
    "Ellipsis": lambda: ...,
    "NotImplemented": lambda: NotImplemented,
    "slice": lambda: slice(None),
    "Series with NA": lambda: pd.Series([1, None, 3], dtype="Int64"),
    "Series of texts": lambda: pd.Series(["a", "b", "c"]),
    "booleans with NA": lambda: pd.Series([True, None, False], dtype="boolean"),
    "DataFrame with NA": lambda: pd.DataFrame({"a": pd.Series([1, None], dtype="Int64"), "b": [1.0, 2.0]}),
    "empty DataFrame": pd.DataFrame,
    "pd.NA": lambda: pd.NA,
    "NUL": lambda: "a\0b",
    "no folder": lambda: "/nonexistent/folder/file",
    "a folder": lambda: os.curdir,
    "RandomState": lambda: np.random.RandomState(0),
    "SeedSequence": lambda: np.random.SeedSequence(0),
    "a kernel": lambda: kernels.RBF(1.0),
    "a measure in 3 dimensions": lambda: measures.Gaussian(np.zeros(3), 1.0),
    "a batch of measures": lambda: measures.Gaussian(np.zeros((4, 1)), 1.0),
    "not frozen": lambda: stats.norm,
    "discrete": lambda: stats.poisson(3.0),
}

MASKED = tuple(name for name in POOL if "masked" in name and not name.startswith("returns"))
FLAGS = ("True", "False", "np.True_")


# Valid arguments, by the name of a parameter; "callable.parameter" where the name alone does not tell.


def integrand(x: Any, theta: Any) -> Any:
    return x[:, 0] ** 2 + theta[0]


def family(theta: Any) -> Any:
    return measures.Gaussian(theta, 1.0)


@cache
def problem() -> cbq.Problem:
    return cbq.Problem(integrand, family, measures.Uniform(0.5, 2.0), exact=lambda theta: np.tanh(theta[:, 0]))


@cache
def samples() -> cbq.Samples:
    return problem().collect(6, 8, rng=0)


@cache
def on_a_grid() -> cbq.Samples:
    """Samples whose thetas share a design."""
    return problem().collect(6, 8, rng=0, design="sobol", scramble="common")


@cache
def shared() -> cbq.Samples:
    """Samples of two outputs that do not depend on theta."""
    made = samples()
    f = np.stack([made.all_points[:, 0], made.all_points[:, 0] ** 2], axis=1)
    return cbq.Samples(made.theta, made.x, f.reshape(6, 8, 2), family, depends_on_theta=False)


def events() -> cbq.Samples:
    """Samples of an event."""
    made = samples()
    f = np.where(made.all_points[:, 0] > np.median(made.all_points[:, 0]), 1.0, 0.0)
    return cbq.Samples(made.theta, made.x, f.reshape(6, 8), family, depends_on_theta=False)


@cache
def fit() -> cbq.Fit:
    return cbq.LSMC().fit(samples())


@cache
def two_outputs() -> cbq.Fit:
    return cbq.LSMC().fit(shared())


@cache
def process() -> cbq.Fit:
    return cbq.MOBQ().fit(shared())


@cache
def session() -> cbq.runs.Session:
    """A session with two runs that were told."""
    made = problem().session(rng=0)
    made.tell(made.ask(2).ids, [1.0, 2.0])
    return made


@cache
def psa_table() -> dict[str, Any]:
    a, b = np.random.default_rng(0).standard_normal((2, 40))
    return {"inputs": {"a": a, "b": b}, "outputs": {"u": 0 * a, "v": a + 0.3 * b}}


@cache
def effects_and_costs() -> tuple[dict[str, Any], dict[str, Any]]:
    a, b = np.random.default_rng(1).standard_normal((2, 40))
    return {"u": 0 * a, "v": 1 + a}, {"u": 0 * a, "v": 2 + b}


def planned() -> voi.PlannedStudy:
    return voi.PlannedStudy("a", voi.studies.Normal(2.0), 20, cost=1.0)


def study_value() -> voi.EvsiTable:
    return cbq.evsi(**psa_table(), pars="a", study=voi.studies.Normal(2.0), sizes=[5, 20])


@cache
def files() -> dict[str, str]:
    """A saved fit, saved samples and a checkpoint."""
    fit().save("fit.cbq")
    samples().save("samples.cbq")
    problem().collect(2, 2, rng=0, checkpoint="run.sqlite")
    return {"fit": "fit.cbq", "samples": "samples.cbq", "run": "run.sqlite"}


NUMBERS = count()
VALID: dict[str, Callable[[], Any]] = {
    "G": lambda: np.eye(3),
    "K": lambda: np.eye(3),
    "N": lambda: 3,
    "chunks.N": lambda: 3,
    "collect.N": lambda: 3,
    "collect.T": lambda: 4,
    "T": lambda: 4,
    "a": lambda: 2.0,
    "ard": lambda: True,
    "b": lambda: 3.0,
    "Factor.b": lambda: np.ones((3, 1)),
    "base": lambda: kernels.RBF(1.0),
    "transport.base": lambda: "uniform",
    "inverse_transport.base": lambda: "uniform",
    "problems.register.build": lambda: problem,
    "c": lambda: 0,
    "choice": lambda: "chosen",
    "components": lambda: [measures.Gaussian(0.0, 1.0), measures.Gaussian(1.0, cov=2.0)],
    "cov": lambda: 1.0,
    "Gaussian.cov": lambda: 1.0,
    "LogNormal.cov": lambda: 1.0,
    "d": lambda: 1,
    "from_arviz.data": lambda: {0.5: {"mu": np.random.default_rng(0).standard_normal((4, 500))}},
    "df": lambda: 5.0,
    "dim": lambda: 1,
    "dist": lambda: stats.laplace,
    "engine": lambda: "numpy",
    "estimator": lambda: cbq.LSMC(),
    "PriorMean.mean_x": lambda: lambda x, theta: x[:, 0],
    "FunctionEmbedding.kernel": lambda: kernels.RBF(1.0),
    "FunctionEmbedding.mean": lambda: lambda x, measure, lengthscale: np.exp(-(x[:, 0] ** 2)),
    "BQ.x": lambda: np.array([0.3, 0.6, 0.9]),
    "BQ.f": lambda: np.array([1.0, 2.0, 4.0]),
    "f": lambda: samples().f,
    "factor": lambda: 2.0,
    "family": lambda: family,
    "fit": fit,
    "evppi.fit": two_outputs,
    "fit_or_outputs": process,
    "sensitivity.theta": lambda: [0.6],
    "sensitivity.options": lambda: cbq.SensitivityOptions(points=64, least=64, drawn=16),
    "given.kept": lambda: [],  # measures on the line have no other coordinates
    **dict.fromkeys(["given.x", "Empirical.given.x", "Product.given.x"], lambda: np.empty((3, 0))),
    "marginals.kept": lambda: [0],
    "frame": lambda: {"theta": [1.0, 1.0, 2.0], "x": [0.1, 0.2, 0.3], "f": [1.0, 2.0, 3.0]},
    "frozen": lambda: stats.norm(0.0, 1.0),
    "index": lambda: (),
    "indices": lambda: [0, 2],
    "inputs": lambda: psa_table()["inputs"],
    "integrand": lambda: integrand,
    "j": lambda: 0,
    "kernel": lambda: kernels.RBF(1.0),
    "embeddings.register.kernel": lambda: kernels.RBF,
    "kernel_theta": lambda: kernels.RBF(1.0),
    "kernel_x": lambda: kernels.RBF(1.0),
    "least": lambda: 0.0,
    "lengthscale": lambda: 1.0,
    "loc": lambda: 0.0,
    "Unnormalised.log_density": lambda: lambda x: -0.5 * np.sum(np.clip(x, -1e100, 1e100) ** 2, axis=-1),
    "lower": lambda: 0.0,
    "mean": lambda: 0.0,
    "measure": lambda: measures.Gaussian(0.0, 1.0),
    "q": lambda: family,
    "cbq.Quantile.q": lambda: 0.9,
    "cbq.Probability.above": lambda: 1.0,
    "LogMeasure.measure": lambda: measures.Gamma(2.0, 1.0),
    "Samples.measure": lambda: family,
    "measures": lambda: [measures.Gaussian(0.0, 1.0), measures.Gamma(2.0, 1.0)],
    "compare.methods": lambda: {"LSMC": cbq.LSMC()},
    "n": lambda: 3,
    "evppi.n": lambda: 64,
    "voi.evppi.n": lambda: None,  # for a fit, as is design
    "voi.evppi.design": lambda: None,
    "voi.evppi.inputs": lambda: psa_table()["inputs"],
    "expected_loss.n": lambda: 64,
    "nested_expectation.n": lambda: 64,
    "conditional_value_at_risk.n": lambda: 1024,
    "value_at_risk.n": lambda: 1024,
    "name": lambda: "linear",
    "register.name": lambda: f"new-{next(NUMBERS)}",
    "obj": lambda: measures.Gaussian(0.0, 1.0),
    "other": lambda: measures.Gaussian(0.5, 1.0),
    "Embedding by transport.other": lambda: measures.Gamma(2.0, 1.0),
    "__add__.other": lambda: kernels.RBF(2.0),
    "__mul__.other": lambda: kernels.RBF(2.0),
    "__radd__.other": lambda: 0,
    "__rmul__.other": lambda: 2.0,
    "Comparison.other": lambda: cbq.compare(samples(), cbq.LSMC(), levels=[0.5, 0.9]),
    "outputs": lambda: psa_table()["outputs"],
    "icers.outputs": effects_and_costs,
    "ce_plane.outputs": effects_and_costs,
    "study": lambda: voi.studies.Normal(2.0),
    "sizes": lambda: [5, 20],
    "evsi": lambda: study_value(),
    "cost": lambda: 0.01,
    "population": lambda: 100.0,
    "incidence": lambda: 100.0,
    "horizon": lambda: 10.0,
    "sd": lambda: 2.0,
    "currency": lambda: "EUR",
    "end_points": lambda: [voi.studies.Normal(2.0)],
    "lost": lambda: 0.1,
    "studies": lambda: {"trial": planned()},
    "follow_up": lambda: 3.0,
    "arms": lambda: ["binomial", "poisson"],
    "simulate": lambda: raises,
    "p": lambda: 0.3,
    "pars": lambda: [["a"]],
    "parts": lambda: [kernels.RBF(1.0), kernels.Matern(1.5, 2.0)],
    "path": lambda: "file",
    "largest.most": lambda: 2,
    "load.path": lambda: files()["fit"],
    "Samples.load.path": lambda: files()["samples"],
    "Samples.load.family": lambda: family,
    "Problem.solve.budget": lambda: 16,
    "best.output": lambda: 0,
    "MonteCarloFit.best.among": lambda: samples().theta[:3],
    "Session.tell.ids": lambda: [0, 1],
    "Session.tell.values": lambda: [1.0, 2.0],
    "from_checkpoint.path": lambda: files()["run"],
    "from_checkpoint.measure": lambda: None,
    "phi": lambda: np.square,
    "points": lambda: np.array([0.5, 1.0, 2.0]),
    "prior": lambda: measures.Uniform(0.5, 2.0),
    "probabilities": lambda: [0.25, 0.75],
    "rate": lambda: 1.5,
    "result": fit,
    "Exponential.rate": lambda: 1.5,
    "Gamma.rate": lambda: 1.5,
    "rng": lambda: 0,
    "rows": lambda: cbq.compare(samples(), cbq.LSMC()).rows,
    "regrouped.rows": lambda: [[0, 1]] * 6,
    "samples": samples,
    "ImportanceSampling.samples": shared,
    "LatentBQ.samples": events,
    "scale": lambda: 1.0,
    "shape": lambda: 2.0,
    "shift": lambda: 1.0,
    "size": lambda: 3,
    "std": lambda: 1.0,
    "t": lambda: 0,
    "lease": lambda: 60.0,
    "template": lambda: "./model {x}",
    "theta": lambda: np.array([0.6, 1.1, 1.9]),
    "url": lambda: "http://127.0.0.1:4242",
    "FitServer.port": lambda: 0,
    "from_arviz.value": lambda: "mu",
    "Samples.from_arviz.x": lambda: None,
    "Samples.from_arviz.measure": lambda: None,
    "variable": lambda: stats.abs(stats.Normal()),
    "Problem.evaluate.theta": lambda: 1.0,
    "MonteCarloFit.theta": lambda: samples().theta[:3],
    "Samples.theta": lambda: samples().theta,
    "Samples.from_frame.theta": lambda: "theta",
    "from_frame.f": lambda: "f",
    "score.truth": lambda: np.array([0.1, 0.4, 0.9]),
    "LSMCFit.score.truth": lambda: np.array([[0.1, 0.2], [0.4, 0.1], [0.9, 0.5]]),
    "MOBQFit.score.truth": lambda: np.array([[0.1, 0.2], [0.4, 0.1], [0.9, 0.5]]),
    "ImportanceSamplingFit.score.truth": lambda: np.array([[0.1, 0.2], [0.4, 0.1], [0.9, 0.5]]),
    "names": lambda: {"theta": "stock"},
    "compare.truth": lambda: lambda theta: np.tanh(theta[:, 0]),
    "u": lambda: np.array([0.25, 0.5]),
    "Product.u": lambda: np.array([[0.25, 0.5]]),
    "upper": lambda: 1.0,
    "values": lambda: [0.0],
    "vary.values": lambda: [0.5, 1.0],
    "vary.family": lambda: lambda theta, scale: measures.Gaussian(theta, std=scale),
    "averages.values": lambda: np.ones(48),
    "XThetaKernel.values": lambda: [0.0, 0.0],
    "SumKernel.values": lambda: [0.0, 0.0],
    "ProductKernel.values": lambda: [0.0, 0.0],
    "warp": lambda: "log",
    "weights": lambda: [0.5, 0.5],
    "Empirical.weights": lambda: None,
    "workers": lambda: 1,
    "x": lambda: np.array([0.3, 0.6, 0.9]),
    "Empirical.x": lambda: [0.5, 1.0],
    "Product.x": lambda: np.array([[0.3, 0.6], [0.5, 0.9]]),
    "Samples.x": lambda: samples().x,
    "Samples.from_frame.x": lambda: "x",
    "XThetaKernel.x": lambda: np.array([[0.3, 0.6], [0.5, 0.9], [0.1, 0.2]]),
    "y": lambda: np.array([0.4, 0.5]),
    "XThetaKernel.y": lambda: np.array([[0.3, 0.6]]),
}

ESTIMATORS = (cbq.Auto, cbq.CBQ, cbq.ImportanceSampling, cbq.KLSMC, cbq.LSMC, cbq.MOBQ, cbq.MonteCarlo)
FITS_BY_THETA = ("ImportanceSamplingFit", "LatentBQFit", "MOBQFit")  # they work for each theta
PREDICTIONS = ("band", "gradient", "interval", "plot", "predict", "score", "to_dataset", "to_frame")

# Objects whose public methods are called.
SUBJECTS: dict[str, Callable[[], Any]] = {
    "Beta": lambda: measures.Beta(2.0, 3.0),
    "Binomial": lambda: measures.Binomial(3, 0.3),
    "Categorical": lambda: measures.Categorical([0.25, 0.75]),
    "Empirical": lambda: measures.Empirical([0.5, 1.0, 2.0]),
    "Exponential": lambda: measures.Exponential(1.5),
    "Gamma": lambda: measures.Gamma(2.0, 1.0),
    "Gaussian": lambda: measures.Gaussian(0.0, 1.0),
    "LogMeasure": lambda: measures.LogMeasure(measures.Gamma(2.0, 1.0)),
    "LogNormal": lambda: measures.LogNormal(0.0, 1.0),
    "Mixture": lambda: measures.Mixture([0.5, 0.5], [measures.Gaussian(0.0, 1.0), measures.Gaussian(1.0, cov=2.0)]),
    "Poisson": lambda: measures.Poisson(1.5),
    "Product": lambda: measures.Product([measures.Gaussian(0.0, 1.0), measures.Gamma(2.0, 1.0)]),
    "ScipyDistribution": lambda: measures.from_scipy(stats.laplace(0.0, 1.0)),
    "ScipyVariable": lambda: measures.from_scipy(stats.abs(stats.Normal())),
    "StudentT": lambda: measures.StudentT(5.0, 0.0, 1.0),
    "TruncatedGaussian": lambda: measures.TruncatedGaussian(0.0, 1.0, 0.0, 1.0),
    "Uniform": lambda: measures.Uniform(0.0, 1.0),
    "Unnormalised": lambda: measures.Unnormalised(VALID["Unnormalised.log_density"](), np.negative, dim=1),
    "Additive": lambda: kernels.Additive(kernels.RBF(1.0)),
    "Matern": lambda: kernels.Matern(1.5, 1.0),
    "ProductKernel": lambda: kernels.RBF(1.0) * kernels.Matern(1.5, 1.0),
    "RBF": lambda: kernels.RBF(1.0),
    "ScaledKernel": lambda: 2.0 * kernels.RBF(1.0),
    "Stein": lambda: kernels.Stein(kernels.RBF(1.0), measures.Gaussian(0.0, 1.0)),
    "SumKernel": lambda: kernels.RBF(1.0) + kernels.Matern(1.5, 1.0),
    "TensorProduct": lambda: kernels.TensorProduct(kernels.RBF(1.0)),
    "Warped": lambda: kernels.Warped(kernels.RBF(1.0), "log"),
    "XThetaKernel": lambda: kernels.XThetaKernel(kernels.RBF(1.0), kernels.RBF(1.0), 1),
    "Embedding by a formula": lambda: cbq.embed(kernels.RBF(1.0), measures.Gaussian(0.0, 1.0)),
    "Embedding by panels": lambda: cbq.embed(kernels.Matern(1.5, 1.0), measures.Gamma(2.0, 1.0)),
    "Embedding by quadrature": lambda: cbq.embed(kernels.RBF(1.0), measures.Gamma(2.0, 1.0), "quadrature"),
    "Embedding by transport": lambda: cbq.embed(kernels.RBF(1.0), measures.Gamma(2.0, 1.0), "transport"),
    "Problem": problem,
    "Session": session,
    "Samples": samples,
    "Auto": cbq.Auto,
    "CBQ": cbq.CBQ,
    "ImportanceSampling": cbq.ImportanceSampling,
    "KLSMC": cbq.KLSMC,
    "LSMC": cbq.LSMC,
    "LatentBQ": partial(cbq.LatentBQ, priors=2, draws=100, nodes=16, size=64),
    "MOBQ": cbq.MOBQ,
    "MonteCarlo": cbq.MonteCarlo,
    "PaperCBQ": cbq.CBQ.paper,
    "BQ": cbq.BQ,
    "PriorMean": lambda: cbq.PriorMean(cbq.LSMC(), mean_theta=lambda theta: theta[:, 0]),
    "CBQFit": lambda: cbq.CBQ().fit(samples()),
    "ImportanceSamplingFit": lambda: cbq.ImportanceSampling().fit(shared()),
    "KLSMCFit": lambda: cbq.KLSMC().fit(samples()),
    "KroneckerFit": lambda: cbq.MOBQ(structure="kronecker").fit(on_a_grid()),
    "LSMCFit": two_outputs,
    "LatentBQFit": lambda: cbq.LatentBQ(priors=2, draws=100, nodes=16, size=64).fit(events()),
    "MOBQFit": lambda: cbq.MOBQ().fit(shared()),
    "MonteCarloFit": lambda: cbq.MonteCarlo().fit(samples()),
    "LeaveOneOut": lambda: cbq.CBQ().fit(samples()).leave_one_out(),
    "Comparison": lambda: cbq.compare(samples(), cbq.LSMC(), levels=[0.5, 0.9]),
    "Answer": lambda: cbq.nested_expectation(fit(), np.square, VALID["prior"](), n=64),
    "Evppi": lambda: cbq.evppi(two_outputs(), VALID["prior"](), n=64),
    "TailRisk": lambda: cbq.value_at_risk(fit(), VALID["prior"](), n=1024),
    "Evpi": lambda: cbq.evpi(effects_and_costs(), willingness_to_pay=1.0),
    "EvppiTable": lambda: voi.evppi(**psa_table(), pars=[["a"]]),
    "Acceptability": lambda: voi.ceac(psa_table()["outputs"]),
    "Appendix": lambda: voi.appendix(psa_table()["outputs"]),
    "CePlane": lambda: voi.ce_plane(effects_and_costs(), willingness_to_pay=1.0),
    "IcerTable": lambda: voi.icers(effects_and_costs()),
    "NetBenefitTable": lambda: voi.net_benefits(psa_table()["outputs"]),
    "TornadoTable": lambda: voi.tornado(**psa_table(), pars=["a"]),
    "PortfolioTable": lambda: voi.portfolio(**psa_table(), studies={"trial": planned()}, population=10.0),
    "VarianceTable": lambda: voi.evppi_variance(**psa_table(), pars=[["a"]]),
    "Sensitivity": lambda: cbq.sensitivity(psa_table()["outputs"], inputs=psa_table()["inputs"]),
    "EvsiTable": study_value,
    "EnbsTable": lambda: cbq.enbs(study_value(), 0.01, 100.0),
    "Factor": lambda: linalg.factor(np.eye(3)),
    "Jitter": linalg.Jitter,
}
MODULES = (cbq, embeddings, integrands, kernels, linalg, measures, nested, problems, voi, voi.studies)
OPERATORS = ("__call__", "__getitem__", "__add__", "__radd__", "__mul__", "__rmul__")

# What is not called, or may do what others may not; each with the reason.
RESULTS = (
    "Acceptability",
    "Answer",
    "Appendix",
    "CePlane",
    "EnbsRow",
    "NetBenefitRow",
    "NetBenefitTable",
    "PortfolioRow",
    "PortfolioTable",
    "TornadoRow",
    "TornadoTable",
    "EnbsTable",
    "Evpi",
    "Evppi",
    "EvppiRow",
    "EvppiTable",
    "EvsiRow",
    "EvsiTable",
    "Factor",
    "IcerRow",
    "IcerTable",
    "Pair",
    "Sensitivity",
    "TailRisk",
    "VarianceRow",
    "VarianceTable",
)  # made by cbq, not by users
INNER = {  # called by cbq, or by a subclass of the user's own, with arrays that were checked; they run for each block
    *("features", "fill", "fill_derivatives", "contract_features", "on_line", "rescaled", "restrict", "check_dim"),
    *("lengthscale_for", "parts_for", "inputs", "measures", "conditional", "translated", "with_lengthscale"),
    *("batch_size", "calibrated", "forget_failures", "note", "noted", "take", "resident_solve_lower"),
}
REFUSED = {  # whatever the arguments: these measures have no density, or no normalised one, and these fits no gain
    *(f"{name}Fit.suggest" for name in ("ImportanceSampling", "KLSMC", "Kronecker", "LSMC", "LatentBQ", "MonteCarlo")),
    *(
        f"{name}Fit.{method}"  # these have no model of f
        for name in ("CBQ", "ImportanceSampling", "KLSMC", "Kronecker", "LSMC", "MonteCarlo")
        for method in ("under", "vary")
    ),
    *(f"{name}Fit.outcome" for name in ("CBQ", "ImportanceSampling", "KLSMC", "Kronecker", "LSMC", "MonteCarlo")),
    *(f"{name}Fit.noise" for name in ("ImportanceSampling", "KLSMC", "Kronecker", "LSMC", "LatentBQ", "MonteCarlo")),
    "MonteCarloFit.gradient",  # it has no answers around the observed thetas
    "Session.fit",  # it has too few runs
    "Session.answer",
    "Factor.__getitem__",  # one matrix is no batch
    *(f"Empirical.{name}" for name in ("logpdf", "score")),
    *(f"{name}.score" for name in ("Binomial", "Categorical", "Poisson")),
    *(f"Unnormalised.{name}" for name in ("inverse_transport", "moments", "sample", "transport")),
}
SLOW = {  # valid calls at 100,000 points or thetas, of what costs a fraction of a millisecond for each
    ("Embedding by quadrature.mean", "a long list"),
    ("ImportanceSamplingFit.effective_sample_size", "a long list"),
    *((f"{fit}.{name}", "a long list") for fit in FITS_BY_THETA for name in PREDICTIONS),
    ("cbq.sensitivity", "a long list"),
    ("measures.Binomial", "10**12"),  # which has eight million atoms
}
STOPS = {("progress", "raises"), ("progress", "takes nothing")}  # it may end a run by any exception
NAN_IN_NAN_OUT = ("Factor.solve", "Factor.solve_lower")  # linear algebra, whose speed is its purpose
IGNORED = {  # arguments that are not looked at, or that may be anything
    *("bind.measure", "equals.other", "MonteCarloFit.plot.points"),
    *(f"{operator}.other" for operator in OPERATORS),  # NotImplemented, which Python turns into a TypeError
}
PATHS = ("path", "checkpoint")  # an error may name them by the name of the file
ALIASES: dict[str, tuple[str, ...]] = {  # other words for an argument
    "frame": ("table", "column", "columns"),
    "name": ("problem",),  # there is no problem of that name
    "other": ("factor", "scipy distribution"),  # what stands beside `*` has no name
    "outputs": ("output",),  # there are too few
    "values": ("log_lengthscales", "lengthscale"),  # of the method with_log_lengthscales
    **dict.fromkeys(
        ("family", "measure", "obj", "frozen", "prior", "prior_or_bounds", "proposal", "q"), ("scipy distribution",)
    ),  # it says which
}


class Entry(NamedTuple):
    """A public callable, a function for each parameter that makes a valid value, and the parameters that are flags."""

    name: str
    function: Callable[..., Any]
    valid: dict[str, Callable[[], Any]]
    flags: frozenset[str]


def entries() -> Iterator[Entry]:
    """All functions, constructors and methods that are public."""
    functions = {getattr(module, public): module.__name__ for module in MODULES for public in module.__all__}
    for function, module in functions.items():
        if callable(function) and function.__name__ not in RESULTS and not _is_abstract(function):
            yield _entry(f"{module.removeprefix('cbq.')}.{function.__name__}", function)
    for name in problems.names():
        yield _entry(f"problems.get({name})", partial(problems.get, name), builder(name))
    for label, make in SUBJECTS.items():
        subject = make()
        for name in dir(type(subject)):
            public = (name in OPERATORS or not name.startswith("_")) and name not in INNER
            if public and _is_method(type(subject), name) and f"{label}.{name}" not in REFUSED:
                method = getattr(subject, name)
                takes_options = name == "plot" and isinstance(subject, cbq.Fit)
                yield _entry(f"{label}.{name}", method, partial(plot_fit, subject) if takes_options else method)


def _is_abstract(thing: Any) -> bool:
    """Whether it is a class that nobody makes objects of: an exception, an abstract class or a protocol."""
    if not inspect.isclass(thing):
        return False
    return issubclass(thing, Exception) or inspect.isabstract(thing) or getattr(thing, "_is_protocol", False)


def _is_method(kind: type, name: str) -> bool:
    static = inspect.getattr_static(kind, name)
    function = getattr(static, "__func__", static)  # of a static method or a class method
    return inspect.isfunction(function) and function.__module__.startswith("cbq")


def _entry(name: str, function: Callable[..., Any], like: Callable[..., Any] | None = None) -> Entry:
    """The entry of a function whose parameters are those of `like`, by default its own."""
    owner, _, method = name.rpartition(".")
    valid, flags = {}, set()
    for each in inspect.signature(like or function).parameters.values():
        if each.kind in (each.VAR_POSITIONAL, each.VAR_KEYWORD):
            continue
        required = each.default is each.empty
        keys = [f"{name}.{each.name}", f"{owner}.{each.name}", f"{method}.{each.name}", *[each.name] * required]
        made = next((VALID[key] for key in keys if key in VALID), None)
        if made is None and required:
            raise LookupError(f"{name} has a new parameter {each.name!r}: add a valid value for it to VALID.")
        valid[each.name] = made or partial(_same, each.default)
        if each.annotation == "bool":
            flags.add(each.name)
    return Entry(name, function, valid, frozenset(flags))


def _same(value: Any) -> Any:
    return value


class Call(NamedTuple):
    """A call of an entry in which some arguments are replaced, each by the value of this name in the pool."""

    entry: Entry
    replaced: dict[str, str]

    def __str__(self) -> str:
        changes = ", ".join(f"{name} = {value}" for name, value in self.replaced.items())
        return f"{self.entry.name}, {changes}"

    def make(self) -> Any:
        arguments = {name: made() for name, made in self.entry.valid.items() if name not in self.replaced}
        return used(self.entry.function(**arguments, **{name: POOL[value]() for name, value in self.replaced.items()}))


def used(result: Any) -> Any:
    """The result and what it is good for: draws of a measure, values of a kernel, estimates of an estimator, ..."""
    if isinstance(result, measures.Measure) and not isinstance(result, measures.Unnormalised):
        x = result.sample(2, 0)
        has_density = not isinstance(result, measures.Empirical) and np.all(np.isfinite(x))
        return result, x, result.logpdf(x) if has_density else None
    if isinstance(result, kernels.Kernel) and not result.needs_measure and _has_one_lengthscale(result):
        dim = result.measure.dim if isinstance(result, kernels.Stein) else 1
        return result, result.diag(np.full((2, dim), 0.5))
    if isinstance(result, cbq.Problem):
        return result, result.collect(2, 2, rng=0)
    if isinstance(result, cbq.Samples):
        return result, used(cbq.MonteCarlo().fit(result))
    if isinstance(result, cbq.Fit):
        return result, result.predict(result.theta[:2])
    if isinstance(result, embeddings.Embedding):
        return result, result.variance
    if isinstance(result, ESTIMATORS):
        return used(result.fit(shared() if isinstance(result, cbq.ImportanceSampling) else samples()))
    if isinstance(result, AbstractContextManager):
        with result:
            return None
    return list(islice(result, 100)) if isinstance(result, Iterator) else result


def _has_one_lengthscale(kernel: kernels.Kernel) -> bool:
    try:
        return kernel.log_lengthscales.shape == (1,)
    except ValueError:  # lengthscales that are None are to be fitted
        return False


# What a call may do.

OWN = (cbq.CheckpointError, cbq.CollectWarning, cbq.IntegrandError, cbq.WorkerError, NoEmbedding, IncompatibleFile)
ALLOWED = (ValueError, TypeError, NotImplementedError, IndexError, MemoryError, OSError, *OWN)


def verdict(call: Call) -> str | None:
    """What is wrong with what the call does, or None. Warnings count as errors."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            warnings.simplefilter("ignore", cbq.FitWarning)  # which goes with a valid answer
            result = call.make()
    except Exception as error:
        return wrong_error(error, call)
    if has_nan(result) and call.entry.name not in (*NAN_IN_NAN_OUT, *UNKNOWN_IS_NAN):
        return "returned NaN"
    for name, value in call.replaced.items():
        if value in MASKED and not _is_ignored(call.entry, name):
            return "returned: it dropped a mask, or never looked at the argument"
        if name in call.entry.flags and value not in FLAGS:
            return "returned: a flag that is neither True nor False"
    return None


def wrong_error(error: Exception, call: Call) -> str | None:
    """What is wrong with an error, or None if cbq raised it on purpose and it names a replaced argument.

    On purpose: the innermost frame is one of cbq, and it is at a `raise` statement. A missing file may also be
    reported by `open`, with its name.
    """
    place = error.__traceback__
    while place is not None and place.tb_next is not None:
        place = place.tb_next
    assert place is not None
    file, line = place.tb_frame.f_code.co_filename, place.tb_lineno
    message = str(error)
    said = f"{os.path.relpath(file, SOURCE)}:{line}: {type(error).__name__}: {message[:300]}"
    if not isinstance(error, ALLOWED) or type(error) is np.linalg.LinAlgError:
        return f"an error of another kind, {said}"
    by_open = isinstance(error, OSError) and error.filename is not None
    by_cbq = file.startswith(SOURCE) and linecache.getline(file, line).strip().startswith("raise")
    if not by_open and not by_cbq:
        return f"an error that cbq did not raise, {said}"
    if len(message) > LONGEST_MESSAGE:
        return f"an error of {len(message)} characters, {said}"
    if isinstance(error, OWN) or any(_names(message, *each) for each in call.replaced.items()):
        return None
    return f"an error that does not name the argument, {said}"


def _names(message: str, name: str, value: str) -> bool:
    """Whether a message names the argument, or the file that it is the name of."""
    if name in PATHS and isinstance(made := POOL[value](), str | bytes) and os.fsdecode(made) in message:
        return True
    return any(re.search(rf"\b{word}\b", message) for word in (name, *ALIASES.get(name, ())))


def _is_ignored(entry: Entry, parameter: str) -> bool:
    name = f"{entry.name}.{parameter}"
    return name in IGNORED or ".".join(name.split(".")[-2:]) in IGNORED


UNKNOWN_IS_NAN = ("Comparison.to_columns",)  # scores that are unknown, as in the rows of a Comparison


def has_nan(result: Any, depth: int = 0) -> bool:
    """Whether some number in a result is NaN; those of a Comparison may be, where they are unknown."""
    if isinstance(result, float | np.floating):
        return bool(np.isnan(result))
    if isinstance(result, np.ndarray):
        return result.dtype.kind == "f" and bool(np.any(np.isnan(result)))
    if depth > 3 or isinstance(result, cbq.Comparison):
        return False
    parts: Any = ()
    if isinstance(result, cbq.Samples):
        parts = (result.theta, result.all_points, result.table)
    elif isinstance(result, measures.Measure):
        parts = result.parameters().values()
    elif isinstance(result, tuple | list):
        parts = result
    elif isinstance(result, Mapping):
        parts = result.values()
    elif dataclasses.is_dataclass(result) and not isinstance(result, type):
        parts = [getattr(result, field.name) for field in dataclasses.fields(result)]
    return any(has_nan(part, depth + 1) for part in parts)


# Which calls are made, and the processes that make them.


class Selection(NamedTuple):
    """Some of the calls.

    values : names in the pool. per_parameter : how many of them each parameter gets, chosen by a fixed seed, and one
        call with two of them; all if it is None, or if there are no more. only : a text in the name of the callable.
    flags : only parameters that are True or False. step : every so manieth call.
    """

    values: tuple[str, ...] = tuple(POOL)
    per_parameter: int | None = None
    only: str = ""
    flags: bool = False
    step: int = 1

    def calls(self) -> list[Call]:
        found = []
        for entry in entries():
            for name in entry.valid if self.only in entry.name else ():
                if self.flags and name not in entry.flags:
                    continue
                rng = random.Random(f"{entry.name} {name}")  # does not depend on the other callables
                values = self._values(entry, name)
                few = self.per_parameter is not None and self.per_parameter < len(values)
                found += [Call(entry, {name: v}) for v in (rng.sample(values, self.per_parameter) if few else values)]
                others = [other for other in entry.valid if other != name]
                if others and not self.flags:
                    other = rng.choice(others)
                    two = {name: rng.choice(values), other: rng.choice(self._values(entry, other))}
                    found.append(Call(entry, two))
        return found[:: self.step]

    def _values(self, entry: Entry, name: str) -> list[str]:
        """The values to try for a parameter."""
        return [each for each in self.values if (entry.name, each) not in SLOW and (name, each) not in STOPS]


class TooLong(BaseException):
    """A call has taken too long."""


def work(selection: Selection, first: int) -> None:
    """Make the calls from the first on, and write lines of JSON: the name of the call, then what is wrong with it."""
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    signal.signal(signal.SIGALRM, _stop)
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        for call in selection.calls()[first:]:
            _write(str(call))
            faulthandler.dump_traceback_later(SECONDS + 10, exit=True)  # for loops that no signal interrupts
            signal.setitimer(signal.ITIMER_REAL, SECONDS)
            try:
                wrong = verdict(call)
            except TooLong:
                wrong = f"took more than {SECONDS} s"
            finally:
                signal.setitimer(signal.ITIMER_REAL, 0)
            _write(wrong)
        faulthandler.cancel_dump_traceback_later()
        os.chdir(os.sep)


def _stop(*_: Any) -> None:
    raise TooLong


def _write(line: str | None) -> None:
    sys.stdout.write(json.dumps(line) + "\n")
    sys.stdout.flush()


class Report(NamedTuple):
    """The number of calls that were made, and what is wrong with those that failed, by their names."""

    made: int
    failures: dict[str, str]

    def __str__(self) -> str:
        listed = [f"  {call}\n      {wrong}" for call, wrong in sorted(self.failures.items())]
        return "\n".join([f"{len(self.failures)} of {self.made} calls failed", *listed])


def run(selection: Selection, script: str = __file__) -> Report:
    """Make the calls in a worker process; another one takes over after a call that ends its process."""
    made, failures = 0, {}
    while True:
        command = [sys.executable, script, "--work", json.dumps(selection), str(made)]
        environment = {**os.environ, "OMP_NUM_THREADS": "1"}
        done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
        lines = [json.loads(line) for line in done.stdout.splitlines()]
        names, wrong = lines[0::2], lines[1::2]
        failures |= {name: each for name, each in zip(names, wrong, strict=False) if each}
        made += len(names)
        if done.returncode == 0:
            return Report(made, failures)
        if len(names) == len(wrong):
            raise RuntimeError(f"a worker ended between two calls: {done.stderr}")
        failures[names[-1]] = f"ended its process ({done.returncode}): {done.stderr[-2000:]}"


if __name__ == "__main__":
    if sys.argv[1:2] == ["--work"]:
        work(Selection(*json.loads(sys.argv[2])), int(sys.argv[3]))
    else:
        sys.stdout.write(f"{run(Selection(only=''.join(sys.argv[1:2])))}\n")
