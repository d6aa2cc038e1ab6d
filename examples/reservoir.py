"""A reservoir supplies a town for a year: how much water is missing as the climate becomes drier?

The simulator runs day by day and takes one set of inputs at a time, as most simulators do. The environment variable
RESERVOIR_SCENARIO (wet or dry) selects a column of rain.csv. See README.md for the commands.
"""

from __future__ import annotations

import csv
import os
from pathlib import Path

import numpy as np

import cbq

SCENARIO = os.environ.get("RESERVOIR_SCENARIO", "dry")
DAYS = 365
CAPACITY, START = 60.0, 45.0  # millions of litres
CATCHMENT = 0.09  # millions of litres per millimetre of rain
DEMAND = 0.2  # millions of litres per day


def monthly_rain(scenario: str) -> list[float]:
    """Return the rainfall of each month in a typical year, in millimetres."""
    with (Path(__file__).parent / "rain.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    if scenario not in rows[0]:
        raise ValueError(f"RESERVOIR_SCENARIO must be wet or dry, but it is {scenario!r}.")
    return [float(row[scenario]) for row in rows]


RAIN = monthly_rain(SCENARIO)


def shortage(x: np.ndarray, theta: np.ndarray) -> float:
    """Return the water missing in a year, in millions of litres, for x = (rain / typical year, daily evaporation)."""
    rain, evaporation = x
    stored, missing = START, 0.0
    for day in range(DAYS):
        inflow = rain * RAIN[day * 12 // DAYS] * 12 / DAYS * CATCHMENT
        stored = min(stored + inflow, CAPACITY)
        stored -= min(stored, evaporation * (stored / CAPACITY) ** 0.7)
        supplied = min(stored, DEMAND)
        stored -= supplied
        missing += DEMAND - supplied
    return missing


def family(theta: np.ndarray) -> cbq.measures.LogNormal:
    """Return the measure of x: rain has mean theta[0], evaporation has mean 0.05, both with an error of about 30%."""
    variance = np.array([0.09, 0.09])
    return cbq.measures.LogNormal(np.log([theta[0], 0.05]) - 0.5 * variance, cov=variance)


problem = cbq.Problem(
    shortage,
    family,
    prior=cbq.measures.Uniform(0.4, 1.0),  # mean rain of the climates of interest, relative to a typical year
    vectorized=False,  # one x at a time
    depends_on_theta=False,  # the climate changes only the measure of x, so every evaluation serves all thetas
    name=f"reservoir-{SCENARIO}",
)
