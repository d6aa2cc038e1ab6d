"""Kernels as JSON. Those that hold a function or a measure are refused: a file holds no code."""

from __future__ import annotations

from typing import Any

import numpy as np

from cbq.kernels import RBF, Additive, Kernel, Matern, ProductKernel, ScaledKernel, SumKernel, TensorProduct, Warped
from cbq.kernels.warped import Log

# Each kernel by the arguments of its constructor, which are its attributes too.
ARGUMENTS: dict[type[Kernel], tuple[str, ...]] = {
    RBF: ("lengthscale",),
    Matern: ("nu", "lengthscale"),
    TensorProduct: ("base",),
    Additive: ("base",),
    SumKernel: ("parts",),
    ProductKernel: ("parts",),
    ScaledKernel: ("factor", "kernel"),
    Warped: ("base", "warp"),
}
BY_NAME = {kind.__name__: kind for kind in ARGUMENTS}


def pack_kernel(kernel: Kernel) -> dict[str, Any]:
    """The kernel as a JSON object, or a ValueError that says why it has none."""
    if type(kernel) not in ARGUMENTS:  # not isinstance: a user's own subclass is code, too
        raise ValueError(_refusal(kernel, "follows a measure or is code of your own"))
    if isinstance(kernel, Warped) and type(kernel.warp) is not Log:
        raise ValueError(_refusal(kernel, "is warped by a function or by a measure"))
    return {"type": type(kernel).__name__} | {name: _pack(getattr(kernel, name)) for name in ARGUMENTS[type(kernel)]}


def unpack_kernel(record: Any) -> Kernel:
    """The kernel that `pack_kernel` made `record` of; its constructor checks the values."""
    name = record.get("type") if isinstance(record, dict) else None
    if not isinstance(name, str) or name not in BY_NAME:
        raise ValueError(f"a kernel must be an object with a 'type' among {', '.join(BY_NAME)}, but it has {name!r}.")
    kind = BY_NAME[name]
    if record.keys() != {"type", *ARGUMENTS[kind]}:
        raise ValueError(f"a kernel {name} must have {', '.join(ARGUMENTS[kind])}, but it has {', '.join(record)}.")
    if kind is Warped and record["warp"] != Log.name:
        raise ValueError(f"a warp must be {Log.name!r}, but it is {record['warp']!r}.")
    if kind in (RBF, Matern) and record["lengthscale"] is None:
        raise ValueError(f"a kernel {name} has no lengthscale.")
    return kind(**{argument: _unpack(record[argument]) for argument in ARGUMENTS[kind]})


def _pack(value: Any) -> Any:
    if isinstance(value, Kernel):
        return pack_kernel(value)
    if isinstance(value, tuple):
        return [pack_kernel(part) for part in value]
    return Log.name if isinstance(value, Log) else np.asarray(value).tolist()  # numbers survive as their repr


def _unpack(value: Any) -> Any:
    if isinstance(value, dict):
        return unpack_kernel(value)
    return [_unpack(part) for part in value] if isinstance(value, list) else value


def _refusal(kernel: Kernel, why: str) -> str:
    return (
        f"{' '.join(repr(kernel).split())}, a kernel over theta, {why}, and a file holds no code. Use a kernel_theta "
        f"made of {', '.join(BY_NAME)} (warped by 'log' only), or keep the samples and fit again when needed."
    )
