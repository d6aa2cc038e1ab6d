"""Pandas in, pandas out: answers at the thetas of a table keep its index.

Nothing here imports pandas before a table arrives.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import TYPE_CHECKING, Any, TypeVar, cast

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from cbq.fit.base import Fit

Method = TypeVar("Method", bound=Callable[..., Any])


def is_pandas(value: Any) -> bool:
    """Whether it is a Series or a DataFrame of pandas."""
    return type(value).__module__.partition(".")[0] == "pandas" and hasattr(value, "index") and hasattr(value, "iloc")


def keeping_index(method: Method) -> Method:
    """A method of a fit that answers at theta, in pandas with the index of theta if it is of pandas."""

    @wraps(method)
    def answer(fit: Fit, *arguments: Any, **named: Any) -> Any:
        found = method(fit, *arguments, **named)
        theta: Any = named.get("theta", arguments[0] if arguments else None)
        return _indexed(found, theta.index, fit) if is_pandas(theta) else found

    return cast(Method, answer)


def _indexed(found: Any, index: Any, fit: Fit) -> Any:
    """Answers (M,), (M, C), or (M, M) between thetas, as tables; a table with this index."""
    import pandas as pd  # type: ignore[import-untyped]

    if isinstance(found, tuple):
        return tuple(_indexed(each, index, fit) for each in found)
    if isinstance(found, pd.DataFrame):
        return found.set_axis(index, axis=0)
    values: npt.NDArray[np.float64] = found
    if values.ndim == 1:
        return pd.Series(values, index, name=fit.names.f[0])
    if values.ndim == 2:
        return pd.DataFrame(values, index, index if fit.C is None else list(fit.names.f))
    return values
