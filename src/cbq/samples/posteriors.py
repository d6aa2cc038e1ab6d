"""Samples from posterior draws at each theta, for `Samples.from_arviz`: read, checked and thinned."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from scipy.special import ndtri

from cbq.common import Array, called, is_whole, real, shown
from cbq.measures import Unnormalised
from cbq.samples.findings import SamplesFinding, in_brief
from cbq.samples.names import RESERVED, Names

Source = str | Sequence[str] | Callable[[Array, Array], Any]
REFUSED, STANDARD_ERRORS = 0.3, 6.0  # the smallest refused error of E[x s'], absolute and in standard errors
Thin = int | Literal["auto"]
MAX_RHAT, MIN_ESS = 1.01, 100.0  # chains beyond these raise a warning
AXES = ("chain", "draw")
OTHER_GROUPS = ("sample_stats", "log_likelihood", "posterior_predictive")  # may hold values and scores


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
    findings = tuple(
        SamplesFinding("convergence", f"at theta = {_text(theta)}, {problem}.", theta)
        for (*_, problem), theta in zip(posteriors, thetas, strict=True)
        if problem is not None
    )
    if findings:
        text = in_brief(findings, "convergence", len(thetas))
        warnings.warn(f"{text} Run longer or more chains.", ChainWarning, stacklevel=3)
    if measure is None and score is not None:
        known = [_KnownScores(x, s) for x, _, s, _ in posteriors if s is not None]
        measure = [Unnormalised(score=each, dim=posteriors[0][0].shape[-1]) for each in known]
    arguments = {
        "theta": np.stack(thetas),
        "x": [points for points, *_ in posteriors],
        "f": [f for _, f, *_ in posteriors],
        "measure": measure,
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

    def thinned(array: Array) -> Array:
        return array[:, ::step].reshape(-1, array.shape[-1])

    values = thinned(f)[:, 0] if f.shape[-1] == 1 else thinned(f)
    return thinned(draws), values, None if scores is None else thinned(scores), problem


def _names(given: Any, what: str, alternative: str = "") -> list[str]:
    """The names of variables: one, or several."""
    names = [given] if isinstance(given, str) else given
    if not isinstance(names, list | tuple) or not names or not all(isinstance(name, str) for name in names):
        raise TypeError(f"{what} must be a name, a list of names{alternative}, but it is {shown(given)}.")
    return list(names)


def _values(chains: Chains, draws: Array, theta: Array, source: Source, what: str) -> Array:
    """The values (chains, draws, k) of f or of the score: variables by name, or a function of x (n, d) and theta."""
    if callable(source):
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
    centred, d, tiny = x - np.mean(x, axis=(0, 1)), x.shape[-1], np.finfo(float).tiny
    products = centred[..., :, None] * s[..., None, :]  # (chains, draws, d, d)
    moments = np.mean(products, axis=(0, 1))
    sizes = np.maximum([effective_draws(s[..., j]) for j in range(d)], 1.0)
    error = np.sqrt(np.var(products, axis=(0, 1)) / sizes)
    scale = np.std(x, axis=(0, 1))[:, None] / np.maximum(np.std(x, axis=(0, 1)), tiny)
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
    mean, unit = np.mean(s, axis=(0, 1)), np.std(s, axis=(0, 1)) / np.sqrt(sizes)
    off = np.abs(mean) / np.maximum(unit, tiny)
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


@dataclass(frozen=True, eq=False)
class Chains:
    """The draws of one posterior: named variables, each (chains, draws, k) with k components."""

    theta: str  # for messages
    group: str
    variables: Mapping[str, Any]
    others: Mapping[str, Any]

    @classmethod
    def of(cls, data: Any, theta: str, group: str) -> Chains:
        """The draws in an InferenceData, a DataTree or a Dataset, or in a mapping from names to arrays."""
        is_inference_data = callable(getattr(data, "groups", None)) and not hasattr(data, "data_vars")
        if is_inference_data or hasattr(data, "children"):
            groups = _groups(data)
            if group not in groups:
                present = ", ".join(map(repr, groups)) or shown(data)
                raise ValueError(f"the data of theta = {theta} have no group {group!r}, but {present}: pass group=...")
            others = {n: v for name in OTHER_GROUPS if name in groups for n, v in groups[name].items()}
            return cls(theta, group, groups[group], others)
        variables = getattr(data, "data_vars", data)
        if not isinstance(variables, Mapping):
            wanted = "an InferenceData, a DataTree, a Dataset or a mapping from names to arrays"
            raise TypeError(f"the draws of theta = {theta} must be {wanted}, not {shown(data)}.")
        return cls(theta, group, dict(variables), {})

    def array(self, name: str, what: str) -> Array:
        """The draws (chains, draws, k) of a variable; what: the argument that named it."""
        values_of = self.variables[name] if name in self.variables else self.others.get(name)
        if values_of is None:
            known = shown(list(self.variables))
            raise ValueError(
                f"{what} = {shown(name)} is no variable at theta = {self.theta}: the {self.group} has {known}."
            )
        dims = getattr(values_of, "dims", None)
        if dims is not None:
            if not set(AXES) <= set(dims):
                raise ValueError(f"{name} at theta = {self.theta} has the axes {dims}: 'chain' and 'draw' are needed.")
            values_of = values_of.transpose(*AXES, ...).values
        values = real(values_of, f"{name} at theta = {self.theta}")
        if values.ndim < 2 or 0 in values.shape:
            wanted = "(chain, draw) or (chain, draw, ...)"
            raise ValueError(f"{name} at theta = {self.theta} has shape {values.shape}, but {wanted} is needed.")
        return values.reshape(*values.shape[:2], -1)

    def together(self, names: Sequence[str], what: str) -> Array:
        """The draws (chains, draws, d) of several variables, side by side."""
        if not names:
            raise ValueError(f"the {self.group} at theta = {self.theta} has no variables: pass the draws of x.")
        parts = [self.array(name, what) for name in names]
        if len({part.shape[:2] for part in parts}) > 1:
            sizes = {name: part.shape[:2] for name, part in zip(names, parts, strict=True)}
            raise ValueError(f"variables at theta = {self.theta} have different numbers of chains and draws: {sizes}.")
        return np.concatenate(parts, axis=-1)


def _groups(data: Any) -> dict[str, dict[str, Any]]:
    """The groups of an InferenceData or a DataTree, each with its variables."""
    names = data.children if hasattr(data, "children") else data.groups()
    nodes = {str(name): data[name] for name in names}
    return {name: dict(node.data_vars) for name, node in nodes.items()}


def stride(draws: Array, thin: Thin) -> int:
    """The thinning interval for draws (chains, draws, k); for "auto", the number of draws per independent draw."""
    if isinstance(thin, str) and thin == "auto":
        total = draws.shape[0] * draws.shape[1]
        worth = min(effective_draws(draws[..., j]) for j in range(draws.shape[-1]))
        return int(np.clip(np.floor(total / max(worth, 1.0)), 1, draws.shape[1]))
    if not is_whole(thin, 1):
        raise ValueError(f"thin must be 'auto' or a positive integer, but it is {shown(thin)}.")
    return int(thin)


def mixing_problem(draws: Array, names: Sequence[str]) -> str | None:
    """Why chains (chains, draws, k) of components with these names are unreliable; None if they are not."""
    kept = [j for j in range(draws.shape[-1]) if np.ptp(draws[..., j]) > 0]
    rhats = {names[j]: split_rhat(draws[..., j]) for j in kept}
    sizes = {names[j]: effective_draws(draws[..., j]) for j in kept}
    if rhats and max(rhats.values()) > MAX_RHAT:
        name = max(rhats, key=lambda label: rhats[label])
        return f"R-hat of {name} is {rhats[name]:.3f}, above {MAX_RHAT}: the chains have not converged"
    if sizes and min(sizes.values()) < MIN_ESS:
        name = min(sizes, key=lambda label: sizes[label])
        return (
            f"the effective sample size of {draws[..., 0].size} draws of {name} is {sizes[name]:.0f}, below {MIN_ESS:g}"
        )
    return None


def split_rhat(draws: Array) -> float:
    """The larger split R-hat of rank-normalised draws (chains, draws) and of their distances from the median.

    Vehtari, Gelman, Simpson, Carpenter, Buerkner (2021).
    """
    folded = np.abs(draws - np.median(draws))
    return max(_rhat(_normal_scores(_split(values))) for values in (draws, folded))


def effective_draws(draws: Array) -> float:
    """The effective sample size of the ranks of draws (chains, draws), by Geyer's method."""
    z = _normal_scores(_split(draws))
    chains, n = z.shape
    if n < 3 or np.ptp(z) == 0:
        return float(draws.size)
    centred = z - np.mean(z, axis=1, keepdims=True)
    spectrum = np.abs(np.fft.rfft(centred, 2 * n, axis=1)) ** 2
    covariance = np.fft.irfft(spectrum, axis=1)[:, :n] / n
    within = np.mean(covariance[:, 0]) * n / (n - 1)
    total = within * (n - 1) / n + (np.var(np.mean(z, axis=1), ddof=1) if chains > 1 else 0.0)
    if total == 0:
        return float(draws.size)
    rho = 1 - (within - np.mean(covariance, axis=0)) / total
    rho[0] = 1.0
    pairs = rho[: n // 2 * 2].reshape(-1, 2).sum(axis=1)
    pairs = np.minimum.accumulate(pairs[: int(np.argmax(pairs <= 0)) if np.any(pairs <= 0) else len(pairs)])
    time = max(-1 + 2 * float(np.sum(pairs)), 1 / np.log10(max(chains * n, 2)))
    return float(chains * n / time)


def _split(draws: Array) -> Array:
    """The first and the second half of each chain as chains of their own."""
    half = draws.shape[1] // 2
    return np.concatenate([draws[:, :half], draws[:, -half:]]) if half > 1 else draws


def _normal_scores(draws: Array) -> Array:
    from scipy.stats import rankdata  # slow to import

    ranks = np.reshape(rankdata(draws, axis=None), draws.shape)
    return np.asarray(ndtri((ranks - 0.375) / (draws.size + 0.25)))


def _rhat(z: Array) -> float:
    chains, n = z.shape
    if chains < 2 or n < 2:
        return 1.0
    within = np.mean(np.var(z, axis=1, ddof=1))
    between = np.var(np.mean(z, axis=1), ddof=1)
    return float(np.sqrt((n - 1) / n + between / within)) if within > 0 else np.inf
