"""Stage 1: Bayesian quadrature at each theta."""

from cbq.stage1.borrowing import borrowed, quadratures
from cbq.stage1.fit import Settings, fit_stage_one
from cbq.stage1.stage_one import Choice, StageOne

__all__ = ["Choice", "Settings", "StageOne", "borrowed", "fit_stage_one", "quadratures"]
