"""Evaluating f at many points: in batches, here or elsewhere, with progress and a checkpoint."""

from cbq.collect.errors import CheckpointError, CollectWarning, IntegrandError, WorkerError

__all__ = ["CheckpointError", "CollectWarning", "IntegrandError", "WorkerError"]
