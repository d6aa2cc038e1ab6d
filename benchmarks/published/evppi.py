"""EVPI less EVPPI by multilevel Monte Carlo, published, beside our regression on few rows.

Run: .venv/bin/python benchmarks/published/evppi.py [--seeds 10] [--out published]

The published numbers are those of the program github.com/Goda-Research-Group/mlmc-evppi-cpp, which implements Giles
and Goda (arXiv:1708.05531): the output that it keeps for its test model and for a chemotherapy model (Heath and Baio,
Value in Health 2018), restated here from its definitions: for each accuracy asked for, the estimate and the number of
runs. In the test model, net benefits are 0 and X + Y for standard normal X and Y, and X is learnt. In the other, a
cohort of patients with side effects goes through 15 steps of a Markov chain; the six inputs about side effects and
transitions are learnt, and the six costs and utilities are not.

Net benefits of the chemotherapy model are linear in the inputs that are not learnt, so that I is exact, and the truth
is an average over Sobol points of the 12 inputs. Ours: `cbq.evpi` and `cbq.evppi` of a table with so many rows.
"""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
from scipy.special import betaincinv, ndtri
from scipy.stats.qmc import Sobol

import cbq
from _tables import Score, Table, published, run

SOURCE = "github.com/Goda-Research-Group/mlmc-evppi-cpp, _output.txt"
ROWS = (512, 2048, 8192, 32768)
POINTS = 2**19  # of the truth
Inputs = dict[str, np.ndarray]
LEARNT = {"pi": (28, 85), "h": (11, 18), "dies": (2, 17), "home": (5.12, 6.26), "hospital": (3.63, 6.74)}
UTILITIES = {"q_home": (5.75, 5.75), "q_hospital": (0.87, 3.47), "q_well": (18.23, 0.372)}
COSTS = {"c_home": (7.74, 0.039), "c_hospital": (8.77, 0.15), "c_death": (8.33, 0.13)}
RHO = 0.65, 0.1  # the relative risk of side effects: mean and standard deviation
STEPS, DRUGS, PRICE = 15, (110.0, 420.0), 30_000.0


@dataclass(frozen=True)
class Model:
    """Net benefits as a function of inputs, which are a function of uniform numbers (n, d).

    learnt : the inputs that are learnt. expected : replaces the others by their means.
    theirs : (accuracy asked for, estimate, runs).
    """

    d: int
    inputs: Callable[[np.ndarray], Inputs]
    benefits: Callable[[Inputs], np.ndarray]
    learnt: tuple[str, ...]
    means: Inputs
    theirs: tuple[tuple[float, float, float], ...]

    def truth(self) -> tuple[float, float]:
        """EVPI and EVPPI."""
        u = np.clip(Sobol(self.d, rng=0).random(POINTS), 1e-15, 1 - 1e-15)
        inputs = self.inputs(u)
        return gain(self.benefits(inputs)), gain(self.benefits({**inputs, **self.means}))


def gain(benefits: np.ndarray) -> float:
    """The mean of the largest net benefit, less the largest mean."""
    return float(np.mean(np.max(benefits, axis=1)) - np.max(np.mean(benefits, axis=0)))


def lognormal_mean(m: float, s: float) -> float:
    """The mean of a lognormal input."""
    return float(np.exp(m + 0.5 * s**2))


def cohort_inputs(u: np.ndarray) -> Inputs:
    """The inputs of the chemotherapy model from uniform numbers (n, 12)."""
    betas = {**LEARNT, **UTILITIES}
    found = {name: betaincinv(*ab, u[:, k]) for k, (name, ab) in enumerate(betas.items())}
    found |= {name: np.exp(m + s * ndtri(u[:, 8 + k])) for k, (name, (m, s)) in enumerate(COSTS.items())}
    found["rho"] = RHO[0] + RHO[1] * ndtri(u[:, 11])
    return found


