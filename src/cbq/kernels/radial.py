"""Kernels of the scaled distance |(x - y) / lengthscale|: RBF and Matern."""

from __future__ import annotations

from abc import abstractmethod
from typing import Self

import numpy as np
import numpy.typing as npt

from cbq._arrays import Array, broadcast_batch, finite, positive
from cbq.kernels.base import Kernel, as_points
from cbq.kernels.profiles import MATERN_PROFILES, RBF_PROFILE, Profile
from cbq.linalg.distance import sqdist
from cbq.linalg.features import Features


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
        broadcast_batch({"x": x.shape[:-2], "lengthscale": ell.shape[:-1]}, repr(self))
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
        zx, zy = fx[0], fy[0]
        r2 = np.empty(out.shape[1:])
        sqdist(zx, zy, r2)
        slope = self.profile.slope(np, r2)
        if self.n_lengthscales == 1:
            np.multiply(slope, r2, out=out[0])
            return
        for j in range(self.n_lengthscales):
            np.subtract(zx[:, j, None], zy[None, :, j], out=out[j])
            out[j] *= out[j]
            out[j] *= slope


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


def describe(lengthscale: Array | None) -> str:
    """A lengthscale in a few characters."""
    if lengthscale is None:
        return "lengthscale=None"
    if lengthscale.ndim > 1:
        return f"lengthscale of shape {lengthscale.shape}"
    return f"lengthscale={np.array2string(lengthscale, precision=4, separator=', ', threshold=6)}"
