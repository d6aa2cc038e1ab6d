"""Samples: thetas, the points drawn at each, the values of f there, and the measures of the points."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any, Literal, Self, get_args

import numpy as np
import numpy.typing as npt

from cbq.common import (
    Array,
    Booleans,
    Immutable,
    Integers,
    flag,
    indexed,
    is_whole,
    one_of,
    position,
    real,
    rows_not_finite,
    shown,
    squarable,
    text,
    whole,
)
from cbq.io import Boolean, Bounds, Instance, Many, Numbers, OneOrMany, Optional, Text, saved
from cbq.measures import Measure
from cbq.samples.agreement import measure_contradiction
from cbq.samples.arrays import as_thetas, check_counts, equal_rows, first_of, flatten, group_averages
from cbq.samples.bounds import (
    BoundsContradiction,
    bounds_contradictions,
    bounds_of,
    known_bounds,
    rows_outside,
    shown_bounds,
)
from cbq.samples.conditional import ConditionalMeasure, Family, UnknownMeasure, check_ratio
from cbq.samples.files import build_samples, load_samples, read_checkpoint, read_samples, save_samples
from cbq.samples.findings import Failures, SamplesFinding, about, failed_points
from cbq.samples.frames import Columns, datatree, read_table, samples_html, to_frame
from cbq.samples.joining import joined
from cbq.samples.names import Names, by_point
from cbq.samples.posteriors import Source, Thin, read_posteriors
from cbq.samples.probabilities import probabilities, thetas_per_point
from cbq.samples.reweighting import reweighted

Design = Literal["iid", "sobol", "mcmc", "adaptive"]
SHARED = 1.5  # thetas that use a point, on average, from which on thetas share a design
SAME = ("C", "depends_on_theta", "design", "stochastic", "names")  # attributes of equal samples
SAME_ARRAYS = ("theta", "counts", "_x", "_f", "bounds", "log_weights", "failures")


@saved(
    "Samples",
    read=read_samples,
    build=build_samples,
    theta=Numbers("T p"),
    counts=Numbers("T", int, least=1, total="n"),
    x=Numbers("n d"),
    f=Numbers("n C"),
    single=Boolean(only_if=("C", 1)),
    measure=Optional(OneOrMany(Instance(Measure))),
    log_density=Numbers("n"),
    depends_on_theta=Boolean(),
    design=Text(get_args(Design)),
    stochastic=Boolean(),
    bounds=Optional(Bounds()),
    log_weights=Optional(Numbers("n")),
    names=Instance(Names),
    findings=Many(Instance(SamplesFinding)),
)
class Samples(Immutable):
    """T thetas, and for each of them N_t points x with the values of f there. Immutable; arrays are read-only copies.

    Parameters
    ----------
    theta : (T, p); (T,) means p = 1. Equal thetas are allowed. The columns of a table, of pandas, polars or pyarrow for
        example, are found by `names` (default: the names of the columns); so are x and f in lists of tables.
    x : (T, N, d), or (T, N) for d = 1; a list of T arrays (N_t, d) or (N_t,) if the N_t differ.
    f : (T, N), or (T, N, C) for C outputs; or a list of T arrays (N_t,) or (N_t, C).
    measure : the measures of x: a measure with batch shape (T,), or () if all thetas share one measure; a list of T
        measures; or a function from theta (p,) to a measure. Frozen scipy.stats distributions are accepted, too. None
        if they are unknown: `cbq.LSMC`, `cbq.KLSMC` and `cbq.MonteCarlo` need none, and other methods refuse.
    depends_on_theta : whether f depends on theta, besides x. If it does not, thetas can share points.
    design : how the points were drawn from their measures: "iid", "sobol" or "mcmc"; "adaptive" for points that a rule
        has chosen, which are no draws. Quadrature can use these; averages of f over them are biased.
    failed : the points at which f failed, which are not in x: T arrays (F_t, d), or (F_t,) for d = 1. Fits report which
        share of each measure is missing.
    stochastic : whether a value of f is a draw whose mean is wanted: I(theta) = E[E[f | X]]. Equal points with other
        values, replicates, are then welcome.
    bounds : (low, high), the least and the largest value that f can take, each a number or (C,); -inf and inf mean no
        bound. Estimates and intervals stay inside. For a stochastic f, the bounds of its mean.
    proposal : the measures that x was drawn from, if not from `measure`; given in the same way, with the same support.
        Quadrature needs no weights; averages weigh the points by `log_weights`.
    names : names of the coordinates of theta and x and of the outputs of f: a `cbq.Names`, or a mapping such as
        {"theta": "stock", "x": ["demand"], "f": "profit"}, in which any part may be missing.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> theta = np.linspace(0.0, 2.0, 8)
    >>> x = theta[:, None] + rng.standard_normal((8, 10))
    >>> samples = cbq.Samples(theta, x, np.sin(x), lambda theta: cbq.measures.Gaussian(theta, cov=1.0))
    >>> samples.T, samples.n_evaluations
    (8, 80)
    """

    theta: Array  # (T, p)
    counts: Integers  # (T,): N_t
    conditional: ConditionalMeasure  # the measure of x: of any theta if there is a family, else of observed thetas
    depends_on_theta: bool
    design: Design
    _x: Array  # (sum N_t, d)
    _f: Array  # (sum N_t,) or (sum N_t, C)
    _proposal: ConditionalMeasure | None  # files do not keep it
    failures: Failures | None  # where f failed
    stochastic: bool
    bounds: Array | None  # (2, C), with C = 1 for a single output
    log_weights: Array | None  # (sum N_t,): log p(x) - log q(x) of points from a proposal q in place of p
    names: Names  # of p, d and C things
    findings: tuple[SamplesFinding, ...] = ()  # about how the samples were made

    def __init__(
        self,
        theta: npt.ArrayLike,
        x: npt.ArrayLike | Sequence[npt.ArrayLike],
        f: npt.ArrayLike | Sequence[npt.ArrayLike],
        measure: Any = None,
        *,
        depends_on_theta: bool = True,
        design: Design = "iid",
        failed: Sequence[npt.ArrayLike] | None = None,
        stochastic: bool = False,
        bounds: Any = None,
        proposal: Any = None,
        names: Any = None,
    ) -> None:
        self.depends_on_theta = flag(depends_on_theta, "depends_on_theta")
        self.stochastic = flag(stochastic, "stochastic")
        self.design = one_of(design, Design, "design")
        named = Names.of(names).adopted("theta", theta).adopted("x", first_of(x)).adopted("f", first_of(f))
        theta = squarable(as_thetas(named.ordered("theta", theta)), "theta")
        (points, counts), (values, f_counts) = (flatten(x, "x", len(theta), named), flatten(f, "f", len(theta), named))
        check_counts(counts, f_counts)
        points = points[:, None] if points.ndim == 1 else points
        d = points.shape[1]
        self.theta, self.counts, self._x, self._f = theta, counts, points, values
        self.conditional = ConditionalMeasure.of(UnknownMeasure(d) if measure is None else measure, theta, d)
        self.names = named.filled(self.p, self.d, self.C)
        self._require_none(rows_not_finite(points), "x", points, "must be finite")
        self._require_none(rows_not_finite(values), "f", values, "must be finite")
        self.bounds = self._checked_bounds(values, bounds)
        if proposal is not None and self.design == "adaptive":
            raise ValueError(
                "points with design='adaptive' were chosen by a rule, and drawn from no proposal: leave it out."
            )
        self._proposal = None if proposal is None else ConditionalMeasure.of(proposal, theta, d, "proposal")
        for t, drawn_from in enumerate(self.proposals or ()):
            check_ratio(self.measure(t), drawn_from, "proposal", theta[t], self.points(t)[:1])
        log_p = self.log_density()
        outside = ~(log_p > -np.inf)  # NaN too
        self._require_none(outside, "x", points, "must lie where the density of its measure is positive")
        self.log_weights = None if self._proposal is None else log_p - self._proposal.log_density(self.x)
        if self.log_weights is not None:
            rule = "must have a finite density under its measure and under its proposal"
            self._require_none(~np.isfinite(self.log_weights), "x", points, rule)
        at_points = [self.points(t) for t in range(self.T)]
        missing = None if failed is None else failed_points(failed, self.T, self.d, self.names)
        self.failures = None if missing is None else Failures.of(theta, missing, at_points)

    @classmethod
    def from_frame(
        cls,
        frame: Any,
        measure: Any = None,
        *,
        theta: Columns = None,
        x: Columns = None,
        f: Columns = None,
        depends_on_theta: bool = True,
        design: Design = "iid",
        failed: Sequence[npt.ArrayLike] | None = None,
        stochastic: bool = False,
        bounds: Any = None,
        proposal: Any = None,
    ) -> Samples:
        """Make samples from a long table, which has one row per point.

        Parameters
        ----------
        frame : a table with named columns: of pandas, polars or pyarrow, a structured array, or a mapping from names to
            columns. Rows with equal theta belong together, and thetas keep the order of their first rows. True in a
            column `failed` marks points at which f failed, as in `samples.to_frame()`.
        theta, x, f : the columns of each, in the order of the coordinates: a name, or a list of names; a single name of
            f means that f has no axis of outputs. By default they are `theta` or `theta_*`, `x` or `x_*`, and `f` or
            `f_*`. The samples have these names. If all three are given, other columns are ignored.
        measure, depends_on_theta, design, failed, stochastic, bounds, proposal : as for the constructor.

        Examples
        --------
        >>> table = {"theta": [0.0, 0.0, 1.0, 1.0], "x": [-0.3, 0.5, 0.8, 1.9], "f": [0.1, 0.3, 0.6, 3.6]}
        >>> samples = cbq.Samples.from_frame(table, lambda theta: cbq.measures.Gaussian(theta, cov=1.0))
        >>> samples.theta.tolist(), samples.f.tolist()
        ([[0.0], [1.0]], [[0.1, 0.3], [0.6, 3.6]])
        """
        arguments, failures = read_table(frame, theta, x, f)
        if failures is not None and failed is not None:
            raise ValueError("failed is given, but the table has a column 'failed': leave one of them out.")
        arguments |= {"depends_on_theta": depends_on_theta, "design": design, "stochastic": stochastic}
        samples = cls(**arguments, measure=measure, failed=failed, bounds=bounds, proposal=proposal)
        return samples if failures is None else samples._with_failures(failures)

    @classmethod
    def from_arviz(
        cls,
        data: Any,
        value: Source,
        *,
        x: str | Sequence[str] | None = None,
        score: Source | None = None,
        measure: Any = None,
        depends_on_theta: bool = True,
        thin: Thin = "auto",
        group: str = "posterior",
        bounds: Any = None,
        names: Any = None,
    ) -> Samples:
        """Make samples from the posterior draws of a model at each theta, from ArviZ, PyMC, Stan or NumPyro.

        Chains are checked by R-hat and by their effective sample size, with a `ChainWarning`, and scores by identities
        that hold for every density: E s = 0 and E[(x - E x) s'] = -1. Scores of the wrong sign or scale are refused.

        Parameters
        ----------
        data : a mapping from theta, a number or a tuple, to its draws: an arviz InferenceData, an xarray DataTree or
            Dataset with axes "chain" and "draw", or a mapping from names to arrays (chain, draw, ...).
        value : f at the draws: the name of a variable, or a function of x (n, d) and theta (p,) as in `Problem`.
        x : the names of the variables that are x (default: all of the group), in the order of the coordinates.
        score : the gradient of log p(x) at the draws: names of variables, in the order of x, or a function of x (n, d)
            and theta (p,) that returns (n, d). Stein kernels need it, and CBQ uses them where no measure is given.
        measure : the measures of x, as for the constructor, where they are known.
        depends_on_theta, bounds : as for the constructor.
        thin : keep every `thin`-th draw of a chain; "auto" keeps about the effective sample size.
        group : the group of an InferenceData or a DataTree.
        names : as for the constructor; the coordinates of x have the names of their variables by default.

        Examples
        --------
        >>> rng = np.random.default_rng(0)
        >>> draws = {theta: {"mu": rng.normal(theta, 1.0, (4, 250))} for theta in (0.0, 1.0, 2.0)}  # (chain, draw)
        >>> samples = cbq.Samples.from_arviz(
        ...     draws, value=lambda x, theta: np.cos(x[:, 0]), score=lambda x, theta: theta - x
        ... )
        >>> samples.T, samples.names.x, samples.design
        (3, ('mu',), 'mcmc')
        """
        arguments, findings = read_posteriors(data, value, x, score, measure, thin, group, Names.of(names))
        samples = cls(**arguments, depends_on_theta=depends_on_theta, design="mcmc", bounds=bounds)
        return samples._replaced(findings=findings)

    @classmethod
    def from_checkpoint(
        cls,
        path: str | os.PathLike[str],
        measure: Any = None,
        *,
        bounds: Any = None,
        proposal: Any = None,
        names: Any = None,
    ) -> Samples:
        """Read the samples of all finished batches of `problem.collect(..., checkpoint=path)`; f is not evaluated.

        Files of `problem.solve` and `problem.session` are read, too; they hold all runs but the points of `start`. If
        the run has not ended, the N_t differ, and thetas without any value are left out; so are points at which f
        failed. A file cannot be read during its run.

        Parameters
        ----------
        path : the checkpoint.
        measure : the measures of x, as for the constructor (default: from the file). Pass the family to have the
            measure at any theta, or if the measures are code of your own, which a file does not hold. They must agree
            with the file.
        bounds : the bounds of f, as for the constructor (default: as when the run began).
        proposal : the measures that points were drawn from, if not from `measure`; given in the same way.
        names : as for the constructor (default: as when the run began).

        Examples
        --------
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = f"{folder}/run.sqlite"
        ...     _ = cbq.problems.get("butterfly").collect(T=3, N=4, rng=0, checkpoint=path, progress=False)
        ...     samples = cbq.Samples.from_checkpoint(path)
        >>> samples.f.shape
        (3, 4)
        """
        return read_checkpoint(path, cls, measure, bounds, proposal, names)

    def to_columns(self) -> dict[str, Array]:
        """The columns of a long table, each (sum N_t,), as `from_frame` reads them (which joins equal thetas).

        Points at which f failed are not in the table, but in `failures`; `to_frame` has them.

        Examples
        --------
        >>> samples = cbq.problems.get("butterfly").collect(T=12, N=20, rng=0)
        >>> {name: column.shape for name, column in samples.to_columns().items()}
        {'theta': (240,), 'x': (240,), 'f': (240,)}
        """
        table = by_point(np.repeat(self.theta, self.counts, axis=0), self._x, self.table, self.names)
        return {name: column.copy() for name, column in table.items()}

    def to_frame(self) -> Any:
        """A pandas table with a row per point, which `from_frame` reads.

        Points at which f failed have rows, too, with NaN as their value and True in the column `failed`.

        Examples
        --------
        >>> samples = cbq.problems.get("butterfly").collect(T=12, N=20, rng=0)
        >>> samples.to_frame().shape, samples.to_frame().columns.tolist()
        ((240, 3), ['theta', 'x', 'f'])
        """
        return to_frame(self)

    def to_datatree(self, group: str = "posterior") -> Any:
        """An xarray DataTree for ArviZ: x and f as variables of a group, with axes chain, draw and theta.

        All points are draws of a single chain. Each theta needs equally many; `thinned` takes equally many of each.

        Examples
        --------
        >>> samples = cbq.problems.get("butterfly").collect(T=12, N=20, rng=0)
        >>> dict(samples.to_datatree()["posterior"].sizes)
        {'chain': 1, 'draw': 20, 'theta': 12}
        """
        return datatree(self, text(group, "group"))

    @property
    def T(self) -> int:
        """The number of thetas."""
        return len(self.theta)

    @property
    def p(self) -> int:
        """The dimension of theta."""
        return int(self.theta.shape[1])

    @property
    def d(self) -> int:
        """The dimension of x."""
        return int(self._x.shape[1])

    @property
    def C(self) -> int | None:
        """The number of outputs of f; None if f has no axis of outputs."""
        return None if self._f.ndim == 1 else int(self._f.shape[1])

    @property
    def n_evaluations(self) -> int:
        """The number of points of all thetas."""
        return len(self._x)

    @cached_property
    def starts(self) -> Integers:
        """The first row of each theta in `all_points` and `table`: (T,); theta t has counts[t] rows from there on."""
        starts = np.cumsum(self.counts) - self.counts
        starts.setflags(write=False)
        return starts

    @property
    def drawn(self) -> bool:
        """Whether the points are draws from their measures, not from a proposal, and not chosen by a rule."""
        return self.log_weights is None and self.design != "adaptive"

    @cached_property
    def _probabilities(self) -> Array:
        """The probability transforms of all points under the measures that they were drawn from: (sum N_t, d).

        They are uniform on the unit cube for draws of continuous measures; NaN where a measure has no transform.
        """
        return probabilities(self)

    @cached_property
    def thetas_per_point(self) -> float:
        """The number of thetas that use a point, averaged over points: 1 where none is shared, T where all are.

        Two points are the same if x is the same, or comes from the same random numbers: the same normal scores.
        """
        return thetas_per_point(self)

    @property
    def shares_design(self) -> bool:
        """Whether thetas share points, so that their errors are correlated and do not average out."""
        return self.thetas_per_point >= SHARED

    @cached_property
    def measure_contradiction(self) -> str | None:
        """Why the points do not look like draws from their measures, in a sentence; None if they do.

        Tests of the probability transforms of the points, of all thetas together: location, scale, shape, correlation
        between coordinates, and location at each theta. True draws fail in less than one of 1000 cases. Points of a
        proposal are compared with the proposal; points that a rule has chosen are not tested.
        """
        return measure_contradiction(self)

    @property
    def is_ragged(self) -> bool:
        """Whether the N_t differ."""
        return bool(np.any(self.counts != self.counts[0]))

    @property
    def x(self) -> Array | tuple[Array, ...]:
        """The points (T, N, d); a tuple of T arrays (N_t, d) if the N_t differ."""
        return self._by_theta(self._x)

    @property
    def f(self) -> Array | tuple[Array, ...]:
        """The values (T, N) or (T, N, C); a tuple of T arrays (N_t,) or (N_t, C) if the N_t differ."""
        return self._by_theta(self._f)

    def points(self, t: int) -> Array:
        """The points of theta t: (N_t, d).

        Examples
        --------
        >>> samples = cbq.problems.get("butterfly").collect(T=12, N=20, rng=0)
        >>> samples.points(3).shape
        (20, 1)
        """
        return self._x[self._rows(t)]

    def values(self, t: int) -> Array:
        """The values of f at the points of theta t: (N_t,) or (N_t, C).

        Examples
        --------
        >>> samples = cbq.problems.get("butterfly").collect(T=12, N=20, rng=0)
        >>> samples.values(3).shape
        (20,)
        """
        return self._f[self._rows(t)]

    def measure(self, t: int) -> Measure:
        """The measure of x at theta t.

        Examples
        --------
        >>> samples = cbq.problems.get("butterfly").collect(T=12, N=20, rng=0)
        >>> type(samples.measure(3)).__name__
        'LogNormal'
        """
        return self.conditional.observed_at(position(t, self.T, "t"))

    @property
    def family(self) -> Family | None:
        """The function from theta to its measure, if one was given."""
        return self.conditional.family

    @property
    def measures(self) -> tuple[Measure, ...]:
        """The measures of x, one for each theta."""
        return self.conditional.all_observed

    @property
    def has_measure(self) -> bool:
        """Whether the measures of x are known; without them, only averages and regressions are possible."""
        return not isinstance(self.conditional.observed, UnknownMeasure)

    def batched_measure(self) -> Measure | None:
        """One measure with batch shape (T,), or () if all thetas share it; None if the measures cannot be stacked.

        Examples
        --------
        >>> samples = cbq.problems.get("butterfly").collect(T=12, N=20, rng=0)
        >>> samples.batched_measure().batch_shape
        (12,)
        """
        return self.conditional.stacked

    @property
    def proposals(self) -> tuple[Measure, ...] | None:
        """The proposals that the points were drawn from, one for each theta; None if they were drawn from the measures.

        Also None for samples of a fit that was loaded: a file keeps `log_weights` only.
        """
        return None if self._proposal is None else self._proposal.all_observed

    def select(self, indices: Any) -> Samples:
        """The samples of selected thetas; `indices` is a number, a slice, a list or a mask, as for NumPy arrays.

        Examples
        --------
        >>> samples = cbq.problems.get("butterfly").collect(T=12, N=20, rng=0)
        >>> samples.select([0, 5]).T, samples.select(slice(4)).T
        (2, 4)
        """
        chosen = np.atleast_1d(indexed(np.arange(self.T), indices, "indices"))
        if chosen.ndim > 1 or chosen.size == 0:
            raise ValueError(
                f"indices must select at least one of the {self.T} thetas, but {shown(indices)} selects an array of "
                f"shape {chosen.shape}."
            )
        counts, theta = self.counts[chosen], self.theta[chosen]
        rows = np.arange(np.sum(counts)) + np.repeat(self.starts[chosen] - (np.cumsum(counts) - counts), counts)
        return self._with_rows(
            counts,
            rows,
            theta=theta,
            findings=about(self.findings, theta),
            conditional=self.conditional.select(chosen),
            _proposal=None if self._proposal is None else self._proposal.select(chosen),
            failures=None if self.failures is None else self.failures.select(chosen, self.T),
        )

    def with_values(self, f: npt.ArrayLike | Sequence[npt.ArrayLike]) -> Samples:
        """The same thetas, points and measures with other values of f, given as for the constructor.

        Examples
        --------
        >>> samples = cbq.problems.get("butterfly").collect(T=12, N=20, rng=0)
        >>> samples.with_values(np.square(samples.f)).f.min() >= 0
        np.True_
        """
        values, counts = flatten(f, "f", self.T, self.names)
        check_counts(self.counts, counts)
        self._require_none(rows_not_finite(values), "f", values, "must be finite")
        C = None if values.ndim == 1 else values.shape[1]
        names = self.names if C == self.C else replace(self.names, f=()).with_f(C)
        return self._replaced(_f=values, bounds=self._checked_bounds(values, self.bounds), names=names)

    def reweighted(self, q: Any) -> Samples:
        """The samples of f p / q with the measure q, whose integrals are the same: E f(X) = E f(Y) p(Y) / q(Y), Y ~ q.

        Use it if a kernel has no embedding under the measure p of x, but has one under q. The points stay as they were
        drawn, from p or from a proposal r; `log_weights` become log(q / r), and None if r is q. Quadrature needs points
        that reach all of q: draw them from q, by `problem.collect(..., proposal=q)`. f p / q depends on theta, unless
        p, q and f are the same for all thetas. The bounds of f reduce to a sign. Fits warn if p / q is unbounded, which
        it is where q has lighter tails than p, or if few points carry the ratio or reach q.

        q : the measures to integrate under, given as `measure` is, with a density and with the same support.

        Examples
        --------
        >>> problem = cbq.Problem(
        ...     lambda x, theta: x[:, 0] ** 2,
        ...     lambda theta: cbq.measures.Gaussian(theta, cov=1.0),
        ...     cbq.measures.Uniform(0.0, 1.0),
        ... )
        >>> def wider(theta):
        ...     return cbq.measures.Gaussian(theta, cov=2.0)
        >>> samples = problem.collect(T=8, N=30, rng=0, design="sobol", proposal=wider)
        >>> fit = cbq.CBQ().fit(samples.reweighted(wider))
        >>> fit.predict([0.5]).round(2)  # 1 + 0.5^2
        array([1.25])
        """
        return reweighted(self, q)

    def _with_bounds(self, bounds: Any) -> Samples:
        """The same samples with bounds of f."""
        return self._replaced(bounds=self._checked_bounds(self._f, bounds))

    def with_names(self, names: Any) -> Samples:
        """The same samples with other names, given as for the constructor: missing parts have default names.

        Examples
        --------
        >>> samples = cbq.problems.get("butterfly").collect(T=12, N=20, rng=0)
        >>> samples.with_names({"theta": "price", "f": "payoff"}).to_frame().columns.tolist()
        ['price', 'x', 'payoff']
        """
        return self._replaced(names=Names.of(names).filled(self.p, self.d, self.C))

    def _under(self, family: Any) -> Samples:
        """The same points and values with other measures, of which they are no draws: they count as chosen."""
        conditional = ConditionalMeasure.of(family, self.theta, self.d, "family")
        return self._replaced(conditional=conditional, design="adaptive", log_weights=None, _proposal=None)

    def _with_failures(self, failures: Failures | None) -> Samples:
        """The same samples with these failures."""
        return self._replaced(failures=failures)

    def rescaled(self, shift: Array | float, scale: Array | float) -> Samples:
        """The samples of (f - shift) / scale; both are numbers or (C,).

        Examples
        --------
        >>> samples = cbq.problems.get("butterfly").collect(T=12, N=20, rng=0)
        >>> samples.rescaled(samples.f.mean(), samples.f.std()).f.std().round(6)
        np.float64(1.0)
        """
        bounds = None if self.bounds is None else np.sort((self.bounds - shift) / scale, axis=0)  # a negative scale
        return self._replaced(_f=(self._f - shift) / scale, bounds=bounds)

    def thinned(self, n: int) -> Samples:
        """At most n points of each theta: the first ones, or evenly spaced ones if they are a Markov chain.

        Examples
        --------
        >>> samples = cbq.problems.get("butterfly").collect(T=12, N=20, rng=0)
        >>> samples.thinned(4).f.shape
        (12, 4)
        """
        counts = np.minimum(self.counts, whole(n, "n", 1))
        steps = self.counts // counts if self.design == "mcmc" else np.ones_like(counts)
        per_theta = zip(self.starts, counts, steps, strict=True)
        return self.regrouped([start + step * np.arange(count) for start, count, step in per_theta])

    def regrouped(self, rows: Sequence[Integers]) -> Samples:
        """The same thetas and measures, each theta with the points of these rows, which may come from any theta.

        Points keep the `log_weights` of the theta that they come from.

        Examples
        --------
        >>> samples = cbq.problems.get("butterfly").collect(T=2, N=3, rng=0)
        >>> samples.regrouped([[0, 1, 2], [0, 1, 5]]).f.shape
        (2, 3)
        """
        if not isinstance(rows, list | tuple) or len(rows) != self.T:
            raise ValueError(f"rows must be a list of {self.T} arrays of row numbers, but it is {shown(rows)}.")
        all_rows = np.arange(self.n_evaluations)
        chosen = [indexed(all_rows, row, f"rows[{t}]") for t, row in enumerate(rows)]
        if any(row.ndim != 1 or not len(row) for row in chosen):
            raise ValueError(f"rows must hold arrays (N_t,) of one or more row numbers, but it is {shown(rows)}.")
        return self._with_rows(np.array([len(row) for row in chosen]), np.concatenate(chosen))

    def merged(self) -> tuple[Samples, Integers]:
        """The samples with equal points of a theta joined, f averaged; and the row that each point went to, (n,).

        Markov chains repeat points, and so do draws from a finite measure.

        Examples
        --------
        >>> samples = cbq.problems.get("butterfly").collect(T=12, N=20, rng=0)
        >>> merged, row = samples.merged()
        >>> merged.n_evaluations, row.shape  # no two points are equal
        (240, (240,))
        """
        rows, group = equal_rows(np.column_stack([self.owners, self._x]))
        if len(rows) == len(group):
            return self, np.arange(len(group))
        f = group_averages(self.table, group).reshape(len(rows), *self._f.shape[1:])
        return self._with_rows(np.bincount(self.owners[rows], minlength=self.T), rows, _f=f), group

    def averages(self, values: Array) -> Array:
        """The averages over the points of each theta (T, ...) of values at all points (sum N_t, ...).

        Examples
        --------
        >>> samples = cbq.problems.get("butterfly").collect(T=12, N=20, rng=0)
        >>> np.allclose(samples.averages(samples.f.ravel()), samples.f.mean(axis=1))
        True
        """
        values = real(values, "values")
        if values.shape[:1] != (self.n_evaluations,):
            wanted = f"({self.n_evaluations}, ...), one for each point"
            raise ValueError(f"values have shape {values.shape}, but they must have shape {wanted}.")
        sums = np.add.reduceat(values, self.starts, axis=0)
        return np.asarray(sums / self.counts.reshape(-1, *(1,) * (values.ndim - 1)))

    def log_density(self) -> Array:
        """The log density of each point under its measure: (sum N_t,); zero if the measure has no density.

        Examples
        --------
        >>> samples = cbq.problems.get("butterfly").collect(T=12, N=20, rng=0)
        >>> samples.log_density().shape
        (240,)
        """
        return self.conditional.log_density(self.x)

    @property
    def all_points(self) -> Array:
        """The points of all thetas, one theta after the other: (sum N_t, d)."""
        return self._x

    @property
    def table(self) -> Array:
        """The values of all thetas, one theta after the other: (sum N_t, C), with C = 1 for a single output."""
        return self._f.reshape(len(self._f), -1)

    @property
    def known_bounds(self) -> Array | None:
        """The known bounds (2, C) of I: the given ones, and for an output with only two values, these values."""
        return known_bounds(self)

    @cached_property
    def bounds_contradictions(self) -> list[BoundsContradiction]:
        """The ends of `bounds` that averages of draws of a random f contradict; none if f is not random."""
        if self.bounds is None or not self.stochastic:  # without noise, values outside the bounds are refused
            return []
        return bounds_contradictions(self.table, self.theta[self.owners], self.bounds)

    @property
    def owners(self) -> Integers:
        """The theta index of each point: (sum N_t,)."""
        return np.repeat(np.arange(self.T), self.counts)

    def output(self, c: int) -> Samples:
        """The samples of output c alone, with C = None.

        Examples
        --------
        >>> samples = cbq.problems.get("characteristic").collect(T=4, N=5, rng=0)
        >>> samples.C, samples.output(1).C
        (2, None)
        """
        C = self.C or 1
        if not is_whole(c, -C, C - 1):
            raise IndexError(f"there is no output {shown(c)}: f has {C} output{'s' * (C > 1)}, numbered from c = 0.")
        if self.C is None:
            return self
        bounds = None if self.bounds is None else self.bounds[:, [c]]
        f = np.ascontiguousarray(self._f[:, c])
        return self._replaced(_f=f, bounds=bounds, names=self.names.for_output(c))

    @property
    def outputs(self) -> Iterator[Samples]:
        """The samples of each output in turn; these samples if C is None."""
        return (self.output(c) for c in range(self.C or 1))

    def __len__(self) -> int:
        """The number of thetas."""
        return self.T

    def __getitem__(self, indices: Any) -> Samples:
        """The samples of some thetas: `samples[3]`, `samples[2:5]`, `samples[mask]`; see `select`."""
        return self.select(indices)

    def __array__(self, *args: Any, **options: Any) -> Any:
        raise TypeError("Samples are several arrays: take samples.theta, samples.x or samples.f.")

    def __eq__(self, other: object) -> bool:
        """Whether both hold the same thetas, points, values, measures (at these thetas), options and names."""
        if not isinstance(other, Samples):
            return NotImplemented
        if any(getattr(self, name) != getattr(other, name) for name in SAME):
            return False
        arrays = all(_same(getattr(self, name), getattr(other, name)) for name in SAME_ARRAYS)
        return arrays and self.conditional.equals(other.conditional)

    def __hash__(self) -> int:
        counts = tuple(self.counts.tolist())
        return hash((counts, self.d, self.C, float(np.sum(self.theta)), float(np.sum(self._f))))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the samples to a file that `cbq.Samples.load` reads: arrays and JSON, no code.

        It keeps the `log_weights` of a proposal, not the proposal. Pass the family, if there is one, again to `load`.

        Examples
        --------
        >>> problem = cbq.problems.get("butterfly")
        >>> samples = problem.collect(T=12, N=20, rng=0)
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     samples.save(f"{folder}/samples.cbq")
        ...     again = cbq.Samples.load(f"{folder}/samples.cbq", family=problem.family)
        >>> again == samples
        True
        """
        save_samples(self, path)

    @classmethod
    def load(cls, path: str | os.PathLike[str], family: Family | None = None) -> Samples:
        """The samples that `samples.save(path)` wrote.

        family: the function from theta (p,) to the measure of x with which the samples were made, if any, such as
            `problem.family`; a family with other densities at the points is refused.

        Nothing in the file is executed, and everything is checked, as by `cbq.load`, which reads fits.

        Examples
        --------
        >>> samples = cbq.Samples([0.0, 1.0], [[0.1, 0.9], [1.2, 1.8]], [[1.0, 2.0], [3.0, 4.0]])
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     samples.save(f"{folder}/samples.cbq")
        ...     cbq.Samples.load(f"{folder}/samples.cbq") == samples
        True
        """
        return load_samples(cls, path, family)

    def __add__(self, other: Any) -> Samples:
        """The points of both, for the same f and measures; equal thetas become one."""
        return joined(self, other) if isinstance(other, Samples) else NotImplemented

    def __repr__(self) -> str:
        N = f"{self.counts.min()}..{self.counts.max()}" if self.is_ragged else f"{self.counts[0]}"
        more = "" if self.failures is None else f", failed={len(self.failures.x)}"
        more += ", stochastic=True" * self.stochastic
        more += "" if self.bounds is None else f", bounds={shown_bounds(self.bounds)}"
        more += "" if self.log_weights is None else ", weighted"
        more += f", names=({self.names.listed})" * bool(self.names.listed)
        kinds = dict.fromkeys(finding.kind for finding in self.findings)
        more += f", findings=({', '.join(kinds)})" * bool(kinds)
        ranges = self.names.ranges("theta", self.theta)
        return f"Samples(T={self.T}, N={N}, p={self.p}, d={self.d}, C={self.C}, design={self.design!r}, {ranges}{more})"

    def _repr_html_(self) -> str:
        return samples_html(self)

    def _checked_bounds(self, values: Array, bounds: Any) -> Array | None:
        """The argument `bounds` as an array (2, C); raise if values (n,) or (n, C) of a deterministic f lie outside."""
        checked = bounds_of(bounds, None if values.ndim == 1 else values.shape[1])
        if checked is not None and not self.stochastic:
            outside = rows_outside(values.reshape(len(values), -1), checked)
            self._require_none(outside, "f", values, f"must lie within its bounds {shown_bounds(checked)}")
        return checked

    def _rows(self, t: int) -> slice:
        t = position(t, self.T, "t")
        return slice(int(self.starts[t]), int(self.starts[t] + self.counts[t]))

    def _by_theta(self, flat: Array) -> Array | tuple[Array, ...]:
        if self.is_ragged:
            return tuple(flat[self._rows(t)] for t in range(self.T))
        return flat.reshape(self.T, int(self.counts[0]), *flat.shape[1:])

    def _require_none(self, bad: Booleans, name: str, flat: Array, rule: str) -> None:
        """Raise if a point is bad, (sum N_t,), with its place."""
        if not np.any(bad):
            return
        row, more = int(np.argmax(bad)), int(np.count_nonzero(bad)) - 1
        t = int(np.searchsorted(self.starts, row, side="right")) - 1
        raise ValueError(
            f"{name} {rule}, but it is {flat[row]} at theta index t = {t} (theta = {self.theta[t]}), point "
            f"i = {row - self.starts[t]}{f', and {more} more are like it' * (more > 0)}: correct it, or leave the "
            f"point out of x and f (lists of arrays may differ in length)."
        )

    def _with_rows(self, counts: Integers, rows: Integers, **values: Any) -> Self:
        """A copy with the points of these rows, counts (T,) of them for each theta."""
        flat = {"_x": self._x[rows], "_f": self._f[rows]}
        flat |= {} if self.log_weights is None else {"log_weights": self.log_weights[rows]}
        return self._replaced(counts=counts, **flat | values)


def _same(one: Any, other: Any) -> bool:
    """Whether two arrays, or two objects that consist of arrays, are equal, or both None."""
    if one is None or other is None:
        return one is other
    if isinstance(one, Failures):
        return all(_same(mine, vars(other)[name]) for name, mine in vars(one).items())
    return np.array_equal(one, other)
