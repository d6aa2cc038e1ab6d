"""An expensive f, the measures of its inputs, and how samples of it are collected."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from typing import Any, get_args

import numpy as np
import numpy.typing as npt

from cbq._arrays import Array
from cbq._immutable import Immutable
from cbq.collect.draws import Plan, Scramble, draw_points, draw_thetas
from cbq.collect.errors import IntegrandError
from cbq.collect.gather import OnError, Options, Points, gather
from cbq.collect.integrand import Evaluator, Integrand, Place
from cbq.collect.progress import Progress, checked_progress
from cbq.collect.result import samples_of
from cbq.collect.seeds import entropy_of
from cbq.collect.workers import checked_executor
from cbq.measures import Measure, as_measure
from cbq.samples import Samples
from cbq.samples.arrays import as_thetas, thetas_in
from cbq.samples.conditional import Family, measures_at

__all__ = ["IntegrandError", "Problem"]


class Problem(Immutable):
    """The conditional expectation I(theta) = E f(X, theta), X ~ P_theta, for theta ~ Q. Immutable.

    Parameters
    ----------
    integrand : f, as a function of x (n, d) and theta (p,) that returns (n,), or (n, C) for C outputs; with
        `vectorized=False`, of x (d,) and theta (p,), and it returns a number or (C,).
    family : from theta (p,) to the measure P_theta of x, a measure or a frozen scipy.stats distribution.
    prior : the measure Q of theta, a measure or a frozen scipy.stats distribution in p dimensions.
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
        measure = as_measure(prior)
        if measure.batch_shape:
            raise ValueError(
                f"prior must be one distribution of theta, but {measure!r} is a batch: prior[0] is the first of them."
            )
        self.integrand, self.family, self.prior = integrand, family, measure
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
        return self._evaluator.values(Place(row), measures_at(self.family, row[None])[0]._points(x))

    def collect(
        self,
        T: int | None,
        N: int | npt.ArrayLike,
        *,
        rng: np.random.Generator | int,
        design: Plan = "iid",
        theta: npt.ArrayLike | None = None,
        scramble: Scramble = "independent",
        executor: Executor | int | None = None,
        batch: int = 100,
        in_flight: int | None = None,
        checkpoint: str | os.PathLike[str] | None = None,
        progress: Progress = None,
        on_error: OnError = "raise",
        retries: int = 2,
    ) -> Samples:
        """Draw T thetas and N points at each, evaluate f there, and return the samples.

        Before anything else, f is called with a few points, to see what it returns. The samples depend on the seed,
        the design and f, and on nothing else: not on the executor, nor on how often the run was interrupted.

        Parameters
        ----------
        T : the number of thetas; None, or their number, where `theta` is given.
        N : the number of points at each theta, or T of them.
        rng : a Generator or a seed. Theta t and its points have a seed of their own, made from this one and t, so
            they do not depend on T nor on any other theta.
        design : "iid", or "sobol": scrambled Sobol points through the transport of the measure, and thetas likewise. They
            are the first N of a sequence, which is best balanced where N is a power of two.
        theta : (T, p), or (T,) for p = 1: thetas of one's own in place of draws from the prior.
        scramble : of Sobol points: "independent", one of its own for each theta; or "common", one for the points of
            all thetas, which makes the errors at different thetas alike.
        executor : None, f is called in this process; a number, in that many processes; or any
            `concurrent.futures.Executor`: a pool of threads or processes, or `client.get_executor()` of Dask.
        batch : f is called with at most this many points of one theta, which go to one worker together, and come into
            the checkpoint together: where a point takes minutes, pass a small number.
        in_flight : the largest number of batches that are submitted and not finished; None, two for each worker and
            two more. In this process, of quick batches that are written to the checkpoint together (None: 8).
        checkpoint : a file that keeps every finished batch, from before `progress` hears of it. Asked for again, a run
            that was interrupted goes on where it ended, and one with more thetas or points adds them. Another problem,
            design or seed is refused, and so is a file that is none of these or that another run is using. After a
            kill, what belongs to the file may be in a second one beside it, whose name ends in -wal.
        progress : None, a bar where stderr is a terminal and rich is installed; True, a bar; False, none; or a
            function that is called with the number of points that are done and of all.
        on_error : "raise", an `IntegrandError` where f raises an exception or returns NaN or inf; "skip", such points
            are left out, and a warning says which. A checkpoint remembers them, and "raise" evaluates them again.
        retries : how often a batch is tried again after its worker died.
        """
        options = Options(
            checked_executor(executor),
            _whole(batch, "batch"),
            None if in_flight is None else _whole(in_flight, "in_flight"),
            checkpoint,
            checked_progress(progress),
            _one_of(on_error, OnError, "on_error"),
            _whole(retries, "retries", least=0),
        )
        points = self._points(T, N, entropy_of(rng), _checked_design(design, scramble), theta)
        samples = self._blank(points.thetas, points.x, design)  # refuses bad points before anything expensive starts
        board = gather(self._evaluator, points, options)
        if any(not np.array_equal(a, b) for a, b in zip(points.x, board.x, strict=True)):
            samples = self._blank(points.thetas, board.x, design)  # the points of the machine where the run began
        return samples_of(samples, board)

    def __repr__(self) -> str:
        return f"Problem({self.name!r}, prior={self.prior!r})"

    def _thetas(self, theta: npt.ArrayLike) -> Array:
        return thetas_in(theta, self.p, "the prior")

    @property
    def _evaluator(self) -> Evaluator:
        return Evaluator(self.integrand, self.vectorized)

    def _blank(self, thetas: Array, x: Sequence[Array], design: Plan) -> Samples:
        """Samples without values: those are zero."""
        zeros = [np.zeros(len(points)) for points in x]
        return Samples(thetas, x, zeros, self.family, depends_on_theta=self.depends_on_theta, design=design)

    def _points(
        self, T: int | None, N: Any, entropy: list[int], how: tuple[Plan, Scramble], theta: npt.ArrayLike | None
    ) -> Points:
        """Where f is wanted, and what identifies a run there."""
        design, scramble = how
        thetas = draw_thetas(self.prior, _whole(T, "T"), design, entropy) if theta is None else self._thetas(theta)
        if T is not None and len(thetas) != T:
            raise ValueError(f"T is {T}, but theta holds {len(thetas)} thetas: pass T=None or T={len(thetas)}.")
        counts = _counts(N, len(thetas))
        measures = measures_at(self.family, thetas)
        identity = {
            "problem": self.name,
            "p": self.p,
            "d": measures[0].dim,
            "depends_on_theta": self.depends_on_theta,
            "design": design,
            "scramble": scramble if design == "sobol" else None,
            "seed": entropy,
        }
        return Points(identity, thetas, measures, draw_points(measures, counts, design, scramble, entropy))


