"""Whether probabilities and quantiles of an outcome are right: coverage of intervals, and errors beside two rivals.

Run: .venv/bin/python benchmarks/outcome.py [--seeds 20] [--problems NAME ...] [--runs 128] [--rivals] [--out PATH.json]
     .venv/bin/python benchmarks/outcome.py --speed
     .venv/bin/python benchmarks/outcome.py --events --seeds 6

The truth is brute force: f itself at 2^18 Sobol points of each of four thetas, 2^16 for one input. Asked for are the
quantiles of 5%, 50% and 95%, the probabilities to exceed the values that are exceeded with probability 0.5, 0.1 and
0.02 on average, and the standard deviation. Coverage is the share of (theta, question, output) whose truth is in the
interval of 95%. Errors of probabilities are absolute, those of quantiles in units of the standard deviation of f.

With `--rivals`, the probabilities are estimated from the same runs by two others: cbq.MOBQ fitted to the indicator of
the event, and a Gaussian process of scikit-learn (Matern 5/2 or RBF with a lengthscale for each input, the likelier
one; in standardised inputs) that is integrated at the same points. `--speed` times 100 probabilities at 10,000 thetas
after a fit to 600 points. `--events` compares cbq.LatentBQ with cbq.MOBQ, which has bounds, where f is an event or a
count.
"""

from __future__ import annotations

import json
import warnings
from argparse import ArgumentParser
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from time import perf_counter, process_time
from typing import Any

import numpy as np
from scipy.special import ndtr
from scipy.stats.qmc import Sobol

import cbq
from _common import OneThreadPool, peak_memory, positive_integer, print_record, share_inside, with_progress
from cbq.measures import Gaussian, Uniform

Array = np.ndarray
Q = np.array([0.05, 0.5, 0.95])
SHARES = np.array([0.5, 0.1, 0.02])  # of outcomes beyond the thresholds, on average over thetas
THETAS = 4
POINTS = 2**13


@dataclass(frozen=True)
class Case:
    """A problem, and f without its noise; noise: the standard deviation of the noise of one run."""

    problem: cbq.Problem
    noise: float = 0.0


def _shifted(f: Callable[[Array], Array], d: int, **options: Any) -> cbq.Problem:
    """f of X ~ N((theta, 0, ...), I) in d dimensions, theta in (-1, 1)."""
    mean = np.eye(d)[0]
    return cbq.Problem(
        f if options else lambda x, theta: f(x),
        lambda theta: Gaussian(theta[0] * mean, cov=np.ones(d)),
        Uniform(-1.0, 1.0),
        depends_on_theta=False,
        **options,
    )


def _of_both() -> cbq.Problem:
    """A smooth f of three inputs and theta."""

    def f(x: Array, theta: Array) -> Array:
        return np.exp(0.4 * theta[0] * x[:, 0]) + np.sin(2 * x[:, 1] + theta[0]) + 0.3 * x[:, 2] ** 2

    return cbq.Problem(f, lambda theta: Gaussian(np.zeros(3), cov=np.ones(3)), Uniform(0.5, 2.0))


def _noisy(x: Array, theta: Array, rng: np.random.Generator) -> Array:
    return np.sin(2 * x[:, 0]) + 0.3 * x[:, 1] + 0.3 * rng.standard_normal(len(x))


def _ten(x: Array) -> Array:
    return x @ np.linspace(1.0, 0.1, 10) + 0.3 * x[:, 0] * x[:, 1] + 0.2 * x[:, 2] ** 2


def cases() -> dict[str, Callable[[], Case]]:
    """All problems, by name: the built-in ones, and six more."""
    built_in = {name: (lambda name=name: Case(cbq.problems.get(name))) for name in cbq.problems.names()}
    return built_in | {
        "wave, d = 1": lambda: Case(_shifted(lambda x: np.exp(0.5 * x[:, 0]) + np.sin(3 * x[:, 0]), 1)),
        "kink, d = 2": lambda: Case(_shifted(lambda x: np.abs(x[:, 0] + 0.5 * x[:, 1]) + 0.2 * x[:, 1], 2)),
        "jump, d = 2": lambda: Case(_shifted(lambda x: x[:, 0] + 2.0 * (x[:, 0] + x[:, 1] > 0.5), 2)),
        "noise, d = 2": lambda: Case(_shifted(_noisy, 2, stochastic=True), 0.3),
        "theta, d = 3": lambda: Case(_of_both()),
        "ten, d = 10": lambda: Case(_shifted(_ten, 10)),
    }


