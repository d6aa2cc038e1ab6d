"""The interface of a kernel."""

from __future__ import annotations

from abc import ABC, abstractmethod
from math import prod
from typing import Self

import numpy as np
import numpy.typing as npt

from cbq.common import Array, Booleans, Immutable, broadcast_batch, finite, flag, require_memory, shown
from cbq.linalg.cholesky import as_float64
from cbq.linalg.gram import Features, contract_gram, empty, flat_features, inner, leading_shape, namespace, take
from cbq.linalg.threads import spans, stacked
from cbq.measures import Measure


class Kernel(Immutable, ABC):
    """A positive definite kernel k(x, y), without an amplitude to fit.

    A Gram matrix is built in two steps. `features(x)` does the work that is linear in the number of points, for the
    whole batch. `fill(fx, fy, out)` then writes matrices, or blocks of them, from the features of their rows and
    columns. All other methods rest on these two and their derivatives.

    Examples
    --------
    >>> kernel = cbq.kernels.RBF(1.0) + 0.5 * cbq.kernels.Matern(1.5, lengthscale=2.0)
    >>> kernel([0.0, 1.0]).shape
    (2, 2)
    """

    def __call__(self, x: npt.ArrayLike, y: npt.ArrayLike | None = None) -> Array:
        """Same as `gram`."""
        return self.gram(x, y)

    def gram(self, x: npt.ArrayLike, y: npt.ArrayLike | None = None) -> Array:
        """Gram matrices k(x, y) for x (..., N, d), y (..., M, d): shape (..., N, M).

        y defaults to x. In one dimension x and y may be arrays (N,) and (M,).
        """
        fx, fy, shape = self._pair(x, y)
        require_memory(prod(shape), f"a Gram matrix of shape {shape}", "pass fewer points x or y")
        out = np.empty(shape)
        matrices = stacked(out)
        for span in spans(len(matrices), prod(shape[-2:])):
            self.fill(take(fx, span), take(fy, span), matrices[span])
        return out

    def derivatives(self, x: npt.ArrayLike, y: npt.ArrayLike | None = None) -> Array:
        """Derivatives of `gram` with respect to `log_lengthscales`: shape (..., P, N, M)."""
        fx, fy, (*batch, n, m) = self._pair(x, y)
        shape = (*batch, self.n_lengthscales, n, m)
        require_memory(prod(shape), f"derivatives of shape {shape}", "pass fewer points x or y")
        out = np.empty((prod(batch), self.n_lengthscales, n, m))
        for span in spans(len(out), n * m):
            self.fill_derivatives(take(fx, span), take(fy, span), out[span].swapaxes(0, 1))
        return out.reshape(*batch, *out.shape[1:])

    def contract(self, x: npt.ArrayLike, G: npt.ArrayLike) -> Array:
        """sum_ij G_ij dK_ij / d log_lengthscales for x (..., N, d) and symmetric G (..., N, N): shape (..., P).

        This is the chain rule for a function of K = k(x, x) with the gradient G, in less memory than `derivatives`.
        """
        features, G = self.features(as_points(x)), as_float64(G, "G")
        *batch_x, n = leading_shape(features)
        if G.ndim < 2 or G.shape[-2:] != (n, n):
            raise ValueError(f"G has shape {G.shape}, but {n} points need weights (..., {n}, {n}), one per pair in x.")
        batch = broadcast_batch({"x": tuple(batch_x), "G": G.shape[:-2]}, "contract")
        weights = stacked(np.broadcast_to(G, (*batch, n, n)))
        sums = contract_gram(self, flat_features(features, batch), weights, self.n_lengthscales)
        return sums.reshape(*batch, self.n_lengthscales)

    @abstractmethod
    def diag(self, x: npt.ArrayLike) -> Array:
        """The values k(x_i, x_i) for x (..., N, d): shape (..., N)."""

    @property
    @abstractmethod
    def log_lengthscales(self) -> Array:
        """Logarithms of all lengthscales, in the order of the kernel's parts: (P,)."""

    @abstractmethod
    def with_log_lengthscales(self, values: npt.ArrayLike) -> Kernel:
        """The same kernel with other lengthscales, in the order of `log_lengthscales`."""

    @property
    def n_lengthscales(self) -> int:
        """Number P of lengthscales."""
        return int(self.log_lengthscales.shape[-1])

    def to_fit(self, x: npt.ArrayLike, ard: bool) -> tuple[Self, Booleans]:
        """The kernel that a search starts from, and which of its `log_lengthscales` are free: (P,).

        A lengthscale of None is free, and becomes a first guess from the points x (..., N, d): one per coordinate with
        `ard`, otherwise one number. All other lengthscales stay fixed.
        """
        kernel, free = self._to_fit(as_points(x), flag(ard, "ard"))
        return (kernel if free.any() else self), free

    @abstractmethod
    def _to_fit(self, x: Array, ard: bool) -> tuple[Self, Booleans]:
        """`to_fit` for checked points; may return a copy even if nothing is free."""

    @property
    def on_x(self) -> Kernel:
        """The factor that acts on x: the kernel itself, unless it acts on points (x, theta)."""
        return self

    @property
    def on_theta(self) -> Kernel | None:
        """The factor that acts on theta; None unless the kernel acts on points (x, theta)."""
        return None

    @property
    def smoothness(self) -> float:
        """The order nu of an equally smooth Matern kernel; np.inf for analytic kernels such as RBF."""
        raise NotImplementedError(
            f"{type(self).__name__} does not declare its smoothness: define the property `smoothness`, the order nu of "
            f"an equally smooth Matern kernel (numpy.inf if the kernel is analytic)."
        )

    @property
    def is_analytic(self) -> bool:
        """Whether draws are analytic, as with RBF; False for a kernel that does not declare its smoothness."""
        try:
            return bool(np.isinf(self.smoothness))
        except NotImplementedError:
            return False

    def rougher(self) -> Kernel:
        """A kernel a step rougher, with the same lengthscales; the kernel itself if it is the roughest.

        The steps are RBF and the Matern kernels of order 5/2, 3/2 and 1/2.
        """
        return self

    @property
    def is_roughest(self) -> bool:
        """Whether draws of a process with this kernel have no derivative, as with Matern 1/2."""
        return False

    @property
    def has_slow_embedding(self) -> bool:
        """Whether embeddings are so slow that only a clear gain in accuracy justifies the kernel."""
        return False

    @property
    def is_stationary(self) -> bool:
        """Whether k(x, y) depends on x - y alone, through lengthscales; the next four members are for such kernels."""
        return False

    @property
    def has_kink(self) -> bool:
        """Whether a stationary kernel fails to be analytic at x = y."""
        return True

    def on_line(self, r: Array) -> Array:
        """k as a function of the distance r (..., N, m) on the line; batched lengthscales go with the axes (...)."""
        raise TypeError(f"{self!r} is not a function of the distance.")

    def line_lengthscales(self) -> list[Array]:
        """The lengthscales of all parts on the line, each with its batch shape; empty unless stationary."""
        return []

    def rescaled(self, scales: Array) -> Kernel:
        """The kernel k(x / scales, y / scales) of x and y, for scales (..., d) of the coordinates."""
        raise TypeError(f"{self!r} has no lengthscales to rescale.")

    @abstractmethod
    def check_dim(self, d: int) -> None:
        """Raise if the kernel cannot act on points in d dimensions."""

    @property
    def needs_measure(self) -> bool:
        """Whether the kernel depends on a measure (its score or transport) and `bind` has not supplied it yet."""
        return False

    def bind(self, measure: Measure) -> Kernel:
        """The kernel with the measure it depends on; the kernel itself if it depends on none."""
        return self

    @abstractmethod
    def features(self, x: Array) -> Features:
        """Input of `fill` for points x (..., N, d): arrays with leading axes (..., N), possibly nested."""

    @abstractmethod
    def fill(self, fx: Features, fy: Features, out: Array) -> None:
        """Write k (..., n, m) into the C-ordered `out` from features (..., n, k) and (..., m, k) of n and m points.

        All leading axes are equal; they hold several matrices only if the matrices are small. The arrays may be those
        of an engine, with functions in `cbq.linalg.gram.namespace(out)`; a kernel that works on arrays of NumPy
        alone is filled on the host and copied.
        """

    @abstractmethod
    def fill_derivatives(self, fx: Features, fy: Features, out: Array) -> None:
        """Write dk / d log_lengthscales (P, ..., n, m) into `out`, from features as for `fill`."""

    def contract_features(self, fx: Features, fy: Features, G: Array) -> Array:
        """sum_ij G_ij dk_ij / d log_lengthscales (..., P), from features as for `fill` and G (..., n, m)."""
        derivatives = empty((self.n_lengthscales, *G.shape), G)
        self.fill_derivatives(fx, fy, derivatives)
        return namespace(G).moveaxis(inner(derivatives, G), 0, -1)  # type: ignore[no-any-return]

    # NumPy leaves `array * kernel` to __rmul__.
    __array_ufunc__ = None

    def __add__(self, other: Kernel) -> Kernel:
        from cbq.kernels.combinations import SumKernel

        return SumKernel([self, other]) if isinstance(other, Kernel) else NotImplemented

    def __radd__(self, other: int) -> Kernel:
        # sum([k1, k2, ...]) begins with 0 + k1.
        is_start = isinstance(other, int) and other == 0
        return self if is_start else NotImplemented

    def __mul__(self, other: Kernel | float) -> Kernel:
        from cbq.kernels.combinations import ProductKernel, ScaledKernel

        if isinstance(other, Kernel):
            return ProductKernel([self, other])
        if isinstance(other, int | float | np.integer | np.floating):
            return ScaledKernel(other, self)
        return NotImplemented

    __rmul__ = __mul__

    def _pair(self, x: npt.ArrayLike, y: npt.ArrayLike | None) -> tuple[Features, Features, tuple[int, ...]]:
        """Flat features (B, N, k) of rows and (B, M, k) of columns, and the shape (..., N, M) of the matrices."""
        x = as_points(x)
        fx = fy = self.features(x)
        if y is not None:
            y = as_points(y, "y")
            if y.shape[-1] != x.shape[-1]:
                raise ValueError(
                    f"x has points in {x.shape[-1]} dimensions and y in {y.shape[-1]}: their last axes must agree."
                )
            fy = self.features(y)
        *batch_x, n = leading_shape(fx)
        *batch_y, m = leading_shape(fy)
        batch = broadcast_batch({"x": tuple(batch_x), "y": tuple(batch_y)}, "Gram matrix")
        return flat_features(fx, batch), flat_features(fy, batch), (*batch, n, m)


def known_measure(measure: Measure | None, why: str) -> Measure:
    """The measure that a kernel is bound to; raise if it is None. why: the start of the error."""
    if measure is None:
        raise ValueError(
            f"{why}: call kernel.bind(measure) first, or pass the kernel to cbq.embed, whose result has the bound "
            f"kernel as `.kernel`."
        )
    return measure


def as_kernel(kernel: object, name: str) -> Kernel:
    """Return `kernel` if it is one."""
    if not isinstance(kernel, Kernel):
        raise TypeError(f"{name} must be a cbq kernel such as cbq.kernels.RBF(0.5), but it is {shown(kernel)}.")
    return kernel


def as_points(x: npt.ArrayLike, name: str = "x") -> Array:
    """Points (..., N, d); a scalar or 1-D array means d = 1."""
    array = finite(x, name)
    return array.reshape(-1, 1) if array.ndim < 2 else array
