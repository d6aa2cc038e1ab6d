"""The checkpoint of a run: an SQLite file that keeps finished evaluations. It holds arrays and JSON, and no code."""

from cbq.checkpoint.checkpoint import Checkpoint, describe_measure, pack_measures, read_run
from cbq.checkpoint.database import LOCK_TIMEOUT, CheckpointError, reading
from cbq.checkpoint.evaluations import Batch, BatchResult, Evaluations, Outputs, joined, require_outputs
from cbq.checkpoint.ledger import Ledger, StoredLedger, read_ledger
from cbq.checkpoint.tables import from_bytes
