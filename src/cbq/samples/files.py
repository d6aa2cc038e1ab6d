"""Files of samples: arrays and JSON, no code, as for fits.

A file holds measures, but no functions. Samples of a family are saved without it: the user passes it again, and the
densities of the points must agree.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import numpy as np

from cbq.checkpoint import CheckpointError, read_run
from cbq.common import file_name
from cbq.io import SAMPLES_FILE, Field, IncompatibleFile, Instance, Optional, load_file, save_file
from cbq.samples.conditional import Family
from cbq.samples.findings import Failures

if TYPE_CHECKING:
    from cbq.samples.samples import Samples

TOLERANCE = 1e-6  # relative: densities of the same measure differ by less between machines


class FamilyNeeded(IncompatibleFile):
    """The file holds samples without their measures, and no family was passed."""


def save_samples(samples: Samples, path: str | os.PathLike[str]) -> None:
    """Write samples to a file."""
    values = {"samples": samples, "failures": samples.failures}
    save_file(file_name(path, "path"), _fields(type(samples)), values, SAMPLES_FILE)


def load_samples(kind: type[Samples], path: str | os.PathLike[str], family: Family | None) -> Samples:
    """The samples of a file."""
    if family is not None and not callable(family):
        raise TypeError(
            f"family must be a function from theta to the measure of x, such as problem.family, but it is a "
            f"{type(family).__name__}."
        )
    name = file_name(path, "path")
    try:
        values = load_file(name, _fields(kind), family, SAMPLES_FILE)
    except FamilyNeeded as error:
        raise FamilyNeeded(
            f"{name} holds samples of a family, and a file holds no code. Pass the function from theta to its measure "
            f"again: cbq.Samples.load({name!r}, family=problem.family)."
        ) from error
    samples: Samples = values["samples"]
    return samples._replaced(failures=values["failures"])


def _fields(kind: type[Samples]) -> dict[str, Field]:
    return {"samples": Instance(kind), "failures": Optional(Instance(Failures))}


def read_checkpoint(
    path: str | os.PathLike[str], kind: type[Samples], measure: Any, bounds: Any, proposal: Any, names: Any
) -> Samples:
    """The samples of the finished batches of a run; given measures and proposals must agree with the file."""
    run = read_run(file_name(path, "path"))
    options = {name: run.settings[name] for name in ("depends_on_theta", "design", "stochastic")}
    stored = run.settings["bounds"]  # texts, since JSON has no inf
    options["bounds"] = stored and np.array(stored, dtype=np.float64) if bounds is None else bounds
    options["names"] = run.settings["names"] if names is None else names
    if run.proposals is not None:
        options["proposal"] = run.proposals.read() if proposal is None else proposal
    elif proposal is not None:
        raise CheckpointError(f"{path} holds points of the measures of x, not of a proposal: leave proposal out.")
    samples = kind(run.theta, run.x, run.f, run.measures.read() if measure is None else measure, **options)
    if measure is not None:
        run.measures.require(samples.measures)
    if proposal is not None and run.proposals is not None:
        run.proposals.require(samples.proposals or ())
    return samples._replaced(failures=Failures.of(*run.failed))


def other_measures(family: Family | None, why: str) -> ValueError:
    """The error for measures, from a family or the file itself, that contradict the saved samples."""
    if family is None:
        return ValueError(f"its measures do not match its points: {why}")
    return IncompatibleFile(
        f"does not go with this family, which is not the one of the fit: {why} Pass the family that the samples were "
        f"drawn from."
    )


def read_samples(samples: Samples) -> dict[str, Any]:
    """The fields of saved samples.

    measure: as for the constructor, with a list of one for T equal measures; None if the family must be passed again,
    which the log densities of the points then identify.
    """
    measure = samples.conditional.observed
    if isinstance(measure, tuple) and not samples.conditional.varies:
        measure = measure[:1]
    return {
        "x": samples.all_points,
        "f": samples.table,
        "single": samples.C is None,
        "measure": measure if samples.conditional.fits_in_file else None,
        "log_density": samples.log_density(),
    }


def build_samples(cls: type[Samples], family: Family | None, **fields: Any) -> Samples:
    """The samples with the measures of `family`, or else of the file; points must have the saved log densities."""
    theta, x, f, measure, log_density = (fields.pop(name) for name in ("theta", "x", "f", "measure", "log_density"))
    recorded = {name: fields.pop(name) for name in ("log_weights", "findings")}
    if family is None and measure is None:
        raise FamilyNeeded("holds a fit that needs the measure of x at any theta, and a file holds no code.")
    if isinstance(measure, tuple) and len(measure) == 1:
        measure = measure * len(theta)
    cuts = np.cumsum(fields.pop("counts"))[:-1]
    points, values = np.split(x, cuts), np.split(f[:, 0] if fields.pop("single") else f, cuts)
    try:
        samples = cls(theta, points, values, measure if family is None else family, **fields)
    except (ValueError, TypeError) as error:
        raise other_measures(family, str(error)) from error
    computed = samples.log_density()
    other = ~(np.abs(computed - log_density) <= TOLERANCE * (1.0 + np.abs(log_density)))
    if np.any(other):
        i = int(np.argmax(other))
        point = f"at theta = {theta[samples.owners[i]]} the log density of a point is {computed[i]:.6g}"
        raise other_measures(family, f"{point}, but in the fit it is {log_density[i]:.6g}.")
    return samples._replaced(**recorded)
