"""Samples from posterior draws at each theta, for `Samples.from_arviz`: read, checked and thinned."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from cbq.common import Array, called, real, shown
from cbq.measures import Unnormalised
from cbq.samples.chains import Chains, Thin, effective_size, mixing_problem, stride
from cbq.samples.findings import SamplesFinding, in_brief
from cbq.samples.names import RESERVED, Names

Source = str | Sequence[str] | Callable[[Array, Array], Any]
REFUSED, STANDARD_ERRORS = 0.3, 6.0  # the smallest refused error of E[x s'], absolute and in standard errors


class ChainWarning(UserWarning):
    """A Markov chain has not converged, or its effective sample size is small.

    Examples
    --------
    >>> import warnings
    >>> x = np.random.default_rng(0).normal(size=(4, 200)) + [[0.0], [0.0], [0.0], [3.0]]  # one chain is elsewhere
    >>> with warnings.catch_warnings(record=True, action="always") as caught:
    ...     samples = cbq.Samples.from_arviz({1.0: {"x": x}}, value="x")
    >>> caught[0].category.__name__
    'ChainWarning'
    """


def read_posteriors(
    data: Any, value: Source, x: Any, score: Source | None, measure: Any, thin: Thin, group: str, names: Names
) -> tuple[dict[str, Any], tuple[SamplesFinding, ...]]:
    """The arguments of `Samples` for posteriors by theta, and findings about their chains, which raise a warning."""
    if not isinstance(data, Mapping) or not data:
        raise TypeError(f"data must be a mapping from theta to its draws, such as {{0.5: idata}}, not {shown(data)}.")
    if not isinstance(group, str):
        raise TypeError(f"group must be the name of a group, but it is {shown(group)}.")
    thetas = [np.atleast_1d(real(theta, f"the key {shown(theta)} of data")) for theta in data]
    if len({theta.shape for theta in thetas}) > 1 or thetas[0].ndim != 1:
        raise ValueError(
            "the keys of data must be numbers, or tuples of equally many: one for each coordinate of theta."
        )
    chains = [Chains.of(draws, _text(theta), group) for draws, theta in zip(data.values(), thetas, strict=True)]
    posteriors = [_posterior(chain, theta, value, x, score, thin) for chain, theta in zip(chains, thetas, strict=True)]
    problems = zip((problem for *_, problem in posteriors), chains, thetas, strict=True)
    findings = tuple(
        SamplesFinding("convergence", f"at theta = {chain.theta}, {problem}.", theta)
        for problem, chain, theta in problems
        if problem is not None
    )
    if findings:
        text = in_brief(findings, "convergence", len(thetas))
        warnings.warn(f"{text} Run longer or more chains.", ChainWarning, stacklevel=3)
    measures = measure
    if measure is None and score is not None:
        measures = [
            Unnormalised(score=_KnownScores(x, s), dim=x.shape[-1]) for x, _, s, _ in posteriors if s is not None
        ]
    arguments = {
        "theta": np.stack(thetas),
        "x": [points for points, *_ in posteriors],
        "f": [f for _, f, *_ in posteriors],
        "measure": measures,
        "names": _with_labels(names, _labels(chains[0], x), len(thetas[0]), posteriors[0][1]),
    }
    return arguments, findings


def _with_labels(names: Names, labels: list[str], p: int, f: Array) -> Names:
    """The names, with labels of variables for x unless x has names or theta or f uses a label."""
    filled = names.with_theta(p).with_f(f.shape[1] if f.ndim == 2 else None)
    taken = [*filled.theta, *filled.f, *RESERVED, *labels]
    return names if names.x or any(taken.count(label) > 1 for label in labels) else replace(names, x=tuple(labels))


def _labels(chains: Chains, x: Any) -> list[str]:
    """The names of the coordinates of x: variables, with an index if a variable has several components."""
    sizes = {name: chains.array(name, "x").shape[-1] for name in _variables(chains, x)}
    return [f"{name}[{i}]" if k > 1 else name for name, k in sizes.items() for i in range(k)]


def _variables(chains: Chains, x: Any) -> list[str]:
    return list(chains.variables) if x is None else _names(x, "x")


def _posterior(
    chains: Chains, theta: Array, value: Source, x: Any, score: Source | None, thin: Thin
) -> tuple[Array, Array, Array | None, str | None]:
    """Points (N, d), values (N,) or (N, C) and scores (N, d) of the thinned draws, and the problem of the chains."""
    draws = chains.together(_variables(chains, x), "x")
    f = _values(chains, draws, theta, value, "value")
    scores = None if score is None else _values(chains, draws, theta, score, "score")
    if scores is not None:
        _check_scores(draws, scores, chains.theta)
    problem = mixing_problem(draws, _labels(chains, x))
    step = stride(np.concatenate([draws, f], axis=-1), thin)
    flat = [None if array is None else array[:, ::step].reshape(-1, array.shape[-1]) for array in (draws, f, scores)]
    points, values, kept = flat
    assert points is not None
    assert values is not None
    return points, values[:, 0] if values.shape[1] == 1 else values, kept, problem


def _names(given: Any, what: str, alternative: str = "") -> list[str]:
    """The names of variables: one, or several."""
    names = [given] if isinstance(given, str) else list(given) if isinstance(given, list | tuple) else []
    if not names or not all(isinstance(name, str) for name in names):
        raise TypeError(f"{what} must be a name, a list of names{alternative}, but it is {shown(given)}.")
    return names


def _values(chains: Chains, draws: Array, theta: Array, source: Source, what: str) -> Array:
    """The values (chains, draws, k) of f or of the score: variables by name, or a function of x (n, d) and theta."""
    if isinstance(source, str):
        values = chains.array(source, what)
    elif callable(source):
        flat = draws.reshape(-1, draws.shape[-1])
        values = real(called(source, what, flat, theta), f"the output of {what}")
        if values.ndim not in (1, 2) or len(values) != len(flat):
            shapes = f"{values.shape} for x of shape {flat.shape}"
            raise ValueError(f"{what}(x, theta) returned an array of shape {shapes}: it must have as many rows.")
        values = values.reshape(*draws.shape[:2], -1)
    else:
        values = chains.together(_names(source, what, " or a function of x and theta"), what)
    wanted = (*draws.shape[:2], draws.shape[-1] if what == "score" else values.shape[-1])
    if values.shape != wanted:
        raise ValueError(
            f"{what} at theta = {chains.theta} has shape {values.shape}, but {wanted} fits the draws of x."
        )
    return values


def _check_scores(x: Array, s: Array, theta: str) -> None:
    """Raise unless scores belong to draws, both (chains, draws, d): E s = 0 and E[(x - E x) s'] = -1, the identity."""
    centred = x - np.mean(x, axis=(0, 1))
    d = x.shape[-1]
    products = centred[..., :, None] * s[..., None, :]  # (chains, draws, d, d)
    moments = np.mean(products, axis=(0, 1))
    sizes = np.array([effective_size(s[..., j]) for j in range(d)])
    error = np.sqrt(np.var(products, axis=(0, 1)) / np.maximum(sizes, 1.0))
    scale = np.std(x, axis=(0, 1))[:, None] / np.maximum(np.std(x, axis=(0, 1)), np.finfo(float).tiny)
    wrong = np.abs(moments + np.eye(d)) > np.maximum(REFUSED * scale, STANDARD_ERRORS * error)
    diagonal = np.diagonal(moments)
    rule = "the score is the gradient of log p(x) by x, at the draws themselves, in their units and order"
    if np.any(wrong) and np.all(np.abs(diagonal - 1) < 2 * REFUSED):
        raise ValueError(
            f"the scores at theta = {theta} have the wrong sign: E[x s'] is {diagonal.round(2)} along the coordinates, "
            f"where -1 is expected. Pass the gradient of the log density, not of its negative."
        )
    if np.any(wrong):
        j = int(np.argmax(np.max(wrong, axis=0)))
        guess = f", as if they were {-diagonal[j]:.2g} times too large" if np.min(-diagonal) > REFUSED else ""
        raise ValueError(
            f"the scores at theta = {theta} do not belong to the draws: for coordinate {j}, E[x s'] is "
            f"{diagonal[j]:.2f}, where -1 is expected{guess}. Note that {rule}, for a p that vanishes at the ends of x."
        )
    mean, unit = np.mean(s, axis=(0, 1)), np.std(s, axis=(0, 1)) / np.sqrt(np.maximum(sizes, 1.0))
    off = np.abs(mean) / np.maximum(unit, np.finfo(float).tiny)
    if np.any(off > STANDARD_ERRORS):
        j = int(np.argmax(off))
        raise ValueError(
            f"the scores at theta = {theta} have a mean of {mean[j]:.3g} +- {unit[j]:.2g} for coordinate {j}, where 0 "
            f"is expected: {rule}."
        )


def _text(theta: Array) -> str:
    return ", ".join(f"{number:g}" for number in theta)


class _KnownScores:
    """A score that is known at given points only."""

    def __init__(self, x: Array, scores: Array) -> None:
        self._scores = {row.tobytes(): s for row, s in zip(x + 0.0, scores, strict=True)}

    def __call__(self, x: Array) -> Array:
        flat = np.ascontiguousarray(x, dtype=np.float64).reshape(-1, x.shape[-1]) + 0.0
        try:
            rows = [self._scores[row.tobytes()] for row in flat]
        except KeyError:
            raise ValueError(
                "the score is known at the draws only, but it is needed elsewhere: pass measure=... to from_arviz, "
                "such as a function from theta to cbq.measures.Unnormalised(score=..., dim=...)."
            ) from None
        return np.reshape(rows, x.shape)