@dataclass(frozen=True)
class Truth:
    """theta (M, p); thresholds (K,) of each output (K, C); and the answers by brute force, (M, K, C) or (M, C)."""

    theta: Array
    c: Array
    sf: Array
    ppf: Array
    std: Array
    spread: Array  # (C,)


@lru_cache(maxsize=32)
def truth_of(name: str) -> Truth:
    """By brute force."""
    case = cases()[name]()
    problem, noise = case.problem, case.noise
    theta = problem.prior.transport(Sobol(problem.p, rng=7).random(THETAS))
    d = problem.family(theta[0]).dim
    u = np.clip(Sobol(d, rng=8).random(2**16 if d == 1 else 2**18), 2.0**-33, 1 - 2.0**-33)
    rng = np.random.default_rng(9)
    f = np.stack([_values(problem, problem.family(each).transport(u), each, rng, noise) for each in theta])
    c = np.quantile(f.reshape(-1, f.shape[-1]), 1 - SHARES, axis=0)  # (K, C)
    sf = np.mean(f[:, :, None, :] > c, axis=1)
    return Truth(theta, c, sf, np.moveaxis(np.quantile(f, Q, axis=1), 0, 1), np.std(f, axis=1), np.std(f, axis=(0, 1)))


def _values(problem: cbq.Problem, x: Array, theta: Array, rng: np.random.Generator, noise: float) -> Array:
    """f (n, C) at points (n, d)."""
    found = problem.integrand(x, theta, rng) if noise else problem.evaluate(theta, x)
    return np.reshape(found, (len(x), -1))


