"""Names of the coordinates of theta and of the outputs of a fit, in sentences and on axes of figures."""

from __future__ import annotations

from cbq.fit.base import Fit
from cbq.plotting import plain


def expectation_names(fit: Fit) -> tuple[str, ...]:
    """The name of each expectation: "expected profit" where the output has a name, otherwise I(theta) or I_0(theta)."""
    symbols = ("I(theta)",) if fit.C is None else tuple(f"I_{c}(theta)" for c in range(fit.C))
    return tuple(f"expected {name}" for name in fit.names.f) if fit.names.are_given("f") else symbols


def theta_labels(fit: Fit) -> list[str]:
    """The labels of the axes of theta: names, or symbols where there are none."""
    symbols = (
        [r"$\theta$"] if fit.p == 1 else [rf"$\theta_{j}$" if j < 10 else rf"$\theta_{{{j}}}$" for j in range(fit.p)]
    )
    return [plain(name) for name in fit.names.theta] if fit.names.are_given("theta") else symbols


def expectation_labels(fit: Fit) -> list[str]:
    """The labels of the axes of I for each output: E[profit] where it has a name."""
    symbols = [r"$I(\theta)$"] if fit.C is None else [rf"$I_{{{c}}}(\theta)$" for c in range(fit.C)]
    return [f"E[{plain(name)}]" for name in fit.names.f] if fit.names.are_given("f") else symbols


def slope_names(fit: Fit) -> list[list[str]]:
    """The names of the slopes along each coordinate of theta, of each output: d value / d spot."""
    symbols = ("I",) if fit.C is None else tuple(f"I_{c}" for c in range(fit.C))
    outputs = fit.names.f if fit.names.are_given("f") else symbols
    return [[f"d {output} / d {name}" for output in outputs] for name in fit.names.theta]
