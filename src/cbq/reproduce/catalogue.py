"""All experiments, by name."""

from __future__ import annotations

from collections.abc import Sequence

from cbq.reproduce import ablation, applied, calibration, illustration, joint, linear, mobq, qmc, rates
from cbq.reproduce.experiment import Experiment

EXPERIMENTS: dict[str, Experiment] = {
    each.name: each
    for each in (
        *linear.EXPERIMENTS,
        calibration.EXPERIMENT,
        *applied.EXPERIMENTS,
        mobq.EXPERIMENT,
        qmc.EXPERIMENT,
        *ablation.EXPERIMENTS,
        illustration.EXPERIMENT,
        joint.EXPERIMENT,
        rates.EXPERIMENT,
    )
}


def chosen(names: Sequence[str]) -> list[Experiment]:
    """The experiments of these names, each once."""
    unknown = [name for name in names if name not in EXPERIMENTS]
    if unknown:
        raise ValueError(
            f"there is no experiment {', '.join(map(repr, unknown))}: the experiments are {', '.join(EXPERIMENTS)}."
        )
    return [EXPERIMENTS[name] for name in dict.fromkeys(names)]
