"""Samples as HTML, for notebooks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cbq.report import html
from cbq.samples.findings import in_brief

if TYPE_CHECKING:
    from cbq.samples.samples import Samples

FIRST_ROWS = 5


def samples_html(samples: Samples) -> str:
    """A summary of samples and their first points."""
    names, counts, kinds = samples.names, samples.counts, dict.fromkeys(finding.kind for finding in samples.findings)
    points = f"{counts.min()} to {counts.max()}" if samples.is_ragged else f"{counts[0]}"
    entries = {
        "thetas": f"{samples.T}: {names.ranges('theta', samples.theta)}",
        "points": f"{points} each, {samples.n_evaluations} in all: {names.ranges('x', samples.all_points)}",
        "values": names.ranges("f", samples.table),
        "measure": f"{samples.measure(0)!r}" + f" and {samples.T - 1} more" * (samples.T > 1),
        "design": samples.design,
        "failed": "" if samples.failures is None else f"{len(samples.failures.x)} points",
        "findings": " ".join(in_brief(samples.findings, kind, samples.T) for kind in kinds),
    }
    first = {name: column[:FIRST_ROWS] for name, column in samples.to_columns().items()}
    return html.box("Samples", entries, html.column_table(first))
