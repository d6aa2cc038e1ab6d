"""How an outcome is shown: a figure of its quantiles, probabilities and density, and a page with sliders."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from cbq.common import Array, Integers, digits_apart, evenly, short
from cbq.fit.outcome import Outcome
from cbq.plotting import INK, Axis, Band, Dots, Figure, Line, Mark, Panel, Rule, plain, series
from cbq.report import (
    Fragment,
    Page,
    Reader,
    Section,
    code,
    facts,
    figure_html,
    html_table,
    joined,
    made_with,
    paragraph,
)

QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)


def outcome_figure(outcome: Outcome, *, outputs: int = 4, curves: int = 5, level: float = 0.95) -> Figure:
    """A row of panels for each output: quantiles over theta, the probability to exceed c, and the density of f.

    Curves are drawn at some of the thetas, and the density at the one in the middle.
    """
    shown = outcome._take(_in_order(outcome))
    drawn = min(outcome.fit.C or 1, outputs)
    rows = [
        [*([_fan(shown, c)] if len(shown.theta) > 1 else []), _curves(shown, c, curves, level), _density(shown, c)]
        for c in range(drawn)
    ]
    left = (outcome.fit.C or 1) - drawn
    notes = [f"{left} more outputs are not drawn."] if left > 0 else []
    return Figure(rows, size=(4.2 * len(rows[0]), 3.4 * drawn), notes=notes)


def outcome_page(outcome: Outcome, title: str | None, repeat: str | None, level: float = 0.95) -> Page:
    """The question, probabilities under sliders for theta and c, charts, and a table."""
    names, several = outcome.fit.names, outcome.fit.C is not None
    what, of = ", ".join(names.f) if names.are_given("f") else "f", ", ".join(names.theta)
    shown = outcome._take(_in_order(outcome, 40))
    body = [part for c in range(min(outcome.fit.C or 1, 4)) for part in _sliders(shown, c, level)]
    table = _table(outcome, several)
    sections = [
        Section(
            "The question",
            joined(
                [
                    paragraph(f"How is {what} distributed over its random input X, given {of}?"),
                    facts({"thetas": str(len(outcome.theta)), "points of each measure": str(outcome.size)}),
                ]
            ),
        ),
        Section("The answer", joined([*body, table])),
        Section("What was chosen, and why", code(str(outcome.fit.summary()), "summary of the fit")),
        Section(
            "How to repeat it",
            joined([*([] if repeat is None else [code(repeat, "how to repeat it")]), facts(made_with())]),
        ),
    ]
    subtitle = f"Probabilities and quantiles with {100 * level:.4g}% intervals."
    return Page(title or f"The distribution of {what} given {of}", subtitle, Fragment(), sections)


def _in_order(outcome: Outcome, most: int = 200) -> Integers:
    """Thetas in the order of the axis: by theta for p = 1, otherwise by the median of the first output."""
    if outcome.fit.p == 1:
        key = outcome.theta[:, 0]
    else:
        key = np.asarray(outcome.ppf(0.5)).reshape(len(outcome.theta), -1)[:, 0]
    order = np.argsort(key, kind="stable")
    return order[evenly(len(order), most)]


def _columns(values: object, c: int) -> Array:
    """Answers (M, K) or (M, K, C) of output c, (M, K)."""
    found = np.asarray(values)
    return found if found.ndim == 2 else found[..., c]


def _label(outcome: Outcome, c: int) -> str:
    return (
        plain(outcome.fit.names.f[c])
        if outcome.fit.names.are_given("f")
        else ["f", f"f_{c}"][outcome.fit.C is not None]
    )


def _place(outcome: Outcome, m: int) -> str:
    """A theta in words."""
    digits = [min(digits_apart(column), 6) if len(column) > 1 else 4 for column in outcome.theta.T]
    pairs = zip(outcome.fit.names.theta, outcome.theta[m], digits, strict=True)
    return ", ".join(f"{plain(name)} = {value:.{max(n - 3, 3)}g}" for name, value, n in pairs)


def _theta_axis(outcome: Outcome) -> tuple[Array, Axis]:
    """Where thetas are in charts: at their value for p = 1, otherwise one after the other."""
    if outcome.fit.p == 1:
        return outcome.theta[:, 0], Axis(plain(outcome.fit.names.theta[0]))
    return np.arange(1.0, len(outcome.theta) + 1), Axis("theta, in the order of the medians")


def _fan(outcome: Outcome, c: int) -> Panel:
    """Quantiles over theta."""
    q = _columns(outcome.ppf(QUANTILES), c).T
    mean = np.asarray(outcome.mean()).reshape(len(outcome.theta), -1)[:, c]
    x, axis = _theta_axis(outcome)
    marks: list[Mark]
    if outcome.fit.p == 1:
        marks = [Band(x, q[0], q[4], "5% to 95%"), Band(x, q[1], q[3], "25% to 75%", opacity=0.3)]
        marks += [Line(x, q[2], "median"), Line(x, mean, "mean", colour=INK, dash="dashed", width=1.2)]
    else:
        marks = [Dots(x, q[2], q[0], q[4], "median, 5% to 95%"), Dots(x, mean, label="mean", marker="x", fill="none")]
    return Panel(marks, axis, Axis(_label(outcome, c)))


def _range(outcome: Outcome, c: int, points: int) -> Array:
    """Values of f (points,) that span nearly all outcomes."""
    ends = _columns(outcome.ppf([0.002, 0.998]), c)
    low, high = float(np.min(ends)), float(np.max(ends))
    reach = 0.03 * (high - low) or 0.5 * abs(low) or 1.0
    return np.linspace(low - reach, high + reach, points)


def _curves(outcome: Outcome, c: int, most: int, level: float) -> Panel:
    """The probability to exceed c at some thetas."""
    some = outcome._take(evenly(len(outcome.theta), most))
    at = _range(some, c, 100)
    estimate, low, high = (_columns(each, c) for each in some.sf(at, level=level))
    marks: list[Mark] = []
    for m in range(len(some.theta)):
        look = {"colour": series(m)["colour"]}
        marks += [Band(at, low[m], high[m], **look), Line(at, estimate[m], _place(some, m), **look)]
    label = _label(outcome, c)
    return Panel(marks, Axis(label), Axis(f"P({label} > c)", limits=(-0.02, 1.02)))


def _density(outcome: Outcome, c: int, bins: int = 80) -> Panel:
    """The density at the theta in the middle, by differences of probabilities."""
    one = outcome._take(np.array([len(outcome.theta) // 2]))
    edges = _range(one, c, bins + 1)
    density = np.maximum(np.diff(_columns(one.cdf(edges), c)[0]), 0.0) / np.diff(edges)
    x = np.repeat(edges, 2)[1:-1]
    marks: list[Mark] = [Band(x, np.zeros(len(x)), np.repeat(density, 2), opacity=0.35)]
    quantiles = _columns(one.ppf([0.05, 0.5, 0.95]), c)[0]
    low, median, high = quantiles.tolist()
    marks += [Rule(at, "x", "5% and 95%", INK, "dotted") for at in (low, high)]
    marks.append(Rule(median, "x", "median", INK, "dashed"))
    return Panel(marks, Axis(_label(outcome, c)), Axis("density", zero=True), title=_place(one, 0))


def _sliders(outcome: Outcome, c: int, level: float, points: int = 61) -> list[Fragment]:
    """Sliders for theta and c, the probability to exceed c along both, and the quantiles over theta."""
    at, key, label = _range(outcome, c, points), f"outcome-{c}", _label(outcome, c)
    at = np.array([float(f"{value:.{digits_apart(at) - 2}g}") for value in at])
    estimate, low, high = (_columns(each, c) for each in outcome.sf(at, level=level))
    x, axis = _theta_axis(outcome)
    several = len(outcome.theta) > 1
    texts = [[f"{value:.6g}" for value in at]]
    if several:
        values = [f"{v:.6g}" for v in x] if outcome.fit.p == 1 else [_place(outcome, m) for m in range(len(x))]
        texts.insert(0, values)
    axes = [x, at] if several else [at]
    name = outcome.fit.names.theta[0] if outcome.fit.p == 1 else "theta"
    names = [*([name] if several else []), "c"]
    quantity = (f"Probability that {label} exceeds c", estimate.ravel(), low.ravel(), high.ravel())
    middle = [len(x) // 2] if several else []
    middle.append(int(np.argmin(np.abs(estimate[len(x) // 2] - 0.5))))
    reader = Reader(key, names, axes, [quantity], level, middle, texts=texts)
    y = Axis(f"P({label} > c)", limits=(0.0, 1.02))
    wide = f"{100 * level:.4g}% interval"
    panels = [
        Panel(
            [
                Line(axis_values, axis_values, "probability", width=1.8),
                Band(axis_values, axis_values, axis_values, wide),
            ],
            x_axis,
            y,
        )
        for axis_values, x_axis in zip(axes, ([axis] if several else []) + [Axis("c")], strict=True)
    ]
    caption = (
        "The probability along theta, for the chosen c, and along c, for the chosen theta."
        if several
        else "The probability along c."
    )
    parts = [reader.html(), figure_html(panels, caption, height=260, reader=key, output=0, slice=True)]
    more = [_fan(outcome, c)] if several else []
    below = (
        f"Quantiles over theta, and the density of {label} at the theta in the middle."
        if several
        else f"The density of {label}."
    )
    return [*parts, figure_html([*more, _density(outcome, c)], below, height=260)]


def _table(outcome: Outcome, several: bool, most: int = 15) -> Fragment:
    """Moments and quantiles at some thetas."""
    some = outcome._take(np.sort(_in_order(outcome, most)))
    quantiles = np.asarray(some.ppf(QUANTILES)).reshape(len(some.theta), len(QUANTILES), -1)
    mean, std = (np.asarray(each).reshape(len(some.theta), -1) for each in (some.mean(), some.std()))
    header = [*some.fit.names.theta, *["output"] * several, "mean", "std", *(f"{q:.0%}" for q in QUANTILES)]
    lines: list[Sequence[str]] = []
    for m, theta in enumerate(some.theta):
        for c in range(mean.shape[1]):
            numbers = [mean[m, c], std[m, c], *quantiles[m, :, c]]
            name = [some.fit.names.f[c]] if several else []
            lines.append([*(f"{v:.6g}" for v in theta), *name, *(short(float(v), 4) for v in numbers)])
    return html_table(header, lines, "Moments and quantiles at some thetas; outcome.to_frame() has all of them.")
