"""Samples from the file of a run, finished or not, without f."""

from __future__ import annotations

import os
from typing import Any

import numpy as np

from cbq._arrays import Array, Booleans
from cbq.collect import tables
from cbq.collect.checkpoint import measure_text, pack_measures, same_measure, sound
from cbq.collect.database import connect, damaged, explained, from_bytes
from cbq.collect.errors import CheckpointError
from cbq.io import unpack_measure
from cbq.measures import Measure
from cbq.samples.samples import Samples


def load_samples(path: str | os.PathLike[str], measure: Any = None) -> Samples:
    """The samples of all finished batches; see `Samples.from_checkpoint`."""
    name = os.fsdecode(path)
    with explained(name), sound(name):
        meta, theta, measures, x, f = _read(name)
    kept = [t for t in range(len(theta)) if len(x[t])]
    if not kept:
        raise CheckpointError(f"{name} has no finished batch with a value yet: call collect again to go on.")
    measures = [measures[t] for t in kept]
    samples = Samples(
        theta[kept],
        [x[t] for t in kept],
        [f[t] for t in kept],
        _measures(name, measures) if measure is None else measure,
        depends_on_theta=meta.identity["depends_on_theta"],
        design=meta.identity["design"],
    )
    if measure is not None:
        _refuse_other(name, samples, measures)
    return samples


def _read(name: str) -> tuple[tables.Meta, Array, list[tables.PackedMeasure], list[Array], list[Array]]:
    """What the file holds: of each theta the points (n, d) and values (n, *outputs) in the order of their numbers."""
    connection = connect(name, write=False)
    try:
        if tables.is_new(name, connection):
            raise CheckpointError(f"{name} is empty: call collect again to go on.")
        meta = tables.read_meta(name, connection)
        p, d = meta.identity["p"], meta.identity["d"]
        theta, measures = tables.read_thetas(name, connection, p)
        batches = list(tables.read_batches(name, connection, len(theta), d, meta.outputs))
    finally:
        connection.close()
    lengths = np.zeros(len(theta), dtype=np.intp)
    for _, ((t, _, stop), _) in batches:
        lengths[t] = max(lengths[t], stop)
    x = [np.empty((n, d)) for n in lengths]
    f = [np.full((n, *meta.outputs), np.nan) for n in lengths]
    for points, ((t, start, stop), outcome) in batches:
        x[t][start:stop], f[t][start:stop] = points, outcome.f
    good: list[Booleans] = [~np.any(np.isnan(rows), axis=tuple(range(1, rows.ndim))) for rows in f]
    return (
        meta,
        theta,
        measures,
        [a[g] for a, g in zip(x, good, strict=True)],
        [a[g] for a, g in zip(f, good, strict=True)],
    )


def _measures(name: str, measures: list[tables.PackedMeasure]) -> list[Measure]:
    """The measures themselves, equal ones as one object."""
    made: dict[int, Measure] = {}
    for measure in measures:
        if id(measure) in made:
            continue
        text, numbers = measure
        if not numbers:
            raise CheckpointError(
                f"{name} does not hold the measure {measure_text(measure)}, which is code and a file holds none: pass measure=, "
                f"the family that the points were drawn from."
            )
        try:
            made[id(measure)] = unpack_measure(text, from_bytes(numbers, (-1,)), Measure)
        except (ValueError, TypeError, ArithmeticError) as error:
            raise damaged(name, str(error)) from error
    return [made[id(measure)] for measure in measures]


def _refuse_other(name: str, samples: Samples, measures: list[tables.PackedMeasure]) -> None:
    """Raise where a measure is not that of the file."""
    for t, (stored, given) in enumerate(zip(measures, pack_measures(samples.measures), strict=True)):
        if not same_measure(stored, given):
            raise CheckpointError(
                f"{name} does not go with this measure: at theta = {samples.theta[t]} the measure is {measure_text(stored)} in "
                f"the file, and {measure_text(given)} in the measure. Pass the one that the points were drawn from."
            )
