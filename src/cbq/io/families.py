"""Samples of a file with the measures that a user passes, since a file holds no function: checked against each other."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from cbq.io.archive import IncompatibleFile
from cbq.samples import Samples
from cbq.samples.conditional import Family
from cbq.samples.samples import Design

CLOSE = 1e-6  # log densities of one measure on two machines


def samples_with(
    family: Family, arrays: dict[str, npt.NDArray[Any]], *, design: Design, depends_on_theta: bool
) -> Samples:
    """The samples of checked arrays theta (T, p), counts (T,), x (n, d), f (n,) or (n, C), with the measures of `family`.

    The log densities of the points, (n,), must be those of `log_density`: another family is refused.
    """
    cuts = np.cumsum(arrays["counts"])[:-1]
    x, f = (np.split(arrays[name], cuts) for name in ("x", "f"))
    try:
        samples = Samples(arrays["theta"], x, f, family, depends_on_theta=depends_on_theta, design=design)
    except (ValueError, TypeError) as error:
        raise IncompatibleFile(f"does not go with this family, which is not the one of the fit: {error}") from error
    known, found = arrays["log_density"], samples.log_density()
    other = np.abs(found - known) > CLOSE * (1.0 + np.abs(known))
    if np.any(other):
        i = int(np.argmax(other))
        raise IncompatibleFile(
            f"does not go with this family, which is not the one of the fit: at theta = "
            f"{samples.theta[samples.owners[i]]} it gives a point the log density {found[i]:.6g}, and in the fit it is "
            f"{known[i]:.6g}. Pass the family that the samples were drawn from."
        )
    return samples
