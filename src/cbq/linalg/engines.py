"""Engines fill, factor and decompose large matrices; code that conditions Gaussian processes calls them.

An engine keeps its factors on its device and takes and returns NumPy arrays, so that arrays linear in the number of
points stay on the host. A new engine implements `Engine`, with factors that derive from `Factor`, in a file of its own,
and is listed in `ENGINES`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Protocol

import numpy.typing as npt

from cbq.common import Array, memory, shown
from cbq.linalg import cholesky, gram, lapack
from cbq.linalg.cholesky import Factor
from cbq.linalg.gram import Fills
from cbq.linalg.jitter import DEFAULT_JITTER, Jitter


class Engine(Protocol):
    """The linear algebra of Gaussian processes, in float64.

    Examples
    --------
    >>> factor = cbq.linalg.factor(4.0 * np.eye(2))  # by the engine in use
    >>> factor.lower.round(6)
    array([[2., 0.],
           [0., 2.]])
    """

    @property
    def name(self) -> str:
        """The name in the record of a fit, with the device."""

    @property
    def largest_exact(self) -> int:
        """The largest number of points whose Gram matrix takes reasonable memory and time."""

    @property
    def threaded(self) -> bool:
        """Whether concurrent calls from several threads are faster."""

    def available_memory(self) -> float:
        """The bytes available for matrices."""

    def resident_gram(self, kernel: Fills, x: Array) -> Any:
        """k(x, x) (N, N) of points x (N, d), on the device of the engine."""

    def factor(self, K: Any, *, nugget: npt.ArrayLike | None, jitter: Jitter, overwrite: bool) -> Factor:
        """Factor K + nugget + jitter for symmetric K (..., N, N), of the host or of the engine."""

    def factor_gram(self, kernel: Fills, x: npt.ArrayLike, *, nugget: npt.ArrayLike | None, jitter: Jitter) -> Factor:
        """Factor k(x, x) + nugget + jitter for points x (..., N, d)."""

    def chunks(self, T: int, N: int, *, arrays: int) -> Iterator[slice]:
        """Slices that cover 0, ..., T - 1, so that `arrays` stacks of (N, N) matrices fit into memory."""

    def eigh(self, a: Array) -> tuple[Array, Array]:
        """Eigenvalues (n,) in ascending order, and eigenvectors as the columns of (n, n), of a symmetric matrix."""


class NumpyEngine:
    """LAPACK on this machine's cores, one BLAS thread per matrix."""

    name = "numpy"
    largest_exact = 10_000  # the Gram matrix takes 800 MB, and a minute on two cores
    threaded = True

    resident_gram = staticmethod(gram.gram_matrix)
    factor = staticmethod(cholesky.factor)
    factor_gram = staticmethod(gram.factor_gram)
    chunks = staticmethod(gram.chunks)
    eigh = staticmethod(lapack.eigh)

    def available_memory(self) -> float:
        return memory.available_memory()


def _torch_engine(name: str) -> Callable[[], Engine]:
    def build() -> Engine:
        try:
            from cbq.linalg.torch_engine import TorchEngine
        except ImportError as error:
            raise ImportError(f"engine {name!r} needs torch: python -m pip install torch.") from error
        return TorchEngine(name)

    return build


ENGINES: dict[str, Callable[[], Engine]] = {
    "numpy": NumpyEngine,
    "torch": _torch_engine("torch"),
    "cuda": _torch_engine("cuda"),
}
_METHODS = [name for name in vars(Engine) if not name.startswith("_")]
_current: ContextVar[Engine] = ContextVar("engine", default=NumpyEngine())  # noqa: B039, it has no state


@contextmanager
def engine(engine: str | Engine) -> Iterator[None]:
    """Within this context, an engine does the linear algebra of large matrices: `with cbq.engine("cuda"): ...`.

    engine: "numpy" (the default), "cuda" for the GPU, "torch" for the same code on the CPU, or an object with the
        methods of `cbq.linalg.Engine`.

    Factors stay on the device as long as the fit that holds them, and the fit also works outside the context. All
    engines give the same answers up to rounding.

    Examples
    --------
    >>> with cbq.engine("numpy"):
    ...     L = cbq.linalg.factor(np.eye(2)).lower
    >>> L.round(6)
    array([[1., 0.],
           [0., 1.]])
    """
    if isinstance(engine, str) and engine not in ENGINES:
        raise ValueError(f"engine must be one of {', '.join(ENGINES)}, but it is {shown(engine)}.")
    is_engine = not isinstance(engine, type) and all(hasattr(engine, name) for name in _METHODS)
    if not isinstance(engine, str) and not is_engine:
        raise TypeError(f"engine must be a name or have the methods of cbq.linalg.Engine, but it is {shown(engine)}.")
    token = _current.set(ENGINES[engine]() if isinstance(engine, str) else engine)
    try:
        yield
    finally:
        _current.reset(token)


def current_engine() -> Engine:
    """The engine of this context."""
    return _current.get()


def resident_gram(kernel: Fills, x: Array) -> Any:
    """k(x, x) (N, N) of points x (N, d), on the device of the engine."""
    return _current.get().resident_gram(kernel, x)


def factor(
    K: Any, *, nugget: npt.ArrayLike | None = None, jitter: Jitter = DEFAULT_JITTER, overwrite: bool = False
) -> Factor:
    """Factor K + nugget + jitter for symmetric K (..., N, N).

    nugget: a number, (...,) for one per matrix, or (..., N) for one per point; it is added to the diagonal.
    jitter: the least jitter that lets the factorisation succeed, see `Jitter`.
    overwrite: whether the factor may overwrite K (even if it fails), if K is a C-ordered float64 array.

    Examples
    --------
    >>> factor = cbq.linalg.factor([[2.0, 1.0], [1.0, 2.0]])
    >>> factor.solve(np.array([[3.0], [3.0]])).round(6).ravel()
    array([1., 1.])
    """
    return _current.get().factor(K, nugget=nugget, jitter=jitter, overwrite=overwrite)


def factor_gram(
    kernel: Fills, x: npt.ArrayLike, *, nugget: npt.ArrayLike | None = None, jitter: Jitter = DEFAULT_JITTER
) -> Factor:
    """Factor k(x, x) + nugget + jitter for points x (..., N, d); in one dimension x may be (N,).

    Examples
    --------
    >>> factor = cbq.linalg.factor_gram(cbq.kernels.RBF(1.0), [0.0, 1.0, 2.0])
    >>> factor.lower.shape
    (3, 3)
    """
    return _current.get().factor_gram(kernel, x, nugget=nugget, jitter=jitter)


def chunks(T: int, N: int, *, arrays: int = 1) -> Iterator[slice]:
    """Slices that cover 0, ..., T - 1, so that `arrays` stacks of (N, N) matrices fit into memory.

    Examples
    --------
    >>> list(cbq.linalg.chunks(3, 10))
    [slice(0, 3, None)]
    """
    return _current.get().chunks(T, N, arrays=arrays)


def eigh(a: Array) -> tuple[Array, Array]:
    """Eigenvalues (n,) in ascending order, and eigenvectors as the columns of (n, n), of a symmetric matrix."""
    return _current.get().eigh(a)


def require_matrices(numbers: float, what: str, instead: str) -> None:
    """Raise MemoryError unless `numbers` float64 values fit into the memory of the engine; instead: the remedy."""
    memory.require_memory(numbers, what, instead, _current.get().available_memory)
