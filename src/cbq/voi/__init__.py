"""Probabilistic sensitivity analysis (PSA): the value of learning inputs before deciding, from a table of draws."""

from cbq.voi import studies
from cbq.voi.cost_effectiveness import CePlane, IcerRow, IcerTable, ce_plane, icers
from cbq.voi.information import EvppiRow, EvppiTable, evppi
from cbq.voi.money import population
from cbq.voi.one_way import TornadoRow, TornadoTable, tornado
from cbq.voi.perfect import Evpi, NetBenefitRow, NetBenefitTable, evpi, net_benefits
from cbq.voi.sample_information import EvsiRow, EvsiTable, evsi
from cbq.voi.sampling_benefit import (
    EnbsRow,
    EnbsTable,
    PlannedStudy,
    PortfolioRow,
    PortfolioTable,
    enbs,
    portfolio,
)
from cbq.voi.submission import Acceptability, Appendix, appendix, ceac
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
    "NetBenefitRow",
    "NetBenefitTable",
    "PlannedStudy",
    "PortfolioRow",
    "PortfolioTable",
    "TornadoRow",
    "TornadoTable",
    "VarianceRow",
    "VarianceTable",
    "appendix",
    "ce_plane",
    "ceac",
    "enbs",
    "evpi",
    "evppi",
    "evppi_variance",
    "evsi",
    "icers",
    "net_benefits",
    "population",
    "portfolio",
    "studies",
    "tornado",
]
