"""Checks of options that several methods have."""

from __future__ import annotations

from typing import Any, get_args

from cbq.kernels import Kernel
from cbq.linalg import Jitter


def check_kernels(method: Any) -> None:
    """Raise unless kernel_x and kernel_theta are kernels or "auto"."""
    for name in ("kernel_x", "kernel_theta"):
        kernel = getattr(method, name)
        if not isinstance(kernel, Kernel) and kernel != "auto":
            raise TypeError(f"{name} must be 'auto' or a kernel such as cbq.kernels.RBF(), but it is {kernel!r}.")


def check_choices(method: Any, options: dict[str, Any]) -> None:
    """Raise unless each option is one of those that its Literal type lists."""
    for name, kind in options.items():
        if getattr(method, name) not in get_args(kind):
            choices = " or ".join(map(repr, get_args(kind)))
            raise ValueError(f"{name} must be {choices}, but it is {getattr(method, name)!r}.")


def check_jitter(jitter: object) -> None:
    """Raise unless it is a rule for jitter."""
    if not isinstance(jitter, Jitter):
        raise TypeError(f"jitter must be a cbq.linalg.Jitter, such as Jitter(start=1e-10), but it is {jitter!r}.")
