"""Integrals of kernels against measures: an open registry holds one rule for each pair of types."""

# importing a module registers its rules
from cbq.embeddings import composite, elementary, gaussian, panels
from cbq.embeddings.embedding import Embedding, NoEmbedding, Pair, available_pairs, embed, register
from cbq.embeddings.functions import FunctionEmbedding
from cbq.embeddings.quadrature import mean_under

__all__ = ["Embedding", "FunctionEmbedding", "NoEmbedding", "Pair", "available_pairs", "embed", "register"]
