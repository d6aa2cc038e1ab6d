"""Where f is evaluated: the thetas and points of a run, and the seeds that they are drawn with.

Draws are prefix-stable: the first n of a longer draw are the draw of n, to the last bit. Every draw has its own seed,
made from the entropy of the run and a key: what the draw is for, and which theta it belongs to.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from cbq.common import Array
from cbq.measures import Measure
from cbq.measures.points import iid, sobol, transported
from cbq.samples import Family, measures_at

CollectDesign = Literal["iid", "sobol"]
Scramble = Literal["independent", "common"]
THETA_KEY, X_KEY, F_KEY, CANDIDATES_KEY, WANTED_KEY, FOCUS_KEY = range(6)  # the first part of the key of a seed


@dataclass(frozen=True, eq=False)
class RunPoints:
    """The thetas (T, p) of a run, the family, its T measures of x there, and the points, T arrays (N_t, d).

    proposals: the T measures that points are drawn from, if these are others.

    settings: all that the draws depend on, by name; a checkpoint refuses a run with other settings.
    """

    settings: dict[str, Any]
    thetas: Array
    family: Family
    measures: Sequence[Measure]
    proposals: Sequence[Measure] | None
    x: list[Array]


@dataclass(frozen=True)
class Draws:
    """How the thetas and points of a run are drawn.

    design : "iid", or "sobol": scrambled Sobol points, transported to the prior and to the measures.
    scramble : "common" transports the same points of the unit cube to each measure; with "independent", each theta
        has its own.
    entropy : the source of all seeds of the run.
    """

    design: CollectDesign
    scramble: Scramble
    entropy: list[int]

    def run(
        self,
        settings: dict[str, Any],
        thetas: Array,
        family: Family,
        proposal: Family | None,
        counts: Sequence[int],
    ) -> RunPoints:
        """Draw counts[t] points at each of the thetas (T, p); `settings` are those of the problem."""
        measures = measures_at(family, thetas)
        proposals = None if proposal is None else measures_at(proposal, thetas, "proposal")
        if proposals is not None and proposals[0].dim != measures[0].dim:
            found = f"{proposals[0].dim}, and the measures of the family have {measures[0].dim}"
            raise ValueError(f"the measures of the proposal have dimension {found}: they must be the same.")
        settings = {
            **settings,
            "p": thetas.shape[1],
            "d": measures[0].dim,
            "design": self.design,
            "proposal": proposal is not None,
            "scramble": self.scramble if self.design == "sobol" else None,
            "seed": self.entropy,
        }
        return RunPoints(settings, thetas, family, measures, proposals, self.points(proposals or measures, counts))

    def thetas(self, prior: Measure, T: int) -> Array:
        """T thetas (T, p) from their prior."""
        if self.design == "sobol":
            return transported(prior.transport, sobol(T, prior.dim, self._rng(THETA_KEY)), 0.5)
        return np.concatenate([prior.sample(1, self._rng(THETA_KEY, t)) for t in range(T)])

    def points(self, measures: Sequence[Measure], counts: Sequence[int]) -> list[Array]:
        """N_t points (N_t, d) from each of T measures of one dimension. They depend on no other theta."""
        if self.design == "iid":
            return [iid(m, n, self._rng(X_KEY, t)) for t, (m, n) in enumerate(zip(measures, counts, strict=True))]
        d = measures[0].dim
        if self.scramble == "common":
            longest = sobol(max(counts), d, self._rng(X_KEY))
            cubes = [longest[:n] for n in counts]
        else:
            cubes = [sobol(n, d, self._rng(X_KEY, t)) for t, n in enumerate(counts)]
        return [transported(m.transport, u, 0.5) for m, u in zip(measures, cubes, strict=True)]

    def _rng(self, *key: int) -> np.random.Generator:
        """The generator of one draw, which depends on the entropy of the run and this key only."""
        return keyed_generator(self.entropy, *key)


def keyed_generator(entropy: list[int], *key: int) -> np.random.Generator:
    """A generator that depends on the entropy of a run and this key only."""
    return np.random.default_rng(np.random.SeedSequence(entropy, spawn_key=key))
