"""The calls of voi, BCEA, dampack and voiage beside ours, and our answers with their seconds.

Run: .venv/bin/python benchmarks/published/voi.py [--rows 5000] [--seed 0]

The calls of the other packages are those of their reference manuals (voi 1.0.3, BCEA 2.4, dampack 1.0.2, voiage 2.2);
they are printed, not run, since three of them need R. Ours are run on draws of the Markov model of `benchmarks/psa.py`
with three strategies and 10 inputs, of which `truth` has the EVPPI of two sets, computed in two ways. Printed for each
task: the calls, our answer, the truth where it is known, and the seconds of CPU time.
"""

from __future__ import annotations

import sys
from argparse import ArgumentParser
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from time import process_time

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))

import cbq
from _common import one_thread, positive_integer, print_record
from _decision_models import DECISION_MODELS
from cbq.voi import studies

PRICES = (12_000.0, 15_000.0, 20_000.0)
PRICE = PRICES[1]
SETS = ["rr_a", ["rr_a", "c_b"]]


@dataclass(frozen=True)
class Data:
    """Effects and costs of three strategies and inputs, from one table."""

    both: tuple[np.ndarray, np.ndarray]
    inputs: dict[str, np.ndarray]

    @property
    def benefits(self) -> np.ndarray:
        """Net benefits at the middle price."""
        return PRICE * self.both[0] - self.both[1]


@dataclass(frozen=True)
class Task:
    """A question with the calls that answer it, and a function that runs ours and returns the answer in words."""

    name: str
    others: dict[str, str]
    ours: str
    run: Callable[[Data], str]


def evpi(data: Data) -> str:
    """EVPI at one price."""
    found = cbq.evpi(data.benefits)
    return f"{found.estimate:.1f} (se {found.std:.1f})"


def evppi(data: Data) -> str:
    """EVPPI of two sets at one price, from effects and costs."""
    rows = cbq.evppi(data.both, data.inputs, SETS, willingness_to_pay=PRICE).rows
    return "; ".join(f"{row.pars}: {row.evppi:.1f} ({row.lower:.1f} to {row.upper:.1f})" for row in rows)


def every_input(data: Data) -> str:
    """The input that is worth most."""
    best = cbq.evppi(data.both, data.inputs, willingness_to_pay=PRICE).largest(1)[0]
    return f"first of {len(data.inputs)}: {best.pars}, {best.share:.1%} of EVPI"


def sample(data: Data) -> str:
    """EVSI of a trial of two arms about a risk and a ratio."""
    options = {"study": studies.TwoArm(), "sizes": [50, 200], "willingness_to_pay": PRICE}
    rows = cbq.evsi(data.both, data.inputs, ["p_sick", "rr_a"], **options).rows
    return "; ".join(f"n = {row.size}: {row.evsi:.1f} (se {row.se:.1f})" for row in rows)


def benefit(data: Data) -> str:
    """The best size of a study."""
    found = cbq.evsi(data.benefits, data.inputs, "p_sick", "binomial", sizes=[50, 100, 200, 500, 1000, 2000])
    return cbq.enbs(found, cost=2000, fixed_cost=100_000, population=20_000, horizon=10, discount=0.035).in_words()


def curve(data: Data) -> str:
    """Acceptability at one price."""
    found = cbq.voi.ceac(data.both, willingness_to_pay=PRICE)
    return ", ".join(f"{name} {p:.3f}" for name, p in zip(found.decisions, found.probability[0], strict=True))


def loss(data: Data) -> str:
    """Expected losses at one price."""
    rows = cbq.voi.net_benefits(data.both, willingness_to_pay=PRICE).rows
    return ", ".join(f"{row.decision} {row.loss:.1f}" for row in rows)


def ratios(data: Data) -> str:
    """The ICERs on the frontier."""
    rows = cbq.voi.icers(data.both).rows
    return ", ".join(f"{row.decision} {row.status}" + ("" if row.icer is None else f" {row.icer:.0f}") for row in rows)


