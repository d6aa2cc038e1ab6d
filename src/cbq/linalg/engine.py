"""Engines fill and factor batches of Gram matrices; code that conditions Gaussian processes calls them.

An engine keeps its factors where it computes them and takes and returns NumPy arrays, so that all that is linear in the
number of points stays on the host. A new engine implements `Engine`, whose factors have the methods of
`cbq.linalg.Factor`, in a file of its own, and is listed in `ENGINES`.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Protocol

import numpy.typing as npt

from cbq._checks import shown
from cbq.linalg import cholesky, gram
from cbq.linalg.cholesky import Factor
from cbq.linalg.gram import Fills
from cbq.linalg.jitter import DEFAULT_JITTER, Jitter


class Engine(Protocol):
    """What the linear algebra of Gaussian processes needs, in float64."""

    def factor(self, K: npt.ArrayLike, *, nugget: npt.ArrayLike | None, jitter: Jitter, overwrite: bool) -> Factor:
        """Factor K + nugget + jitter for symmetric K (..., N, N)."""

    def factor_gram(self, kernel: Fills, x: npt.ArrayLike, *, nugget: npt.ArrayLike | None, jitter: Jitter) -> Factor:
        """Factor k(x, x) + nugget + jitter for points x (..., N, d)."""

    def chunks(self, T: int, N: int, *, arrays: int) -> Iterator[slice]:
        """Slices that cover 0, ..., T - 1, so that `arrays` stacks of (N, N) matrices fit into memory."""


class NumpyEngine:
    """LAPACK on this machine's cores, one BLAS thread per matrix."""

    factor = staticmethod(cholesky.factor)
    factor_gram = staticmethod(gram.factor_gram)
    chunks = staticmethod(gram.chunks)


ENGINES: dict[str, type[Engine]] = {"numpy": NumpyEngine}
_current: ContextVar[Engine] = ContextVar("engine", default=NumpyEngine())  # noqa: B039, it has no state


@contextmanager
def use_engine(engine: str | Engine) -> Iterator[None]:
    """Within this context, the given engine, or the engine of that name, does the linear algebra."""
    if isinstance(engine, str) and engine not in ENGINES:
        raise ValueError(f"engine must be one of {', '.join(ENGINES)}, but it is {shown(engine)}.")
    if not isinstance(engine, str) and not all(hasattr(engine, name) for name in ("factor", "factor_gram", "chunks")):
        raise TypeError(f"engine must be a name or have the methods of cbq.linalg.Engine, but it is {shown(engine)}.")
    token = _current.set(ENGINES[engine]() if isinstance(engine, str) else engine)
    try:
        yield
    finally:
        _current.reset(token)


def factor(
    K: npt.ArrayLike, *, nugget: npt.ArrayLike | None = None, jitter: Jitter = DEFAULT_JITTER, overwrite: bool = False
) -> Factor:
    """Factor K + nugget + jitter for symmetric K (..., N, N).

    nugget: a number, (...,) for one per matrix, or (..., N) for one per point; it is added to the diagonal.
    jitter: the least jitter that lets the factorisation succeed, see `Jitter`.
    overwrite: the factor may take the place of K (also when this fails), if K is a C-ordered float64 array.
    """
    return _current.get().factor(K, nugget=nugget, jitter=jitter, overwrite=overwrite)


def factor_gram(
    kernel: Fills, x: npt.ArrayLike, *, nugget: npt.ArrayLike | None = None, jitter: Jitter = DEFAULT_JITTER
) -> Factor:
    """Factor k(x, x) + nugget + jitter for points x (..., N, d); in one dimension x may be (N,)."""
    return _current.get().factor_gram(kernel, x, nugget=nugget, jitter=jitter)


def chunks(T: int, N: int, *, arrays: int = 1) -> Iterator[slice]:
    """Slices that cover 0, ..., T - 1, so that `arrays` stacks of (N, N) matrices fit into memory."""
    return _current.get().chunks(T, N, arrays=arrays)
