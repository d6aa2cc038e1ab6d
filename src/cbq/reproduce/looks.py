"""How each method looks, the same in all figures."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Look:
    """A colour that the colour-blind tell from the others (Okabe and Ito, and a grey), a marker, a dash."""

    colour: str
    marker: str
    dash: Any = "-"
    open: bool = False  # the marker is not filled and the line is thin, so that what lies below is seen

    @property
    def band(self) -> float:
        """How opaque a band is."""
        return 0.12 if self.open else 0.25

    @property
    def style(self) -> dict[str, Any]:
        """Of a line, in the words of matplotlib."""
        size, inside, width = (6.5, "none", 1.1) if self.open else (4.5, self.colour, 1.6)
        marks = {"marker": self.marker, "ms": size, "mfc": inside, "mec": self.colour, "mew": 1.0}
        return {"color": self.colour, "ls": self.dash, "lw": width, **marks}


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
    "CBQ.paper, lambda = 0": Look(RED, "h", DASHED, open=True),
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