def score(name: str, runs: int, seed: int, rivals: bool) -> dict[str, Any]:
    """How good one fit is."""
    problem, truth = cases()[name]().problem, truth_of(name)
    N = 1 if runs < 64 else 8
    samples = problem.collect(runs // N, N, rng=seed, design="sobol")
    fit = cbq.MOBQ().fit(samples)
    outcome = fit.outcome(truth.theta, size=POINTS, rng=seed)
    C = truth.c.shape[1]

    def columns(triple: Any) -> Array:
        return np.stack([np.reshape(each, (len(truth.theta), -1, C)) for each in triple])

    found = {
        "sf": np.concatenate([columns(outcome.sf(truth.c[:, c], level=0.95))[..., [c]] for c in range(C)], axis=-1),
        "ppf": columns(outcome.ppf(Q, level=0.95)),
        "std": columns(outcome.std(level=0.95)),
    }
    true = {"sf": truth.sf, "ppf": truth.ppf, "std": truth.std[:, None]}
    scores: dict[str, Any] = {"residual": max(group.chosen.residual for group in fit.groups)}
    for key, (estimate, low, high) in found.items():
        unit = 1.0 if key == "sf" else np.where(truth.spread > 0, truth.spread, 1.0)
        scores[key] = {
            "covered": share_inside(low, true[key], high),
            "rmse": float(np.sqrt(np.mean(((estimate - true[key]) / unit) ** 2))),
            "width": float(np.mean((high - low) / unit)),
        }
    if rivals:
        scores["indicator"] = _rmse(_by_indicators(problem, samples, truth), truth.sf)
        scores["sklearn"] = _rmse(_by_sklearn(samples, truth, cases()[name]().noise > 0, outcome._u), truth.sf)
    return scores


def _rmse(estimate: Array, truth: Array) -> float:
    return float(np.sqrt(np.mean((estimate - truth) ** 2)))


def _by_indicators(problem: cbq.Problem, samples: cbq.Samples, truth: Truth) -> Array:
    """The probabilities (M, K, C) as expectations of indicators, from the same runs."""
    found = np.empty_like(truth.sf)
    values = samples.f.reshape(*samples.f.shape[:2], -1)
    for k in range(len(truth.c)):
        for c in range(truth.c.shape[1]):
            f = np.where(values[..., c] > truth.c[k, c], 1.0, 0.0)
            events = cbq.Samples(
                samples.theta,
                samples.x,
                f,
                problem.family,
                design="sobol",
                depends_on_theta=samples.depends_on_theta,
                stochastic=samples.stochastic,
                bounds=(0.0, 1.0),
            )
            found[:, k, c] = cbq.MOBQ().fit(events).predict(truth.theta)
    return found


def _by_sklearn(samples: cbq.Samples, truth: Truth, noisy: bool, points: Array) -> Array:
    """The probabilities (M, K, C) by a Gaussian process of scikit-learn, averaged over the points of the outcome."""
    from sklearn.gaussian_process import GaussianProcessRegressor  # type: ignore[import-untyped]
    from sklearn.gaussian_process.kernels import RBF, Matern, WhiteKernel  # type: ignore[import-untyped]

    x, theta = samples.all_points, samples.theta[samples.owners]
    u = np.column_stack([x, theta]) if samples.depends_on_theta else x
    centre, scale = np.mean(u, axis=0), np.std(u, axis=0)
    scale = np.where(scale > 0, scale, 1.0)
    found = np.empty_like(truth.sf)
    for c in range(truth.c.shape[1]):
        values = samples.table[:, c]
        models = []
        for kernel in (RBF(np.ones(u.shape[1]), (0.01, 1e4)), Matern(np.ones(u.shape[1]), (0.01, 1e4), nu=2.5)):
            whole = 1.0 * kernel + WhiteKernel(0.1) if noisy else 1.0 * kernel
            model = GaussianProcessRegressor(whole, normalize_y=True, n_restarts_optimizer=1, random_state=0)
            models.append(model.fit((u - centre) / scale, values))
        best = max(models, key=lambda model: model.log_marginal_likelihood_value_)
        for m, each in enumerate(truth.theta):
            at = samples.conditional.one(each).transport(points)
            at = np.column_stack([at, np.tile(each, (len(at), 1))]) if samples.depends_on_theta else at
            mean, std = best.predict((at - centre) / scale, return_std=True)  # with the noise of a WhiteKernel
            z = (truth.c[:, [c]] - mean) / np.maximum(std, 1e-12)
            found[m, :, c] = np.mean(ndtr(-z), axis=1)
    return found


def score_quietly(name: str, runs: int, seed: int, rivals: bool) -> dict[str, Any]:
    """The same, without warnings of scikit-learn on lengthscales at their bounds."""
    with warnings.catch_warnings(action="ignore"):
        return score(name, runs, seed, rivals)


def table(found: dict[str, list[dict[str, Any]]], rivals: bool) -> str:
    """Markdown: coverage and error of each problem, and the errors of rivals as multiples."""
    head = ["problem", "covered: P", "quantiles", "std", "error: P", "quantiles", "width of P"]
    lines = [[*head, "indicator", "scikit-learn"] if rivals else head]
    lines.append(["---"] * len(lines[0]))
    for name, scores in found.items():
        column = {
            (key, what): np.array([each[key][what] for each in scores])
            for key in ("sf", "ppf", "std")
            for what in ("covered", "rmse", "width")
        }
        line = [name, *(f"{np.mean(column[key, 'covered']):.2f}" for key in ("sf", "ppf", "std"))]
        line += [f"{np.median(column[key, 'rmse']):.2g}" for key in ("sf", "ppf")]
        line += [f"{np.median(column['sf', 'width']):.2g}"]
        if rivals:
            own = np.median(column["sf", "rmse"])
            line += [f"{np.median([each[key] for each in scores]) / own:.1f}" for key in ("indicator", "sklearn")]
        lines.append(line)
    every = [each for scores in found.values() for each in scores]
    means = [f"{np.mean([each[key]['covered'] for each in every]):.3f}" for key in ("sf", "ppf", "std")]
    lines.append(["all", *means, *[""] * (len(lines[0]) - 4)])
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def speed(thetas: int = 10_000, thresholds: int = 100) -> None:
    """The time of all probabilities after a fit to 600 points."""
    for p in (1, 2):
        problem = cbq.Problem(
            lambda x, theta: np.exp(0.5 * x[:, 0]) + np.sin(3 * x[:, 1]) + 0.1 * x[:, 2] * x[:, 0],
            lambda theta, p=p: Gaussian(np.pad(theta, (0, 3 - p)), cov=np.ones(3)),
            Uniform([-1.0] * p, [1.0] * p),
            depends_on_theta=False,
        )
        fit = cbq.MOBQ().fit(problem.collect(600, 1, rng=0, design="sobol"))
        theta = problem.prior.sample(thetas, 0)
        began, cpu = perf_counter(), process_time()
        outcome = fit.outcome(theta)
        outcome.cdf(np.linspace(-1.0, 4.0, thresholds))
        print(
            f"p = {p}: {thetas} thetas x {thresholds} thresholds: {perf_counter() - began:.1f} s "
            f"({process_time() - cpu:.1f} s of one core), peak memory {peak_memory():.2f} GiB",
            flush=True,
        )


def event_problems() -> dict[str, tuple[cbq.Problem, Callable[[Array], Array]]]:
    """Problems whose f is an event or a count, with the mean of f at points x; X ~ N((theta, 0), I)."""

    def chance(x: Array) -> Array:
        return ndtr(x[:, 0] + np.sin(2 * x[:, 1]) - 1)

    def rate(x: Array) -> Array:
        return np.exp(0.5 * x[:, 0] + 0.3 * x[:, 1])

    def curved(x: Array) -> Array:
        return 1.0 * (x[:, 0] + 0.5 * x[:, 1] ** 2 > 1.0)

    def rare(x: Array) -> Array:
        return 1.0 * (x[:, 0] + x[:, 1] > 3.0)

    def random_event(x: Array, theta: Array, rng: np.random.Generator) -> Array:
        return 1.0 * (rng.random(len(x)) < chance(x))

    def random_count(x: Array, theta: Array, rng: np.random.Generator) -> Array:
        return 1.0 * rng.poisson(rate(x))

    return {
        "event": (_shifted(lambda x, theta: curved(x), 2, bounds=(0.0, 1.0)), curved),
        "rare event": (_shifted(lambda x, theta: rare(x), 2, bounds=(0.0, 1.0)), rare),
        "random event": (_shifted(random_event, 2, stochastic=True, bounds=(0.0, 1.0)), chance),
        "count": (_shifted(random_count, 2, stochastic=True, bounds=(0.0, np.inf)), rate),
    }


def events(seeds: int, runs: int) -> None:
    """Print the errors, coverage and widths of both estimators, averaged over seeds."""
    theta, points = np.linspace(-1.0, 1.0, 9)[:, None], Sobol(2, rng=1).random(2**16)
    print("| problem | estimator | error | covered | width | seconds |\n| --- | --- | --- | --- | --- | --- |")
    for name, (problem, mean) in event_problems().items():
        truth = np.array([np.mean(mean(problem.family(each).transport(points))) for each in theta])
        for estimator in (cbq.MOBQ(), cbq.LatentBQ()):
            found = []
            for seed in range(seeds):
                samples = problem.collect(runs // 8, 8, rng=seed, design="sobol")
                began = process_time()
                with warnings.catch_warnings(action="ignore", category=cbq.FitWarning):
                    fit = estimator.fit(samples)
                low, high = fit.interval(theta)
                error = _rmse(fit.predict(theta), truth)
                covered, width = share_inside(low, truth, high), float(np.mean(high - low))
                found.append((error, covered, width, process_time() - began))
            cells = " | ".join(f"{each:.2g}" for each in np.mean(found, axis=0))
            print(f"| {name} | {type(estimator).__name__} | {cells} |", flush=True)


def main() -> None:
    """Print the run record and the table."""
    parser = ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=positive_integer, default=20, help="number of seeds (default 20)")
    parser.add_argument("--problems", nargs="+", choices=cases(), default=list(cases()), metavar="NAME")
    parser.add_argument("--runs", type=positive_integer, default=128, help="runs of f (default 128)")
    parser.add_argument("--rivals", action="store_true", help="also an indicator fit and scikit-learn")
    parser.add_argument("--speed", action="store_true", help="time many thetas instead")
    parser.add_argument("--events", action="store_true", help="compare estimators of events and counts instead")
    parser.add_argument("--out", type=Path, help="a file for the scores of all seeds")
    parser.add_argument("--workers", type=positive_integer, default=2, help="processes (default 2)")
    options = parser.parse_args()
    record = print_record()
    if options.speed:
        speed()
        return
    if options.events:
        events(options.seeds, options.runs)
        return
    jobs = [(name, options.runs, seed, options.rivals) for seed in range(options.seeds) for name in options.problems]
    found: dict[str, list[dict[str, Any]]] = {name: [] for name in options.problems}
    with OneThreadPool(options.workers) as pool:
        for (name, *_), scores in with_progress(pool.run(score_quietly, jobs), len(jobs), "outcome"):
            found[name].append(scores)
    if options.out:
        options.out.write_text(json.dumps({"record": record, "scores": found}))
    print(table(found, options.rivals))


if __name__ == "__main__":
    main()
