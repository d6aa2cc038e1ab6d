"""An expensive f, the laws of its inputs, and how samples of it are collected."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, get_args

import numpy as np
import numpy.typing as npt

from cbq._arrays import Array, generator
from cbq._immutable import Immutable
from cbq.measures import Measure, as_measure
from cbq.samples import Samples
from cbq.samples.arrays import as_thetas, some_infinite, thetas_in
from cbq.samples.laws import Family, laws_of

Plan = Literal["iid", "sobol"]
Integrand = Callable[[Array, Array], Any]
PROBE = 3  # points of the first call to a vectorised f: enough to tell (n, C) from (C, n) for one or two outputs
SOBOL_BITS = 30
THETA, X = 0, 1  # which of the two draws of a theta a seed is for


class IntegrandError(RuntimeError):
    """The integrand failed; `t`, `theta`, `i` and `x` say where (None: not known)."""

    def __init__(self, message: str, t: Any = None, theta: Any = None, i: Any = None, x: Any = None) -> None:
        super().__init__(message)
        self.t, self.theta, self.i, self.x = t, theta, i, x


class Problem(Immutable):
    """The conditional expectation I(theta) = E f(X, theta), X ~ P_theta, for theta ~ Q. Immutable.

    Parameters
    ----------
    integrand : f, as a function of x (n, d) and theta (p,) that returns (n,), or (n, C) for C outputs; with
        `vectorized=False`, of x (d,) and theta (p,), and it returns a number or (C,).
    family : from theta (p,) to the law P_theta of x, a measure or a frozen scipy.stats distribution.
    prior : the law Q of theta, a measure or a frozen scipy.stats distribution in p dimensions.
    depends_on_theta : whether f is a function of theta besides x. Where it is not, values can be reused.
    exact : the answer, where it is known: from theta (M, p) to (M,) or (M, C).
    name : for messages and tables.
    """

    integrand: Integrand
    family: Family
    prior: Measure
    vectorized: bool
    depends_on_theta: bool
    name: str
    _exact: Callable[[Array], Any] | None

    def __init__(
        self,
        integrand: Integrand,
        family: Family,
        prior: Any,
        *,
        vectorized: bool = True,
        depends_on_theta: bool = True,
        exact: Callable[[Array], Any] | None = None,
        name: str = "problem",
    ) -> None:
        for what, function in (("integrand", integrand), ("family", family), ("exact", exact)):
            if not callable(function) and not (what == "exact" and function is None):
                raise TypeError(f"{what} must be a function, but it is a {type(function).__name__}.")
        law = as_measure(prior)
        if law.batch_shape:
            raise ValueError(f"prior must be one law of theta, but {law!r} is a batch: prior[0] is the first of them.")
        self.integrand, self.family, self.prior = integrand, family, law
        self.vectorized, self.depends_on_theta = bool(vectorized), bool(depends_on_theta)
        self.name, self._exact = str(name), exact

    @property
    def p(self) -> int:
        """The dimension of theta."""
        return self.prior.dim

    @property
    def has_exact(self) -> bool:
        """Whether the answer is known."""
        return self._exact is not None

    def exact(self, theta: npt.ArrayLike) -> Array:
        """The answer I(theta) at theta (M, p), or (M,) for p = 1: (M,) or (M, C)."""
        if self._exact is None:
            raise ValueError(f"the exact answer of {self.name!r} is not known: pass exact= where it is.")
        thetas = self._thetas(theta)
        answer = np.asarray(self._exact(thetas), dtype=np.float64)
        if answer.ndim not in (1, 2) or len(answer) != len(thetas):
            M = len(thetas)
            raise ValueError(f"exact returned shape {answer.shape}, but for {M} thetas it must be ({M},) or ({M}, C).")
        return answer

    def evaluate(self, theta: npt.ArrayLike, x: npt.ArrayLike) -> Array:
        """f at the points x (n, d), or (n,) for d = 1, of one theta (p,): (n,) or (n, C), checked to be finite."""
        thetas = as_thetas(np.atleast_2d(theta))
        if len(thetas) != 1:
            raise ValueError(f"evaluate takes one theta (p,), but theta has shape {np.shape(theta)}.")
        (row,) = self._thetas(thetas)
        return self._evaluate(row, laws_of(self.family, row[None])[0]._points(x), None)

    def collect(
        self,
        T: int | None,
        N: int | npt.ArrayLike,
        *,
        rng: np.random.Generator | int,
        design: Plan = "iid",
        theta: npt.ArrayLike | None = None,
    ) -> Samples:
        """Draw T thetas and N points at each, evaluate f there, and return the samples.

        Parameters
        ----------
        T : the number of thetas; None, or their number, where `theta` is given.
        N : the number of points at each theta, or T of them.
        rng : a Generator or a seed. Theta t and its points have a seed of their own, made from this one and t, so
            they do not depend on T nor on any other theta.
        design : "iid", or "sobol": scrambled Sobol points through the transport of the law, with a scramble of its
            own for each theta, and thetas likewise. They are the first N of a sequence, which is best balanced where
            N is a power of two.
        theta : (T, p), or (T,) for p = 1: thetas of one's own in place of draws from the prior.
        """
        if design not in get_args(Plan):
            raise ValueError(
                f"design must be 'iid' or 'sobol', but it is {design!r}: points drawn elsewhere, by MCMC for one, "
                f"enter through cbq.Samples(..., design=...)."
            )
        entropy = [int(word) for word in generator(rng).integers(2**32, size=4)]
        thetas = self._draw_thetas(_whole(T, "T"), design, entropy) if theta is None else self._thetas(theta)
        if T is not None and len(thetas) != T:
            raise ValueError(f"T is {T}, but theta holds {len(thetas)} thetas: pass T=None or T={len(thetas)}.")
        counts = _counts(N, len(thetas))
        laws = laws_of(self.family, thetas)
        x = [_draw(law, n, design, _seed(entropy, X, t)) for t, (law, n) in enumerate(zip(laws, counts, strict=True))]
        blank = [np.zeros(n) for n in counts]  # bad points are refused before anything expensive starts
        points = Samples(thetas, x, blank, self.family, depends_on_theta=self.depends_on_theta, design=design)
        outputs = self._evaluate(thetas[0], x[0][: PROBE if self.vectorized else 1], 0).shape[1:]
        return points.with_values([self._evaluate(thetas[t], x[t], t, outputs) for t in range(len(x))])

    def __repr__(self) -> str:
        return f"Problem({self.name!r}, prior={self.prior!r})"

    def _thetas(self, theta: npt.ArrayLike) -> Array:
        return thetas_in(theta, self.p, "the prior")

    def _draw_thetas(self, T: int, design: Plan, entropy: list[int]) -> Array:
        if design == "sobol":
            return _draw(self.prior, T, design, _seed(entropy, THETA))
        return np.concatenate([self.prior.sample(1, _seed(entropy, THETA, t)) for t in range(T)])

    def _evaluate(self, theta: Array, x: Array, t: int | None, outputs: tuple[int, ...] | None = None) -> Array:
        """f at x (n, d): (n, *outputs), `outputs` being what earlier calls gave; t is for messages."""
        f = _read(self._call(theta, x, t), theta, x, t)
        if f.shape[:1] != (len(x),) or f.ndim > 2 or 0 in f.shape or (outputs is not None and f.shape[1:] != outputs):
            wanted = f"({len(x)},) or ({len(x)}, C)" if outputs is None else f"{(len(x), *outputs)}"
            raise IntegrandError(
                f"the integrand returned shape {f.shape} for {len(x)} points{_where(t, theta)}, but {wanted} is "
                f"needed: one value, or C of them, for each row of x. If it takes one point at a time, pass "
                f"vectorized=False.",
                *(t, theta),
            )
        bad = some_infinite(f)
        if np.any(bad):
            i = int(np.argmax(bad))
            raise IntegrandError(
                f"the integrand returned {f[i]}{_where(t, theta, i, x[i])} and NaN or inf at {np.count_nonzero(bad)} "
                f"of the {len(x)} points there: values must be finite.",
                *(t, theta, i, x[i]),
            )
        return f

    def _call(self, theta: Array, x: Array, t: int | None) -> Any:
        """What the integrand returns; it receives copies, and may do with them what it likes."""
        values = []
        for i, points in enumerate(x[None] if self.vectorized else x):
            try:
                values.append(self.integrand(points.copy(), theta.copy()))
            except Exception as error:
                raise _failure(error, theta, t, None if self.vectorized else i, x) from error
        return values[0] if self.vectorized else values


def _read(values: Any, theta: Array, x: Array, t: int | None) -> Array:
    """What the integrand returned as an array of floats."""
    try:
        raw = np.asarray(values)
        if raw.dtype.kind not in "buif":
            raise TypeError(f"values of type {raw.dtype}")
    except (TypeError, ValueError) as error:
        raise IntegrandError(
            f"the integrand must return real numbers, one or C for each of the {len(x)} points{_where(t, theta)}, but "
            f"it returned something else ({error}).",
            *(t, theta),
        ) from error
    return np.array(raw, dtype=np.float64)


def _failure(error: Exception, theta: Array, t: int | None, i: int | None, x: Array) -> IntegrandError:
    """The error to raise when the integrand raised one at point i of x, or (i None) at one of them."""
    point = None if i is None else x[i]
    among = f" among the {len(x)} points from x = {x[0]} on" if i is None else ""
    message = f"the integrand raised {type(error).__name__}{_where(t, theta, i, point)}{among}: {error}"
    return IntegrandError(message, t, theta, i, point)


def _where(t: int | None, theta: Array, i: int | None = None, x: Array | None = None) -> str:
    place = f" at theta = {theta}" if t is None else f" at theta index t = {t} (theta = {theta})"
    return place if i is None else f"{place}, point i = {i} (x = {x})"


def _whole(value: Any, name: str) -> int:
    if not isinstance(value, int | np.integer) or isinstance(value, bool) or value < 1:
        raise ValueError(f"{name} must be a whole number, at least 1, but it is {value!r}.")
    return int(value)


def _counts(N: Any, T: int) -> list[int]:
    """The number of points at each of T thetas."""
    if np.ndim(N) == 0:
        return [_whole(N, "N")] * T
    if np.shape(N) != (T,):
        raise ValueError(f"N has shape {np.shape(N)}, but with T = {T} thetas it must be a number or of shape ({T},).")
    return [_whole(n, f"N[{t}]") for t, n in enumerate(np.asarray(N))]


def _seed(entropy: list[int], *key: int) -> np.random.Generator:
    """The generator of one draw: nothing but the run's entropy and this key enters."""
    return np.random.default_rng(np.random.SeedSequence(entropy, spawn_key=key))


def _draw(law: Measure, n: int, design: Plan, rng: np.random.Generator) -> Array:
    """n points (n, d) of a law."""
    return law.sample(n, rng) if design == "iid" else law.transport(_sobol(n, law.dim, rng))


def _sobol(n: int, dim: int, rng: np.random.Generator) -> Array:
    """The first n points of a scrambled Sobol sequence, strictly inside the unit cube."""
    from scipy.stats.qmc import Sobol  # slow to import

    u = Sobol(dim, scramble=True, bits=SOBOL_BITS, rng=rng).random_base2((n - 1).bit_length())
    return np.asarray(u[:n] + 0.5 ** (SOBOL_BITS + 1), dtype=np.float64)  # the middle of each cell: never 0
