"""Saved samples: the family of measures comes from the user, since a file holds no function, and must be the same."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from cbq._arrays import Array, Integers
from cbq.io import IncompatibleFile
from cbq.samples.conditional import Family

if TYPE_CHECKING:
    from cbq.samples.samples import Samples

TOLERANCE = 1e-6  # relative, of densities and integrals that two machines compute for the same measure


class FamilyNeeded(IncompatibleFile):
    """The file holds samples, and no family was passed."""


def other_family(why: str) -> IncompatibleFile:
    """The error for a family that is not the one of the samples."""
    return IncompatibleFile(f"does not go with this family, which is not the one of the fit: {why}")


def read_samples(samples: Samples) -> dict[str, Any]:
    """The fields of saved samples; the log densities of the points stand for the family."""
    return {
        "x": samples.all_points,
        "f": samples.table,
        "single": samples.C is None,
        "log_density": samples.log_density(),
    }


def build_samples(
    cls: type[Samples],
    family: Family | None,
    *,
    theta: Array,
    counts: Integers,
    x: Array,
    f: Array,
    single: bool,
    log_density: Array,
    **options: Any,
) -> Samples:
    """The samples with the measures of `family`, under which the points must have these log densities (n,)."""
    if family is None:
        raise FamilyNeeded(
            "holds a fit that needs the measure of x at any theta, and a file holds no code: pass family=, the "
            "function from theta to its measure."
        )
    cuts = np.cumsum(counts)[:-1]
    points, values = np.split(x, cuts), np.split(f[:, 0] if single else f, cuts)
    try:
        samples = cls(theta, points, values, family, **options)
    except (ValueError, TypeError) as error:
        raise other_family(str(error)) from error
    found = samples.log_density()
    other = np.abs(found - log_density) > TOLERANCE * (1.0 + np.abs(log_density))
    if np.any(other):
        i = int(np.argmax(other))
        raise other_family(
            f"at theta = {theta[samples.owners[i]]} the log density of a point is {found[i]:.6g}, but in the fit it is "
            f"{log_density[i]:.6g}. Pass the family that the samples were drawn from."
        )
    return samples
