"""What the coordinates of theta and the outputs of a fit are called, in sentences and on axes of figures."""

from __future__ import annotations

from cbq.fit.base import Fit


def theta_names(fit: Fit) -> tuple[str, ...]:
    """The names of the coordinates of theta, as people write them: p of them."""
    return _names(fit, "theta", fit.p)


def output_names(fit: Fit) -> tuple[str, ...]:
    """The names of the outputs of f: C of them, or one."""
    return _names(fit, "f", fit.C)


def expectation_names(fit: Fit) -> tuple[str, ...]:
    """What is estimated for each output: "expected profit" where it has a name, otherwise I(theta) or I_0(theta)."""
    symbols = ("I(theta)",) if fit.C is None else tuple(f"I_{c}(theta)" for c in range(fit.C))
    named = zip(output_names(fit), default_names("f", fit.C), symbols, strict=True)
    return tuple(symbol if name == default else f"expected {name}" for name, default, symbol in named)


def theta_labels(fit: Fit) -> list[str]:
    """The labels of the axes of theta: names, or symbols where there are none."""
    symbols = (
        [r"$\theta$"] if fit.p == 1 else [rf"$\theta_{j}$" if j < 10 else rf"$\theta_{{{j}}}$" for j in range(fit.p)]
    )
    named = zip(theta_names(fit), default_names("theta", fit.p), symbols, strict=True)
    return [symbol if name == default else plain(name) for name, default, symbol in named]


def expectation_labels(fit: Fit) -> list[str]:
    """The labels of the axes of I for each output: E[profit] where it has a name."""
    symbols = [r"$I(\theta)$"] if fit.C is None else [rf"$I_{{{c}}}(\theta)$" for c in range(fit.C)]
    named = zip(output_names(fit), default_names("f", fit.C), symbols, strict=True)
    return [symbol if name == default else f"E[{plain(name)}]" for name, default, symbol in named]


def plain(name: str) -> str:
    """A name that matplotlib shows as it is, and not as mathematics."""
    return name.replace("$", r"\$")


def default_names(letter: str, number: int | None) -> tuple[str, ...]:
    """The names of coordinates without names: theta, or theta_0, theta_1, ...; one of outputs without an axis."""
    alone = number is None or (letter != "f" and number == 1)
    return (letter,) if alone else tuple(f"{letter}_{j}" for j in range(number or 0))


def _names(fit: Fit, letter: str, number: int | None) -> tuple[str, ...]:
    given = getattr(getattr(fit, "names", None), letter, None)
    return default_names(letter, number) if given is None else tuple(given)
