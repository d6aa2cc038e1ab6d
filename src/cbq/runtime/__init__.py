"""Evaluating f at many points: in batches, here or elsewhere, with progress and a checkpoint."""

from cbq.runtime.errors import CheckpointError, CollectWarning, IntegrandError, WorkerError

__all__ = ["CheckpointError", "CollectWarning", "IntegrandError", "WorkerError"]
