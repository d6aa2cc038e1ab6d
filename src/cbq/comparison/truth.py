"""What methods are judged by, where the answer is known."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

from cbq._arrays import Array, finite
from cbq.problem import Problem
from cbq.samples import Samples
from cbq.samples.arrays import thetas_in

Truth = Problem | Callable[[Array], npt.ArrayLike] | npt.ArrayLike

DRAWS, SEED = 1000, 20240616  # thetas from the prior of a problem; a seed that nobody collects with


@dataclass(frozen=True, eq=False)
class Target:
    """True values (M, C) at theta (M, p)."""

    theta: Array
    values: Array


class Judge:
    """Where methods are judged: at the same thetas for all samples, or at the observed ones of each.

    truth, theta: as `cbq.compare` takes them. samples: all that will be judged, of one p and C.
    """

    def __init__(self, truth: Truth, theta: npt.ArrayLike | None, samples: Sequence[Samples]) -> None:
        self._columns = samples[0].C or 1
        p = samples[0].p
        self._function = _function(truth, p)
        given = None if theta is None else thetas_in(theta, p, "the samples' theta")
        if given is None and isinstance(truth, Problem):
            given = truth.prior.sample(DRAWS, SEED)
        if self._function is None and given is None:
            _refuse_other_thetas(samples)
            given = samples[0].theta
        values = truth if self._function is None else None if given is None else self._function(given)
        self._shared = None if given is None else Target(given, self._checked(values, len(given)))

    def targets(self, samples: Samples) -> list[Callable[[], Target]]:
        """The places to judge a method at, of which the first that it answers counts; evaluated when called."""
        function, shared = self._function, self._shared
        places: list[Callable[[], Target]] = [] if shared is None else [lambda: shared]
        if function is not None:
            theta = samples.theta
            places.append(cache(lambda: Target(theta, self._checked(function(theta), len(theta)))))
        return places

    def _checked(self, truth: Any, M: int) -> Array:
        """True values at M thetas as (M, C)."""
        values, C = finite(truth, "truth"), self._columns
        if values.shape != (M, C) and not (C == 1 and values.shape == (M,)):
            wanted = f"({M},)" if C == 1 else f"({M}, {C})"
            raise ValueError(f"truth has shape {values.shape}, but at {M} thetas it must be {wanted}.")
        return values.reshape(M, C)


def _function(truth: Truth, p: int) -> Callable[[Array], Any] | None:
    """Truth as a function of theta; None where it is an array."""
    if isinstance(truth, Problem):
        if not truth.has_exact:
            raise ValueError(
                f"the exact answer of {truth.name!r} is not known, so it is no truth: leave truth out for the error of "
                f"leaving thetas out, or pass a function of theta."
            )
        if truth.p != p:
            raise ValueError(f"truth is a problem with p = {truth.p}, but the samples have p = {p}.")
        return truth.exact
    return truth if callable(truth) else None


def _refuse_other_thetas(samples: Sequence[Samples]) -> None:
    if any(not np.array_equal(each.theta, samples[0].theta) for each in samples):
        raise ValueError(
            "truth is an array and the samples have different thetas: pass the thetas of its values as theta, or a "
            "function of theta as truth."
        )
