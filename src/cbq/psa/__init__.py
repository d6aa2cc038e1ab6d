"""Probabilistic sensitivity analysis (PSA): the value of learning inputs before deciding, from a table of draws."""

from typing import TYPE_CHECKING

from cbq._deprecation import deprecated_names
from cbq.psa.information import Evpi, evpi, evppi_table, values_of_information
from cbq.psa.result import EvppiRow, EvppiTable

__all__ = ["Evpi", "EvppiRow", "EvppiTable", "evpi", "evppi_table", "values_of_information"]

if not TYPE_CHECKING:
    __getattr__ = deprecated_names(__name__, {"Row": "EvppiRow"})
