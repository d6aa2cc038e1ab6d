"""Files of samples: arrays and JSON, no code, as for fits."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from cbq.common import file_name
from cbq.io import SAMPLES_FILE, Field, Instance, Optional, load_file, save_file
from cbq.samples.conditional import Family, FamilyNeeded
from cbq.samples.failures import Failures

if TYPE_CHECKING:
    from cbq.samples.samples import Samples


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
        call = f"cbq.Samples.load({name!r}, family=problem.family)"
        raise FamilyNeeded(
            f"{name} holds samples of a family, and a file holds no code. Pass the function from theta to its measure "
            f"again: {call}."
        ) from error
    samples: Samples = values["samples"]
    return samples._replaced(failures=values["failures"])


def _fields(kind: type[Samples]) -> dict[str, Field]:
    fields: dict[str, Any] = {
        "samples": Instance(kind),
        "failures": Optional(Instance(Failures)),
    }
    return fields
