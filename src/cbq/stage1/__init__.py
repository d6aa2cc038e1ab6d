"""Stage 1: Bayesian quadrature at each theta."""

from cbq.stage1.borrowing import borrowed, quadratures
from cbq.stage1.fit import StageOneOptions, fit_stage_one
from cbq.stage1.stage_one import KernelShare, StageOne

__all__ = ["KernelShare", "StageOne", "StageOneOptions", "borrowed", "fit_stage_one", "quadratures"]
