"""Checks of what estimators are given: their options, and samples."""

from __future__ import annotations

from dataclasses import fields
from typing import Any, get_args

import numpy as np

from cbq.kernels import Kernel
from cbq.linalg import Jitter
from cbq.samples import Samples


def require_samples(samples: object) -> None:
    """Raise unless these are samples."""
    if not isinstance(samples, Samples):
        raise TypeError(f"fit takes cbq.Samples, but a {type(samples).__name__} arrived.")


def require_several_values(samples: Samples) -> None:
    """Raise unless these are samples from which an error can be estimated."""
    require_samples(samples)
    if samples.n_evaluations == 1:
        raise ValueError(
            "there is one theta with one value of f, which says nothing about its own error: evaluate f at more points "
            "of that theta, or at more thetas."
        )


def check_kernels(estimator: Any) -> None:
    """Raise unless kernel_x and kernel_theta are kernels or "auto"."""
    for name in ("kernel_x", "kernel_theta"):
        kernel = getattr(estimator, name)
        if not isinstance(kernel, Kernel) and kernel != "auto":
            raise TypeError(f"{name} must be 'auto' or a kernel such as cbq.kernels.RBF(), but it is {kernel!r}.")


def check_choices(estimator: Any, choices: dict[str, Any]) -> None:
    """Raise unless each option is one of those that its Literal type lists."""
    for name, kind in choices.items():
        if getattr(estimator, name) not in get_args(kind):
            allowed = " or ".join(map(repr, get_args(kind)))
            raise ValueError(f"{name} must be {allowed}, but it is {getattr(estimator, name)!r}.")


def check_flag(value: object, name: str, *, auto: bool = False) -> None:
    """Raise unless it is True or False, or "auto" where that is allowed."""
    if not isinstance(value, bool) and not (auto and value == "auto"):
        allowed = "'auto', True or False" if auto else "True or False"
        raise ValueError(f"{name} must be {allowed}, but it is {value!r}.")


def is_whole(value: object, least: int) -> bool:
    """Whether it is a whole number, at least `least`; True and False are not."""
    return isinstance(value, int | np.integer) and not isinstance(value, bool) and bool(value >= least)


def is_number(value: object) -> bool:
    """Whether it is a finite number, zero or more; True and False are not."""
    return isinstance(value, int | float | np.number) and not isinstance(value, bool) and bool(0 <= value < np.inf)


def settings(estimator: Any) -> dict[str, str]:
    """The options of an estimator, as text."""
    return {field.name: " ".join(repr(getattr(estimator, field.name)).split()) for field in fields(estimator)}


def check_jitter(jitter: object) -> None:
    """Raise unless it is a rule for jitter."""
    if not isinstance(jitter, Jitter):
        raise TypeError(f"jitter must be a cbq.linalg.Jitter, such as Jitter(start=1e-10), but it is {jitter!r}.")
