"""Which decision is best in how many of the draws: the cost-effectiveness acceptability curve and its frontier."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from scipy.special import ndtri

from cbq.common.arrays import Array, Integers
from cbq.common.checks import between_0_and_1
from cbq.common.tables import data_frame
from cbq.fit.labels import with_labels
from cbq.nested.decisions import Name
from cbq.voi.economics import NetBenefitDraws, effective_sizes
from cbq.voi.shown import ShownAsTable, sentences, some_rows

if TYPE_CHECKING:
    from matplotlib.figure import Figure

TIE = 1e-14  # of the terms of net benefits, about what rounding leaves of equal ones


@dataclass(frozen=True, eq=False, repr=False)
class Acceptability(ShownAsTable):
    """The probability of each of D decisions to be best, for K values of the willingness to pay.

    decisions : their names.
    willingness_to_pay : (K,), or None if the outputs are net benefits (K = 1).
    probability, lower, upper : (K, D), the shares of draws and the ends of their intervals, which allow for the draws
        being a sample.
    best : (K,), the decisions with the largest mean net benefit, by position: those that should be chosen.
    n : the number of draws. level : of the intervals. notes : remarks on the outputs, without full stops.

    Examples
    --------
    >>> net_benefits = {"old": [0.0, 0.0, 0.0, 0.0], "new": [1.0, 2.0, -1.0, 3.0]}
    >>> found = cbq.voi.ceac(net_benefits)
    >>> found.probability
    array([[0.25, 0.75]])
    >>> found.frontier
    array([0.75])
    """

    decisions: tuple[str, ...]
    willingness_to_pay: Array | None
    probability: Array
    lower: Array
    upper: Array
    best: Integers
    n: int
    level: float = 0.95
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for name in ("willingness_to_pay", "probability", "lower", "upper", "best"):
            if (given := getattr(self, name)) is not None:
                array = np.array(given)
                array.setflags(write=False)
                object.__setattr__(self, name, array)

    @property
    def frontier(self) -> Array:
        """The probability (K,) that the decision with the largest mean net benefit is best (CEAF)."""
        return np.asarray(np.take_along_axis(self.probability, self.best[:, None], axis=1)[:, 0])

    def to_frame(self) -> Any:
        """A pandas DataFrame with a row for each willingness to pay and decision."""
        return data_frame(self.columns())

    def columns(self) -> dict[str, list[Any]]:
        """The columns of `to_frame`."""
        K, D = self.probability.shape
        price = [] if self.willingness_to_pay is None else np.repeat(self.willingness_to_pay, D).tolist()
        return {
            **({"willingness_to_pay": price} if price else {}),
            "decision": list(self.decisions) * K,
            "probability": self.probability.ravel().tolist(),
            "lower": self.lower.ravel().tolist(),
            "upper": self.upper.ravel().tolist(),
            "frontier": (np.arange(D) == self.best[:, None]).ravel().tolist(),
        }

    def plot(
        self, ax: Any = None, *, title: str | None = None, xlabel: str | None = None, ylabel: str | None = None
    ) -> Figure:
        """The curves with their bands, and the frontier on top; bars, if there is one willingness to pay.

        title, xlabel, ylabel : texts in place of those of the figure.
        """
        from cbq.voi.curves import plot_acceptability

        return with_labels(plot_acceptability(self, ax), ax, title, xlabel, ylabel)

    def _cells(self) -> tuple[list[list[str]], list[str]]:
        shown, rest = some_rows(len(self.probability))
        priced = self.willingness_to_pay is not None
        header = [*["willingness to pay"] * priced, *self.decisions, "best on average"]
        lines = []
        for k in shown:
            price = [] if self.willingness_to_pay is None else [f"{self.willingness_to_pay[k]:g}"]
            lines.append([*price, *(f"{p:.3f}" for p in self.probability[k]), self.decisions[self.best[k]]])
        half = float(np.max(self.upper - self.lower)) / 2
        below = f"The share of {self.n} draws in which each is best, to within {half:.3f} at {100 * self.level:.4g}%."
        return [header, *lines], [below, *rest, *sentences(self.notes)]


def ceac(
    outputs: Any,
    *,
    effects: Sequence[Name] | None = None,
    costs: Sequence[Name] | None = None,
    willingness_to_pay: npt.ArrayLike | None = None,
    decisions: Sequence[str] | None = None,
    level: float = 0.95,
) -> Acceptability:
    """The cost-effectiveness acceptability curve (CEAC) and frontier (CEAF): how often each decision is best.

    Parameters
    ----------
    outputs, effects, costs, willingness_to_pay : as in `cbq.evpi`: net benefits, or effects and costs with a number or
        a vector.
    decisions : their names, by default those that the columns tell.
    level : of the intervals of probabilities, those of Wilson for a share of so many draws. Draws that are
        autocorrelated in their order count as fewer.

    Where several decisions are equally good, a draw counts for each in equal parts, so that probabilities sum to 1.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> table = {"qaly_A": rng.normal(1, 0.1, 500), "qaly_B": rng.normal(1.2, 0.1, 500)}
    >>> table |= {"cost_A": np.full(500, 1000.0), "cost_B": np.full(500, 3000.0)}
    >>> options = {"effects": ["qaly_A", "qaly_B"], "costs": ["cost_A", "cost_B"]}
    >>> found = cbq.voi.ceac(table, **options, willingness_to_pay=[0, 50_000])
    >>> found.best, found.probability[0]
    (array([0, 1]), array([1., 0.]))
    """
    level = between_0_and_1(level, "level")
    options = {"effects": effects, "costs": costs, "willingness_to_pay": willingness_to_pay}
    draws = NetBenefitDraws.read(outputs, options, decisions)
    each = [_at_one_price(benefits, size, level) for benefits, size in draws.benefits()]
    probability, lower, upper, best = (np.array(values) for values in zip(*each, strict=True))
    price = draws.decisions.willingness_to_pay
    prices = None if price is None else np.ravel(price)
    return Acceptability(draws.names, prices, probability, lower, upper, best, len(draws.values), level, draws.notes)


def _at_one_price(benefits: Array, size: Array, level: float) -> tuple[Array, Array, Array, int]:
    """Shares with their intervals (D,), and the best on average, for net benefits (n, D) of terms of this size."""
    top = np.max(benefits, axis=1, keepdims=True)
    wins = (benefits >= top - TIE * size).astype(np.float64)
    wins /= np.sum(wins, axis=1, keepdims=True)
    share = np.mean(wins, axis=0)
    return (
        share,
        *wilson_interval(share, effective_sizes(wins, benefits), level),
        int(np.argmax(np.mean(benefits, axis=0))),
    )


def wilson_interval(share: Array, n: Array, level: float) -> tuple[Array, Array]:
    """The interval of Wilson for a probability, from its share in n independent draws."""
    z2 = float(ndtri(0.5 * (1.0 + level))) ** 2
    middle = (share + 0.5 * z2 / n) / (1.0 + z2 / n)
    half = np.sqrt(z2 * (share * (1.0 - share) / n + 0.25 * z2 / n**2)) / (1.0 + z2 / n)
    return np.clip(middle - half, 0.0, share), np.clip(middle + half, share, 1.0)
