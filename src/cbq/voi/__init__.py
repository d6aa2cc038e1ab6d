"""Probabilistic sensitivity analysis (PSA): the value of learning inputs before deciding, from a table of draws."""

from cbq.voi import studies
from cbq.voi.acceptability import Acceptability, ceac
from cbq.voi.icer_table import IcerRow, IcerTable, icers
from cbq.voi.information import Evpi, evpi, evppi_table, values_of_information
from cbq.voi.plane import CePlane, ce_plane
from cbq.voi.populations import population
from cbq.voi.result import EvppiRow, EvppiTable
from cbq.voi.sample_information import evsi
from cbq.voi.sample_result import EvsiRow, EvsiTable
from cbq.voi.sampling_benefit import EnbsRow, EnbsTable, enbs
from cbq.voi.submission import Appendix, appendix
from cbq.voi.variance import VarianceRow, VarianceTable, evppi_variance

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
