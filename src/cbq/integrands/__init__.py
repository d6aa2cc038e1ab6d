"""Integrands that are models elsewhere, for `Problem(integrand=...)`."""

from cbq.integrands.command import Command
from cbq.integrands.umbridge import UMBridge

__all__ = ["Command", "UMBridge"]
