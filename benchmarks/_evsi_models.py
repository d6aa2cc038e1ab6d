"""Studies whose EVSI is known: in closed form, and by brute force from prior draws and likelihoods alone."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.special import ndtr
from scipy.stats import beta, betabinom, binom, norm

from cbq.voi.studies import BinomialCount, Custom, Normal, Study, TwoArm

SCALE, NOISE = 1000.0, 500.0  # of net benefits: per unit of the input, and what the input does not explain
MEAN, TAU, SD = 0.3, 1.0, 4.0  # of the normal prior, and of an observation
A, B, NEEDED = 6.0, 4.0, 0.55  # of the beta prior, and the probability at which decisions are equal
ARMS = ((8.0, 12.0), (9.0, 11.0), 0.03)  # priors of both arms, and the difference at which decisions are equal
RISK, LOG_ODDS, DRUG = (12.0, 28.0), (-0.35, 0.3), 0.06  # of two arms: the priors, and the risk that the drug is worth
OUTER, INNER = 40_000, 4_000  # of brute force: draws of results, and draws of the prior, evenly spread


@dataclass(frozen=True)
class Model:
    """A study with its inputs, by names that it is given, and its EVSI at a size, in closed form and by brute force."""

    study: Study
    pars: tuple[str, ...]
    inputs: Callable[[int, np.random.Generator], dict[str, np.ndarray]]
    gain: Callable[[dict[str, np.ndarray]], np.ndarray]
    formula: Callable[[int], float]
    brute_force: Callable[[int], float]

    def table(self, rows: int, rng: np.random.Generator) -> tuple[np.ndarray, dict[str, np.ndarray]]:
        """Net benefits (rows, 2) and inputs."""
        inputs = self.inputs(rows, rng)
        noise = NOISE * rng.standard_normal((2, rows))
        return np.column_stack([noise[0], self.gain(inputs) + noise[1]]), inputs


def normal_formula(n: int) -> float:
    """The posterior mean is normal with variance tau^4 / (tau^2 + sd^2 / n), and the decision is by its sign."""
    s = TAU**2 / np.sqrt(TAU**2 + SD**2 / n)
    return float(SCALE * (MEAN * ndtr(MEAN / s) + s * norm.pdf(MEAN / s) - max(MEAN, 0.0)))


def binomial_formula(n: int) -> float:
    """The number of events is beta-binomial, and the posterior mean is (A + y) / (A + B + n)."""
    y = np.arange(n + 1)
    better = np.maximum((A + y) / (A + B + n) - NEEDED, 0.0)
    return float(SCALE * (betabinom.pmf(y, n, A, B) @ better - max(A / (A + B) - NEEDED, 0.0)))


def trial_formula(n: int) -> float:
    """As `binomial_formula`, for the difference of two independent arms."""
    y = np.arange(n + 1)
    (p0, m0), (p1, m1) = ((betabinom.pmf(y, n, a, b), (a + y) / (a + b + n)) for a, b in ARMS[:2])
    difference = m1 - m0[:, None] - ARMS[2]
    means = [a / (a + b) for a, b in ARMS[:2]]
    return float(SCALE * (p0 @ np.maximum(difference, 0.0) @ p1 - max(means[1] - means[0] - ARMS[2], 0.0)))


def _posterior_means(theta: np.ndarray, results: np.ndarray, log_likelihood: Callable[..., np.ndarray]) -> np.ndarray:
    """E[theta | result] for results (Y,), by weighting draws theta (m,) of the prior."""
    found = []
    for some in np.array_split(results, max(1, len(results) // 500)):
        logs = log_likelihood(some[:, None], theta)
        weights = np.exp(logs - np.max(logs, axis=1, keepdims=True))
        found.append(weights @ theta / np.sum(weights, axis=1))
    return np.concatenate(found)


def _even(m: int) -> np.ndarray:
    return (np.arange(m) + 0.5) / m


def normal_brute_force(n: int) -> float:
    """Draws of the mean of the study, and the posterior mean of each by weighting draws of the prior."""
    rng, theta = np.random.default_rng(n), norm.ppf(_even(INNER), MEAN, TAU)
    truth = norm.ppf(_even(OUTER), MEAN, TAU)
    results = truth + SD / np.sqrt(n) * rng.standard_normal(OUTER)
    means = _posterior_means(theta, results, lambda y, t: -0.5 * n * ((y - t) / SD) ** 2)
    return float(SCALE * (np.mean(np.maximum(means, 0.0)) - max(np.mean(means), 0.0)))


def _binomial_draws(n: int, a: float, b: float, seed: int) -> np.ndarray:
    """Posterior means (OUTER,) after drawn numbers of events, in random order."""
    rng, theta = np.random.default_rng([n, seed]), beta.ppf(_even(INNER), a, b)
    events = rng.permutation(rng.binomial(n, beta.ppf(_even(OUTER), a, b)))
    means = _posterior_means(theta, np.arange(n + 1.0), lambda y, t: binom.logpmf(y, n, t))
    return means[events]


def binomial_brute_force(n: int) -> float:
    """Draws of events, and the posterior mean of each by weighting draws of the prior."""
    gain = _binomial_draws(n, A, B, 0) - NEEDED
    return float(SCALE * (np.mean(np.maximum(gain, 0.0)) - max(np.mean(gain), 0.0)))


def trial_brute_force(n: int) -> float:
    """As `binomial_brute_force`, for two arms."""
    old, new = (_binomial_draws(n, a, b, i) for i, (a, b) in enumerate(ARMS[:2]))
    gain = new - old - ARMS[2]
    return float(SCALE * (np.mean(np.maximum(gain, 0.0)) - max(np.mean(gain), 0.0)))


def with_odds(p: np.ndarray, ratio: np.ndarray) -> np.ndarray:
    """The probability whose odds are so many times the odds of p."""
    return p * ratio / (1.0 - p + p * ratio)


def odds_formula(n: int, nodes: int = 160) -> float:
    """Bayes' rule for each pair of numbers of events, on a grid of quantiles of the risk and of the odds ratio."""
    p, ratio = np.meshgrid(beta.ppf(_even(nodes), *RISK), np.exp(norm.ppf(_even(nodes), *LOG_ODDS)), indexing="ij")
    p, treated = p.ravel(), with_odds(p, ratio).ravel()
    gain, y = p - treated - DRUG, np.arange(n + 1)[:, None]
    better = (binom.pmf(y, n, p) * gain) @ binom.pmf(y, n, treated).T / nodes**2
    return float(SCALE * (np.sum(np.maximum(better, 0.0)) - max(np.mean(gain), 0.0)))


