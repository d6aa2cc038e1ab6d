"""Stein kernels, which integrate to zero under a measure."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
import numpy.typing as npt

from cbq.common import Array, Booleans, shown
from cbq.kernels.base import Kernel, as_points, known_measure
from cbq.kernels.radial import Radial, in_lengthscales
from cbq.linalg.gram import Features, differences, empty, namespace, sqdist
from cbq.measures import Measure
from cbq.measures.base import measure_argument


class Stein(Kernel):
    """The Langevin Stein kernel of a base kernel and a measure with the score s = grad log p.

    It integrates to zero under the measure, and the density p may be known only up to a constant. With
    rho = |(x - y) / l|, D = x - y, and the profile h, g = -h'/rho, q = g'/rho of the base:

        k_p(x, y) = h s(x).s(y) + g sum_j (s_j(x) - s_j(y)) D_j / l_j^2 + g sum_j l_j^-2 + q sum_j D_j^2 / l_j^4

    Parameters
    ----------
    base : RBF, or Matern of an order above 1, in any dimension, with one lengthscale or one per coordinate.
    measure : a measure with a score, whose density vanishes at the boundary of its support; `bind` supplies it.

    Examples
    --------
    >>> measure = cbq.measures.Gaussian(0.0, cov=1.0)
    >>> kernel = cbq.kernels.Stein(cbq.kernels.RBF(1.0), measure)
    >>> nodes, weights = np.polynomial.hermite_e.hermegauss(80)
    >>> bool(abs(weights @ kernel(nodes, [0.3])[:, 0]) < 1e-8)  # it integrates to zero
    True
    """

    def __init__(self, base: Radial, measure: Any = None) -> None:
        if not isinstance(base, Radial) or base.is_roughest:
            raise TypeError(
                f"Stein takes a base kernel with mixed second derivatives: RBF, or Matern of an order above 1, but it "
                f"was given {shown(base)}."
            )
        self.base = base
        self._measure = None if measure is None else measure_argument(measure, "measure")

    def __repr__(self) -> str:
        return f"Stein({self.base!r})"

    @property
    def smoothness(self) -> float:
        # The kernel has one derivative of the base in each argument.
        return self.base.smoothness - 1.0

    def check_dim(self, d: int) -> None:
        self.base.check_dim(d)

    @property
    def needs_measure(self) -> bool:
        return self._measure is None

    @property
    def measure(self) -> Measure:
        """The measure whose score the kernel uses, or an error if the kernel is not bound to one."""
        return known_measure(self._measure, "a Stein kernel needs the score of a measure")

    @property
    def log_lengthscales(self) -> Array:
        return self.base.log_lengthscales

    def with_log_lengthscales(self, values: npt.ArrayLike) -> Kernel:
        return Stein(self.base.with_log_lengthscales(values), self._measure)

    def _to_fit(self, x: Array, ard: bool) -> tuple[Self, Booleans]:
        base, free = self.base.to_fit(x, ard)
        return type(self)(base, self._measure), free

    def bind(self, measure: Measure) -> Kernel:
        return Stein(self.base, measure) if self.needs_measure else self

    def diag(self, x: npt.ArrayLike) -> Array:
        x = as_points(x)
        ell = self.base.lengthscale_for(x.shape[-1])[..., None, :]
        # Refuses points whose squares would overflow.
        in_lengthscales(x, ell)
        s = self.measure.score(x)
        slope = self.base.profile.slope(np, np.zeros(()))
        return np.asarray(np.sum(s * s + slope / ell**2, axis=-1))

    def features(self, x: Array) -> Features:
        # z = x / l, y = x / l^2, s, w = s / l, and 1 / l^2 in every row
        s, ell = self.measure.score(x), self.base.lengthscale_for(x.shape[-1])[..., None, :]
        batch = np.broadcast_shapes(s.shape, ell.shape)
        z = in_lengthscales(x, ell)
        parts = (z, in_lengthscales(z, ell), s, s / ell, in_lengthscales(1.0 / ell, ell))
        return tuple(np.broadcast_to(part, batch) for part in parts)

    def fill(self, fx: Features, fy: Features, out: Array) -> None:
        r2, r4, product, cross = self._geometry(fx, fy, out)
        profile, xp = self.base.profile, namespace(out)
        slope = profile.slope(xp, r2)
        xp.multiply(profile.curvature(xp, r2), r4, out=out)
        out += slope * cross
        product *= profile.value(xp, r2)
        out += product

    def fill_derivatives(self, fx: Features, fy: Features, out: Array) -> None:
        # with a_j = D_j^2 / l_j^2:  dh = g a_j,  dg = -q a_j,  dq = -p a_j,  for d = d / d log l_j
        r2, r4, product, cross = self._geometry(fx, fy, out[0])
        profile, xp = self.base.profile, namespace(out)
        g, q, p = profile.slope(xp, r2), profile.curvature(xp, r2), profile.third(xp, r2)
        common = g * product - q * cross - p * r4
        d = fx[0].shape[-1]
        separate = out if len(out) == d else empty((d, *r2.shape), out)
        for j in range(d):
            dz, dw = differences(fx[0], fy[0], j), differences(fx[3], fy[3], j)
            a, inverse = dz * dz, fx[4][..., :, j, None]
            separate[j] = common * a - 2.0 * g * (dw * dz + inverse) - 4.0 * q * a * inverse
        if separate is not out:
            out[0] = separate.sum(0)

    def _geometry(self, fx: Features, fy: Features, like: Array) -> tuple[Array, Array, Array, Array]:
        """rho^2, sum_j D_j^2 / l_j^4, s(x).s(y) and sum_j [(s_j(x) - s_j(y)) D_j + 1] / l_j^2, `like` (..., n, m)."""
        r2, r4, cross = (empty(like.shape, like) for _ in range(3))
        sqdist(fx[0], fy[0], r2), sqdist(fx[1], fy[1], r4)
        cross[...] = fx[4].sum(-1)[..., None]
        # Differences come first, since the terms of the expanded product would cancel.
        for j in range(fx[0].shape[-1]):
            cross += differences(fx[3], fy[3], j) * differences(fx[0], fy[0], j)
        return r2, r4, fx[2] @ fy[2].swapaxes(-1, -2), cross
