"""The runs that a session asks for, and the error for results that it does not take."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from cbq import _html
from cbq._arrays import Array
from cbq._names import Names, by_run
from cbq._tables import data_frame


@dataclass(frozen=True, eq=False, repr=False)
class Asked:
    """Runs to be made: their ids (n,), theta (n, p) and x (n, d).

    Examples
    --------
    >>> problem = cbq.Problem(None, lambda theta: cbq.measures.Gaussian(theta, cov=1.0), cbq.measures.Uniform(0.0, 2.0))
    >>> with problem.session(rng=0) as session:
    ...     runs = session.ask(4)
    >>> [number for number, theta, x in runs]
    [0, 1, 2, 3]
    """

    ids: npt.NDArray[np.intp]
    theta: Array
    x: Array
    names: Names

    def __len__(self) -> int:
        return len(self.ids)

    def __iter__(self) -> Iterator[tuple[int, Array, Array]]:
        """Each run: its id, theta (p,) and x (d,)."""
        return iter([(int(i), theta, x) for i, theta, x in zip(self.ids, self.theta, self.x, strict=True)])

    def to_columns(self) -> dict[str, npt.NDArray[Any]]:
        """The columns of a table, (n,) each: id, and those of theta and of x, by their names."""
        return {"id": self.ids, **by_run(self.theta, self.x, self.names)}

    def __repr__(self) -> str:
        if not len(self):
            return "Asked(no runs)"
        x = f", {self.names.ranges('x', self.x)}"
        return f"Asked({len(self)} runs, {self.names.ranges('theta', self.theta)}{x})"

    def _repr_html_(self) -> str:
        return _html.column_table(self.to_columns(), "Asked")

    def to_frame(self) -> Any:
        """A pandas table with a row for each run."""
        return data_frame(self.to_columns())


class RefusedResult(ValueError):
    """A result that a session does not take. id : that of the run."""

    def __init__(self, id: int, message: str) -> None:
        super().__init__(message)
        self.id = id
