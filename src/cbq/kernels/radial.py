"""Kernels of the scaled distance rho = |(x - y) / lengthscale|: RBF and Matern."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from math import ceil, log, sqrt
from typing import Any, Protocol, Self

import numpy as np
import numpy.typing as npt
from scipy.special import gammaln

from cbq.common import Array, Booleans, broadcast_batch, finite, is_number, number, positive, shown
from cbq.io import Number, Numbers, saved
from cbq.kernels.base import Kernel, as_points
from cbq.kernels.bessel import BesselProfile
from cbq.linalg.gram import Features, differences, empty, inner, namespace, sqdist

MIN_NU, MAX_NU = 0.1, 20.0  # below, rules have thousands of terms; above, a Matern kernel is RBF to about 1%
LOWER_CUT, UPPER_CUT = 36.0, 45.0  # the rule omits weights of e^-36 at small scales and e^-45 at large ones
ROUNDING_LOG, RULE_LOG = 39.0, 6.0  # logs of 1 / rounding, and of 2 nodes^2 of a panel of half a lengthscale
FAR, NEGLIGIBLE = 40.0, 1e-17  # a distance in lengthscales, and the kernel there unless its tail is heavy
MAX_SCALES = 6
MIN_SQUARED_DISTANCE = 1e-200  # its powers up to 3/2 are still above the smallest double
MAX_SCALED_DISTANCE = 1e150  # its square is finite


class Profile(Protocol):
    """A function h, h(0) = 1, that defines the kernel k(x, y) = h(rho), and its derivatives.

    The methods take an array namespace `xp` (NumPy, or a library with the same functions) and r2 = rho^2:

        value       h(rho)                 (may overwrite r2, and return it)
        at          h(rho) from rho        (may overwrite rho, and return it)
        slope       g = -h'(rho) / rho     so that dk / d log l_j = g (x_j - y_j)^2 / l_j^2
        curvature   q = g'(rho) / rho
        third       p = q'(rho) / rho

    The last three may grow like a power of 1/rho at the origin. Every use multiplies them by at least that power of
    the distance, so a tiny floor under rho makes the product exactly zero there.
    """

    def value(self, xp: Any, r2: Any) -> Any: ...
    def at(self, xp: Any, rho: Any) -> Any: ...
    def slope(self, xp: Any, r2: Any) -> Any: ...
    def curvature(self, xp: Any, r2: Any) -> Any: ...
    def third(self, xp: Any, r2: Any) -> Any: ...


class RBFProfile:
    """h = exp(-rho^2 / 2)."""

    def value(self, xp: Any, r2: Any) -> Any:
        r2 *= -0.5
        return xp.exp(r2, out=r2)

    def at(self, xp: Any, rho: Any) -> Any:
        rho *= rho
        return self.value(xp, rho)

    def slope(self, xp: Any, r2: Any) -> Any:
        return xp.exp(-0.5 * r2)

    def curvature(self, xp: Any, r2: Any) -> Any:
        return -xp.exp(-0.5 * r2)

    third = slope


class Matern12Profile:
    """h = e^-rho."""

    def value(self, xp: Any, r2: Any) -> Any:
        return self.at(xp, xp.sqrt(r2, out=r2))

    def at(self, xp: Any, rho: Any) -> Any:
        xp.negative(rho, out=rho)
        return xp.exp(rho, out=rho)

    def slope(self, xp: Any, r2: Any) -> Any:
        rho = xp.sqrt(r2 + MIN_SQUARED_DISTANCE)
        return xp.exp(-rho) / rho

    def curvature(self, xp: Any, r2: Any) -> Any:
        raise NotImplementedError("Matern 1/2 is not differentiable enough for a Stein kernel.")

    third = curvature


class Matern32Profile:
    """h = (1 + a rho) e^(-a rho), a = sqrt(3)."""

    a = sqrt(3.0)

    def value(self, xp: Any, r2: Any) -> Any:
        return self.at(xp, xp.sqrt(r2, out=r2))

    def at(self, xp: Any, rho: Any) -> Any:
        rho *= self.a
        linear = rho + 1.0
        xp.negative(rho, out=rho)
        xp.exp(rho, out=rho)
        rho *= linear
        return rho

    def slope(self, xp: Any, r2: Any) -> Any:
        return 3.0 * xp.exp(-self.a * xp.sqrt(r2))

    def curvature(self, xp: Any, r2: Any) -> Any:
        rho = xp.sqrt(r2 + MIN_SQUARED_DISTANCE)
        return -3.0 * self.a * xp.exp(-self.a * rho) / rho

    def third(self, xp: Any, r2: Any) -> Any:
        rho = xp.sqrt(r2 + MIN_SQUARED_DISTANCE)
        return 3.0 * self.a * xp.exp(-self.a * rho) * (1 + self.a * rho) / rho**3


class Matern52Profile:
    """h = (1 + a rho + a^2 rho^2 / 3) e^(-a rho), a = sqrt(5)."""

    a = sqrt(5.0)

    def value(self, xp: Any, r2: Any) -> Any:
        return self.at(xp, xp.sqrt(r2, out=r2))

    def at(self, xp: Any, rho: Any) -> Any:
        rho *= self.a
        quadratic = rho * rho
        quadratic *= 1.0 / 3.0
        quadratic += rho
        quadratic += 1.0
        xp.negative(rho, out=rho)
        xp.exp(rho, out=rho)
        rho *= quadratic
        return rho

    def slope(self, xp: Any, r2: Any) -> Any:
        rho = xp.sqrt(r2)
        return 5.0 / 3.0 * (1 + self.a * rho) * xp.exp(-self.a * rho)

    def curvature(self, xp: Any, r2: Any) -> Any:
        return -25.0 / 3.0 * xp.exp(-self.a * xp.sqrt(r2))

    def third(self, xp: Any, r2: Any) -> Any:
        rho = xp.sqrt(r2 + MIN_SQUARED_DISTANCE)
        return 25.0 / 3.0 * self.a * xp.exp(-self.a * rho) / rho


MATERN_PROFILES: dict[float, Profile] = {0.5: Matern12Profile(), 1.5: Matern32Profile(), 2.5: Matern52Profile()}


class Radial(Kernel):
    """k(x, y) = h(|(x - y) / lengthscale|).

    The lengthscale is a number, (d,) for one per coordinate, or (..., d) with leading axes that broadcast against the
    batch of points (a last axis of length 1 applies to all coordinates). None means that an estimator fits it.

    A subclass has a `profile`, its `smoothness` and `with_lengthscale`. A `scale_rule` adds embeddings in several
    dimensions.

    Examples
    --------
    >>> isinstance(cbq.kernels.Matern(1.5), cbq.kernels.Radial)
    True
    """

    lengthscale: Array | None
    is_stationary = True

    def __init__(self, lengthscale: npt.ArrayLike | None = None) -> None:
        self.lengthscale = None if lengthscale is None else positive(lengthscale, "lengthscale")
        if self.lengthscale is not None and self.lengthscale.size == 0:
            raise ValueError("lengthscale is empty: pass one number, or one lengthscale per coordinate.")

    @property
    @abstractmethod
    def profile(self) -> Profile:
        """The function h and its derivatives."""

    @abstractmethod
    def with_lengthscale(self, lengthscale: npt.ArrayLike | None) -> Self:
        """The same kernel with another lengthscale."""

    @property
    def known_lengthscale(self) -> Array:
        """The lengthscale, or an error if it is None."""
        if self.lengthscale is None:
            raise ValueError(
                f"{self!r} has no lengthscale yet: pass one, as in {type(self).__name__}(lengthscale=0.5), or "
                f"give the kernel to an estimator that fits it."
            )
        return self.lengthscale

    def restrict(self, block: slice) -> Self:
        """The same kernel on a block of consecutive coordinates."""
        ell = self.known_lengthscale
        return self if ell.ndim == 0 or ell.shape[-1] == 1 else self.with_lengthscale(ell[..., block])

    @property
    def log_lengthscales(self) -> Array:
        return np.log(np.atleast_1d(self.known_lengthscale))

    @property
    def n_lengthscales(self) -> int:  # often, and without logarithms
        return int(np.atleast_1d(self.known_lengthscale).shape[-1])

    def with_log_lengthscales(self, values: npt.ArrayLike) -> Self:
        v = finite(values, "log_lengthscales")
        if v.ndim == 0 or v.shape[-1] != self.n_lengthscales:
            raise ValueError(f"log_lengthscales has shape {v.shape}, but {self.n_lengthscales} values are expected.")
        scalar = self.known_lengthscale.ndim == 0 and v.ndim == 1
        # The constructor refuses an infinite lengthscale.
        with np.errstate(over="ignore"):
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
    def has_kink(self) -> bool:
        return self.smoothness < np.inf

    def scale_rule(self) -> list[tuple[float, float, float]] | None:
        """A rule k = sum_g w_g exp(-rho^2 / (2 g)): triples of g, from large to small, w_g, and the sum of later w.

        With a rule, the kernel has embeddings in several dimensions. None means that there is no such rule.
        """
        return None

    @property
    def is_roughest(self) -> bool:
        return self.smoothness <= 1.0

    def rougher(self) -> Radial:
        if self.is_roughest:
            return self
        return Matern(max(nu for nu in MATERN_PROFILES if nu < self.smoothness), self.lengthscale)

    def on_line(self, r: Array) -> Array:
        rho = np.minimum(r / self.lengthscale_for(1)[..., 0, None, None], MAX_SCALED_DISTANCE)
        return np.asarray(self.profile.at(np, rho))

    def line_lengthscales(self) -> list[Array]:
        # Panels about a point reach 40 lengthscales far. A kernel with a heavy tail has several scales.
        scales = [1.0]
        while self.profile.at(np, np.array(FAR * scales[-1])) > NEGLIGIBLE and len(scales) < MAX_SCALES:
            scales.append(2 * FAR * scales[-1])
        return [scale * self.lengthscale_for(1)[..., 0] for scale in scales]

    def rescaled(self, scales: Array) -> Self:
        return self.with_lengthscale(self.lengthscale_for(scales.shape[-1]) * scales)

    def check_dim(self, d: int) -> None:
        self.lengthscale_for(d)

    def features(self, x: Array) -> Features:
        ell = self.lengthscale_for(x.shape[-1])
        broadcast_batch({"x": x.shape[:-2], "lengthscale": ell.shape[:-1]}, type(self).__name__)
        return (in_lengthscales(x, ell[..., None, :]),)

    def lengthscale_for(self, d: int) -> Array:
        """The lengthscales of d coordinates: (..., d)."""
        ell = self.known_lengthscale
        if ell.ndim > 0 and ell.shape[-1] not in (1, d):
            raise ValueError(
                f"{self!r} has {ell.shape[-1]} lengthscales, but the points have {d} coordinates: "
                f"pass one number, or one lengthscale per coordinate."
            )
        return np.broadcast_to(ell, (*ell.shape[:-1], d))

    def fill(self, fx: Features, fy: Features, out: Array) -> None:
        xp = namespace(out)
        if fx[0].shape[-1] == 1:
            # On the line rho needs no square root, which takes longer than everything else.
            values = self.profile.at(xp, xp.abs(differences(fx[0], fy[0], 0, out), out=out))
        else:
            values = self.profile.value(xp, sqdist(fx[0], fy[0], out))
        if values is not out:
            out[...] = values

    def fill_derivatives(self, fx: Features, fy: Features, out: Array) -> None:
        xp, r2 = namespace(out), sqdist(fx[0], fy[0], empty(out.shape[1:], out))
        slope = self.profile.slope(xp, r2)
        for derivative, squares in zip(out, self._squares(fx, fy, r2), strict=True):
            xp.multiply(slope, squares, out=derivative)

    def contract_features(self, fx: Features, fy: Features, G: Array) -> Array:
        xp, r2 = namespace(G), sqdist(fx[0], fy[0], empty(G.shape, G))
        weights = self.profile.slope(xp, r2)
        weights *= G
        sums = [inner(weights, squares) for squares in self._squares(fx, fy, r2)]
        return xp.stack(sums, -1)  # type: ignore[no-any-return]

    def _squares(self, fx: Features, fy: Features, r2: Array) -> Iterator[Array]:
        """(x_j - y_j)^2 / l_j^2 (..., n, m) for each lengthscale in turn, in the memory of their sum r2."""
        if self.n_lengthscales == 1:
            yield r2
            return
        for j in range(fx[0].shape[-1]):
            differences(fx[0], fy[0], j, out=r2)
            yield namespace(r2).multiply(r2, r2, out=r2)


@saved("RBF", lengthscale=Numbers(inline=True))
class RBF(Radial):
    """exp(-|x - y|^2 / (2 lengthscale^2)), the Gaussian or squared-exponential kernel.

    Examples
    --------
    >>> cbq.kernels.RBF(lengthscale=2.0)([0.0], [2.0]).round(4)  # exp(-1/2)
    array([[0.6065]])
    """

    profile = RBFProfile()
    smoothness = np.inf

    def __repr__(self) -> str:
        return f"RBF({describe(self.lengthscale)})"

    def with_lengthscale(self, lengthscale: npt.ArrayLike | None) -> Self:
        return type(self)(lengthscale)


@saved("Matern", nu=Number(), lengthscale=Numbers(inline=True))
class Matern(Radial):
    """The Matern kernel of smoothness nu, from 0.1 to 20, radial in any dimension.

    k(r) = 2^(1 - nu) / Gamma(nu) z^nu K_nu(z) with z = sqrt(2 nu) r / lengthscale. For nu = 1/2, 3/2 and 5/2 it is
    sum_j c_j (a r)^j e^(-a r) on the line, with the coefficients c and the decay rate a: these orders are fast, and
    have embeddings in closed form. Embeddings of other orders are mixtures of RBF formulas, or panel rules on the line;
    the initial error by panels takes seconds for each measure.

    Examples
    --------
    >>> cbq.kernels.Matern(0.5, lengthscale=2.0)([0.0], [2.0]).round(4)  # exp(-1)
    array([[0.3679]])
    >>> cbq.kernels.Matern(1.0, lengthscale=2.0)([0.0], [2.0]).round(4)  # sqrt(2) K_1(sqrt(2))
    array([[0.4443]])
    """

    def __init__(self, nu: float = 1.5, lengthscale: npt.ArrayLike | None = None) -> None:
        given: Any = nu
        if type(given) is np.ndarray and given.ndim == 0:
            given = given.item()
        if not is_number(given, MIN_NU, MAX_NU):
            raise ValueError(
                f"nu must be a number from {MIN_NU:g} to {MAX_NU:g}, such as 0.5, 1.5 or 2.5, but it is {shown(nu)}; "
                f"for the limit of large nu use RBF."
            )
        super().__init__(lengthscale)
        self.nu = float(given)

    def __repr__(self) -> str:
        return f"Matern({self.nu:g}, {describe(self.lengthscale)})"

    @property
    def smoothness(self) -> float:
        return self.nu

    @property
    def profile(self) -> Profile:
        return MATERN_PROFILES.get(self.nu) or BesselProfile(self.nu)

    @property
    def has_slow_embedding(self) -> bool:
        # Without a formula it is a mixture of RBF embeddings over about a hundred scales.
        return self.n_lengthscales > 1 or not self.coefficients

    @property
    def coefficients(self) -> tuple[float, ...]:
        """The coefficients c of the kernel on the line; empty for an order without a formula."""
        return {0.5: (1.0,), 1.5: (1.0, 1.0), 2.5: (1.0, 1.0, 1.0 / 3.0)}.get(self.nu, ())

    @property
    def decay_rate(self) -> Array:
        """a = sqrt(2 nu) / lengthscale on the line, with the batch shape of the lengthscale."""
        return np.asarray(np.sqrt(2 * self.nu) / self.lengthscale_for(1)[..., 0])

    def line_lengthscales(self) -> list[Array]:
        # Next to x, k is a smooth function of r only if nu is half an integer. Otherwise it has a term r^(2 nu): the
        # last panel is so narrow that the error of the rule there, about (width / nodes^2)^(2 nu + 1), is rounding.
        scales = super().line_lengthscales()
        if (self.nu - 0.5).is_integer():
            return scales
        depth = max(0, ceil((ROUNDING_LOG / (2 * self.nu + 1) - RULE_LOG) / log(2 * FAR)))
        return scales + [scales[0] * (2 * FAR) ** -k for k in range(1, depth + 1)]

    def with_lengthscale(self, lengthscale: npt.ArrayLike | None) -> Self:
        return type(self)(self.nu, lengthscale)

    def scale_rule(self) -> list[tuple[float, float, float]]:
        """g ~ Gamma(nu, rate nu), by a trapezoidal rule in log g (Trefethen and Weideman 2014)."""
        nu = self.nu
        step = min(0.22, 0.25 / sqrt(nu))  # the integrand has poles at a distance of pi / 2, and a width of nu^(-1/2)
        # weights are about exp(nu (1 + t - e^t)) in units of the largest
        end = log(UPPER_CUT / nu + 1.0)
        end = log(UPPER_CUT / nu + 1.0 + end)
        t = np.arange(end, -LOWER_CUT / nu - 1.0, -step)
        weights = step * np.exp(nu * np.log(nu) - gammaln(nu) + nu * t - nu * np.exp(t))
        rest = np.cumsum(weights[::-1])[::-1] - weights
        return list(zip(np.exp(t).tolist(), weights.tolist(), rest.tolist(), strict=True))


def standard_kernels(least: float = 1.5) -> list[Radial]:
    """The kernels to try where none is given, from rough to smooth: Matern kernels from order `least`, and RBF.

    Examples
    --------
    >>> cbq.kernels.standard_kernels()
    [Matern(1.5, lengthscale=None), Matern(2.5, lengthscale=None), RBF(lengthscale=None)]
    """
    smooth = [nu for nu in sorted(MATERN_PROFILES) if nu >= number(least, "least")]
    return [*(Matern(nu) for nu in smooth), RBF()]


def in_lengthscales(x: Array, ell: Array) -> Array:
    """Points divided by lengthscales, or an error if their squared distances would overflow."""
    with np.errstate(over="ignore", divide="ignore"):
        z = x / ell
    if np.any(np.abs(z) > MAX_SCALED_DISTANCE):
        raise ValueError(
            f"points (x, y or theta) of size {np.max(np.abs(x)):.1e} are too many lengthscales ({np.min(ell):.1e}) "
            f"from zero: their distances would overflow float64; rescale x, or pass a longer lengthscale."
        )
    return np.asarray(z)


def first_guess(x: Array, ard: bool) -> Array:
    """A first guess of the lengthscale: sqrt(d) times the standard deviation of the coordinates of x (..., N, d).

    With `ard` and d > 1 one per coordinate (d,), where a constant coordinate counts as having unit deviation;
    otherwise one number (), from the geometric mean over the coordinates that vary.
    """
    if x.size == 0:
        raise ValueError(f"a first guess of the lengthscale needs points, but x has shape {x.shape}: pass some.")
    rows = x.reshape(-1, x.shape[-1])
    # Relative to the first row, equal values deviate by exactly zero.
    deviations = np.std(rows - rows[0], axis=0)
    varies = deviations > 0
    logs = np.log(deviations, out=np.zeros(len(varies)), where=varies)
    if not ard or len(logs) == 1:
        logs = np.sum(logs) / max(1, np.count_nonzero(varies))
    return np.asarray(np.sqrt(len(varies)) * np.exp(logs))


def describe(lengthscale: Array | None) -> str:
    """A short text for a lengthscale."""
    if lengthscale is None:
        return "lengthscale=None"
    if lengthscale.ndim > 1:
        return f"lengthscale of shape {lengthscale.shape}"
    return f"lengthscale={np.array2string(lengthscale, precision=4, separator=', ', threshold=6)}"
