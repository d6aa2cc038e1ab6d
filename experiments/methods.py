"""The methods of the experiments, by name, and their scores on one cell."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from math import isnan, sqrt
from statistics import fmean
from typing import Any

import numpy as np

import cbq
from cbq import CBQ, KLSMC, LSMC, MOBQ, Auto, ImportanceSampling
from cbq.comparison import ComparisonRow
from cbq.estimators.conditional.paper import AMPLITUDES, LENGTHSCALES, kernels_on_grid
from cbq.fit import PredictiveDistribution
from cbq.kernels import RBF, Additive, Kernel, Matern, Stein, Warped
from cbq.kernels.warped import Columns
from cbq.linalg import Factor, Jitter, factor
from cbq.linalg.lapack import cholesky, solve_lower
from cbq.measures import Gaussian
from experiments.analysis import Row
from experiments.common import Array, Options, outer_thetas, problem_with_truth
from experiments.experiment import Cell

BASELINES = ("LSMC", "KLSMC", "IS", "IS balance")
LANDMARKS = 500
SOBOL_OF_X = "sobol of x"  # a design with independent thetas
REDRAWN = "redrawn"  # data of linear that are drawn anew with each seed of the samples
POOLED_KERNELS: dict[str, Kernel] = {  # on linear and butterfly with the likeliest lengthscale of the grid
    "linear": RBF(1.0),
    "butterfly": Warped(RBF(0.1), "log"),
    "health": Matern(1.5),  # of the whitened inputs of a treatment
}
INPUTS_OF_TREATMENTS = (tuple(range(9)), (3, *range(9, 17)))  # on health, of the 17
NUGGET = Jitter(start=1e-6)


def _gaussianised(base: Matern | RBF) -> Kernel:
    return Warped(base, "gaussianise")


METHODS: dict[str, Callable[[], Any]] = {
    "CBQ.paper": CBQ.paper,
    "LSMC": LSMC,
    "KLSMC": KLSMC,
    "IS": lambda: ImportanceSampling("plain"),
    "IS balance": lambda: ImportanceSampling("balance"),
    "CBQ": CBQ,
    "MOBQ": MOBQ,
    "Auto": Auto,
    "MOBQ, Nystrom": lambda: MOBQ(nystrom=LANDMARKS),
    "MOBQ, paper's kernel": lambda: MOBQ(POOLED_KERNELS["linear"], jitter=NUGGET),
    "MOBQ, paper": lambda: PaperMOBQ(RBF()),
    "CBQ.paper, Stein": lambda: CBQ.paper(Stein(Matern(1.5))),
    "CBQ.paper, Stein of log x": lambda: CBQ.paper.for_problem("sir-log"),
    "CBQ.paper, lambda = 0": CBQ.paper,
    "CBQ.paper, additive": CBQ.paper,
    # kernels of theta
    "CBQ.paper, theta Matern 3/2": lambda: CBQ.paper(kernel_theta=Matern(1.5)),
    "CBQ.paper, theta Gaussian": lambda: CBQ.paper(kernel_theta=RBF()),
    "CBQ, theta Matern 3/2": lambda: CBQ(kernel_theta=Matern(1.5)),
    "CBQ, theta Gaussian": lambda: CBQ(kernel_theta=RBF()),
    # kernels of x
    "CBQ.paper, x Matern 3/2": lambda: CBQ.paper(kernel_x=_gaussianised(Matern(1.5))),
    "CBQ.paper, x Gaussian": lambda: CBQ.paper(kernel_x=_gaussianised(RBF())),
    "CBQ.paper, x Stein": lambda: CBQ.paper(kernel_x=Stein(Matern(1.5))),
    "CBQ, x Matern 3/2": lambda: CBQ(kernel_x=_gaussianised(Matern(1.5))),
    "CBQ, x Gaussian": lambda: CBQ(kernel_x=_gaussianised(RBF())),
    "CBQ, x Stein": lambda: CBQ(kernel_x=Stein(Matern(1.5))),
}
PRESETS = {  # of the paper's method with other kernels, by name and problem
    "CBQ.paper, Stein": {"butterfly": "butterfly-stein"},
    "CBQ.paper, x Gaussian": {"linear": "linear", "butterfly": "butterfly"},
    "CBQ.paper, x Stein": {"sir": "sir", "butterfly": "butterfly-stein"},
}


def paper_method(preset: str) -> Any:
    """The paper's method with the kernel of x that the paper has for a problem."""
    if preset == "health, own theta":  # nine inputs of one treatment
        return CBQ.paper(kernel_x=Warped(Matern(1.5), "whiten"))
    return CBQ.paper.for_problem(preset)


