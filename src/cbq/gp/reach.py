"""Where runs do not reach: where f is less certain than nearly all runs are, each predicted from all others.

The comparison is in the metric of the kernel, so that inputs which hardly matter count little, and it needs no scale of
f. New points from the distribution of independent runs are beyond their reach with the probability `SHARE`, as each is
in the same position as a run that is left out.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np

from cbq.common import Array, Booleans
from cbq.gp.pooled import ExactGP
from cbq.kernels import Kernel
from cbq.linalg import Jitter

SHARE = 0.05  # of the runs, which are less certain than the limit when they are left out


@dataclass(frozen=True, eq=False)
class Reach:
    """A process on the runs, and the variance, at unit amplitude, of a value at the end of their reach."""

    process: ExactGP
    limit: float

    @classmethod
    def of(cls, kernel: Kernel, u: Array, jitter: Jitter, noise: float = 0.0) -> Self:
        """From runs at u (n, D), whose values have this noise variance in units of the amplitude."""
        process = ExactGP(kernel, u, np.zeros((len(u), 1)), jitter, noise)
        return cls(process, float(np.quantile(1.0 / process.process.precision - noise, 1.0 - SHARE)))

    def misses(self, u: Array) -> Booleans:
        """Whether each of points u (n, D) is beyond the reach of the runs."""
        kernel = self.process.kernel
        variance = self.process.variance(kernel(u, self.process.nodes), kernel.diag(u))
        return np.asarray(variance[:, 0] > self.limit)
