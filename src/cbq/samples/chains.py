"""Markov chains at one theta: their draws by name, convergence checks, and thinning."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from scipy.special import ndtri

from cbq.common import Array, is_whole, real, shown

Thin = int | Literal["auto"]
MAX_RHAT, MIN_ESS = 1.01, 100.0  # chains beyond these raise a warning
AXES = ("chain", "draw")
OTHER_GROUPS = ("sample_stats", "log_likelihood", "posterior_predictive")  # may hold values and scores


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
        worth = min(effective_size(draws[..., j]) for j in range(draws.shape[-1]))
        return int(np.clip(np.floor(total / max(worth, 1.0)), 1, draws.shape[1]))
    if not is_whole(thin, 1):
        raise ValueError(f"thin must be 'auto' or a positive integer, but it is {shown(thin)}.")
    return int(thin)


def mixing_problem(draws: Array, names: Sequence[str]) -> str | None:
    """Why chains (chains, draws, k) of components with these names are unreliable; None if they are not."""
    kept = [j for j in range(draws.shape[-1]) if np.ptp(draws[..., j]) > 0]
    rhats = {names[j]: split_rhat(draws[..., j]) for j in kept}
    sizes = {names[j]: effective_size(draws[..., j]) for j in kept}
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


def effective_size(draws: Array) -> float:
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
