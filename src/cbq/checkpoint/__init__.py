"""The checkpoint of a run: an SQLite file that keeps finished evaluations. It holds arrays and JSON, and no code."""

from cbq.checkpoint.checkpoint import Checkpoint, read_run
from cbq.checkpoint.database import CheckpointError

__all__ = ["Checkpoint", "CheckpointError", "read_run"]
