"""Findings that samples carry: what was found when they were made, and is not seen in their arrays."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from cbq._arrays import Array
from cbq.io import Numbers, Optional, Text, saved
from cbq.samples.conditional import find_thetas

KINDS = ("convergence", "ratio")  # of the findings of fits that these become


@saved("SamplesFinding", kind=Text(KINDS), text=Text(), theta=Optional(Numbers("p")))
@dataclass(frozen=True, eq=False)
class SamplesFinding:
    """What a user should know about samples: its kind, a text of whole sentences, and the theta (p,), if it is one.

    Examples
    --------
    >>> x = np.random.default_rng(0).normal(size=(4, 200)) + [[0.0], [0.0], [0.0], [3.0]]  # one chain is elsewhere
    >>> import warnings
    >>> with warnings.catch_warnings(action="ignore"):
    ...     samples = cbq.Samples.from_arviz({1.0: {"x": x}}, value="x")
    >>> [finding.kind for finding in samples.findings]
    ['convergence']
    """

    kind: str
    text: str
    theta: Array | None = None

    def __post_init__(self) -> None:
        if self.theta is not None:
            self.theta.setflags(write=False)

    def __str__(self) -> str:
        return self.text

    def __eq__(self, other: object) -> bool:
        return self._key == other._key if isinstance(other, SamplesFinding) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._key)

    @property
    def _key(self) -> tuple[str, str, bytes | None]:
        return self.kind, self.text, None if self.theta is None else (self.theta + 0.0).tobytes()


def about(findings: Sequence[SamplesFinding], theta: Array) -> tuple[SamplesFinding, ...]:
    """The findings about some of the thetas (T, p), or about all samples; each once."""
    kept = (each for each in findings if each.theta is None or find_thetas(each.theta[None], theta)[0] >= 0)
    return tuple(dict.fromkeys(kept))


def in_brief(findings: Sequence[SamplesFinding], kind: str, T: int) -> str:
    """The text of the findings of a kind about T thetas: the first, and how many thetas are like it."""
    every = [each for each in findings if each.kind == kind]
    alike = sum(each.theta is not None for each in every)
    return f"{every[0].text}{f' {alike} of {T} thetas are like it.' * (alike > 1)}"
