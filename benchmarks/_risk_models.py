"""The capital requirement of a life insurer, a nested value at risk with a closed form.

The model is the one of the numerical experiments of arXiv 2510.18995, restated here. All assets are stock, which
follows Black and Scholes. In each year policyholders are credited a share of the log return, but never less than the
guaranteed rate; a part of them leaves at its end, and all at the horizon. theta is the standard normal of the first
year, under the real-world measure, x those of the other years, under the risk-neutral one. f is the loss of own funds:
their value today, less what the assets leave at the horizon, discounted to the end of the first year.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.stats import norm

import cbq
from cbq.measures import Gaussian


@dataclass(frozen=True)
class Insurer:
    """The parameters of the model; rates are per year."""

    drift: float = 0.08
    volatility: float = 0.15
    rate: float = 0.05
    horizon: int = 10
    guaranteed: float = 0.0
    shared: float = 0.85
    leaving: float = 0.02
    reserve: float = 1000.0

    def first_year(self, theta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The assets, and the reserve of those who stay, at the end of the first year, for thetas (M,)."""
        log_return = self.drift - 0.5 * self.volatility**2 + self.volatility * theta
        reserve = self.reserve * (1 + np.maximum(self.shared * log_return, self.guaranteed))
        return self.reserve * np.exp(log_return) - self.leaving * reserve, (1 - self.leaving) * reserve

    def benefits(self, years: int) -> float:
        """The risk-neutral value of what is paid for a reserve of 1 in so many years."""
        centre = self.rate - 0.5 * self.volatility**2
        d = (centre - self.guaranteed / self.shared) / self.volatility
        excess = self.volatility * (norm.pdf(d) + d * norm.cdf(d))  # E max(log return - guaranteed / shared, 0)
        growth = (1 + self.guaranteed + self.shared * excess) * np.exp(-self.rate)
        u = np.arange(1, years)
        left = self.leaving * np.sum((1 - self.leaving) ** (u - 1) * growth**u)
        return float(left + (1 - self.leaving) ** (years - 1) * growth**years)

    @property
    def own_funds(self) -> float:
        """Their value today."""
        return self.reserve * (1 - self.benefits(self.horizon))

    def loss(self, x: np.ndarray, theta: np.ndarray) -> np.ndarray:
        """f of paths x (n, horizon - 1) at theta (1,)."""
        assets, reserve = (np.full(len(x), value[0]) for value in self.first_year(theta))
        for k in range(self.horizon - 1):
            log_return = self.rate - 0.5 * self.volatility**2 + self.volatility * x[:, k]
            reserve = reserve * (1 + np.maximum(self.shared * log_return, self.guaranteed))
            paid = reserve * (1.0 if k == self.horizon - 2 else self.leaving)
            assets, reserve = assets * np.exp(log_return) - paid, reserve - paid
        return np.asarray(self.own_funds - np.exp(-self.rate * (self.horizon - 1)) * assets)

    def expected_loss(self, theta: np.ndarray) -> np.ndarray:
        """I at thetas (M, 1)."""
        assets, reserve = self.first_year(theta[:, 0])
        return np.asarray(self.own_funds - assets + self.benefits(self.horizon - 1) * reserve)

    def value_at_risk(self, level: float = 0.995) -> float:
        """The quantile of I over theta: I falls with theta, so that it is I at a quantile of theta."""
        return float(self.expected_loss(norm.ppf([[1 - level]]))[0])

    @property
    def problem(self) -> cbq.Problem:
        """The problem; its value at risk of 99.5% is 252.758738814922."""
        d = self.horizon - 1
        return cbq.Problem(
            self.loss, lambda theta: Gaussian(np.zeros(d), std=np.ones(d)), Gaussian(0.0, std=1.0), name="capital"
        )
