"""Stage 2: a Gaussian process over theta, with the errors of stage 1 as its noise."""

from cbq.stage2.fit import Settings, fit_stage_two
from cbq.stage2.posterior import Nodes, Posterior
from cbq.stage2.surface import Prior, Surface

__all__ = ["Nodes", "Posterior", "Prior", "Settings", "Surface", "fit_stage_two"]
