"""`cbq.plot`: the figure of a result."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cbq.common.checks import shown

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def plot(result: Any, **options: Any) -> Figure:
    """The figure of a fit, an answer, a history, a comparison or a table: `result.plot(**options)`.

    Examples
    --------
    >>> fit = cbq.LSMC().fit(cbq.problems.get("butterfly").collect(T=12, N=20, rng=0))
    >>> figure = cbq.plot(fit, title="Value of the butterfly")
    >>> figure.get_suptitle()
    'Value of the butterfly'
    """
    draw = None if isinstance(result, type) else getattr(result, "plot", None)
    if not callable(draw) or not type(result).__module__.startswith("cbq."):
        raise TypeError(
            f"result must be an object with a figure, such as a fit, an answer of problem.solve, a comparison or an "
            f"EVPPI table, but it is {shown(result)}."
        )
    figure: Figure = draw(**options)
    return figure
