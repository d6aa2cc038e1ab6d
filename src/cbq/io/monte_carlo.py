"""A fit of Monte Carlo as JSON and arrays, and back."""

from __future__ import annotations

from typing import Any

from cbq.io.archive import Archive
from cbq.io.averages import Arrays, design, pack_averages, single, unpack_averages
from cbq.methods.baselines.monte_carlo import MonteCarloFit


def pack(fit: MonteCarloFit) -> tuple[dict[str, Any], Arrays]:
    """Everything the constructor needs: a JSON object, and arrays by name."""
    return {"design": fit.design, "single": fit.C is None}, pack_averages(fit.averages)


def unpack(record: dict[str, Any], archive: Archive) -> MonteCarloFit:
    """The fit, from a JSON object and the arrays of an archive."""
    averages = unpack_averages(archive)
    return MonteCarloFit(averages, design=design(record), single=single(record, averages.mean.shape[1]))
