"""What can go wrong while samples are collected."""

from __future__ import annotations

from typing import Any


class IntegrandError(RuntimeError):
    """The integrand failed; `t`, `theta`, `i` and `x` say where (None: not known)."""

    def __init__(self, message: str, t: Any = None, theta: Any = None, i: Any = None, x: Any = None) -> None:
        super().__init__(message)
        self.t, self.theta, self.i, self.x = t, theta, i, x


class WrongReturn(IntegrandError):
    """The integrand returned no array of the shape and type that are needed: no point is to blame, its code is."""


class WorkerError(RuntimeError):
    """The workers that evaluate the integrand failed, rather than the integrand itself."""


class CheckpointError(ValueError):
    """A checkpoint is of another run, is damaged, is in use, or cannot be written."""


class CollectWarning(UserWarning):
    """Points were left out of the samples."""
