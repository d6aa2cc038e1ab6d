"""Conditional expectations with honest uncertainty, from few evaluations of an expensive function."""

from cbq import embeddings, integrands, kernels, linalg, measures, nested, problems, psa
from cbq._names import Names
from cbq._plot import plot
from cbq._version import __version__
from cbq.collect import CheckpointError, CollectWarning, IntegrandError
from cbq.comparison import Comparison, compare
from cbq.embeddings import available_pairs, embed
from cbq.fit.base import Fit, load
from cbq.fit.findings import FitWarning
from cbq.gp.calibration import Calibration
from cbq.gp.landmarks import LandmarkSelection
from cbq.gp.selection import Selection
from cbq.linalg import engine
from cbq.methods import CBQ, KLSMC, LSMC, MOBQ, Auto, ImportanceSampling, MonteCarlo
from cbq.methods.conditional import StageOneSelection, ThetaCalibration
from cbq.nested import conditional_value_at_risk, evppi, expected_loss, nested_expectation, value_at_risk
from cbq.problem import Problem
from cbq.psa import enbs, evpi, evppi_table, evsi
from cbq.samples import Samples
from cbq.workers import WorkerError

__all__ = [
    "CBQ",
    "KLSMC",
    "LSMC",
    "MOBQ",
    "Auto",
    "Calibration",
    "CheckpointError",
    "CollectWarning",
    "Comparison",
    "Fit",
    "FitWarning",
    "ImportanceSampling",
    "IntegrandError",
    "LandmarkSelection",
    "MonteCarlo",
    "Names",
    "Problem",
    "Samples",
    "Selection",
    "StageOneSelection",
    "ThetaCalibration",
    "WorkerError",
    "__version__",
    "available_pairs",
    "compare",
    "conditional_value_at_risk",
    "embed",
    "embeddings",
    "enbs",
    "engine",
    "evpi",
    "evppi",
    "evppi_table",
    "evsi",
    "expected_loss",
    "integrands",
    "kernels",
    "linalg",
    "load",
    "measures",
    "nested",
    "nested_expectation",
    "plot",
    "problems",
    "psa",
    "value_at_risk",
]
