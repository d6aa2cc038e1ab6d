"""Samples and answers as labelled arrays of xarray, which ArviZ reads."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from cbq.common import Array
from cbq.samples.names import Names

if TYPE_CHECKING:
    from cbq.samples.samples import Samples

OUTPUT = "output"  # the axis of outputs
CHAIN = ("chain", "draw")  # the axes that ArviZ expects first


def dataset_at(theta: Array, quantities: Mapping[str, Array], names: Names, **attributes: Any) -> Any:
    """Quantities (M,) or (M, C) by name at thetas (M, p), as an xarray Dataset.

    For p = 1 the axis of thetas has the name of theta. Otherwise it is called theta, and each coordinate of theta is a
    coordinate along it.
    """
    coordinates, axis = _theta_coordinates(theta, names, [*quantities, OUTPUT])
    variables = {name: ((axis, OUTPUT)[: values.ndim], values) for name, values in quantities.items()}
    if any(values.ndim == 2 for values in quantities.values()):
        coordinates[OUTPUT] = (OUTPUT, list(names.f))
    return _xarray().Dataset(variables, coordinates, attributes)


def datatree(samples: Samples, group: str) -> Any:
    """Samples with equally many points at each theta, as an xarray DataTree; see `Samples.to_datatree`."""
    names, N = samples.names, int(np.min(samples.counts))
    if samples.is_ragged:
        raise ValueError(
            f"to_datatree needs equally many points at each theta, but there are {N} to {np.max(samples.counts)}: take "
            f"samples.thinned({N}), or to_frame()."
        )
    coordinates, axis = _theta_coordinates(samples.theta, names, [*names.x, *names.f, *CHAIN])
    columns = zip((*names.x, *names.f), (*samples.all_points.T, *samples.table.T), strict=True)
    variables = {name: ((*CHAIN, axis), column.reshape(1, samples.T, N).swapaxes(1, 2)) for name, column in columns}
    coordinates |= {"chain": np.arange(1), "draw": np.arange(N)}
    dataset = _xarray().Dataset(variables, coordinates, {"design": samples.design})
    return _xarray().DataTree.from_dict({group: dataset})


def _theta_coordinates(theta: Array, names: Names, others: Sequence[str]) -> tuple[dict[str, Any], str]:
    """The coordinates of thetas (M, p), and the name of their axis; `others` are the names of further arrays."""
    axis = names.theta[0] if len(names.theta) == 1 else "theta"
    counts = Counter([*{*names.theta, axis}, *others])
    if twice := [name for name in counts if counts[name] > 1]:
        raise ValueError(f"a dataset cannot have two arrays {twice[0]!r}: give theta, x or f another name.")
    return {name: (axis, column) for name, column in zip(names.theta, theta.T, strict=True)}, axis


def _xarray() -> Any:
    try:
        import xarray
    except ImportError as error:
        raise ImportError("labelled arrays need xarray: python -m pip install xarray.") from error
    return xarray
