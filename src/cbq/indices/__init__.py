"""Which inputs matter: sensitivity indices of f, from the emulator of a fit or from a table of draws."""

from cbq.indices.analysis import sensitivity
from cbq.indices.emulated import SensitivityOptions
from cbq.indices.table import SecondOrder, SecondOrderRow, Sensitivity, SensitivityRow

__all__ = ["SecondOrder", "SecondOrderRow", "Sensitivity", "SensitivityOptions", "SensitivityRow", "sensitivity"]
