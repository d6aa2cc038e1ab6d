"""Integrals of kernels against measures: a registry, open to users, holds one rule for each pair of types."""

from cbq.embeddings import (  # noqa: F401  importing a module registers its rules
    exponential,
    gaussian,
    linear,
    panels,
    products,
    uniform,
    warped,
)
from cbq.embeddings.embedding import Embedding, NoEmbedding, Pair, available_pairs, embed, register

__all__ = ["Embedding", "NoEmbedding", "Pair", "available_pairs", "embed", "register"]
