"""Numbers that depend on I as a whole when theta follows its measure: nested expectations, decisions, risk."""

from cbq.nested.answer import Answer
from cbq.nested.evppi import Evppi, evppi
from cbq.nested.expectation import expected_loss, nested_expectation
from cbq.nested.risk import conditional_value_at_risk, value_at_risk

__all__ = [
    "Answer",
    "Evppi",
    "conditional_value_at_risk",
    "evppi",
    "expected_loss",
    "nested_expectation",
    "value_at_risk",
]
