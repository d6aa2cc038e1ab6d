"""The methods of the figures: how each is made, and how it looks, the same in all of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from cbq.comparison.methods import Method
from cbq.kernels import RBF, Kernel, Matern, Stein, TensorProduct, Warped
from cbq.kernels.radial import Radial
from cbq.methods import CBQ, KLSMC, LSMC, MOBQ, Auto, ImportanceSampling

BASELINES = ("LSMC", "KLSMC", "IS", "IS balance")
LANDMARKS = 500


@dataclass(frozen=True)
class Look:
    """A colour that the colour-blind tell from the others (Okabe and Ito, and a grey), a marker, a dash."""

    colour: str
    marker: str
    dash: Any = "-"
    open: bool = False  # the marker is not filled and the line is thin, so that what lies below is seen

    @property
    def style(self) -> dict[str, Any]:
        """Of a line, in the words of matplotlib."""
        size, inside, width = (6.5, "none", 1.1) if self.open else (4.5, self.colour, 1.6)
        marks = {"marker": self.marker, "ms": size, "mfc": inside, "mec": self.colour, "mew": 1.0}
        return {"color": self.colour, "ls": self.dash, "lw": width, **marks}


def _gaussianised(base: Radial) -> Kernel:
    return Warped(TensorProduct(base), "gaussianise")


METHODS: dict[str, Callable[[], Method]] = {
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

BLACK, ORANGE, SKY, GREEN, BLUE, RED, PURPLE, GREY = (
    *("#000000", "#E69F00", "#56B4E9", "#009E73"),
    *("#0072B2", "#D55E00", "#CC79A7", "#7F7F7F"),
)
DASHED, DOTTED = (0, (4, 1.5)), (0, (1, 1.2))
LOOKS: dict[str, Look] = {
    "CBQ.paper": Look(RED, "o"),
    "LSMC": Look(SKY, "v"),
    "KLSMC": Look(PURPLE, "P"),
    "IS": Look(ORANGE, "X"),
    "IS balance": Look(GREY, "*"),
    "CBQ": Look(BLUE, "s"),
    "MOBQ": Look(GREEN, "^"),
    "Auto": Look(BLACK, "D", DASHED, open=True),
    "MOBQ, Nystrom": Look(GREEN, "<", DASHED, open=True),
    "MOBQ, kernel given": Look(GREEN, ">", DOTTED, open=True),
    "CBQ.paper, Stein": Look(RED, "d", DASHED, open=True),
    "CBQ.paper, theta Matern 3/2": Look(RED, "o"),
    "CBQ.paper, theta Gaussian": Look(ORANGE, "X"),
    "CBQ, theta Matern 3/2": Look(SKY, "v", DASHED),
    "CBQ, theta Gaussian": Look(BLUE, "s", DASHED),
    "CBQ.paper, x Matern 3/2": Look(RED, "o"),
    "CBQ.paper, x Gaussian": Look(ORANGE, "X"),
    "CBQ.paper, x Stein": Look(PURPLE, "P"),
    "CBQ, x Matern 3/2": Look(SKY, "v", DASHED),
    "CBQ, x Gaussian": Look(BLUE, "s", DASHED),
    "CBQ, x Stein": Look(GREEN, "^", DASHED),
}
