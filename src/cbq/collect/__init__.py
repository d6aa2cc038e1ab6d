"""Collecting samples: thetas and points are drawn, and f is evaluated there in batches, here or on workers."""

from cbq.checkpoint import CheckpointError
from cbq.collect.integrand import IntegrandError
from cbq.collect.scheduling import CollectWarning

__all__ = ["CheckpointError", "CollectWarning", "IntegrandError"]
