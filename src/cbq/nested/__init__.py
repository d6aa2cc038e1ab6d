"""Quantities that depend on I as a function of theta: nested expectations, value of information, risk measures."""

from cbq.nested.answer import Answer, OuterPosterior, number_or_array, output_selector
from cbq.nested.decisions import Decisions, Evppi, Name, evppi, is_list, make_decisions, positions
from cbq.nested.expectation import expected_loss, nested_expectation
from cbq.nested.outer import NODES, SUBSET
from cbq.nested.risk import TailRisk, conditional_value_at_risk, step_quantile, tail_risk, value_at_risk

__all__ = [
    "Answer",
    "Evppi",
    "TailRisk",
    "conditional_value_at_risk",
    "evppi",
    "expected_loss",
    "nested_expectation",
    "value_at_risk",
]
