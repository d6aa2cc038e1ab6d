"""The methods of the figures."""

from __future__ import annotations

from collections.abc import Callable

from cbq.kernels import RBF, Kernel, Matern, Stein, TensorProduct, Warped
from cbq.kernels.radial import Radial
from cbq.methods import CBQ, KLSMC, LSMC, MOBQ, Auto, ImportanceSampling
from cbq.methods.registry import Estimator

BASELINES = ("LSMC", "KLSMC", "IS", "IS balance")
LANDMARKS = 500


def _gaussianised(base: Radial) -> Kernel:
    return Warped(TensorProduct(base), "gaussianise")


METHODS: dict[str, Callable[[], Estimator]] = {
    "CBQ.paper": CBQ.paper,
    "LSMC": LSMC,
    "KLSMC": KLSMC,
    "IS": lambda: ImportanceSampling("plain"),
    "IS balance": lambda: ImportanceSampling("balance"),
    "CBQ": CBQ,
    "MOBQ": MOBQ,
    "Auto": Auto,
    "MOBQ, Nystrom": lambda: MOBQ(nystrom=LANDMARKS),
    "MOBQ, kernel given": lambda: MOBQ(kernel_x=RBF(1.0)),
    "CBQ.paper, lambda = 0": lambda: CBQ.paper(lambdas=(0.0,)),
    "CBQ.paper, Stein": lambda: CBQ.paper(Stein(Matern(1.5))),
    # which kernel of theta
    "CBQ.paper, theta Matern 3/2": lambda: CBQ.paper(kernel_theta=Matern(1.5)),
    "CBQ.paper, theta Gaussian": lambda: CBQ.paper(kernel_theta=RBF()),
    "CBQ, theta Matern 3/2": lambda: CBQ(kernel_theta=Matern(1.5)),
    "CBQ, theta Gaussian": lambda: CBQ(kernel_theta=RBF()),
    # which kernel of x
    "CBQ.paper, x Matern 3/2": lambda: CBQ.paper(kernel_x=_gaussianised(Matern(1.5))),
    "CBQ.paper, x Gaussian": lambda: CBQ.paper(kernel_x=_gaussianised(RBF())),
    "CBQ.paper, x Stein": lambda: CBQ.paper(kernel_x=Stein(Matern(1.5))),
    "CBQ, x Matern 3/2": lambda: CBQ(kernel_x=_gaussianised(Matern(1.5))),
    "CBQ, x Gaussian": lambda: CBQ(kernel_x=_gaussianised(RBF())),
    "CBQ, x Stein": lambda: CBQ(kernel_x=Stein(Matern(1.5))),
}
