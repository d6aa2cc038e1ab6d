"""Gaussian processes: every estimator that conditions one does it here.

process: all algebra of a process with a mean of unknown coefficients; solvers: the matrices that it stands on.
quadrature: many small processes at once, with several kernels each: evidence, leave-one-out, integrals (stage 1).
families: the kernels that are tried, and their lengthscales by the evidence.
heteroscedastic: one process with a trend and a given noise at each node (stage 2), exact or through landmarks;
likelihood: its hyperparameters.
pooled: one process on many points, exact or through landmarks; selection: its kernels; calibration: how far to trust
it; landmarks: which points they are, and how many are enough.
kronecker: one process on a grid of thetas and points, and its kernels.
acquisition: where further values would help.
sparse: one process with noise on many rows, by a variational bound; landmark_regression: its kernel and landmarks;
regression: several outputs on columns of a table.
search: the algorithms that look for hyperparameters.
"""

from cbq.gp.acquisition import Gain, disagreement, knowledge_gradient
from cbq.gp.calibration import MIN_GROUPS, Calibration, LocalAmplitude, moved_amplitude, relative_errors
from cbq.gp.families import MAX_LOG_LENGTHSCALE, VALUES_PER_LENGTHSCALE, KernelFamily, fit_lengthscales
from cbq.gp.heteroscedastic import (
    MAX_EXACT_NODES,
    GPPrior,
    Landmarks,
    Prediction,
    ThetaCoordinates,
    ThetaGP,
    Trend,
    landmarks_for,
    polynomial_basis,
    theta_gp,
)
from cbq.gp.kronecker import GridIntegrals, GridPoints, KroneckerGP, choose_grid_kernel, grid_amplitude, left_out_points
from cbq.gp.landmarks import LANDMARKS, LandmarkSelection, choose_landmarks, enough_landmarks, kernel_for_landmarks
from cbq.gp.likelihood import CandidateKernel, LikelihoodOptions, fit_priors
from cbq.gp.pooled import Embedded, ExactGP, NystromGP, PointsGP, PointValues, PooledGP, SubsetGP
from cbq.gp.process import FLAT, ZERO, Process
from cbq.gp.quadrature import (
    BayesianQuadrature,
    Evidence,
    GPData,
    KernelEvidence,
    Result,
    evidence_and_gradient,
    evidence_only,
    explain,
    integrate,
)
from cbq.gp.reach import Reach
from cbq.gp.selection import (
    NOT_LEARNT,
    KernelChoice,
    KernelMember,
    PooledPoints,
    Selection,
    choose_kernel,
    left_out_residuals,
    processes_of,
    takes_log_theta,
)
from cbq.gp.solvers import Spectral

__all__ = [
    "FLAT",
    "LANDMARKS",
    "MAX_EXACT_NODES",
    "MAX_LOG_LENGTHSCALE",
    "MIN_GROUPS",
    "NOT_LEARNT",
    "VALUES_PER_LENGTHSCALE",
    "ZERO",
    "BayesianQuadrature",
    "Calibration",
    "CandidateKernel",
    "Embedded",
    "Evidence",
    "ExactGP",
    "GPData",
    "GPPrior",
    "Gain",
    "GridIntegrals",
    "GridPoints",
    "KernelChoice",
    "KernelEvidence",
    "KernelFamily",
    "KernelMember",
    "KroneckerGP",
    "LandmarkSelection",
    "Landmarks",
    "LikelihoodOptions",
    "LocalAmplitude",
    "NystromGP",
    "PointValues",
    "PointsGP",
    "PooledGP",
    "PooledPoints",
    "Prediction",
    "Process",
    "Reach",
    "Result",
    "Selection",
    "Spectral",
    "SubsetGP",
    "ThetaCoordinates",
    "ThetaGP",
    "Trend",
    "choose_grid_kernel",
    "choose_kernel",
    "choose_landmarks",
    "disagreement",
    "enough_landmarks",
    "evidence_and_gradient",
    "evidence_only",
    "explain",
    "fit_lengthscales",
    "fit_priors",
    "grid_amplitude",
    "integrate",
    "kernel_for_landmarks",
    "knowledge_gradient",
    "landmarks_for",
    "left_out_points",
    "left_out_residuals",
    "moved_amplitude",
    "polynomial_basis",
    "processes_of",
    "relative_errors",
    "takes_log_theta",
    "theta_gp",
]