def odds_brute_force(n: int) -> float:
    """Nested Monte Carlo: drawn trials, and the posterior mean of each by weighting draws of the prior."""
    rng = np.random.default_rng([n, 7])

    def drawn(size: int) -> tuple[np.ndarray, np.ndarray]:  # evenly spread in each input (a Latin hypercube)
        p, log_odds = beta.ppf(_even(size), *RISK), norm.ppf(rng.permutation(_even(size)), *LOG_ODDS)
        return p, with_odds(p, np.exp(log_odds))

    events, times = np.unique(rng.binomial(n, np.stack(drawn(OUTER))), axis=1, return_counts=True)
    p, treated = drawn(5 * INNER)
    gain, means = p - treated - DRUG, []
    logs = [np.log(np.stack([each, 1.0 - each])) for each in (p, treated)]
    for some in np.array_split(events, max(1, events.shape[1] // 500), axis=1):
        log_weights = sum(np.stack([y, n - y], axis=1) @ log for y, log in zip(some, logs, strict=True))
        weights = np.exp(log_weights - np.max(log_weights, axis=1, keepdims=True))
        means.append(weights @ gain / np.sum(weights, axis=1))
    # max(m, 0) = (m + |m|) / 2, of which the mean of m is known.
    better = 0.5 * (np.mean(gain) + times @ np.abs(np.concatenate(means)) / OUTER)
    return float(SCALE * (better - max(np.mean(gain), 0.0)))


def _simulated_mean(row: dict[str, np.ndarray], n: int, rng: np.random.Generator) -> np.ndarray:
    return np.asarray(row["mean"] + SD / np.sqrt(n) * rng.standard_normal(len(row["mean"])))


def _normal(study: Study) -> Model:
    return Model(
        study,
        ("mean",),
        lambda rows, rng: {"mean": rng.normal(MEAN, TAU, rows)},
        lambda inputs: SCALE * inputs["mean"],
        normal_formula,
        normal_brute_force,
    )


MODELS = {
    "normal": _normal(Normal(SD)),
    "binomial": Model(
        BinomialCount(),
        ("p",),
        lambda rows, rng: {"p": rng.beta(A, B, rows)},
        lambda inputs: SCALE * (inputs["p"] - NEEDED),
        binomial_formula,
        binomial_brute_force,
    ),
    "simulated": _normal(Custom(_simulated_mean, vectorised=True)),
    "trial": Model(
        BinomialCount(),
        ("old", "new"),
        lambda rows, rng: {"old": rng.beta(*ARMS[0], rows), "new": rng.beta(*ARMS[1], rows)},
        lambda inputs: SCALE * (inputs["new"] - inputs["old"] - ARMS[2]),
        trial_formula,
        trial_brute_force,
    ),
    "odds": Model(
        TwoArm(ratio="odds"),
        ("p", "odds_ratio"),
        lambda rows, rng: {"p": rng.beta(*RISK, rows), "odds_ratio": np.exp(rng.normal(*LOG_ODDS, rows))},
        lambda inputs: SCALE * (inputs["p"] - with_odds(inputs["p"], inputs["odds_ratio"]) - DRUG),
        odds_formula,
        odds_brute_force,
    ),
}
