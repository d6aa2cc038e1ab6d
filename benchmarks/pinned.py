"""The numbers of one checkout, to hold another one against: code that is moved must leave them where they are.

Run: .venv/bin/python benchmarks/pinned.py --write before.json
     .venv/bin/python benchmarks/pinned.py --against before.json [--tolerance 1e-9]

Every method answers small problems of all kinds (iid, Sobol and chain designs, ragged samples, several outputs,
measures with and without a density), and nested expectations, value of information and embeddings follow. Only the
public interface is used, so that any two versions can be compared: `PYTHONPATH=path/to/other/src` runs the same
script on another checkout. All work is done on one thread, which makes a repeated run agree to the last bit.
"""

from __future__ import annotations

import json
import sys
import warnings
from argparse import ArgumentParser
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

import cbq
from cbq.measures import (
    Beta,
    Empirical,
    Exponential,
    Gamma,
    Gaussian,
    Mixture,
    Product,
    StudentT,
    Uniform,
    Unnormalised,
)

Numbers = dict[str, list[float] | str]
METHODS: dict[str, Callable[[], Any]] = {
    "Auto": cbq.Auto,
    "CBQ": cbq.CBQ,
    "CBQ plain": lambda: cbq.CBQ(calibrate=False),
    "CBQ shared": lambda: cbq.CBQ(lengthscales="shared", outputs="shared"),
    "CBQ borrow": lambda: cbq.CBQ(borrow=40),
    "CBQ zero mean": lambda: cbq.CBQ(mean="zero", trend=1, noise=1e-4),
    "CBQ given kernels": lambda: cbq.CBQ(kernel_theta=cbq.kernels.Matern(2.5), trend=None),
    "CBQ.paper": cbq.CBQ.paper,
    "MOBQ": cbq.MOBQ,
    "MOBQ Nystrom": lambda: cbq.MOBQ(nystrom=60),
    "MOBQ shared": lambda: cbq.MOBQ(outputs="shared", ard=False),
    "LSMC": cbq.LSMC,
    "KLSMC": cbq.KLSMC,
    "IS plain": lambda: cbq.ImportanceSampling("plain"),
    "IS self-normalised": lambda: cbq.ImportanceSampling("self-normalised"),
    "IS balance": cbq.ImportanceSampling,
}


def gaussian_ragged() -> cbq.Samples:
    """Two outputs of f that depends on theta, p = 2, with different numbers of points."""
    rng = np.random.default_rng(3)
    theta = rng.uniform(0.5, 2.0, (9, 2))
    x = [t[0] + np.sqrt(t[1]) * rng.standard_normal((4 + 3 * i, 1)) for i, t in enumerate(theta)]
    f = [np.column_stack([np.sin(v[:, 0]) * t[1], v[:, 0] ** 2]) for v, t in zip(x, theta, strict=True)]
    return cbq.Samples(theta, x, f, lambda t: Gaussian(t[0], cov=t[1]))


def problem(name: str) -> cbq.Problem:
    """A small problem whose measures of x are of one kind."""
    families: dict[str, tuple[Callable[[Any], Any], Callable[[Any, Any], Any], Any]] = {
        "uniform": (lambda t: Uniform([0, 0], [t[0], 1.0]), lambda x, t: np.exp(x[:, 0]) * x[:, 1], Uniform(1, 2)),
        "gamma": (lambda t: Gamma(t[0], 2.0), lambda x, t: np.log1p(x[:, 0]), Uniform(1, 3)),
        "beta": (lambda t: Beta(t[0], 2.0), lambda x, t: np.sin(6 * x[:, 0]), Uniform(1, 3)),
        "student": (lambda t: StudentT(5.0, t[0], 1.0), lambda x, t: np.tanh(x[:, 0]) + t[0], Uniform(0, 2)),
        "product": (
            lambda t: Product([Gaussian(t[0], 1.0), Exponential(1.0)]),
            lambda x, t: np.cos(x[:, 0]) + x[:, 1],
            Uniform(0, 2),
        ),
        "mixture": (
            lambda t: Mixture([0.4, 0.6], [Gaussian(-t[0], cov=0.5), Gaussian(t[0], 1.0)]),
            lambda x, t: np.abs(x[:, 0]),
            Uniform(0.5, 2),
        ),
    }
    family, integrand, prior = families[name]
    return cbq.Problem(integrand, family, prior, depends_on_theta=name == "student", name=name)


