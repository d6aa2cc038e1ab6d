"""Gaussian processes: every estimator that conditions one does it here.

constant_mean: many small processes at once, with several kernels each: evidence, leave-one-out, quadrature (stage 1).
families: the kernels that are tried, and their lengthscales by the evidence.
heteroscedastic: one process with a trend and a given noise at each node (stage 2); likelihood: its hyperparameters.
homoscedastic: one process with one noise variance, as a linear smoother (kernel ridge regression).
pooled: one process on many points, exact or through landmarks; choice: its kernel, and how far to trust it; landmarks:
which points they are, and how many are enough.
kronecker: one process on a grid of thetas and points, by Kronecker products; grid_choice: its kernel.
theta_landmarks: the heteroscedastic process through landmarks, for many nodes.
sparse: one process with noise on many rows, by a variational bound (regression of PSA tables).
search: the algorithms that look for hyperparameters.
"""
