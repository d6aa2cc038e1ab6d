"""Stage 2: a Gaussian process over theta, with the errors of stage 1 as its noise."""

from cbq.stage2.fit import StageTwoOptions, fit_stage_two
from cbq.stage2.posterior import NodeEstimates, Posterior
from cbq.stage2.surface import GPPrior, HeteroscedasticGP

__all__ = ["GPPrior", "HeteroscedasticGP", "NodeEstimates", "Posterior", "StageTwoOptions", "fit_stage_two"]
