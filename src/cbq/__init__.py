"""Conditional expectations with honest uncertainty, from few evaluations of an expensive function."""

from cbq import embeddings, kernels, linalg, measures, problems
from cbq.comparison import Comparison, compare
from cbq.embeddings import available_pairs, embed
from cbq.fit import Fit
from cbq.methods import CBQ, KLSMC, LSMC, MOBQ, Auto, ImportanceSampling, MonteCarlo
from cbq.persistence import load
from cbq.problem import Problem
from cbq.runtime import CheckpointError, CollectWarning, IntegrandError, WorkerError
from cbq.samples import Samples

__version__ = "0.1.0.dev0"

__all__ = [
    "CBQ",
    "KLSMC",
    "LSMC",
    "MOBQ",
    "Auto",
    "CheckpointError",
    "CollectWarning",
    "Comparison",
    "Fit",
    "ImportanceSampling",
    "IntegrandError",
    "MonteCarlo",
    "Problem",
    "Samples",
    "WorkerError",
    "__version__",
    "available_pairs",
    "compare",
    "embed",
    "embeddings",
    "kernels",
    "linalg",
    "load",
    "measures",
    "problems",
]
