"""The Gaussian process with a mean of unknown coefficients: all of its algebra, derived once.

Values f (n,) are H b + g. The covariance of g is A K with K = L L', noise and jitter included; H (n, q) is a basis of
the mean, such as a column of ones; its coefficients have the prior N(0, A / tau), which is flat for tau = 0. With

    G = L^-1 H,   R R' = G'G + tau,   beta = (R R')^-1 G'L^-1 f,   P = K^-1 - K^-1 H (R R')^-1 H'K^-1,

the energy is f'P f = |L^-1 (f - H beta)|^2 + tau |beta|^2, the amplitude A = f'P f / dof has a closed form and is never
searched for, and a = P f = K^-1 (f - H beta). Left out, point i has the residual a_i / P_ii, with the variance 1 / P_ii
at unit amplitude; a group B has the residuals P_BB^-1 a_B, with the covariance P_BB^-1.

A linear functional of f, such as an integral or a value, has the covariances mu (n,) with the values, the variance z
and the basis h (q,). With psi = L^-1 mu and gap = R^-1 (h - G'psi), its mean is h'beta + mu'a, its variance at unit
amplitude is z - |psi|^2 + |gap|^2, and its mean weighs the values by K^-1 mu + K^-1 H R^-T gap. The evidence at A
has the derivative dE/dK = -1/2 [P - a a' / A].

Products V'K^-1 W come from L^-1 V, which keeps twice the digits of K^-1 V; energies are sums of squares, rather than
differences. All arrays may have leading axes, one process for each.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from cbq.common import Array, Integers
from cbq.gp.solvers import Solver
from cbq.linalg.gram import moved, on_host
from cbq.linalg.lapack import cholesky, inverse_root, solve_lower, solve_upper

FLAT, ZERO = 0.0, np.inf  # tau of a mean of unknown coefficients, and of a mean that is zero
EPS = float(np.finfo(float).eps)


class Process:
    """Processes with the solvers of K (..., n, n), given values (..., n, C).

    basis: H (n, q), by default of a constant; a column of ones goes first. mu: (..., M, n), the covariances of
    functionals that are solved for together with the values: see `given`.

    centre: (..., 1, C), which is subtracted from the values: f (..., n, C) is the rest. beta: (..., q, C), the
    coefficients of the mean of the values.
    """

    def __init__(
        self, solver: Solver, values: Array, basis: Array | None = None, tau: float = FLAT, mu: Array | None = None
    ) -> None:
        n, C = values.shape[-2:]
        H = np.ones((n, 1)) if basis is None else basis
        self.solver, self.mu = solver, mu
        self.H, self.tau = (H[:, :0], FLAT) if np.isinf(tau) else (H, tau)  # a mean of zero has no coefficients
        self.q = self.H.shape[1]
        self.dof = n - self.q if self.tau == FLAT else n  # the number of values that estimate the amplitude
        # P 1 = 0, but only up to rounding errors that K^-1 amplifies: without the average, less is left to cancel
        has_constant = self.tau == FLAT and self.q > 0 and bool(np.all(self.H[:, 0] == 1.0))
        self.centre = np.mean(values, axis=-2, keepdims=True) * has_constant
        self.f = values - self.centre
        half = solver.solve_lower(self._columns(self.f))
        self._half_mu, self.G = half[..., C : half.shape[-1] - self.q], half[..., half.shape[-1] - self.q :]
        self.R = _cholesky(self.G.swapaxes(-1, -2) @ self.G + self.tau * np.eye(self.q))
        beta, rest = self._projected(half[..., :C])
        self.energy = np.sum(rest**2, axis=-2) + self.tau * np.sum(beta**2, axis=-2)  # f'P f: (..., C)
        self.detrended = self.f - self.H @ beta  # (..., n, C)
        self.beta = beta + np.eye(self.q, 1) * self.centre  # a zero where there is no column of ones

    def _columns(self, values: Array) -> Array:
        """The right-hand sides (values, mu', H), which one call solves for: (..., n, C + M + q)."""
        parts = (values, self.H) if self.mu is None else (values, self.mu.swapaxes(-1, -2), self.H)
        lead = np.broadcast_shapes(*(part.shape[:-2] for part in parts))
        columns = np.empty((*lead, len(self.H), sum(part.shape[-1] for part in parts)))
        stop = 0
        for part in parts:
            start, stop = stop, stop + part.shape[-1]
            columns[..., start:stop] = part
        return columns

    def _projected(self, half: Array) -> tuple[Array, Array]:
        """The coefficients (..., q, M) of V, and L^-1 V without their part, from L^-1 V (..., n, M)."""
        beta = _up(self.R, _down(self.R, self.G.swapaxes(-1, -2) @ half))
        rest = self.G @ beta
        return beta, np.subtract(half, rest, out=rest)

    def half(self, V: Array) -> Array:
        """Rows Z (..., n, M) with V'P W = Z_V'Z_W, for V (..., n, M); a prior of the coefficients adds q rows."""
        return self._root(self.solver.solve_lower(V))

    def _root(self, half: Array) -> Array:
        """The rows Z of V, from L^-1 V (..., n, M)."""
        beta, rest = self._projected(half)
        return rest if self.tau == FLAT else np.concatenate([rest, np.sqrt(self.tau) * beta], axis=-2)

    def apply(self, V: Array) -> Array:
        """P V (..., n, M), for V (..., n, M)."""
        return self.solver.solve(V - self.H @ self._projected(self.solver.solve_lower(V))[0])

    def block(self, rows: Integers) -> Array:
        """P_BB (..., b, b) of some rows."""
        half = self.half(np.eye(self.f.shape[-2])[:, rows])
        return np.asarray(half.swapaxes(-1, -2) @ half)

    def inverse(self) -> Any:
        """P (..., n, n), where the engine keeps it."""
        P, rows = self._inverse_of_gram(), self._trend_rows
        P -= moved(rows, P) @ moved(rows.swapaxes(-1, -2), P)
        return P

    def slope(self, weights: Array, amplitude: Array) -> Any:
        """sum_c w_c [P - a_c a_c' / A_c] (..., n, n), where the engine keeps it: -2 dE/dK of the evidence.

        weights: w (..., C), of the outputs. amplitude: A (..., C).
        """
        P, total = self._inverse_of_gram(), np.sum(weights, axis=-1)[..., None, None]
        rows = np.concatenate([self._trend_rows, self.a], axis=-1)
        weighted = np.concatenate([self._trend_rows * total, self.a * (weights / amplitude)[..., None, :]], axis=-1)
        P *= moved(total, P)
        P -= moved(rows, P) @ moved(weighted.swapaxes(-1, -2), P)  # all at once: each pass over P takes long
        return P

    def _inverse_of_gram(self) -> Any:
        """A copy of K^-1 (..., n, n), where the engine keeps it; what else is solved for follows from it."""
        inverse = self.solver.resident_inverse()
        if "_solved" not in vars(self):  # a product with the inverse costs less than two solves
            self._solved = on_host(inverse @ moved(self._columns(self.detrended), inverse))
        return inverse

    @cached_property
    def _solved(self) -> Array:
        """K^-1 (f - H beta, mu', H): (..., n, C + M + q)."""
        return self.solver.solve(self._columns(self.detrended))

    @property
    def a(self) -> Array:
        """P f: (..., n, C)."""
        return self._solved[..., : self.f.shape[-1]]

    @cached_property
    def _trend_rows(self) -> Array:
        """K^-1 H R^-T (..., n, q), so that P = K^-1 less the products of these rows."""
        return _down_rows(self.R, self._solved[..., self._solved.shape[-1] - self.q :])

    @property
    def amplitude(self) -> Array:
        """A = f'P f / dof: (..., C)."""
        return np.asarray(self.energy / max(self.dof, 1))

    @cached_property
    def logdet(self) -> Array:
        """log |K|, with the determinant of the prior of the mean: (..., 1)."""
        own = 2.0 * np.sum(np.log(np.diagonal(self.R, axis1=-2, axis2=-1)), axis=-1)
        return np.asarray(self.solver.logdet + own - (self.q * np.log(self.tau) if self.tau else 0.0))[..., None]

    @cached_property
    def evidence(self) -> Array:
        """The (restricted) log-likelihood at the amplitude A, up to a constant: (..., C)."""
        return np.asarray(-0.5 * (self.dof * np.log(self.least(self.energy)) + self.logdet))

    def least(self, energy: Array) -> Array:
        """An energy, at least as large as rounding makes it for f in units near 1."""
        return np.asarray(np.maximum(energy, self.f.shape[-2] * EPS**2))

    @cached_property
    def inverse_diagonal(self) -> Array:
        """The diagonal (..., n) of K^-1."""
        return self.solver.inverse_diagonal()

    @cached_property
    def precision(self) -> Array:
        """The diagonal (..., n) of P, at least a rounding error: of one point, P = 0."""
        known = np.sum(self._trend_rows**2, axis=-1)
        return np.asarray(np.maximum(self.inverse_diagonal - known, EPS * self.inverse_diagonal))

    @property
    def residuals(self) -> Array:
        """The leave-one-out residuals (..., n, C), each with the variance 1 / precision at unit amplitude."""
        return np.asarray(self.a / self.precision[..., None])

    def leave_groups_out(self, owners: Integers) -> list[LeftOut]:
        """Each group of values, predicted from all others, in the order of the groups; owners: (n,), of each value."""
        inverse = self.solver.inverse_root()
        self.inverse_diagonal = np.einsum("...ij,...ij->...j", inverse, inverse)  # residuals need no second L^-1
        Z, order = self._root(inverse), np.argsort(owners, kind="stable")  # P = Z'Z
        _, starts, counts = np.unique(owners[order], return_index=True, return_counts=True)
        found: dict[int, LeftOut] = {}
        for b in np.unique(counts):  # groups of one size together: there may be many small ones
            first = starts[counts == b]
            found |= zip(first, LeftOut.of(order[first[:, None] + np.arange(b)], Z, self.a), strict=True)
        return [found[start] for start in starts]

    def functionals(self, mu: Array, h: Array | None = None) -> Functionals:
        """Functionals with the covariances mu (..., M, n) and the basis h (..., M, q), by default of integrals of 1."""
        return Functionals(self, mu, self._ones(mu) if h is None else h, self.solver.solve_lower(mu.swapaxes(-1, -2)))

    @property
    def given(self) -> Functionals:
        """The functionals that were solved for together with the values."""
        assert self.mu is not None
        M = self.mu.shape[-2]
        solved = self._solved[..., self.f.shape[-1] : self.f.shape[-1] + M]
        return Functionals(self, self.mu, self._ones(self.mu), self._half_mu, solved)

    def _ones(self, mu: Array) -> Array:
        """h (M, q) of functionals that are one for a constant."""
        if self.q > 1:
            raise ValueError(f"the mean has {self.q} coefficients: pass the basis h (M, {self.q}) of the functionals.")
        return np.ones((mu.shape[-2], self.q))

    def gap(self, products: Array, h: Array) -> Array:
        """R^-1 (h - G'psi) (..., q, M), from the products G'psi (..., q, M) and h (..., M, q)."""
        return _down(self.R, h.swapaxes(-1, -2) - products)


@dataclass(frozen=True, eq=False)
class Functionals:
    """M linear functionals of f: integrals, or values.

    mu: (..., M, n), their covariances with the values. h: (..., M, q), their basis. psi: (..., n, M), L^-1 mu'.
    solved: (..., n, M), K^-1 mu', where it is known.
    """

    process: Process
    mu: Array
    h: Array
    psi: Array
    solved: Array | None = None

    @cached_property
    def gap(self) -> Array:
        """The part of the mean that the values leave unknown: (..., q, M)."""
        return self.process.gap(self.process.G.swapaxes(-1, -2) @ self.psi, self.h)

    @property
    def mean(self) -> Array:
        """(..., M, C)."""
        return np.asarray(self.h @ self.process.beta + self.mu @ self.process.a)

    @cached_property
    def weights(self) -> Array:
        """The weights (..., M, n) of the values in the mean."""
        solved = self.process.solver.solve(self.mu.swapaxes(-1, -2)) if self.solved is None else self.solved
        return np.asarray((solved + self.process._trend_rows @ self.gap).swapaxes(-1, -2))

    def variance_terms(self, z: Array) -> tuple[Array, Array, Array]:
        """The terms (..., M) of the variances at unit amplitude, first less second plus third, for prior ones z."""
        psi2 = np.sum(self.psi**2, axis=-2)
        return np.broadcast_to(z, psi2.shape), psi2, np.sum(self.gap**2, axis=-2)

    def variance(self, z: Array) -> Array:
        """The variances (..., M) at unit amplitude, for prior ones z (..., M); rounding may make them negative."""
        prior, known, unknown = self.variance_terms(z)
        return np.asarray(prior - known + unknown)

    def covariance(self, cross: Array, other: Functionals | None = None) -> Array:
        """The covariances (..., M, M') with others, or with each other, at unit amplitude, for prior ones `cross`."""
        others = self if other is None else other
        found = self.psi.swapaxes(-1, -2) @ others.psi
        np.subtract(cross, found, out=found)  # in place: three matrices (M, M') at a time are enough
        found += self.gap.swapaxes(-1, -2) @ others.gap
        return np.asarray(found)


@dataclass(frozen=True, eq=False)
class LeftOut:
    """A group of b values that was left out: its rows (b,), residuals (..., b, C), and the root W (..., b, b)."""

    rows: Integers
    residuals: Array
    root: Array

    @classmethod
    def of(cls, rows: Integers, Z: Array, a: Array) -> list[LeftOut]:
        """Of each of g groups with the rows (g, b), from Z (..., m, n) with P = Z'Z, and a = P f (..., n, C)."""
        half = np.moveaxis(Z[..., rows], -3, -2)  # (..., g, m, b)
        W = inverse_root(half.swapaxes(-1, -2) @ half)
        residuals = W.swapaxes(-1, -2) @ (W @ a[..., rows, :])
        return [cls(mine, residuals[..., i, :, :], W[..., i, :, :]) for i, mine in enumerate(rows)]

    @property
    def covariance(self) -> Array:
        """The covariance P_BB^-1 = W'W (..., b, b) of the residuals at unit amplitude."""
        return np.asarray(self.root.swapaxes(-1, -2) @ self.root)

    def move(self, weights: Array) -> tuple[Array, Array]:
        """How far the group moves the means of functionals, (..., M, C), and the variance (..., M) of that move.

        weights: (..., M, n), of all values. The means given all values exceed those without the group by
        D = w_B'P_BB^-1 a_B, and V = w_B'P_BB^-1 w_B is, at unit amplitude, how much smaller their variances are.
        """
        w = weights[..., self.rows]
        return w @ self.residuals, np.sum((w @ self.root.swapaxes(-1, -2)) ** 2, axis=-1)


def _cholesky(a: Array) -> Array:
    """The lower factor R (..., q, q) of a."""
    # the mean is nearly always a constant: a root and divisions, many times
    return np.sqrt(a) if a.shape[-1] == 1 and np.all(a > 0.0) else cholesky(a)


def _down(R: Array, V: Array) -> Array:
    """R^-1 V (..., q, M), for lower triangular R (..., q, q)."""
    return _down_rows(R, V.swapaxes(-1, -2)).swapaxes(-1, -2)


def _down_rows(R: Array, rows: Array) -> Array:
    """R^-1 v for each row v of rows (..., M, q)."""
    return rows / R if R.shape[-1] == 1 else solve_lower(R[..., None, :, :], rows)


def _up(R: Array, V: Array) -> Array:
    """R^-T V (..., q, M)."""
    return V / R if R.shape[-1] == 1 else solve_upper(R[..., None, :, :], V.swapaxes(-1, -2)).swapaxes(-1, -2)
