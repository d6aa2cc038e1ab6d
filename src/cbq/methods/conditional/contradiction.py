"""Plain averages as a check on quadratures whose points are not independent.

Every scrambled Sobol point is a draw of its measure, so the plain average of f at a theta is unbiased, although the
points are not independent. Leave-one-out estimates are biased: a point fills the gap that the others leave. Where many
thetas have few points, a curve through the averages is accurate enough to show a bias that quadratures share.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from cbq._arrays import Array, Integers, evenly
from cbq.fit.findings import Finding, for_some
from cbq.methods.baselines.averages import averages
from cbq.methods.conditional.stage_two import MAX_FITTED_NODES, MIN_THETAS, ThetaPosterior, unbiased_curve
from cbq.samples import Samples

LEARNT = 0.1  # leave-one-out residuals, in units of the spread of f at a theta, up to which f has been learnt there
SIGNIFICANT = 3.0  # the squared difference of the two curves, in units of the variance of that of the averages


def stretch_to_averages(posteriors: Sequence[ThetaPosterior], samples: Samples) -> Array:
    """The factors (C,), 1 or more, of the error that all thetas have in common, so that averages do not contradict it.

    Averages of independent points have larger variances than those of Sobol points, so this is careful. With `ratio`,
    the mean squared difference of the two curves over its expected size, the share 1 - SIGNIFICANT / ratio of the
    square is taken for a bias.
    """
    stretch = np.array([posterior.nodes.stretch for posterior in posteriors])
    if samples.T < MIN_THETAS or samples.failures is not None:
        return stretch
    plain = averages(samples)
    some = evenly(samples.T, MAX_FITTED_NODES)
    for c, posterior in enumerate(posteriors):
        if np.mean(posterior.nodes.spread2) <= LEARNT**2 * np.mean(plain.variance[:, c]):
            continue
        bias2 = _bias2(posterior, plain.mean[:, c], plain.variance[:, c], some)
        at = posterior.process.predict(samples.theta[some])
        common2 = float(np.mean(at.of(np.sqrt(posterior.nodes.variance)) ** 2))
        if bias2 > 0 and common2 > 0:
            stretch[c] = np.sqrt(stretch[c] ** 2 + bias2 / common2)
    return stretch


def _bias2(posterior: ThetaPosterior, mean: Array, variance: Array, some: Integers) -> float:
    """The mean squared bias at some nodes that averages (T,) with variances (T,) show; 0 if it is not significant."""
    nodes = replace(posterior.nodes, bias=posterior.nodes.mean - mean, spread2=variance)
    own = posterior.predictive(nodes.theta[some]).mean
    curve = unbiased_curve(posterior.process.prior, nodes, posterior.landmarks, some, own)
    if curve is None:
        return 0.0
    share = max(0.0, 1.0 - SIGNIFICANT * (1.0 - curve.weight))
    return share * float(np.mean((curve.at(nodes.theta[some])[0] - own) ** 2))


def contradiction_findings(before: Array, after: Array) -> list[Finding]:
    """A finding where averages contradict the quadratures of some outputs, from the factors (C,) of both."""
    several = int(np.count_nonzero(after > before))
    if not several:
        return []
    text = (
        f"plain averages of f differ from the quadratures{for_some(several, len(after))} by more than chance: the "
        f"points of a theta are too few to learn f, and thetas share the error. Intervals are widened because of it."
    )
    return [Finding("disagreement", text)]
