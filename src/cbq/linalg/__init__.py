"""One room for Cholesky factors, triangular solves and log-determinants."""

from numpy.linalg import LinAlgError

from cbq.linalg.cholesky import Factor, factor
from cbq.linalg.gram import chunks, factor_gram
from cbq.linalg.jitter import Jitter, NotPositiveDefinite
from cbq.linalg.threads import at_most

__all__ = ["Factor", "Jitter", "LinAlgError", "NotPositiveDefinite", "at_most", "chunks", "factor", "factor_gram"]
