"""Conditional expectations with honest uncertainty, from few evaluations of an expensive function."""

from cbq import embeddings, kernels, linalg, measures
from cbq.embeddings import available_pairs, embed

__version__ = "0.1.0.dev0"

__all__ = ["__version__", "available_pairs", "embed", "embeddings", "kernels", "linalg", "measures"]
