"""An expensive f, the measures of its inputs, and the collection of samples of it."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, get_args

import numpy as np
import numpy.typing as npt

from cbq.checkpoint import LOCK_TIMEOUT
from cbq.common import (
    Array,
    Executor,
    Immutable,
    Progress,
    RNGLike,
    called,
    file_name,
    finite,
    flag,
    generator,
    is_number,
    one_of,
    real,
    require_memory,
    run_entropy,
    shown,
    text,
    whole,
)
from cbq.estimators import Wanted
from cbq.integrands import Command
from cbq.measures import Measure
from cbq.measures.base import measure_argument
from cbq.measures.points import sobol
from cbq.report import html
from cbq.runs import (
    COST,
    DEFAULT_BUDGET,
    FAMILY,
    INTEGRAND,
    MEASURED,
    AdaptiveAnswer,
    CollectDesign,
    Criterion,
    Draws,
    Estimand,
    Evaluator,
    Goal,
    Integrand,
    Measured,
    OnChange,
    OnError,
    Points,
    Quantity,
    RunOptions,
    Scramble,
    Session,
    Sources,
    collect_samples,
    rng_parameter,
)
from cbq.runs.goal import Budget
from cbq.runs.overhead import Overhead
from cbq.runs.policies import policy_for
from cbq.runs.solve import solve
from cbq.samples import Cost, Family, Names, Samples, as_bounds, measures_at, named_row, shown_bounds, thetas_in

NUMBERS_PER_THETA, NUMBERS_PER_POINT = 250, 4  # float64 values that a run needs: a measure; x and f, twice each


class Problem(Immutable):
    """The conditional expectation I(theta) = E f(X, theta), X ~ P_theta, for theta ~ Q. Immutable.

    Parameters
    ----------
    integrand : f, a function of x (n, d) and theta (p,) that returns (n,), or (n, C) for C outputs; with
        `vectorized=False`, a function of x (d,) and theta (p,) that returns a number or (C,). A random one may take a
        third argument `rng`; see `stochastic`. None if f runs elsewhere, by hand or in another language: then
        `problem.session()` returns the points to evaluate.
    family : a function from theta (p,) to P_theta, a measure or a frozen scipy.stats distribution.
    prior : the distribution Q of theta, a measure or a frozen scipy.stats distribution in p dimensions.
    vectorized : whether f takes many points at a time.
    depends_on_theta : whether f depends on theta, besides x. If not, thetas can share points; `solve` tests it by two
        runs.
    exact : the exact answer, if it is known: a function from theta (M, p) to (M,) or (M, C).
    name : the name of the problem in messages, tables and checkpoints.
    stochastic : whether f is random: a value of f is a draw whose mean is wanted, I(theta) = E[E[f(X, theta) | X]]. If
        f has a parameter `rng`, it receives a numpy.random.Generator there, `integrand(x, theta, rng=generator)`. Each
        point has a generator of its own, seeded by the run, theta and the point, so that runs repeat and resume
        exactly; f is therefore called for one point at a time, with x (1, d) unless `vectorized=False`. An f that is
        fast with many points has a parameter `rngs` in its place, and receives a list of n generators for n points.
    bounds : (low, high), the least and the largest value that f, or the mean of a random f, can take, each a number or
        (C,); -inf and inf mean no bound. Estimates and intervals stay inside.
    names : names of the coordinates of theta and x and of the outputs of f: a `cbq.Names`, or a mapping such as
        {"theta": "stock", "x": ["demand"], "f": "profit"}, in which any part may be missing. Samples, fits, tables,
        axes and files use them.
    version : a string or a number. Change it with anything that f reads or calls outside of Python: a data file, a
        program, a server. A checkpoint stores it and does not resume a run of another version.

    Examples
    --------
    >>> problem = cbq.Problem(
    ...     lambda x, theta: np.exp(-theta[0] * x[:, 0]),
    ...     lambda theta: cbq.measures.Gamma(2.0, theta[0]),
    ...     cbq.measures.Uniform(1.0, 3.0),
    ... )
    >>> samples = problem.collect(T=12, N=15, rng=1, design="sobol")
    >>> cbq.Auto().fit(samples).predict([1.5, 2.5]).round(3)  # the truth is 1/4
    array([0.25, 0.25])
    """

    integrand: Integrand | None
    family: Family
    prior: Measure
    vectorized: bool
    depends_on_theta: bool
    name: str
    stochastic: bool
    bounds: Array | None  # (2, C), or (2, 1) for all outputs
    names: Names  # of x and f only if given: d and C are known from samples
    version: str | None
    _exact: Callable[[Array], Any] | None

    def __init__(
        self,
        integrand: Integrand | None,
        family: Family,
        prior: Any,
        *,
        vectorized: bool = True,
        depends_on_theta: bool = True,
        exact: Callable[[Array], Any] | None = None,
        name: str = "problem",
        stochastic: bool = False,
        bounds: Any = None,
        names: Any = None,
        version: str | float | None = None,
    ) -> None:
        for what, function in (("integrand", integrand), ("family", family), ("exact", exact)):
            if not callable(function) and not (what != "family" and function is None):
                raise TypeError(f"{what} must be a function, but it is a {type(function).__name__}.")
        measure = measure_argument(prior, "prior")
        if measure.batch_shape:
            raise ValueError(
                f"prior must be one distribution of theta, but {measure!r} is a batch: prior[0] is the first of them."
            )
        self.family, self.prior = family, measure
        self.vectorized = flag(vectorized, "vectorized")
        self.depends_on_theta = flag(depends_on_theta, "depends_on_theta")
        self.name, self._exact = text(name, "name"), exact
        self.stochastic, self.bounds = flag(stochastic, "stochastic"), as_bounds(bounds)
        self.names = Names.of(names).with_theta(self.p)
        self.integrand = integrand.with_names(self.names) if isinstance(integrand, Command) else integrand
        if version is not None and not isinstance(version, str) and not is_number(version):
            raise TypeError(f"version must be a text or a number, but it is {shown(version)}.")
        self.version = None if version is None else str(version)
        rng = rng_parameter(integrand)
        if rng is not None and rng.default is rng.empty and not self.stochastic:
            raise ValueError(f"the integrand takes {rng.name}, so it is random: pass stochastic=True.")
        if rng is not None and rng.name == "rngs" and self.stochastic and not self.vectorized:
            raise ValueError(
                "the integrand takes rngs, but with vectorized=False it is called with one point: take rng."
            )

    @property
    def p(self) -> int:
        """The dimension of theta."""
        return self.prior.dim

    @property
    def has_exact(self) -> bool:
        """Whether the exact answer is known."""
        return self._exact is not None

    def exact(self, theta: npt.ArrayLike) -> Array:
        """The exact answer I(theta) at theta (M, p), or (M,) for p = 1: (M,) or (M, C).

        Examples
        --------
        >>> cbq.problems.get("butterfly").exact([90.0, 110.0]).shape
        (2,)
        """
        if self._exact is None:
            raise ValueError(f"the exact I of {self.name!r} is not known: pass exact= if you know it.")
        thetas = thetas_in(theta, self.names, "the prior")
        answer, M = finite(called(self._exact, "exact", thetas), "the value of exact"), len(thetas)
        if answer.ndim not in (1, 2) or len(answer) != M:
            raise ValueError(f"exact returned shape {answer.shape}, but for {M} thetas it must be ({M},) or ({M}, C).")
        return answer.copy()

    def evaluate(self, theta: npt.ArrayLike, x: npt.ArrayLike, rng: RNGLike | None = None) -> Array:
        """Evaluate f at points x (n, d), or (n,) for d = 1, of one theta (p,): (n,) or (n, C), all finite.

        Where theta is a row of a table, or x a table, their columns are found by the names of this problem.
        rng: a Generator or a seed, for a random f that takes one.

        Examples
        --------
        >>> problem = cbq.Problem(
        ...     lambda x, theta: np.exp(-theta[0] * x[:, 0]),
        ...     lambda theta: cbq.measures.Gamma(2.0, theta[0]),
        ...     cbq.measures.Uniform(1.0, 3.0),
        ... )
        >>> problem.evaluate(2.0, [0.0, 0.5]).round(3)
        array([1.   , 0.368])
        """
        self._require_integrand()
        given = real(self.names.ordered("theta", named_row(theta)), "theta")
        thetas = thetas_in(np.atleast_2d(given), self.names, "the prior")
        if len(thetas) != 1:
            raise ValueError(f"evaluate takes one theta (p,), but theta has shape {given.shape}.")
        measure = measures_at(self.family, thetas)[0]
        points = measure._points(self.names.with_x(measure.dim).ordered("x", x))
        if not len(points):
            raise ValueError("x must hold one point or more, but it holds none.")
        if (rng is not None) is not (self._rng_parameter is not None):
            takes = "takes rng: pass a seed, such as rng=0" if rng is None else "takes no rng: leave it out"
            raise ValueError(f"the integrand of {self.name!r} {takes}.")
        return self._evaluator(None if rng is None else run_entropy(rng)).values(Points(thetas[0], points))

    def collect(
        self,
        T: int | None = None,
        N: int | npt.ArrayLike | None = None,
        *,
        rng: RNGLike,
        budget: int | None = None,
        design: CollectDesign = "iid",
        theta: npt.ArrayLike | None = None,
        scramble: Scramble = "independent",
        executor: Executor | int | None = None,
        batch: int = 100,
        in_flight: int | None = None,
        checkpoint: str | os.PathLike[str] | None = None,
        progress: Progress = None,
        on_error: OnError = "raise",
        on_change: OnChange = "raise",
        retries: int = 2,
        timeout: float | None = None,
        proposal: Family | None = None,
        start: Samples | None = None,
    ) -> Samples:
        """Draw T thetas and N points at each, evaluate f there, and return the samples.

        f is first called with a few points, to check its output. The samples depend only on f, the seed and the design,
        not on the executor or on interruptions.

        Parameters
        ----------
        T : the number of thetas; it may be left out if `theta` is given.
        N : the number of points at each theta, or a list of T numbers.
        budget : the largest number of points in all, in place of T and N, which are chosen: three points, or
            fewer, at each of many thetas where one process learns f from all of them (`cbq.MOBQ`), and more at each
            theta where no kernel has an embedding, or where thetas are given.
        rng : a seed, a Generator, or anything else that `numpy.random.default_rng` takes. Theta t and
            its points have a seed of their own, derived from this one and t, so that they depend neither on T nor on
            other thetas.
        design : "iid" or "sobol": scrambled Sobol points, transported to the measure of x, and to the prior. They are
            best balanced if N is a power of two.
        theta : thetas to use in place of draws from the prior, (T, p), or (T,) for p = 1; the columns of a table are
            found by the names of this problem.
        scramble : the scramble of Sobol points: "independent" for each theta, or "common" to all thetas, which makes
            the errors at different thetas similar.
        executor : where f is called: in this process (default), in a number of new processes, or in anything with
            `submit(function, *arguments)` that returns a future: a `concurrent.futures.Executor`, a client of Dask,
            an executor of submitit.
        batch : maximum number of points in a call of f (default: 100). The points of a batch belong to one theta, go
            to one worker and enter the checkpoint together: choose a small number if a point takes minutes.
        in_flight : maximum number of pending batches (default: one for each process that the run starts; on an
            executor of yours, 2 x workers + 2). In this process, maximum number of quick batches that are written to
            the checkpoint together (default: 8).
        checkpoint : a file that keeps finished evaluations. The same call again resumes an interrupted run, and a call
            with a larger T or N extends a finished one; a file of another run, or in use by another, is refused. A run
            that was killed may leave a second file, with the suffix -wal, which belongs to the first.
        progress : True for a progress bar, False for none, or a function that is called with the number of finished
            points and of all points; a batch is in the checkpoint before it is reported. By default, a bar in notebooks
            and on terminals.
        on_error : what to do if f raises an exception or returns NaN or inf: "raise" an `IntegrandError`, or "skip"
            the point with a `CollectWarning`. A checkpoint remembers skipped points; "raise" evaluates them again.
            A point that ends its worker, or takes longer than `timeout`, fails like any other.
        on_change : a resumed run evaluates a few stored points again. If f returns other values, or the problem has
            another `version`, "raise" a `CheckpointError`, or "reuse" the stored values. "reuse" evaluates nothing
            again: use it if the stored values are right. A random f (`stochastic=True`) is evaluated again only if it
            takes `rng`; otherwise fingerprints are compared.
        retries : how often a batch is tried again after its worker died (default: 2), before it is halved to find the
            fatal point.
        timeout : seconds that each point may take, with processes that the run starts (`executor=2`). A batch of n
            points has n times as long, unless `vectorized=False`.
        proposal : a function from theta (p,) to the measure to draw x from, in place of P_theta and with the same
            support: a wider one has more points in the tails of P_theta. `samples.log_weights` are log(p / q), for the
            densities p of P_theta and q of the proposal: averages use them, Bayesian quadrature needs none.
        start : samples of this problem to extend: `start + new` is returned. They are compared with the problem before
            f is evaluated, and new points must differ from theirs: pass another rng than `start` had. A checkpoint
            holds the new points only.

        Examples
        --------
        >>> samples = cbq.problems.get("butterfly").collect(T=12, N=20, rng=0)
        >>> samples.x.shape, samples.f.shape
        ((12, 20, 1), (12, 20))
        """
        self._require_integrand()
        if start is not None and not isinstance(start, Samples):
            raise TypeError(f"start must be cbq.Samples, or None, but it is a {type(start).__name__}.")
        options = RunOptions(executor, batch, in_flight, checkpoint, progress, on_error, on_change, retries, timeout)
        _check_design(design, scramble)  # before rng is drawn from
        if budget is not None:
            if T is not None or N is not None:
                raise ValueError("budget chooses T and N: pass budget, or T and N.")
            T, N = self._split(whole(budget, "budget", 1), theta)
        draws = Draws(design, scramble, run_entropy(rng))
        if N is None:
            raise ValueError("N, the number of points at each theta, is missing: pass N=40, for example.")
        if theta is None:
            if T is None:
                raise ValueError("T, the number of thetas, is missing: pass T=20, for example, or thetas as theta=.")
            T = whole(T, "T", 1)
            require_memory(NUMBERS_PER_THETA * T, f"T = {T} thetas with their measures", "pass fewer")
            thetas = draws.thetas(self.prior, T)
        else:
            thetas = thetas_in(theta, self.names, "the prior")
        if T is not None and len(thetas) != whole(T, "T", 1):
            raise ValueError(f"T is {T}, but theta= holds {len(thetas)} thetas: leave T= out, or pass T={len(thetas)}.")
        settings = {
            "problem": self.name,
            "depends_on_theta": self.depends_on_theta,
            "stochastic": self.stochastic,
            "bounds": None if self.bounds is None else [[str(end) for end in ends] for ends in self.bounds.tolist()],
            "names": self.names.record,
        }
        if proposal is not None and (not callable(proposal) or isinstance(proposal, Measure)):
            raise TypeError(
                f"proposal must be a function from theta to a measure, but it is {shown(proposal)}: for one measure, "
                f"pass lambda theta: measure."
            )
        run = draws.run(settings, thetas, self.family, proposal, _counts(N, len(thetas)))
        return collect_samples(self._evaluator(draws.entropy), run, options, self._sources(), self.bounds, start)

    def _split(self, budget: int, theta: npt.ArrayLike | None) -> tuple[int, int]:
        """T and N of a design of at most `budget` points; theta: the thetas, if they are given."""
        if theta is not None:
            T = len(thetas_in(theta, self.names, "the prior"))
            if budget < T:
                raise ValueError(f"budget is {budget}, but theta= holds {T} thetas: pass budget={T} or more.")
            return T, budget // T
        quantity = self._quantity(None)
        wanted = Wanted.at(self.prior.transport(sobol(8, self.p, generator(0))), self.family)
        return policy_for(quantity, wanted, [0], Goal.of()).split(budget)

    def solve(
        self,
        tolerance: npt.ArrayLike | None = None,
        rtol: float | None = None,
        criterion: Criterion | Sequence[Criterion] = "rms",
        level: float = 0.95,
        budget: Budget = DEFAULT_BUDGET,
        *,
        goal: Estimand | Sequence[Estimand] | None = None,
        relative: float | None = None,
        rng: RNGLike,
        start: Samples | None = None,
        batch: int | None = None,
        executor: Executor | int | None = None,
        in_flight: int | None = None,
        checkpoint: str | os.PathLike[str] | None = None,
        progress: Progress = None,
        cost: Cost | Measured | None = None,
        overhead: float | None = 1.0,
        deadline: float | None = None,
        on_error: OnError = "raise",
        on_change: OnChange = "raise",
        retries: int = 2,
        timeout: float | None = None,
    ) -> AdaptiveAnswer:
        """Estimate I to an accuracy that you state: choose where to run f, run it there, and stop when it is reached.

        With several workers, a run that ends triggers the next choice, so that the runs depend on which of them end
        first; `cbq.Samples.from_checkpoint` reads what they were. With `batch`, and without workers where
        `overhead` sets no limit that is near, the runs depend on f, on the seed and on the size of the batches alone,
        not on interruptions.

        Parameters
        ----------
        goal : the estimand: `cbq.Mean()`, the default, `cbq.Probability(above=c)`, `cbq.Quantile(q)`, `cbq.Std()`,
            `cbq.Best()`, `cbq.ValueAtRisk(alpha)`, `cbq.ExpectedShortfall(alpha)`, `cbq.ExpectedLoss()` or a list of
            them. Each may have tolerances of its own; the following ones are those of all others.
        tolerance : the wanted half-width of the interval of I, in units of I; a number, or one for each output.
        rtol : the same in units of the standard deviation of I over Q, such as 0.01.
        relative : the same as a share of I. With several, all must hold; with none, the budget is spent.
        criterion : the half-width that must be small enough: "rms", its root mean square over Q; "max", its largest
            value over 95% of Q; or a list of one for each output.
        level : of the interval.
        budget : maximum number of new runs (default: 500; at most 10000), besides the points of `start`; or limits
            {"runs": 300, "seconds": 3600, "cost": 20}, each of which may be left out: seconds of f, summed over runs,
            and cost in the unit of `cost`. The runs of the first estimate are made in any case.
        rng : a seed, a Generator, or anything else that `numpy.random.default_rng` takes.
        start : existing samples of this problem, from `collect` or from an earlier `solve`.
        batch : number of runs that are chosen jointly, and all made before the next choice. By default, several workers
            get further runs as they become free; without them, it is an eighth of the runs so far.
        executor, progress, on_error, on_change, retries, timeout : as for `collect`.
        in_flight : maximum number of runs at a time (default: one for each worker). State it for an executor that does
            not show its workers, such as a queue of a cluster.
        checkpoint : a file that keeps the runs. The same call again resumes and repeats no run; with a smaller
            tolerance or a larger budget, it continues. `cbq.Samples.from_checkpoint` reads it.
        cost : the cost of a run, a function of theta (p,) and x (d,), in any unit; runs are chosen by gain per cost.
            "measured": predicted from the seconds of runs nearby, which makes the choice of runs irreproducible. By
            default, all runs cost the same.
        overhead : the largest time for choosing runs, in units of the time of f, beyond 10 s. Where it would take
            longer, more runs are chosen together; None: no limit. There is none for goals other than the mean, either.
        deadline : seconds from now, after which no run should end: runs that would take longer are not begun.

        Examples
        --------
        >>> problem = cbq.problems.get("butterfly")
        >>> answer = problem.solve(rtol=0.3, budget=60, rng=0)
        >>> answer.reached
        True
        """
        wanted = Goal.of(tolerance, rtol, criterion, level, budget, relative, goal)
        options = RunOptions(executor, 1, in_flight, None, progress, on_error, on_change, retries, timeout)
        size = None if batch is None else whole(batch, "batch", 1)
        if overhead is not None and not is_number(overhead, 0.0):
            raise ValueError(f"overhead must be a number, zero or more, or None, but it is {shown(overhead)}.")
        limit = None if overhead is None else Overhead(float(overhead))
        if deadline is not None and not (is_number(deadline, 0.0) and deadline > 0):
            raise ValueError(f"deadline must be a number of seconds above 0, or None, but it is {shown(deadline)}.")
        until = None if deadline is None else time.time() + deadline
        entropy = run_entropy(rng)
        evaluator = self._evaluator(entropy)
        with self._session(wanted, entropy, start, cost, checkpoint) as session:
            session.deadline = until
            return solve(session, evaluator, options, self.name, size, limit)

    def session(
        self,
        tolerance: npt.ArrayLike | None = None,
        rtol: float | None = None,
        criterion: Criterion | Sequence[Criterion] = "rms",
        level: float = 0.95,
        budget: Budget = DEFAULT_BUDGET,
        *,
        goal: Estimand | Sequence[Estimand] | None = None,
        relative: float | None = None,
        rng: RNGLike,
        start: Samples | None = None,
        checkpoint: str | os.PathLike[str] | None = None,
        cost: Cost | Measured | None = None,
        on_change: OnChange = "raise",
    ) -> Session:
        """A session in which you make the runs: `session.ask(n)` returns points, `session.tell(ids, values)` stores f.

        For simulators that Python cannot call, batch systems and experiments: `Problem(None, family, prior)` is enough.
        The parameters are as in `solve`; a checkpoint keeps asked and told runs, also between processes. f is not
        called. A reopened session compares the fingerprint of the integrand, if there is one, and the `version` of the
        problem instead: if they differ, on_change="raise" raises a `CheckpointError`.

        Examples
        --------
        >>> family = lambda theta: cbq.measures.Gaussian(theta, cov=1.0)
        >>> elsewhere = cbq.Problem(None, family, cbq.measures.Uniform(0.0, 2.0))
        >>> with elsewhere.session(rtol=0.05, rng=0) as session:
        ...     runs = session.ask(16)
        ...     session.tell(runs.ids, np.sin(runs.x[:, 0]))
        >>> runs.theta.shape, runs.x.shape
        ((16, 1), (16, 1))
        """
        wanted = Goal.of(tolerance, rtol, criterion, level, budget, relative, goal)
        change = one_of(on_change, OnChange, "on_change")
        session = self._session(wanted, run_entropy(rng), start, cost, checkpoint)
        try:
            session._resume(change)
        except BaseException:
            session.close()
            raise
        return session

    def _session(
        self,
        goal: Goal,
        entropy: list[int],
        start: Any,
        cost: Any,
        checkpoint: str | os.PathLike[str] | None,
        wait: float = LOCK_TIMEOUT,
    ) -> Session:
        if not (cost is None or callable(cost) or (isinstance(cost, str) and cost == MEASURED)):
            raise TypeError(f"cost must be a function of theta and x, 'measured' or None, but it is {shown(cost)}.")
        if goal.cost is not None and cost is None:
            raise ValueError("budget has a limit of the cost, but cost is None: pass a function of theta and x.")
        if start is not None:
            self._require_own(start)
        quantity = self._quantity(start)
        sources = self._sources({COST: cost} if callable(cost) else {})
        path = None if checkpoint is None else file_name(checkpoint, "checkpoint")
        return Session(quantity, goal, entropy, cost=cost, checkpoint=path, sources=sources, wait=wait)

    def _quantity(self, start: Samples | None) -> Quantity:
        """What an adaptive run estimates."""
        return Quantity(
            self.name, self.family, self.prior, self.depends_on_theta, self.stochastic, self.bounds, start, self.names
        )

    def _sources(self, others: Mapping[str, Any] | None = None) -> Sources:
        """The functions and the version that a run depends on, besides its settings."""
        return Sources({INTEGRAND: self.integrand, FAMILY: self.family, **(others or {})}, self.version)

    def _require_own(self, samples: Any) -> None:
        """Raise if these cannot be samples of this problem."""
        if not isinstance(samples, Samples):
            raise TypeError(f"start must be cbq.Samples, but it is {shown(samples)}.")
        for name in ("p", "depends_on_theta", "stochastic"):
            mine, theirs = getattr(self, name), getattr(samples, name)
            if mine != theirs:
                raise ValueError(f"start must be samples of this problem, but its {name} is {theirs}, not {mine}.")
        if self.bounds is not None:
            samples + samples._with_bounds(self.bounds)  # refuses other bounds, and values outside
        for t, measure in enumerate(measures_at(self.family, samples.theta)):
            if not measure.equals(samples.measure(t)):
                raise ValueError(
                    f"start must be samples of this problem, but at theta = {samples.theta[t]} their measure is "
                    f"{samples.measure(t)!r}, and the family gives {measure!r}."
                )

    def __repr__(self) -> str:
        elsewhere = ", integrand=None" * (self.integrand is None)
        names = f", names=({self.names.listed})" * bool(self.names.listed)
        flags = ", depends_on_theta=False" * (not self.depends_on_theta) + ", stochastic=True" * self.stochastic
        bounds = "" if self.bounds is None else f", bounds={shown_bounds(self.bounds)}"
        return f"Problem({self.name!r}, prior={self.prior!r}{elsewhere}{flags}{bounds}{names})"

    def _repr_html_(self) -> str:
        integrand = "evaluated elsewhere" if self.integrand is None else getattr(self.integrand, "__name__", "f")
        entries = {
            "integrand": integrand + ", which depends on theta" * self.depends_on_theta + ", random" * self.stochastic,
            "prior of theta": repr(self.prior),
            "bounds": "" if self.bounds is None else shown_bounds(self.bounds),
            "exact I": "known" if self.has_exact else "not known",
            "names": self.names.listed,
        }
        return html.box(f"Problem {self.name}", entries)

    @property
    def _rng_parameter(self) -> str | None:
        """The name of the parameter in which f takes generators."""
        parameter = rng_parameter(self.integrand) if self.stochastic else None
        return None if parameter is None else parameter.name

    def _require_integrand(self) -> Integrand:
        """The integrand; raise if it is None."""
        if self.integrand is None:
            raise ValueError(
                f"the integrand of {self.name!r} is None, so it cannot be evaluated here: pass the function to "
                f"cbq.Problem, or evaluate f elsewhere, where session = problem.session() returns points by "
                f"session.ask(n) and stores their values by session.tell(ids, values)."
            )
        return self.integrand

    def _evaluator(self, entropy: list[int] | None) -> Evaluator:
        """Calls f, in a run with this entropy."""
        rng = self._rng_parameter
        return Evaluator(
            self._require_integrand(),
            self.vectorized and not isinstance(self.integrand, Command),
            entropy=None if rng is None else entropy,
            takes_rngs=rng == "rngs",
            bounds=None if self.stochastic else self.bounds,  # draws may lie outside
            names=self.names,
        )


def _check_design(design: Any, scramble: Any) -> None:
    if not isinstance(design, str) or design not in get_args(CollectDesign):
        raise ValueError(
            f"design must be 'iid' or 'sobol', but it is {shown(design)}: to use points that were drawn "
            f"elsewhere, for example by MCMC, make cbq.Samples(..., design=...)."
        )
    if one_of(scramble, Scramble, "scramble") == "common" and design == "iid":
        raise ValueError("scramble='common' is for Sobol points: pass design='sobol', or leave scramble out.")


def _counts(N: Any, T: int) -> list[int]:
    """The number of points at each of T thetas."""
    several = None if N is None or np.isscalar(N) else real(N, "N")
    if several is None or several.ndim == 0:
        counts = [whole(N, "N", 1)] * T
    elif several.shape == (T,):
        counts = [whole(n, f"N[{t}]", 1) for t, n in enumerate(np.asarray(N))]
    else:
        shape = several.shape
        raise ValueError(f"N has shape {shape}, but with T = {T} thetas it must be a number or of shape ({T},).")
    require_memory(NUMBERS_PER_POINT * sum(counts), f"N = {shown(N)} points at {T} thetas", "pass fewer")
    return counts
