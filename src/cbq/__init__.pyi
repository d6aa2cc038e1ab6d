# The public names of cbq. __init__.py reads this file, and imports a name when it is first used.

from cbq import comparison as comparison
from cbq import embeddings, integrands, kernels, linalg, measures, nested, problems, voi
from cbq import estimators as estimators
from cbq import fit as fit
from cbq import runs as runs
from cbq import samples as samples
from cbq import sklearn as sklearn
from cbq._version import __version__
from cbq.common import WorkerError
from cbq.comparison import Comparison, compare
from cbq.embeddings import available_pairs, embed
from cbq.estimators import (
    BQ,
    CBQ,
    KLSMC,
    LSMC,
    MOBQ,
    Auto,
    ImportanceSampling,
    LatentBQ,
    MonteCarlo,
    PriorMean,
    StageOneSelection,
)
from cbq.fit import Fit, FitWarning, load
from cbq.gp import Calibration, LandmarkSelection, Selection
from cbq.indices import SensitivityOptions, sensitivity
from cbq.linalg import engine
from cbq.nested import conditional_value_at_risk, expected_loss, nested_expectation, value_at_risk
from cbq.plotting import plot
from cbq.problems.problem import Problem
from cbq.runs import (
    Best,
    CheckpointError,
    CollectWarning,
    ExpectedLoss,
    ExpectedShortfall,
    IntegrandError,
    Mean,
    Probability,
    Quantile,
    Std,
    ValueAtRisk,
)
from cbq.samples import Names, Samples
from cbq.voi import enbs, evpi, evppi, evsi

__all__ = [
    "BQ",
    "CBQ",
    "KLSMC",
    "LSMC",
    "MOBQ",
    "Auto",
    "Best",
    "Calibration",
    "CheckpointError",
    "CollectWarning",
    "Comparison",
    "ExpectedLoss",
    "ExpectedShortfall",
    "Fit",
    "FitWarning",
    "ImportanceSampling",
    "IntegrandError",
    "LandmarkSelection",
    "LatentBQ",
    "Mean",
    "MonteCarlo",
    "Names",
    "PriorMean",
    "Probability",
    "Problem",
    "Quantile",
    "Samples",
    "Selection",
    "SensitivityOptions",
    "StageOneSelection",
    "Std",
    "ValueAtRisk",
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
    "sensitivity",
    "value_at_risk",
    "voi",
]
