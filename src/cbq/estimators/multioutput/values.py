"""The values of f itself, by the processes of a fit to points: each is the integral under a measure of one atom."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from cbq.common import Array
from cbq.estimators.multioutput.base import Part
from cbq.estimators.multioutput.candidates import refuse_theta
from cbq.fit import CorrelatedValues, PredictiveDistribution
from cbq.gp import Embedded, PointValues

if TYPE_CHECKING:
    from cbq.estimators.multioutput.fit import MOBQFit


@dataclass(frozen=True, eq=False)
class ValuesAt:
    """The values of f at points u (n, D), which are x, or x and theta."""

    u: Array

    def of(self, part: Part) -> Embedded:
        return PointValues(part.kernel, self.u)

    def embeddings(self, part: Part, functionals: Embedded, nodes: Array) -> Array:
        return functionals.mean(nodes)


@dataclass(frozen=True, eq=False)
class FitValues:
    """The process of f for an `Emulator`: a `ValueProcess`."""

    fit: MOBQFit

    def distributions(self, x: Array, theta: Array | None, *, joint: bool) -> list[PredictiveDistribution]:
        """The distribution of each output of f at points x (n, d) and thetas (n, p)."""
        nothing = [np.zeros(len(group.outputs)) for group in self.fit.groups]  # values have no error in common
        with self.fit._threads():
            return self.fit._distributions(ValuesAt(self._inputs(x, theta)), nothing, joint=joint)

    def means(self, x: Array, theta: Array | None) -> Array:
        """The means (n, C) of f, without variances."""
        u, found = self._inputs(x, theta), dict[int, Array]()
        with self.fit._threads():
            for group, (best, *_) in zip(self.fit.groups, self.fit._parts, strict=True):
                mean = best.process.mean(best.kernel(u, best.process.nodes))
                found |= self.fit._columns(group, mean)
        return np.stack([found[c] for c in self.fit._outputs], axis=1)

    def correlated(self, x: Array, theta: Array | None) -> list[CorrelatedValues]:
        """Each output of f, with its covariances."""
        u, found = self._inputs(x, theta), dict[int, CorrelatedValues]()
        with self.fit._threads():
            for g, (group, (best, *_)) in enumerate(zip(self.fit.groups, self.fit._parts, strict=True)):
                mu, mean, amplitude, errors = self.fit._terms(g, ValuesAt(u), PointValues(best.kernel, u))
                known, unknown = best.process.covariance_roots(mu)
                for j, (c, location) in enumerate(self.fit._columns(group, mean).items()):
                    scale = self.fit._points.scale[c]
                    apart = scale * np.stack([error[j] for error in errors], axis=1)
                    std = scale * np.sqrt(amplitude[j])
                    found[c] = CorrelatedValues(location, best.kernel, u, std, known, unknown[j], apart)
        return [found[c] for c in self.fit._outputs]

    def _inputs(self, x: Array, theta: Array | None) -> Array:
        """The inputs (n, D) of the processes at points x (n, d) and thetas (n, p)."""
        if not self.fit.samples.depends_on_theta:
            return x
        if theta is None:
            raise ValueError("theta is missing: f depends on it. Pass one theta (p,), or one for each point, (n, p).")
        for best, *_ in self.fit._parts:
            refuse_theta(best.kernel, theta)
        return np.column_stack([x, theta])
