"""Linear algebra: Cholesky factors, triangular solves, decompositions and log-determinants."""

from numpy.linalg import LinAlgError

from cbq.linalg.cholesky import Factor
from cbq.linalg.engines import Engine, chunks, engine, factor, factor_gram
from cbq.linalg.jitter import Jitter, NotPositiveDefinite
from cbq.linalg.threads import at_most

__all__ = [
    "Engine",
    "Factor",
    "Jitter",
    "LinAlgError",
    "NotPositiveDefinite",
    "at_most",
    "chunks",
    "engine",
    "factor",
    "factor_gram",
]