def empirical() -> cbq.Samples:
    """Finite measures, whose draws repeat points."""
    atoms = np.linspace(-2, 2, 30)[:, None]
    problem = cbq.Problem(
        lambda x, t: x[:, 0] ** 2 + t[0],
        lambda t: Empirical(
            atoms, np.exp(-0.5 * (atoms[:, 0] - t[0]) ** 2) / np.sum(np.exp(-0.5 * (atoms[:, 0] - t[0]) ** 2))
        ),
        Uniform(-1, 1),
    )
    return problem.collect(6, 9, rng=2)


def chains() -> cbq.Samples:
    """Points of measures that are known up to a constant, declared a Markov chain."""
    rng = np.random.default_rng(5)
    theta = np.linspace(0.5, 2.0, 6)[:, None]
    x = theta[:, None, :] + rng.standard_normal((6, 14, 1))
    measures = [Unnormalised(log_density=lambda x, t=t: -0.5 * np.sum((x - t) ** 2, axis=-1), dim=1) for t in theta]
    return cbq.Samples(theta, x, np.sin(x[..., 0]), measures, design="mcmc")


def all_samples() -> Iterator[tuple[str, cbq.Samples, np.ndarray]]:
    """Samples by name, with thetas to ask about."""
    for name, T, N in (("linear", 12, 14), ("sir", 9, 11), ("butterfly", 10, 12), ("health", 12, 15)):
        whole = cbq.problems.get(name)
        for design in ("iid", "sobol"):
            yield f"{name} {design}", whole.collect(T, N, rng=1, design=design), whole.prior.sample(7, 9)
    for name in ("uniform", "gamma", "beta", "student", "product", "mixture"):
        made = problem(name)
        yield name, made.collect(7, 10, rng=4), made.prior.sample(5, 9)
    yield "ragged", gaussian_ragged(), np.array([[0.7, 0.8], [1.5, 1.9], [1.0, 1.0]])
    yield "empirical", empirical(), np.array([[-0.5], [0.25]])
    yield "chains", chains(), np.array([[0.7], [1.3]])


def answers(fit: cbq.Fit, theta: np.ndarray) -> list[float]:
    """Everything a fit says at thetas (M, p): mean, standard deviation, covariance, intervals and draws."""
    mean, std = fit.predict(theta, return_std=True)
    parts = [mean, std, fit.predict(theta, return_cov=True)[1], *fit.interval(theta), *fit.interval(theta, 0.5)]
    parts += [fit.sample(theta, 3, rng=0), fit.correlation]
    stage1 = getattr(fit, "stage1", None)
    if stage1 is not None:
        parts += [stage1.mean, stage1.std, stage1.bias, stage1.spread, stage1.amplitude]
    return [float(v) for part in parts for v in np.ravel(part)]


def fits(found: Numbers) -> None:
    """Every method on all samples."""
    for name, samples, theta in all_samples():
        for method, make in METHODS.items():
            key = f"{name} | {method}"
            try:
                found[key] = answers(make().fit(samples), theta)
            except Exception as error:
                found[key] = type(error).__name__
        found[f"{name} | Monte Carlo"] = answers(cbq.MonteCarlo().fit(samples), samples.theta[:2])


def nested(found: Numbers) -> None:
    """Nested expectations and the value of information."""
    butterfly, health = cbq.problems.get("butterfly"), cbq.problems.get("health")
    fit = cbq.CBQ().fit(butterfly.collect(8, 10, rng=0))
    asked: dict[str, Callable[[], Any]] = {
        "expected loss": lambda: cbq.expected_loss(fit, butterfly.prior, n=512, rng=0),
        "square, bq": lambda: cbq.nested_expectation(fit, np.square, butterfly.prior, method="bq", n=24, rng=0),
        "square, mc": lambda: cbq.nested_expectation(fit, np.square, butterfly.prior, n=512, rng=0),
        "value at risk": lambda: cbq.value_at_risk(fit, butterfly.prior, alpha=0.9, n=512, rng=0),
        "tail": lambda: cbq.conditional_value_at_risk(fit, butterfly.prior, alpha=0.9, n=512, rng=0),
        "evppi": lambda: cbq.evppi(cbq.CBQ().fit(health.collect(12, 12, rng=0)), health.prior, n=512, rng=0),
    }
    for name, ask in asked.items():
        answer = ask()
        found[f"nested | {name}"] = [float(v) for v in (answer.estimate, answer.std, *answer.interval(0.95))]


