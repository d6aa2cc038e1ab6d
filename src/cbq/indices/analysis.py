"""Which inputs matter: the shares of the variance of f that inputs explain, with intervals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.special import ndtri

from cbq.common import Array, RNGLike, as_text, between_0_and_1, did_you_mean, flag, generator, is_whole, listed, shown
from cbq.estimators import MOBQ
from cbq.fit import FRESH, Fit, warn_of
from cbq.indices.emulated import OPTIONS, SensitivityOptions, Shares, emulated_shares, expected_at_ends
from cbq.indices.inputs import RandomInputs, inputs_at, joint_inputs
from cbq.indices.plan import Plan, Subset
from cbq.indices.table import SecondOrder, SecondOrderRow, Sensitivity, SensitivityRow
from cbq.nested.outer import as_prior
from cbq.samples import ColumnTable, Samples
from cbq.voi import evppi_variance

Groups = Mapping[str, Sequence[str | int]]


def sensitivity(
    fit_or_outputs: Any,
    prior: Any = None,
    *,
    theta: npt.ArrayLike | None = None,
    inputs: Any = None,
    groups: Groups | None = None,
    second_order: bool = False,
    shapley: bool = False,
    level: float = 0.95,
    rng: RNGLike = 0,
    options: SensitivityOptions = OPTIONS,
) -> Sensitivity:
    """Which inputs matter: the shares of the variance of f that inputs explain, with intervals.

    From a fit of `cbq.MOBQ`, or from samples, to which it is then fitted, without further runs of f. Inputs may be
    dependent: given some of them, the others have the conditional of their declared distribution. Intervals hold what
    the runs leave unknown of f, and the error of the points over which is averaged. Where f is random, indices are of
    its mean.

    Parameters
    ----------
    fit_or_outputs : the fit, or samples; or, of a table of draws, the outputs (n,) or (n, C), with `inputs`.
    prior : the distribution of theta. The inputs are then theta and x together. If the measure of x depends on theta,
        all coordinates of theta are one group.
    theta : where x alone is random, the thetas (M, p) at which; the only one of the fit by default.
    inputs : a table of draws of the inputs, one row for each output, as in `cbq.evppi`. Shares are then regressed on
        its columns, whatever their joint distribution: any dependence in the table is kept. The noise in outputs is
        no share of an input.
    groups : from the name of a group to its inputs, by name or position; inputs in no group are by themselves.
    second_order : also indices of pairs, beyond those of both inputs. For dependent inputs they may be negative.
    shapley : also Shapley effects, which add up to 1 even if inputs are dependent, and interact. Over all orders of up
        to 8 inputs or groups, otherwise over some at random.
    level : of the intervals. rng : a generator or a seed. options : how indices are computed from a fit.

    Examples
    --------
    >>> problem = cbq.Problem(
    ...     lambda x, theta: x[:, 0] + 2 * x[:, 1] + theta[0] * x[:, 0] * x[:, 1],
    ...     lambda theta: cbq.measures.Gaussian([0.0, 0.0], std=1.0),
    ...     cbq.measures.Uniform(0.0, 1.0),
    ... )
    >>> fit = cbq.MOBQ().fit(problem.collect(T=6, N=12, rng=0, design="sobol"))
    >>> found = cbq.sensitivity(fit, theta=[0.5])  # at theta, the shares are 1 / 5.25 and 4 / 5.25, and totals more
    >>> [round(row.first, 2) for row in found.rows]
    [0.19, 0.76]
    """
    between_0_and_1(level, "level")
    if not isinstance(options, SensitivityOptions):
        raise TypeError(f"options must be cbq.SensitivityOptions, but it is {shown(options)}.")
    asked = _Asked(groups, flag(second_order, "second_order"), flag(shapley, "shapley"), level, generator(rng), options)
    if inputs is not None:
        if prior is not None or theta is not None or isinstance(fit_or_outputs, Fit | Samples):
            raise TypeError("inputs is the table of the inputs of outputs: call sensitivity(outputs, inputs=table).")
        return asked.of_table(fit_or_outputs, inputs)
    if isinstance(fit_or_outputs, Samples):
        fit_or_outputs = MOBQ().fit(fit_or_outputs)
    if not isinstance(fit_or_outputs, Fit):
        raise TypeError(
            f"fit_or_outputs must be a fit, samples, or outputs with inputs=table, but it is {shown(fit_or_outputs)}."
        )
    return asked.of_fit(fit_or_outputs, prior, theta)


@dataclass(frozen=True, eq=False)
class _Asked:
    """The indices that are wanted."""

    groups: Groups | None
    second: bool
    shapley: bool
    level: float
    rng: np.random.Generator
    options: SensitivityOptions

    def of_table(self, outputs: Any, inputs: Any) -> Sensitivity:
        """From a table of draws."""
        names = ColumnTable.of(inputs, "inputs").names
        labels, columns = _grouped(names, self.groups, ())
        plan = self._plan(len(labels))
        members = [[names[j] for j in each] for each in columns]
        found = regressed_shares(outputs, inputs, plan.subsets, members, self.rng)
        rows: list[SensitivityRow] = []
        pairs: list[SecondOrderRow] = []
        notes = list(dict.fromkeys(note for each in found.values() for note in each.notes))
        for output, shares in found.items():
            more = self._rows(shares, plan, labels, output, ())
            rows, pairs = [*rows, *more[0]], [*pairs, *more[1]]
            of = "" if len(found) == 1 else f" of {output}"
            notes.append(f"The inputs explain {shares.estimate[0]:.1%} of the variance{of}")
        return self._table(rows, pairs, (), notes)

    def of_fit(self, fit: Fit, prior: Any, theta: npt.ArrayLike | None) -> Sensitivity:
        """From a fit with an emulator."""
        emulator = fit.emulator
        emulator.require_draws()
        samples = emulator.samples
        if prior is not None and theta is not None:
            raise TypeError("sensitivity takes prior, for theta and x, or theta, for x alone: omit one of them.")
        where: list[tuple[tuple[float, ...], RandomInputs]]
        if prior is not None:
            measure = as_prior(prior, fit.p)
            beyond = fit._beyond_findings(measure.sample(256, 0), tolerated=FRESH)
            where = [((), joint_inputs(samples, measure))]
        else:
            thetas = np.unique(fit.theta, axis=0) if theta is None else fit._thetas(theta)
            if theta is None and len(thetas) > 1:
                raise TypeError(
                    "sensitivity needs prior, the distribution of theta, for the indices of theta and x, or theta, a "
                    "value, for those of x alone: pass one of them."
                )
            emulator.require_measures(thetas)
            beyond = fit._beyond_findings(thetas)
            where = [(tuple(map(float, each)), inputs_at(samples, each)) for each in thetas]
        rows: list[SensitivityRow] = []
        pairs: list[SecondOrderRow] = []
        for place, inputs in where:
            labels, columns = _grouped(inputs.names, self.groups, inputs.indivisible)
            plan = self._plan(len(labels))
            shares = emulated_shares(emulator, inputs, plan.subsets, columns, self.options, self.rng)
            ends = expected_at_ends(emulator, inputs, columns, self.options.size(1), self.rng)
            for c, (output, each) in enumerate(zip(fit.names.f, shares, strict=True)):
                more = self._rows(each, plan, labels, output, place, ends[..., c])
                rows, pairs = [*rows, *more[0]], [*pairs, *more[1]]
        warn_of(beyond)
        notes = [finding.text.rstrip(".") for finding in (*fit._doubts, *beyond)]
        return self._table(rows, pairs, fit.names.theta if len(where) > 1 else (), notes)

    def _plan(self, J: int) -> Plan:
        options = self.options
        return Plan.of(
            J,
            second=self.second,
            shapley=self.shapley,
            exact=options.exact,
            permutations=options.permutations,
            rng=self.rng,
        )

    def _rows(
        self,
        shares: Shares | RegressedShares,
        plan: Plan,
        labels: Sequence[str],
        output: str,
        theta: tuple[float, ...],
        at_ends: Array | None = None,
    ) -> tuple[list[SensitivityRow], list[SecondOrderRow]]:
        """The rows of all inputs, and of all pairs; at_ends : (J, 2), where it is known."""
        found = shares.read(plan, self.level)
        second = np.stack(found.pop("second"))
        # A share of the variance is between 0 and 1; only the second-order indices of dependent inputs are not.
        ends = {name: np.clip(np.stack(values), 0.0, 1.0) for name, values in found.items()}
        rows = []
        for i, label in enumerate(labels):
            numbers: dict[str, Any] = {}
            if at_ends is not None and np.all(np.isfinite(at_ends[i])):
                numbers |= zip(("at_low", "at_high"), map(float, at_ends[i]), strict=True)
            for name, values in ends.items():
                if values.size:
                    numbers |= zip((name, f"{name}_low", f"{name}_high"), map(float, values[:, i]), strict=True)
            rows.append(SensitivityRow(label, output, theta, **numbers))
        pairs = [
            SecondOrderRow(labels[i], labels[j], output, theta, float(middle), float(low), float(high))
            for (i, j), middle, low, high in zip(plan.pairs, *second, strict=True)
        ]
        return rows, pairs

    def _table(
        self,
        rows: Sequence[SensitivityRow],
        pairs: Sequence[SecondOrderRow],
        names: tuple[str, ...],
        notes: Sequence[str],
    ) -> Sensitivity:
        second = SecondOrder(tuple(pairs), self.level, names) if pairs else None
        return Sensitivity(tuple(rows), self.level, names, tuple(notes), second)


@dataclass(frozen=True, eq=False)
class RegressedShares:
    """The shares v(S) of K sets by regressions, with their standard errors: (K,) each. notes : remarks on them."""

    estimate: Array
    se: Array
    notes: tuple[str, ...]

    def read(self, plan: Plan, level: float) -> dict[str, tuple[Array, Array, Array]]:
        """The estimate and the ends of an interval of each index, (rows,) each; errors of sets count as independent."""
        reach, found = float(ndtri(0.5 * (1 + level))), {}
        for name, matrix in plan.indices.items():
            middle, se = matrix @ self.estimate, np.sqrt(matrix**2 @ self.se**2)
            if name == "shapley":
                se = np.hypot(se, plan.error_of_orders(self.estimate)[: len(matrix)])
            found[name] = middle, middle - reach * se, middle + reach * se
        return found


def regressed_shares(
    outputs: Any,
    inputs: Any,
    subsets: Sequence[Subset],
    columns: Sequence[Sequence[str]],
    rng: np.random.Generator,
) -> dict[str, RegressedShares]:
    """The shares of each output, by its name. columns : the names of those that members of subsets stand for."""
    sets = [[name for i in sorted(each) for name in columns[i]] for each in subsets]
    table, found = evppi_variance(outputs, inputs, sets, rng=rng), {}
    reach = float(ndtri(0.5 * (1 + table.level)))
    for name in dict.fromkeys(row.output for row in table.rows):
        rows = [row for row in table.rows if row.output == name]
        notes = dict.fromkeys(note for row in rows for note in row.note.split("; ") if note)
        se = np.array([(row.upper / row.variance - row.share) / reach if row.variance > 0 else 0.0 for row in rows])
        found[name] = RegressedShares(np.array([row.share for row in rows]), se, (*notes, *table.notes))
    return found


def _grouped(names: Sequence[str], groups: Any, indivisible: Sequence[int]) -> tuple[list[str], list[list[int]]]:
    """The labels of groups, and the positions of their inputs, in the order of the first of each."""
    if groups is not None and not isinstance(groups, Mapping):
        raise TypeError(f"groups must map names of groups to lists of inputs, but it is {shown(groups)}.")
    given = {as_text(label): _members(inputs) for label, inputs in (groups or {}).items()}
    found = {label: [_place(each, names) for each in members] for label, members in given.items()}
    used = [j for members in found.values() for j in members]
    repeated = sorted({names[j] for j in used if used.count(j) > 1})
    if repeated:
        raise ValueError(f"groups have {listed(repeated)} more than once: an input is in one group at most.")
    whole = [j for j in indivisible if j not in used]
    if len(indivisible) > 1 and len(whole) == len(indivisible):
        found["theta"], used = whole, [*used, *whole]
    split = [label for label, members in found.items() if 0 < len(set(members) & set(indivisible)) < len(indivisible)]
    if split:
        raise ValueError(
            f"the measure of x depends on theta, so that all coordinates of theta are in one group, but {split[0]!r} "
            f"has some of them: give it {listed([names[j] for j in indivisible])}."
        )
    alone = {name: [j] for j, name in enumerate(names) if j not in used}
    if taken := sorted(found.keys() & alone.keys()):
        raise ValueError(f"groups has {taken[0]!r}, which is the name of an input in no group: rename the group.")
    found |= alone
    ordered = sorted(found.items(), key=lambda item: min(item[1]))
    return [label for label, _ in ordered], [members for _, members in ordered]


def _members(inputs: Any) -> list[Any]:
    if isinstance(inputs, str) or is_whole(inputs):
        return [inputs]
    members = list(inputs) if isinstance(inputs, Sequence | np.ndarray) else []
    if not members:
        raise ValueError(f"a group must be a list of inputs, one or more, but it is {shown(inputs)}.")
    return members


def _place(name: Any, names: Sequence[str]) -> int:
    """The position of an input."""
    if isinstance(name, str) and name in names:
        return list(names).index(name)
    if is_whole(name, 0, len(names) - 1):
        return int(name)
    hint = did_you_mean(as_text(name), names, "inputs")
    raise ValueError(f"groups list {shown(name)}, which is not an input: {hint}")
