"""Problems with exact answers, by name: `get("linear", dim=2)`, `get("sir")`, ...; `names()` lists them.

Four are from the paper: "butterfly", "health", "linear" and "sir". Three show other uses: "characteristic" (a
characteristic function), "sobol-g" (a Sobol index) and "truncated" (the mean of a truncated normal). `register` adds
more.
"""

from cbq.problems import butterfly, health, linear, sir, sobol_g, univariate
from cbq.problems.registry import get, names, register

__all__ = ["get", "names", "register"]
