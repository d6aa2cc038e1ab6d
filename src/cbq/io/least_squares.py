"""A fit of least-squares Monte Carlo as JSON and arrays, and back."""

from __future__ import annotations

from math import comb
from typing import Any, cast

from cbq._arrays import Array
from cbq.io import checks
from cbq.io.archive import Archive
from cbq.io.averages import Arrays, curves, pack_averages, pack_smoothed, unpack_averages, unpack_smoothed
from cbq.methods.baselines.least_squares import LSMCFit, Monomials, Polynomial


def pack(fit: LSMCFit) -> tuple[dict[str, Any], Arrays]:
    """Everything the constructor needs: a JSON object, and arrays by name."""
    chosen = [cast(Polynomial, smoother) for smoother in fit.smoothers]
    packed = [{"degree": int(each.monomials.degree), "ridge": each.ridge} for each in chosen]
    return pack_smoothed(fit) | {"curves": packed}, pack_averages(fit.averages)


def unpack(record: dict[str, Any], archive: Archive) -> LSMCFit:
    """The fit, from a JSON object and the arrays of an archive."""
    averages = unpack_averages(archive)
    found = [_unpack_curve(each, averages.theta) for each in curves(record, averages.mean.shape[1])]
    return LSMCFit(averages, found, **unpack_smoothed(record, averages))


def _unpack_curve(record: Any, theta: Array) -> Polynomial:
    degree, (T, p) = checks.field(record, "degree", int), theta.shape
    if not 0 <= degree < T or comb(p + degree, p) > T:
        raise ValueError(f"'degree' is {degree}, which is no degree of a polynomial that {T} thetas can tell.")
    return Polynomial(Monomials(theta, degree), checks.number(record.get("ridge"), "ridge", least=0.0))
