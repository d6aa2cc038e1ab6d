"""Every experiment of the paper: `EXPERIMENTS` by name, `reproduce` runs one of them, `redraw` shows what was saved."""

from cbq.reproduce.catalogue import EXPERIMENTS, chosen
from cbq.reproduce.experiment import Experiment
from cbq.reproduce.run import Outcome, redraw, reproduce

__all__ = ["EXPERIMENTS", "Experiment", "Outcome", "chosen", "redraw", "reproduce"]
