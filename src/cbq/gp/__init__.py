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
