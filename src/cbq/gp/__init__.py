"""The Gaussian process with an unknown mean: every estimator that conditions one does it here.

`constant_mean` conditions many small processes at once, with several kernels each: evidence, leave-one-out residuals,
quadrature. `families` are the kernels that are tried, and how their lengthscales are found. `heteroscedastic` is a
process with a given noise at each node and a polynomial trend, `likelihood` fits its hyperparameters. `pooled` is one
process on many points, exact or through landmarks, and `choice` finds its kernel. `sparse` is the variational bound for
many noisy rows. `search` holds the algorithms that look for hyperparameters.
"""