def _checked_design(design: Any, scramble: Any) -> tuple[Plan, Scramble]:
    if design not in get_args(Plan):
        raise ValueError(
            f"design must be 'iid' or 'sobol', but it is {design!r}: points drawn elsewhere, by MCMC for one, enter "
            f"through cbq.Samples(..., design=...)."
        )
    if _one_of(scramble, Scramble, "scramble") == "common" and design == "iid":
        raise ValueError("scramble='common' is for Sobol points: pass design='sobol', or leave scramble out.")
    return design, scramble


def _one_of(value: Any, choices: Any, name: str) -> Any:
    """`value`, if it is one of the texts of a Literal."""
    if value not in get_args(choices):
        raise ValueError(f"{name} must be {' or '.join(map(repr, get_args(choices)))}, but it is {value!r}.")
    return value


def _whole(value: Any, name: str, least: int = 1) -> int:
    """A whole number, at least `least`."""
    if not isinstance(value, int | np.integer) or isinstance(value, bool) or value < least:
        raise ValueError(f"{name} must be a whole number, at least {least}, but it is {value!r}.")
    return int(value)


def _counts(N: Any, T: int) -> list[int]:
    """The number of points at each of T thetas."""
    if np.ndim(N) == 0:
        return [_whole(N, "N")] * T
    if np.shape(N) != (T,):
        raise ValueError(f"N has shape {np.shape(N)}, but with T = {T} thetas it must be a number or of shape ({T},).")
    return [_whole(n, f"N[{t}]") for t, n in enumerate(np.asarray(N))]
