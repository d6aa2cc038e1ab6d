"""A fit of kernel least-squares Monte Carlo as JSON and arrays, and back."""

from __future__ import annotations

from typing import Any, cast

from cbq._arrays import Array
from cbq.io import checks
from cbq.io.archive import Archive
from cbq.io.averages import Arrays, curves, pack_averages, pack_smoothed, unpack_averages, unpack_smoothed
from cbq.io.kernels import pack_kernel, unpack_kernel
from cbq.methods.baselines.kernel_least_squares import KernelCurve, KLSMCFit


def pack(fit: KLSMCFit) -> tuple[dict[str, Any], Arrays]:
    """Everything the constructor needs: a JSON object, and arrays by name."""
    chosen = [cast(KernelCurve, smoother) for smoother in fit.smoothers]
    packed = [{"kernel": pack_kernel(each.kernel), "ridge": each.ridge} for each in chosen]
    return pack_smoothed(fit) | {"curves": packed}, pack_averages(fit.averages)


def unpack(record: dict[str, Any], archive: Archive) -> KLSMCFit:
    """The fit, from a JSON object and the arrays of an archive."""
    averages = unpack_averages(archive)
    found = [_unpack_curve(each, averages.theta) for each in curves(record, averages.mean.shape[1])]
    return KLSMCFit(averages, found, **unpack_smoothed(record, averages))


def _unpack_curve(record: Any, theta: Array) -> KernelCurve:
    kernel = unpack_kernel(checks.field(record, "kernel", dict))
    kernel.check_dim(theta.shape[1])
    return KernelCurve(theta, kernel, checks.number(record.get("ridge"), "ridge", least=0.0))