def cohort(inputs: Inputs) -> np.ndarray:
    """Net benefits (n, 2) of both drugs: the average of 16 steps of those with side effects, and of the others.

    At each step, a patient at home goes to hospital, else recovers; one in hospital dies, else recovers.
    """
    to_hospital, to_death = inputs["h"] / STEPS, inputs["dies"] / STEPS
    home, hospital, well, dead = np.ones_like(to_hospital), 0.0, 0.0, 0.0
    utility, cost = inputs["q_home"] * home, inputs["c_home"] * home
    for _ in range(STEPS):
        recovers, discharged = home * (1 - to_hospital), hospital * (1 - to_death)
        well = well + inputs["home"] * recovers + inputs["hospital"] * discharged
        dead = dead + to_death * hospital
        home, hospital = (
            (1 - inputs["home"]) * recovers,
            to_hospital * home + (1 - inputs["hospital"]) * discharged,
        )
        utility = utility + inputs["q_home"] * home + inputs["q_hospital"] * hospital + inputs["q_well"] * well
        cost = cost + inputs["c_home"] * home + inputs["c_hospital"] * hospital + inputs["c_death"] * dead
    risks = np.stack([inputs["pi"], inputs["pi"] * inputs["rho"]], axis=-1)
    value = (PRICE * utility - cost)[:, None] / (STEPS + 1)
    return np.asarray(risks * value + PRICE * (1 - risks) * np.asarray(inputs["q_well"])[..., None] - DRUGS)


MODELS = {
    "test": Model(
        2,
        lambda u: {"x": ndtri(u[:, 0]), "y": ndtri(u[:, 1])},
        lambda inputs: np.stack([np.zeros(len(inputs["x"])), inputs["x"] + inputs["y"]], axis=1),
        ("x",),
        {"y": np.zeros(1)},
        (
            (2e-3, 0.1660, 3.897e5),
            (1e-3, 0.1645, 1.988e6),
            (5e-4, 0.1648, 9.635e6),
            (2e-4, 0.1655, 6.512e7),
            (1e-4, 0.1652, 2.573e8),
        ),
    ),
    "chemotherapy": Model(
        12,
        cohort_inputs,
        cohort,
        (*LEARNT, "rho"),
        {name: np.array([a / (a + b)]) for name, (a, b) in UTILITIES.items()}
        | {name: np.array([lognormal_mean(m, s)]) for name, (m, s) in COSTS.items()},
        (
            (0.2, 5.198, 6.844e4),
            (0.1, 5.116, 2.920e5),
            (0.05, 4.998, 1.332e6),
            (0.02, 5.019, 1.109e7),
            (0.01, 5.045, 5.310e7),
        ),
    ),
}


def ours(model: Model, rows: int, seed: int, evpi: float, evppi: float) -> Score:
    """The error of EVPI less EVPPI, and whether the interval of EVPPI holds the truth."""
    inputs = model.inputs(np.clip(np.random.default_rng(seed).random((rows, model.d)), 1e-15, 1 - 1e-15))
    benefits = model.benefits(inputs)
    (row,) = cbq.evppi(benefits, inputs, [list(model.learnt)]).rows
    return abs(cbq.evpi(benefits).estimate - row.evppi - (evpi - evppi)), float(row.lower <= evppi <= row.upper)


def fill(table: Table, options: Namespace) -> None:
    """Both models."""
    for name, model in MODELS.items():
        evpi, evppi = model.truth()
        print(f"{name}: EVPI {evpi:.5g}, EVPPI {evppi:.5g}, EVPI - EVPPI {evpi - evppi:.5g}", flush=True)
        for _, estimate, runs in model.theirs:
            table.add(published(name, "multilevel Monte Carlo", int(runs), abs(estimate - (evpi - evppi)), SOURCE))
        for rows in ROWS:
            for seed in range(options.seeds):
                table.measure(name, "cbq.evppi", rows, seed, partial(ours, model, rows, seed, evpi, evppi))


if __name__ == "__main__":
    run(__doc__, fill, "evppi", seeds=10)
