"""Checks of what estimators are given: their options, and samples."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from cbq._checks import one_of, shown
from cbq.kernels import Kernel
from cbq.linalg.engines import NumpyEngine, current_engine
from cbq.samples import Samples


def require_samples(samples: object) -> None:
    """Raise unless these are samples."""
    if not isinstance(samples, Samples):
        raise TypeError(f"fit takes cbq.Samples, but a {type(samples).__name__} arrived as samples.")


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
        if not isinstance(kernel, Kernel) and not is_auto(kernel):
            raise TypeError(f"{name} must be 'auto' or a kernel such as cbq.kernels.RBF(), but it is {shown(kernel)}.")


def check_choices(estimator: Any, choices: dict[str, Any]) -> None:
    """Raise unless each option is one of those that its Literal type lists."""
    for name, kind in choices.items():
        one_of(getattr(estimator, name), kind, name)


def is_auto(value: object) -> bool:
    """Whether it is "auto"; arrays cannot be compared with a string."""
    return isinstance(value, str) and value == "auto"


def settings(estimator: Any) -> dict[str, str]:
    """The options of an estimator, as text, and the engine of the fit, unless it is NumPy."""
    found = {field.name: " ".join(repr(getattr(estimator, field.name)).split()) for field in fields(estimator)}
    engine = current_engine()
    return found if isinstance(engine, NumpyEngine) else {**found, "engine": engine.name}
