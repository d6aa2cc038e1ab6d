"""Integrands that are models elsewhere, for `Problem(integrand=...)`, and fits as models for programs elsewhere."""

from cbq.integrands.command import Command
from cbq.integrands.server import FitServer
from cbq.integrands.umbridge import UMBridge

__all__ = ["Command", "FitServer", "UMBridge"]
