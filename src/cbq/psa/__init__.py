"""Tables of probabilistic sensitivity analysis: the value of learning some of the inputs before deciding."""

from cbq.psa.evpi import Evpi, evpi
from cbq.psa.evppi import evppi_table, values_of_information
from cbq.psa.result import EvppiRow, EvppiTable

__all__ = ["Evpi", "EvppiRow", "EvppiTable", "evpi", "evppi_table", "values_of_information"]
