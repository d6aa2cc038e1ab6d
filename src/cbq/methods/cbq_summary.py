"""A fit in plain words."""

from __future__ import annotations

import numpy as np

from cbq.fit.summary import heading, per_output, span, warning_lines
from cbq.methods.cbq_fit import CBQFit, LeaveOneOut

MOST_KERNELS = 4  # named per output


def summarise(fit: CBQFit) -> str:
    """What was done and chosen, and every warning."""
    lines = heading(fit, "Conditional Bayesian quadrature", fit.counts, fit.design)
    if fit.rows is not None:
        lines.append(f"Thetas borrow points of others: {span(fit.stage1.counts)} points each in stage 1.")
    lines += per_output([_output(fit, c) for c in range(fit.C or 1)], fit.C)
    kind = "calibrated: a mixture of Student-t distributions" if fit.calibrate else "the plain Gaussian posterior"
    lines.append(f"Predictions are {kind}.")
    return "\n".join(lines + warning_lines(fit.warnings))


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
