"""Decision models of a PSA with effects and costs: tables of draws, and the EVPPI of sets computed in two ways.

A Markov model with 10 inputs, a microsimulation, products of correlated inputs, and a copy of a model with 19 inputs
and three decisions. One way to a truth averages over the other inputs at each value of the set; the other one projects
the net benefits of many draws on polynomials of the set.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.polynomial.hermite_e import hermevander
from scipy.special import ndtri
from scipy.stats import qmc

from _psa_models import Model, Table, gain, midpoints


@dataclass(frozen=True)
class DecisionModel:
    """Effects and costs (n, D) as functions of inputs, which are functions of correlated normal scores u (n, p).

    inputs : from u to the inputs (n,) by name, the j-th a function of the j-th score.
    means : from inputs to the expected effects and costs given all inputs.
    draw : the same with the noise of a simulation, for the rows of a table; None if there is none.
    """

    correlation: np.ndarray
    inputs: Callable[[np.ndarray], dict[str, np.ndarray]]
    means: Callable[[dict[str, np.ndarray]], tuple[np.ndarray, np.ndarray]]
    draw: Callable[[dict[str, np.ndarray], np.random.Generator], tuple[np.ndarray, np.ndarray]] | None = None

    def scores(self, normals: np.ndarray) -> np.ndarray:
        """Correlated scores from independent ones (n, p)."""
        return np.asarray(normals @ np.linalg.cholesky(self.correlation).T)

    def table(self, n: int, rng: np.random.Generator) -> Table:
        inputs = self.inputs(self.scores(rng.standard_normal((n, len(self.correlation)))))
        return self.means(inputs) if self.draw is None else self.draw(inputs, rng), inputs

    def model(self, sets: list[tuple[str, ...]], prices: tuple[float, ...]) -> Model:
        """The model with the truths of sets at some prices of a unit of effect, by `nested` and `projected`."""
        names, benefits = list(self.inputs(np.zeros((1, len(self.correlation))))), self._benefits(prices)
        at = {key: [names.index(name) for name in key] for key in sets}
        every = self.scores(sobol_normals(len(names), 19, 7))
        values = benefits(every)
        truths = {key: (self.nested(at[key], benefits), projected(every[:, at[key]], values)) for key in sets}
        return Model(self.table, truths, prices)

    def _benefits(self, prices: tuple[float, ...]) -> Callable[[np.ndarray], np.ndarray]:
        def of(u: np.ndarray) -> np.ndarray:
            effects, costs = self.means(self.inputs(u))
            return np.array(prices)[:, None, None] * effects - costs

        return of

    def nested(self, at: list[int], benefits: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
        """EVPPI (K,) of the scores `at` from their midpoints, or Sobol points of several, and the others given them."""
        rest = [j for j in range(len(self.correlation)) if j not in at]
        R = self.correlation
        root = np.linalg.cholesky(R[np.ix_(at, at)])
        outer = (midpoints(1024)[:, None] if len(at) == 1 else sobol_normals(len(at), 11, 3)) @ root.T
        slope = np.linalg.solve(R[np.ix_(at, at)], R[np.ix_(at, rest)])
        left = np.linalg.cholesky(R[np.ix_(rest, rest)] - R[np.ix_(rest, at)] @ slope)
        inner, g = sobol_normals(len(rest), 12, 5) @ left.T, []
        for v in outer:
            u = np.empty((len(inner), len(R)))
            u[:, at], u[:, rest] = v, v @ slope + inner
            g.append(np.mean(benefits(u), axis=1))
        return np.array([gain(each) for each in np.moveaxis(g, 1, 0)])


def sobol_normals(columns: int, log2_points: int, rng: int) -> np.ndarray:
    """Scrambled Sobol points (2^log2_points, columns), as independent normal scores."""
    return np.asarray(ndtri(qmc.Sobol(columns, rng=rng).random_base2(log2_points)))


def projected(u: np.ndarray, values: np.ndarray, degrees: tuple[int, ...] = (10, 8, 6)) -> np.ndarray:
    """EVPPI (K,) of scores u (n, k) at the least-squares polynomials of net benefits (K, n, D)."""
    most = degrees[u.shape[1] - 1]
    powers = [hermevander(column, most) for column in (u / np.std(u, axis=0)).T]
    orders = [each for each in np.ndindex(*[most + 1] * len(powers)) if sum(each) <= most]
    basis = np.stack([np.prod([p[:, i] for p, i in zip(powers, each, strict=True)], axis=0) for each in orders], axis=1)
    gram = basis.T @ basis
    return np.array([gain(basis @ np.linalg.solve(gram, basis.T @ each)) for each in values])


def logistic(mean: float, sd: float, u: np.ndarray) -> np.ndarray:
    return np.asarray(1.0 / (1.0 + np.exp(-(np.log(mean / (1.0 - mean)) + sd * u))))


def positive(mean: float, sd: float, u: np.ndarray) -> np.ndarray:
    return np.asarray(mean * np.exp(sd * u - 0.5 * sd**2))


# markov: three strategies in a cohort that is well, sick or dead for 25 years, 10 independent inputs


def markov_inputs(u: np.ndarray) -> dict[str, np.ndarray]:
    return {
        "p_sick": logistic(0.12, 0.35, u[:, 0]),
        "rr_a": positive(0.75, 0.12, u[:, 1]),
        "rr_b": positive(0.64, 0.16, u[:, 2]),
        "p_die": logistic(0.02, 0.25, u[:, 3]),
        "p_die_sick": logistic(0.13, 0.3, u[:, 4]),
        "u_well": logistic(0.85, 0.25, u[:, 5]),
        "u_sick": logistic(0.5, 0.4, u[:, 6]),
        "c_sick": positive(6000.0, 0.35, u[:, 7]),
        "c_a": positive(1400.0, 0.15, u[:, 8]),
        "c_b": positive(2900.0, 0.25, u[:, 9]),
    }


def markov_means(x: dict[str, np.ndarray], years: int = 25, rate: float = 0.035) -> tuple[np.ndarray, np.ndarray]:
    effects, costs = [], []
    for risk, price in ((1.0, 0.0), (x["rr_a"], x["c_a"]), (x["rr_b"], x["c_b"])):
        p = np.minimum(x["p_sick"] * risk, 1.0 - x["p_die"])
        well, sick, qalys, spent = np.ones_like(p), np.zeros_like(p), np.zeros_like(p), np.zeros_like(p)
        for year in range(years):
            discount = (1.0 + rate) ** -year
            qalys += discount * (well * x["u_well"] + sick * x["u_sick"])
            spent += discount * (well * price + sick * x["c_sick"])
            well, sick = well * (1.0 - p - x["p_die"]), well * p + sick * (1.0 - x["p_die_sick"])
        effects.append(qalys)
        costs.append(spent)
    return np.stack(effects, axis=1), np.stack(costs, axis=1)


# patients: a microsimulation of 60 patients in each row and arm, with events that may be fatal within 20 years


def patient_inputs(u: np.ndarray) -> dict[str, np.ndarray]:
    return {
        "rate": positive(0.25, 0.3, u[:, 0]),
        "hr": positive(0.7, 0.18, u[:, 1]),
        "p_fatal": logistic(0.15, 0.35, u[:, 2]),
        "rate_other": positive(0.03, 0.2, u[:, 3]),
        "utility": logistic(0.75, 0.3, u[:, 4]),
        "loss": positive(0.1, 0.4, u[:, 5]),
        "c_event": positive(4000.0, 0.3, u[:, 6]),
        "c_drug": positive(1800.0, 0.25, u[:, 7]),
    }


HORIZON, PATIENTS = 20.0, 60


def patient_means(x: dict[str, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    effects, costs = [], []
    for hazard, price in ((x["rate"], 0.0), (x["rate"] * x["hr"], x["c_drug"])):
        leaving = x["rate_other"] + hazard * x["p_fatal"]
        years = -np.expm1(-leaving * HORIZON) / leaving
        effects.append(x["utility"] * years - x["loss"] * hazard * years)
        costs.append(price * years + x["c_event"] * hazard * years)
    return np.stack(effects, axis=1), np.stack(costs, axis=1)


def patient_draw(x: dict[str, np.ndarray], rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    effects, costs = [], []
    for hazard, price in ((x["rate"], 0.0), (x["rate"] * x["hr"], x["c_drug"])):
        fatal = hazard * x["p_fatal"]
        leaving = (x["rate_other"] + fatal)[:, None]
        years = rng.exponential(1.0 / leaving, (len(fatal), PATIENTS))
        died = (years < HORIZON) & (rng.random(years.shape) < fatal[:, None] / leaving)
        years = np.minimum(years, HORIZON)
        events = rng.poisson((hazard - fatal)[:, None] * years) + died
        years, events = np.mean(years, axis=1), np.mean(events, axis=1)
        effects.append(x["utility"] * years - x["loss"] * events)
        costs.append(price * years + x["c_event"] * events)
    return np.stack(effects, axis=1), np.stack(costs, axis=1)


# correlated: three decisions, products of correlated inputs


def correlated_inputs(u: np.ndarray) -> dict[str, np.ndarray]:
    return {
        "p_1": logistic(0.55, 0.5, u[:, 0]),
        "p_2": logistic(0.62, 0.5, u[:, 1]),
        "gain_1": positive(1.1, 0.35, u[:, 2]),
        "gain_2": positive(1.15, 0.45, u[:, 3]),
        "days_1": positive(12.0, 0.3, u[:, 4]),
        "days_2": positive(17.0, 0.4, u[:, 5]),
        "c_day": positive(900.0, 0.25, u[:, 6]),
    }


def correlated_means(x: dict[str, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    nothing = np.zeros_like(x["p_1"])
    effects = np.stack([nothing, x["p_1"] * x["gain_1"], x["p_2"] * x["gain_2"]], axis=1)
    costs = np.stack([nothing + 2000.0, x["days_1"] * x["c_day"], x["days_2"] * x["c_day"]], axis=1)
    return effects, costs


# nineteen: three decisions, 19 inputs of which those of a decision are correlated, net benefits of little signal

SPREAD = {"cost": (1.0, 1.0), "admitted": (0.08, 0.02), "days": (5.5, 1.0), "response": (0.75, 0.05)}
SPREAD |= {"utility": (0.3, 0.1), "years": (3.0, 0.5)}
COSTS = (1000.0, 1250.0, 1500.0)


def nineteen_inputs(u: np.ndarray) -> dict[str, np.ndarray]:
    found = {"c_day": 400.0 + 200.0 * u[:, 0]}
    for d, cost in enumerate(COSTS):
        for j, (name, (mean, sd)) in enumerate(SPREAD.items()):
            found[f"{name}_{d + 1}"] = (cost if name == "cost" else mean) + sd * u[:, 1 + 6 * d + j]
    return found


def nineteen_means(x: dict[str, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    each = range(1, 1 + len(COSTS))
    effects = [x[f"response_{d}"] * x[f"utility_{d}"] * x[f"years_{d}"] for d in each]
    costs = [x[f"cost_{d}"] + x[f"admitted_{d}"] * x[f"days_{d}"] * x["c_day"] for d in each]
    return np.stack(effects, axis=1), np.stack(costs, axis=1)


def nineteen_correlation() -> np.ndarray:
    found = np.eye(19)
    for d in range(len(COSTS)):
        block = slice(4 + 6 * d, 7 + 6 * d)
        found[block, block] = 0.1 + 0.9 * np.eye(3)
    return found


SETS: dict[str, tuple[DecisionModel, list[tuple[str, ...]], tuple[float, ...]]] = {
    "markov": (
        DecisionModel(np.eye(10), markov_inputs, markov_means),
        [("p_sick",), ("rr_a",), ("rr_b",), ("c_b",), ("rr_a", "c_b"), ("p_sick", "rr_a", "rr_b")],
        (12_000.0, 15_000.0, 20_000.0),
    ),
    "patients": (
        DecisionModel(np.eye(8), patient_inputs, patient_means, patient_draw),
        [("rate",), ("hr",), ("p_fatal",), ("c_drug",), ("rate", "hr"), ("p_fatal", "c_drug")],
        (18_000.0, 22_000.0, 27_000.0),
    ),
    "correlated": (
        DecisionModel(0.4 + 0.6 * np.eye(7), correlated_inputs, correlated_means),
        [("p_1",), ("gain_2",), ("days_2",), ("c_day",), ("p_1", "p_2"), ("p_2", "gain_2")],
        (15_000.0, 25_000.0, 40_000.0),
    ),
    "nineteen": (
        DecisionModel(nineteen_correlation(), nineteen_inputs, nineteen_means),
        [("response_2",), ("years_3",), ("response_1", "response_2"), ("response_2", "response_3")],
        (10_000.0,),
    ),
}

DECISION_MODELS = {name: partial(model.model, sets, prices) for name, (model, sets, prices) in SETS.items()}