def method_for(name: str, problem: str) -> Any:
    """The method of this name; that of the paper has the paper's kernel of x for the problem, unless it is named."""
    if name == "CBQ.paper":
        return paper_method(problem)
    if name == "CBQ.paper, lambda = 0":
        return replace(paper_method(problem), lambdas=(0.0,))
    if name == "CBQ.paper, additive":  # a kernel of each whitened input, as in the published code of health
        kernels = [Warped(Warped(Additive(Matern(1.5)), "whiten"), Columns(own)) for own in INPUTS_OF_TREATMENTS]
        return replace(paper_method(problem), kernel_x=kernels)
    if preset := PRESETS.get(name, {}).get(problem):
        return paper_method(preset)
    method = METHODS[name]()
    if name == "MOBQ, paper's kernel":
        if problem == "health":
            return WhitenedMOBQ()
        return replace(method, kernel_x=POOLED_KERNELS[problem])
    if name == "MOBQ, paper":
        return PaperMOBQ(paper_method(problem).kernel_x or RBF())
    if name.startswith("CBQ.paper, theta"):
        return replace(paper_method(problem), kernel_theta=method.kernel_theta)
    return method


class WhitenedMOBQ:
    """MOBQ on health with the paper's kernel: k_X of the whitened inputs u of each treatment, times k_Theta.

    Given theta, u = L^-1 (x - m) of the nine inputs of a treatment is standard normal at all thetas, so that f as a
    function of u and theta has one kernel with an embedding.
    """

    def fit(self, samples: cbq.Samples) -> cbq.Fit:
        """A fit with one process for each treatment."""
        method = MOBQ(POOLED_KERNELS["health"], Matern(1.5), ard=False, jitter=NUGGET)
        outputs = zip(samples.outputs, INPUTS_OF_TREATMENTS, strict=True)
        return _FitOfOutputs([method.fit(_whitened(output, list(own))) for output, own in outputs])


def _whitened(samples: cbq.Samples, inputs: list[int]) -> cbq.Samples:
    """The samples of one output as a function of its whitened inputs and theta."""
    u = []
    for t, measure in enumerate(samples.measures):
        mean, cov = measure.moments()
        root = cholesky(cov[np.ix_(inputs, inputs)])
        u.append(solve_lower(root, samples.points(t)[:, inputs] - mean[inputs]))
    standard = Gaussian(np.zeros(len(inputs)), np.ones(len(inputs)))
    return cbq.Samples(samples.theta, np.stack(u), samples.f, standard)


class PaperMOBQ:
    """MOBQ by the text, for an f of x: zero mean, f standardised, lengthscale and amplitude the likeliest of the grids.

    The grids and the nugget are those of `CBQ.paper`. A Stein kernel has no place here: it belongs to one theta.
    """

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel

    def fit(self, samples: cbq.Samples) -> cbq.Fit:
        """The fit to samples of one output."""
        x, f = samples.all_points, samples.table[:, 0]
        shift, scale = float(np.mean(f)), float(np.std(f))
        y = (f - shift) / scale
        tried = []
        for kernel in kernels_on_grid(self.kernel, x, LENGTHSCALES):
            gram = factor(kernel(x), nugget=np.full(len(x), NUGGET.start))
            energy = float(y @ gram.solve(y[:, None])[:, 0])
            tried += [(-energy / A - len(x) * np.log(A) - float(gram.logdet), A, kernel, gram) for A in AMPLITUDES]
        _, amplitude, kernel, gram = max(tried, key=lambda each: each[0])
        return _PaperMOBQFit(samples, kernel, gram, shift, scale, amplitude, y)


