"""Probabilistic sensitivity analysis (PSA): the value of learning inputs before deciding, from a table of draws."""

from typing import TYPE_CHECKING

from cbq._deprecation import deprecated_names
from cbq.psa import studies
from cbq.psa.acceptability import Acceptability, ceac
from cbq.psa.icer_table import IcerRow, IcerTable, icers
from cbq.psa.information import Evpi, evpi, evppi_table, values_of_information
from cbq.psa.plane import CePlane, ce_plane
from cbq.psa.populations import population
from cbq.psa.result import EvppiRow, EvppiTable
from cbq.psa.sample_information import evsi
from cbq.psa.sample_result import EvsiRow, EvsiTable
from cbq.psa.sampling_benefit import EnbsRow, EnbsTable, enbs
from cbq.psa.submission import Appendix, appendix
from cbq.psa.variance import VarianceRow, VarianceTable, evppi_variance

__all__ = [
    "Acceptability",
    "Appendix",
    "CePlane",
    "EnbsRow",
    "EnbsTable",
    "Evpi",
    "EvppiRow",
    "EvppiTable",
    "EvsiRow",
    "EvsiTable",
    "IcerRow",
    "IcerTable",
    "VarianceRow",
    "VarianceTable",
    "appendix",
    "ce_plane",
    "ceac",
    "enbs",
    "evpi",
    "evppi_table",
    "evppi_variance",
    "evsi",
    "icers",
    "population",
    "studies",
    "values_of_information",
]

if not TYPE_CHECKING:
    __getattr__ = deprecated_names(__name__, {"Row": "EvppiRow"})
