"""Probabilistic sensitivity analysis (PSA): the value of learning inputs before deciding, from a table of draws."""

from typing import TYPE_CHECKING

from cbq._deprecation import deprecated_names
from cbq.psa import studies
from cbq.psa.information import Evpi, evpi, evppi_table, values_of_information
from cbq.psa.populations import population
from cbq.psa.result import EvppiRow, EvppiTable
from cbq.psa.sample_information import evsi
from cbq.psa.sample_result import EvsiRow, EvsiTable
from cbq.psa.sampling_benefit import EnbsRow, EnbsTable, enbs

__all__ = [
    "EnbsRow",
    "EnbsTable",
    "Evpi",
    "EvppiRow",
    "EvppiTable",
    "EvsiRow",
    "EvsiTable",
    "enbs",
    "evpi",
    "evppi_table",
    "evsi",
    "population",
    "studies",
    "values_of_information",
]

if not TYPE_CHECKING:
    __getattr__ = deprecated_names(__name__, {"Row": "EvppiRow"})
