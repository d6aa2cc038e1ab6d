"""What all Matern embeddings on the line share: k(r) = sum_j c_j (a r)^j e^(-a r)."""

from __future__ import annotations

import numpy as np

from cbq._arrays import Array
from cbq.kernels import Matern

COEFFICIENTS = {0.5: (1.0,), 1.5: (1.0, 1.0), 2.5: (1.0, 1.0, 1.0 / 3.0)}


def decay_rate(kernel: Matern) -> Array:
    """a = sqrt(2 nu) / l on the line, with the batch shape of the lengthscale."""
    return np.asarray(np.sqrt(2 * kernel.nu) / kernel.lengthscale_for(1)[..., 0])