class _PaperMOBQFit(cbq.Fit):
    """The posterior of I, whose prior mean is the average of f."""

    def __init__(
        self, samples: cbq.Samples, kernel: Kernel, gram: Factor, shift: float, scale: float, amplitude: float, y: Array
    ) -> None:
        self.samples, self.theta, self.C = samples, samples.theta, samples.C
        self.kernel, self.amplitude = kernel, amplitude
        self._gram, self._shift, self._scale, self._y = gram, shift, scale, y

    def _description(self) -> list[str]:
        return [f"One process with {self.kernel!r}."]

    def _predictive(self, theta: Array, c: int, *, joint: bool) -> PredictiveDistribution:
        if joint:
            raise NotImplementedError("joint distributions are not needed by the experiments.")
        embedded = [cbq.embed(self.kernel, measure) for measure in self.samples.conditional(theta)]
        mu = np.stack([each.mean(self.samples.all_points) for each in embedded])  # (M, n)
        weights = self._gram.solve(mu.T)
        left = np.array([float(each.variance) for each in embedded]) - np.sum(mu.T * weights, axis=0)
        mean = self._shift + self._scale * (weights.T @ self._y)
        variance = self._scale**2 * self.amplitude * np.maximum(left, 0.0)
        return PredictiveDistribution(mean[None], variance[None], np.inf)


class _FitOfOutputs(cbq.Fit):
    """Several fits, each of one output."""

    def __init__(self, fits: list[cbq.Fit]) -> None:
        self.fits, self.theta, self.C = fits, fits[0].theta, len(fits)

    def _description(self) -> list[str]:
        return ["One fit for each output."]

    def _predictive(self, theta: Array, c: int, *, joint: bool) -> PredictiveDistribution:
        (found,) = self.fits[c]._predictives(theta, joint=joint)
        return found


def problem_options(cell: Cell, seed: int) -> Options:
    """The options of the problem of a cell, where data that are redrawn have a seed of their own."""
    options = dict(cell.options)
    if options.pop("data", None) == REDRAWN:
        options["seed"] = seed + 1  # the data of seed 0 are those that are fixed
    return tuple(sorted(options.items()))


@dataclass
class _KeepsFit:
    """A method that keeps its last fit, so that more can be asked of it than `cbq.compare` does."""

    method: Any
    last: cbq.Fit | None = None

    def fit(self, samples: cbq.Samples) -> cbq.Fit:
        self.last = None
        self.last = self.method.fit(samples)
        return self.last


def score_methods(cell: Cell, seed: int, value: Callable[[Array], float] | None = None) -> list[Row]:
    """A row for each method of a cell: RMSE, coverage and width of 95% intervals, and seconds of the fit.

    value: a number that is wanted of I at the outer thetas, (M,) or (M, C); its absolute error is a score then.
    """
    _, theta, truth = problem_with_truth(cell.problem, cell.thetas, problem_options(cell, seed))
    methods = {name: _KeepsFit(method_for(name, cell.problem)) for name in cell.methods}
    rows = cbq.compare(collect_cell(cell, seed), methods, truth, theta=theta).rows
    found = [_over_outputs([row for row in rows if row.method == name]) for name in cell.methods]
    if value is not None:
        outer, exact = outer_thetas(cell.problem, problem_options(cell, seed))
        for row in found:
            fit = methods[row["method"]].last
            row |= {} if fit is None else {"value_error": abs(value(np.asarray(fit.predict(outer))) - value(exact))}
    return found


def collect_cell(cell: Cell, seed: int) -> cbq.Samples:
    """The samples of a cell. With the design "sobol of x", the thetas are those of the design "iid"."""
    problem = cbq.problems.get(cell.problem, **dict(problem_options(cell, seed)))
    options: dict[str, Any] = {"rng": seed, "batch": 10_000, "progress": False, "design": cell.design}
    if cell.design == SOBOL_OF_X:
        options |= {"design": "sobol", "theta": problem.collect(cell.T, 1, rng=seed, progress=False).theta}
    return problem.collect(cell.T, cell.N, **options)


def _over_outputs(rows: list[ComparisonRow]) -> Row:
    """The scores of a method over all outputs; a score that is not known is left out."""
    scores = {
        "rmse": sqrt(fmean(row.rmse * row.rmse for row in rows)),
        "coverage": fmean(row.coverage for row in rows),
        "width": fmean(row.width for row in rows),
        "seconds": rows[0].seconds,
    }
    known = {name: value for name, value in scores.items() if not isnan(value)}
    return {"method": rows[0].method, **known, "note": rows[0].note}