def tables(found: Numbers) -> None:
    """The value of information from a table of draws."""
    rng = np.random.default_rng(8)
    inputs = rng.standard_normal((600, 3))
    outputs = np.column_stack([np.zeros(600), inputs[:, 0] + 0.5 * inputs[:, 1] ** 2 + 0.3 * rng.standard_normal(600)])
    named = {f"a{j}": column for j, column in enumerate(inputs.T)}
    table = cbq.evppi(outputs, named, [["a0"], ["a1"], ["a0", "a1"]]).to_frame()
    found["psa"] = [float(v) for v in table[["evppi", "se", "lower", "upper", "plug_in"]].to_numpy().ravel()]


def embeddings(found: Numbers) -> None:
    """Closed forms and panel rules."""
    x = np.linspace(-1.5, 2.5, 7)
    for kernel in (cbq.kernels.RBF(0.7), cbq.kernels.Matern(1.5, 0.7), cbq.kernels.Matern(2.5, 0.1)):
        for measure in (
            Gaussian(0.2, cov=0.8),
            Uniform(-1, 2),
            Exponential(1.3),
            Gamma(2.5, 1.5),
            StudentT(4.0, 0.1, 1.2),
        ):
            e = cbq.embed(kernel, measure)
            numbers = [*e.mean(x), e.variance, e.cross(measure[None])[0] if measure.batch_shape else e.cross(measure)]
            found[f"embed | {kernel!r} | {type(measure).__name__}"] = [float(v) for v in numbers]


def measured() -> Numbers:
    """All numbers, by name."""
    found: Numbers = {}
    with warnings.catch_warnings(), cbq.linalg.at_most(1), threadpool_limits(1):
        warnings.simplefilter("ignore")
        for part in (embeddings, fits, nested, tables):
            part(found)
    return found


def difference(one: list[float], other: list[float]) -> float:
    """The largest difference of two rows of numbers, relative to the size of each."""
    a, b = np.array(one), np.array(other)
    if a.shape != b.shape:
        return np.inf
    size = np.maximum(np.abs(a), np.abs(b))
    with np.errstate(invalid="ignore"):
        apart = np.where((a == b) | (np.isnan(a) & np.isnan(b)), 0.0, np.abs(a - b) / np.where(size > 0, size, 1.0))
    return float(np.max(apart, initial=0.0))


def compared(before: Numbers, after: Numbers, tolerance: float) -> int:
    """Print what differs; returns how many rows do."""
    moved = 0
    for name in {**before, **after}:
        one, other = before.get(name), after.get(name)
        if one is None or other is None or isinstance(one, str) or isinstance(other, str):
            apart = 0.0 if one == other else np.inf
        else:
            apart = difference(one, other)
        if not apart <= tolerance:
            moved += 1
            what = f"{one if isinstance(one, str) else ''} {other if isinstance(other, str) else ''}".strip()
            print(f"{apart:9.2e}  {name}  {what}")
    rows = len({**before, **after})
    print(f"{moved} of {rows} rows differ by more than {tolerance:g}; cbq is {cbq.__file__}")
    return moved


def main() -> None:
    """Write the numbers, or compare them with those of a file."""
    parser = ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--write", type=Path, help="the file to write to")
    parser.add_argument("--against", type=Path, help="a file that --write wrote")
    parser.add_argument("--tolerance", type=float, default=1e-9, help="relative (default 1e-9)")
    options = parser.parse_args()
    found = measured()
    if options.write is not None:
        options.write.write_text(json.dumps(found))
    if options.against is not None:
        sys.exit(compared(json.loads(options.against.read_text()), found, options.tolerance) > 0)


if __name__ == "__main__":
    main()
