"""Kernels of the scaled distance |(x - y) / lengthscale|: RBF and Matern."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from typing import Self

import numpy as np
import numpy.typing as npt

from cbq._arrays import Array, Booleans, broadcast_batch, finite, positive
from cbq.io import Number, Numbers, saved
from cbq.kernels.base import Kernel, as_points
from cbq.kernels.profiles import MATERN_PROFILES, RBF_PROFILE, Profile
from cbq.linalg.distance import differences, sqdist
from cbq.linalg.features import Features
from cbq.linalg.gram import inner


class Radial(Kernel):
    """k(x, y) = h(|(x - y) / lengthscale|).

    The lengthscale is a number, (d,) for one per coordinate, or (..., d) with leading axes that broadcast
    against the batch of points (d = 1 there stands for all coordinates). None means that it is to be fitted.
    """

    lengthscale: Array | None

    def __init__(self, lengthscale: npt.ArrayLike | None) -> None:
        self.lengthscale = None if lengthscale is None else positive(lengthscale, "lengthscale")
        if self.lengthscale is not None and self.lengthscale.size == 0:
            raise ValueError("lengthscale is empty: pass one number, or one lengthscale per coordinate.")

    @property
    @abstractmethod
    def profile(self) -> Profile:
        """The function h with its derivatives."""

    @abstractmethod
    def with_lengthscale(self, lengthscale: npt.ArrayLike | None) -> Self:
        """The same family with another lengthscale."""

    @property
    def known_lengthscale(self) -> Array:
        """The lengthscale, or an error if it is still to be fitted."""
        if self.lengthscale is None:
            raise ValueError(
                f"{self!r} has no lengthscale yet: pass one, as in {type(self).__name__}(lengthscale=0.5), or "
                f"give the kernel to an estimator that fits it."
            )
        return self.lengthscale

    def coordinate(self, j: int) -> Self:
        """The one-dimensional kernel of the same family for coordinate j."""
        return self.restrict(slice(j, j + 1))

    def restrict(self, block: slice) -> Self:
        """The kernel of the same family for a block of consecutive coordinates."""
        ell = self.known_lengthscale
        return self if ell.ndim == 0 or ell.shape[-1] == 1 else self.with_lengthscale(ell[..., block])

    @property
    def log_lengthscales(self) -> Array:
        return np.log(np.atleast_1d(self.known_lengthscale))

    def with_log_lengthscales(self, values: npt.ArrayLike) -> Self:
        v = finite(values, "log_lengthscales")
        if v.ndim == 0 or v.shape[-1] != self.n_lengthscales:
            raise ValueError(f"log_lengthscales has shape {v.shape}, but {self.n_lengthscales} values are expected.")
        scalar = self.known_lengthscale.ndim == 0 and v.ndim == 1
        return self.with_lengthscale(np.exp(v[0] if scalar else v))

    def _to_fit(self, x: Array, ard: bool) -> tuple[Self, Booleans]:
        known = self.lengthscale is not None
        kernel = self if known else self.with_lengthscale(first_guess(x, ard))
        return kernel, np.full(kernel.n_lengthscales, not known)

    def diag(self, x: npt.ArrayLike) -> Array:
        x = as_points(x)
        batch = self.lengthscale_for(x.shape[-1]).shape[:-1]
        return np.ones((*np.broadcast_shapes(batch, x.shape[:-2]), x.shape[-2]))

    @property
    def is_stationary(self) -> bool:
        return True

    def on_line(self, r: Array) -> Array:
        rho = np.minimum(r / self.lengthscale_for(1)[..., 0, None, None], 1e150)  # whose square is finite
        return np.asarray(self.profile.value(np, rho * rho))

    def line_lengthscales(self) -> list[Array]:
        return [self.lengthscale_for(1)[..., 0]]

    def rescaled(self, scales: Array) -> Self:
        return self.with_lengthscale(self.lengthscale_for(scales.shape[-1]) * scales)

    def check_dim(self, d: int) -> None:
        self.lengthscale_for(d)

    def features(self, x: Array) -> Features:
        ell = self.lengthscale_for(x.shape[-1])
        broadcast_batch({"x": x.shape[:-2], "lengthscale": ell.shape[:-1]}, type(self).__name__)
        return (in_lengthscales(x, ell[..., None, :]),)

    def lengthscale_for(self, d: int) -> Array:
        """One lengthscale for each of d coordinates, (..., d)."""
        ell = self.known_lengthscale
        if ell.ndim > 0 and ell.shape[-1] not in (1, d):
            raise ValueError(
                f"{self!r} has {ell.shape[-1]} lengthscales, but the points have {d} coordinates: "
                f"pass one number, or one lengthscale per coordinate."
            )
        return np.broadcast_to(ell, (*ell.shape[:-1], d))

    def fill(self, fx: Features, fy: Features, out: Array) -> None:
        sqdist(fx[0], fy[0], out)
        self.profile.value(np, out)

    def fill_derivatives(self, fx: Features, fy: Features, out: Array) -> None:
        r2 = sqdist(fx[0], fy[0], np.empty(out.shape[1:]))
        slope = self.profile.slope(np, r2)
        for derivative, squares in zip(out, self._squares(fx, fy, r2), strict=True):
            np.multiply(slope, squares, out=derivative)

    def contract_features(self, fx: Features, fy: Features, G: Array) -> Array:
        r2 = sqdist(fx[0], fy[0], np.empty(G.shape))
        weights = self.profile.slope(np, r2)
        weights *= G
        sums = [inner(weights, squares) for squares in self._squares(fx, fy, r2)]
        return np.stack(sums, axis=-1)

    def _squares(self, fx: Features, fy: Features, r2: Array) -> Iterator[Array]:
        """(x_j - y_j)^2 / l_j^2 (..., n, m) for each lengthscale in turn, in the place of their sum r2."""
        if self.n_lengthscales == 1:
            yield r2
            return
        for j in range(fx[0].shape[-1]):
            differences(fx[0], fy[0], j, out=r2)
            yield np.multiply(r2, r2, out=r2)


@saved("RBF", lengthscale=Numbers(inline=True))
class RBF(Radial):
    """exp(-|x - y|^2 / (2 lengthscale^2)), the Gaussian or squared-exponential kernel."""

    def __init__(self, lengthscale: npt.ArrayLike | None = None) -> None:
        super().__init__(lengthscale)

    def __repr__(self) -> str:
        return f"RBF({describe(self.lengthscale)})"

    @property
    def has_kink(self) -> bool:
        return False

    @property
    def profile(self) -> Profile:
        return RBF_PROFILE

    def with_lengthscale(self, lengthscale: npt.ArrayLike | None) -> Self:
        return type(self)(lengthscale)


@saved("Matern", nu=Number(), lengthscale=Numbers(inline=True))
class Matern(Radial):
    """The Matern kernel of smoothness nu = 1/2, 3/2 or 5/2, radial in any dimension."""

    def __init__(self, nu: float = 1.5, lengthscale: npt.ArrayLike | None = None) -> None:
        if np.ndim(nu) > 0 or nu not in tuple(MATERN_PROFILES):
            raise ValueError(f"nu must be 0.5, 1.5 or 2.5, but it is {nu!r}; for the limit of large nu use RBF.")
        super().__init__(lengthscale)
        self.nu = float(nu)

    def __repr__(self) -> str:
        return f"Matern({self.nu:g}, {describe(self.lengthscale)})"

    @property
    def profile(self) -> Profile:
        return MATERN_PROFILES[self.nu]

    def with_lengthscale(self, lengthscale: npt.ArrayLike | None) -> Self:
        return type(self)(self.nu, lengthscale)


def in_lengthscales(x: Array, ell: Array) -> Array:
    """Points divided by lengthscales, or an error if squared distances would overflow."""
    with np.errstate(over="ignore", divide="ignore"):
        z = x / ell
    if np.any(np.abs(z) > 1e150):
        raise ValueError(
            f"points of size {np.max(np.abs(x)):.1e} are too many lengthscales ({np.min(ell):.1e}) from zero for their "
            f"distances to be computed: rescale x, or pass a longer lengthscale."
        )
    return np.asarray(z)


def first_guess(x: Array, ard: bool) -> Array:
    """A lengthscale to begin with: sqrt(d) times the standard deviations of the coordinates of x (..., N, d).

    With `ard` and d > 1 one for each coordinate (d,), 1 standing in for the deviation of a constant one;
    otherwise one number (), from the geometric mean over the coordinates that vary.
    """
    if x.size == 0:
        raise ValueError(f"a first guess of the lengthscale needs points, but x has shape {x.shape}: pass some.")
    rows = x.reshape(-1, x.shape[-1])
    deviations = np.std(rows - rows[0], axis=0)  # exactly zero where all are equal
    varies = deviations > 0
    logs = np.log(deviations, out=np.zeros(len(varies)), where=varies)
    if not ard or len(logs) == 1:
        logs = np.sum(logs) / max(1, np.count_nonzero(varies))
    return np.asarray(np.sqrt(len(varies)) * np.exp(logs))


def describe(lengthscale: Array | None) -> str:
    """A lengthscale in a few characters."""
    if lengthscale is None:
        return "lengthscale=None"
    if lengthscale.ndim > 1:
        return f"lengthscale of shape {lengthscale.shape}"
    return f"lengthscale={np.array2string(lengthscale, precision=4, separator=', ', threshold=6)}"
