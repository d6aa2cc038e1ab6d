"""A fit in plain words."""

from __future__ import annotations

import numpy as np

from cbq.methods.cbq_fit import CBQFit, LeaveOneOut

MOST_KERNELS = 4  # named per output


def summarise(fit: CBQFit) -> str:
    """What was done and chosen, and every warning."""
    T, counts = len(fit.theta), fit.stage1.counts
    points = f"{counts[0]}" if np.all(counts == counts[0]) else f"{counts.min()} to {counts.max()}"
    lines = [
        f"Conditional Bayesian quadrature: {T} theta{'s' * (T > 1)} (p = {fit.p}), {points} {fit.design} points each."
    ]
    for c in range(fit.C or 1):
        indent = ""
        if fit.C is not None:
            lines.append(f"Output {c}:")
            indent = "  "
        lines += [indent + line for line in _output(fit, c)]
    kind = "calibrated: a mixture of Student-t laws" if fit.calibrate else "the plain Gaussian posterior"
    lines.append(f"Predictions are {kind}.")
    lines += [f"Warning: {warning}" for warning in fit.warnings] or ["No warnings."]
    return "\n".join(lines)


def _output(fit: CBQFit, c: int) -> list[str]:
    """Lines about one output."""
    choices = fit.stage1.hyperparameters[c]
    named = ", ".join(" ".join(str(choice).split()) for choice in choices[:MOST_KERNELS])
    more = f" and {len(choices) - MOST_KERNELS} more" * (len(choices) > MOST_KERNELS)
    std = np.sqrt(fit.stage1.columns["variance"][:, c])
    lines = [
        f"Stage 1: {named}{more}.",
        f"  Standard deviations of the integrals: median {np.median(std):.3g}, largest {np.max(std):.3g}.",
    ]
    posterior = fit._posteriors[c]
    prior = posterior.surfaces[0].prior
    logs = [str(j) for j in np.flatnonzero(prior.coordinates.logs)]
    of = "" if not logs else " of log theta" if len(logs) == fit.p else f" with log theta_{', '.join(logs)}"
    lines.append(
        f"Stage 2: {' '.join(repr(prior.kernel).split())}{of}, the likeliest of {len(fit.priors[c])} "
        f"({posterior.weights[0]:.0%}), amplitude {prior.amplitude:.3g}, lambda {prior.noise:.3g}."
    )
    if len(fit.theta) > 1:
        loo = fit.leave_one_out()
        mine = loo if fit.C is None else LeaveOneOut(loo.residual[:, c], loo.std[:, c])
        size = np.sqrt(np.mean(mine.standardised**2))
        lines.append(
            f"  Leaving one theta out of the plain posterior: residuals of {size:.2f} of their expected size, "
            f"{mine.coverage(0.95):.0%} inside 95% intervals."
        )
    return lines