def one_way(data: Data) -> str:
    """The longest bar of a tornado."""
    found = cbq.voi.tornado(data.both, data.inputs, willingness_to_pay=PRICE)
    row = found.rows[0]
    return f"{row.pars} moves the net benefit from {row.at_low:.0f} to {row.at_high:.0f}"


TASKS = [
    Task(
        "EVPI",
        {
            "voi": "evpi(nb)",
            "dampack": "calc_evpi(psa, wtp)",
            "voiage": "DecisionAnalysis(ValueArray.from_numpy(nb)).evpi()",
        },
        "cbq.evpi(nb)",
        evpi,
    ),
    Task(
        "EVPPI of two sets",
        {
            "voi": 'evppi(list(e=, c=, k=), inputs, pars=list("rr_a", c("rr_a", "c_b")), se=TRUE)',
            "BCEA": 'evppi(he, c("rr_a", "c_b"), inputs)',
            "dampack": 'calc_evppi(psa, wtp, params=c("rr_a", "c_b"))',
        },
        'cbq.evppi((e, c), inputs, ["rr_a", ["rr_a", "c_b"]], willingness_to_pay=k)',
        evppi,
    ),
    Task(
        "EVPPI of each input",
        {"BCEA": "info.rank(he, inputs)", "voi": "evppi(outputs, inputs, pars=as.list(names(inputs)))"},
        "cbq.evppi((e, c), inputs, willingness_to_pay=k)",
        every_input,
    ),
    Task(
        "EVSI of a trial of two arms",
        {
            "voi": "evsi(outputs, inputs, pars=, n=c(50, 200), datagen_fn=)",
            "dampack": "calc_evsi(psa, wtp, params=, n=, n0=)",
        },
        'cbq.evsi((e, c), inputs, ["p_sick", "rr_a"], studies.TwoArm(), [50, 200], willingness_to_pay=k)',
        sample,
    ),
    Task(
        "best size of a study",
        {"voi": "enbs(evsi, costs_setup=, costs_pp=, pop=, time=10, dis=0.035)"},
        "cbq.enbs(evsi, cost=, population=, horizon=10, discount=0.035, fixed_cost=)",
        benefit,
    ),
    Task(
        "acceptability",
        {"BCEA": "ceac.plot(he)", "dampack": "ceac(wtp, psa)"},
        "cbq.voi.ceac((e, c), willingness_to_pay=k)",
        curve,
    ),
    Task(
        "expected losses",
        {"dampack": "calc_exp_loss(psa, wtp)"},
        "cbq.voi.net_benefits((e, c), willingness_to_pay=k)",
        loss,
    ),
    Task(
        "ICERs with dominance",
        {"dampack": "calculate_icers(cost, effect, strategies)"},
        "cbq.voi.icers((e, c))",
        ratios,
    ),
    Task(
        "tornado",
        {"dampack": "owsa_tornado(owsa(psa, params=, ranges=))"},
        "cbq.voi.tornado((e, c), inputs, willingness_to_pay=k)",
        one_way,
    ),
]


def main() -> None:
    """Run all tasks."""
    parser = ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=positive_integer, default=5000)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    print_record()
    model = DECISION_MODELS["markov"]()
    both, inputs = model.table(options.rows, np.random.default_rng([options.seed, options.rows]))
    truths = {", ".join(key): float(values[0][PRICES.index(PRICE)]) for key, values in model.truths.items()}
    known = "; ".join(f"{name}: {truths[name]:.1f}" for name in ("rr_a", "rr_a, c_b"))
    print(f"\n{options.rows} draws, willingness to pay {PRICE:g}; EVPPI by quadrature: {known}")
    with one_thread():
        for task in TASKS:
            start = process_time()
            answer = task.run(Data(both, inputs))
            seconds = process_time() - start
            print(f"\n{task.name}")
            for package, call in task.others.items():
                print(f"  {package + ':':<9}{call}")
            print(f"  {'cbq:':<9}{task.ours}\n  {'':<9}{answer} [{seconds:.2f} s]")


if __name__ == "__main__":
    main()
