"""Integrals of kernels against measures: one rule for each pair of types, kept in a registry open to users."""

from cbq.embeddings import (  # noqa: F401  importing a module registers its rules
    exponential,
    gaussian,
    linear,
    panel_measures,
    product_kernels,
    separable,
    uniform,
    warped,
)
from cbq.embeddings.base import Embedding
from cbq.embeddings.embed import embed
from cbq.embeddings.errors import NoEmbedding
from cbq.embeddings.registry import Pair, available_pairs, register

__all__ = ["Embedding", "NoEmbedding", "Pair", "available_pairs", "embed", "register"]
