"""Thetas other than the observed ones: those beyond them, where only a prior informs the fit, and the next runs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from cbq.common import Array, Booleans
from cbq.fit.findings import Finding
from cbq.measures import Measure
from cbq.measures.base import measure_argument
from cbq.report import ArrayTable
from cbq.samples import Names, by_run, by_theta

# No theta is beyond the observed ones that is closer to them than these.
MARGIN = 0.05  # of the range of each coordinate
GAPS = 2.0  # times the widest gap between neighbours
FRESH = 0.05  # the share of fresh thetas from the same distribution that may be beyond a few observed ones
ROUNDING = 1e-9  # of the largest value of a coordinate
MAX_COORDINATE = 1e100  # whose square is finite

N_WANTED = 64  # thetas at which I is wanted


def beyond(theta: Array, observed: Array) -> Booleans:
    """Whether each of thetas (M, p) is beyond the observed ones (T, p): (M,).

    It is if it is outside of their range in some coordinate, and further from all of them than they are from each
    other: more than twice the widest gap between neighbours. Coordinates are in units of their standard deviation.
    Where logarithms of the observed ones are less skew than they are, it must be so in logarithms, too. All but a
    single theta is beyond it.
    """
    found = _is_far(theta, observed)
    if np.any(found) and np.any(logs := more_symmetric_logs(observed)):
        found[found] = _is_far(_logs(theta[found], logs), _logs(observed, logs))
    return found


def _is_far(asked: Array, observed: Array) -> Booleans:
    """Whether each of (M, p) is outside of the range of the observed ones (T, p), and far from all of them: (M,)."""
    low, high = np.min(observed, axis=0), np.max(observed, axis=0)
    largest = ROUNDING * np.maximum(np.abs(low), np.abs(high))
    reach = MARGIN * (high - low) + largest
    found = np.asarray(np.any((asked < low - reach) | (asked > high + reach), axis=1))
    if np.any(found) and len(nodes := np.unique(observed, axis=0)) > 1:
        from scipy.spatial import cKDTree  # slow to import, and rarely needed

        centre, unit = np.mean(nodes, axis=0), np.maximum(np.std(nodes, axis=0), np.maximum(largest, 1e-300))
        tree = cKDTree((nodes - centre) / unit)
        gap = np.max(tree.query(tree.data, k=[2])[0])
        with np.errstate(over="ignore"):
            away = np.clip((asked[found] - centre) / unit, -MAX_COORDINATE, MAX_COORDINATE)
        found[found] = tree.query(away)[0] > GAPS * gap
    return found


def more_symmetric_logs(observed: Array) -> Booleans:
    """Which coordinates of thetas (T, p) are all positive, and less skew in logarithms: (p,)."""
    logs = np.all(observed > 0, axis=0)
    return np.asarray(logs & (_skewness(_logs(observed, logs)) < _skewness(observed)))


def _skewness(values: Array) -> Array:
    """The size of the skewness of each column of values (n, p): (p,)."""
    spread = np.std(values, axis=0)
    standard = (values - np.mean(values, axis=0)) / np.where(spread > 0, spread, 1.0)
    return np.asarray(np.abs(np.mean(standard**3, axis=0)))


def _logs(theta: Array, logs: Booleans) -> Array:
    """Thetas (M, p) with the logarithms of some coordinates, which are far below all others where there are none."""
    positive = theta > 0
    of_all = np.where(positive, np.log(np.where(positive, theta, 1.0)), -MAX_COORDINATE)
    return np.where(logs, of_all, theta)


def beyond_findings(theta: Array, observed: Array, names: Names, tolerated: float = 0.0) -> tuple[Finding, ...]:
    """A finding where more than a tolerated share of thetas (M, p) are beyond the observed ones (T, p)."""
    found = beyond(theta, observed)
    if np.mean(found) <= tolerated:
        return ()
    first = names.at("theta", theta[np.argmax(found)])
    which = f"{np.count_nonzero(found)} of {len(theta)} thetas, such as {first}, are"
    which = f"{first} is" if len(theta) == 1 else which
    low, high = np.min(observed, axis=0), np.max(observed, axis=0)
    text = f"{which} beyond the observed ones, which are from {low} to {high}: intervals there rest on a prior."
    return (Finding("beyond", text),)


@dataclass(frozen=True, eq=False, repr=False)
class Suggestion(ArrayTable):
    """Where the next runs help most: theta (n, p) and x (n, d), a row for each run, the best first.

    x: None where it does not matter which points a theta has, so long as they are spread over its measure.
    """

    theta: Array
    x: Array | None
    names: Names

    def __len__(self) -> int:
        return len(self.theta)

    def to_columns(self) -> dict[str, Array]:
        """The columns of a table, (n,) each: theta and x, by their names."""
        return by_theta(self.theta, {}, self.names) if self.x is None else by_run(self.theta, self.x, self.names)

    def __repr__(self) -> str:
        if not len(self):
            return "Suggestion(no runs)"
        x = "" if self.x is None else f", {self.names.ranges('x', self.x)}"
        return f"Suggestion({len(self)} runs, {self.names.ranges('theta', self.theta)}{x})"


def theta_prior(prior: Any, p: int, name: str = "prior") -> Measure:
    """An argument as one measure over p coordinates, or raise."""
    measure = measure_argument(prior, name)
    if measure.dim != p or measure.batch_shape:
        raise ValueError(f"{name} must be one measure of theta, in p = {p} dimensions, but it is {measure!r}.")
    return measure


def thetas_between(observed: Array, prior: Any, n: int, rng: np.random.Generator) -> Array:
    """n thetas (n, p) of the prior, or else of the region of the observed ones (T, p), between random pairs of them."""
    if prior is not None:
        return theta_prior(prior, observed.shape[1]).sample(n, rng)
    pairs = observed[rng.integers(len(observed), size=(2, n))]
    nearness = rng.random((n, 1)) ** 2  # mostly near one of the two, so that they fill the region as the observed do
    return np.asarray(pairs[0] + nearness * (pairs[1] - pairs[0]))
