"""A fit as notebooks show it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cbq import _html

if TYPE_CHECKING:
    from cbq.fit.base import Fit


def fit_html(fit: Fit) -> str:
    """What the fit is of, and its summary, warnings included."""
    entries = {
        "thetas": f"{len(fit.theta)}: {fit.names.ranges('theta', fit.theta)}",
        "outputs": "" if fit.C is None else f"{fit.C}: {', '.join(fit.names.f)}",
        "names": fit.names.listed,
    }
    return _html.box(type(fit).__name__, entries, _html.folded("summary", str(fit.summary())))
