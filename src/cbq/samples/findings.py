"""Findings about samples, recorded when they are made, because their arrays do not show them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from cbq.common import Array
from cbq.io import Numbers, Optional, Text, saved
from cbq.samples.conditional import find_thetas

KINDS = ("convergence", "ratio")  # the kinds of findings of fits that these become


@saved("SamplesFinding", kind=Text(KINDS), text=Text(), theta=Optional(Numbers("p")))
@dataclass(frozen=True, eq=False)
class SamplesFinding:
    """A finding about samples: its kind, a text in whole sentences, and the theta (p,) if it concerns a single one.

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
    """The findings about thetas among (T, p), or about the samples as a whole; each once."""
    kept = (finding for finding in findings if finding.theta is None or find_thetas(finding.theta[None], theta)[0] >= 0)
    return tuple(dict.fromkeys(kept))


def in_brief(findings: Sequence[SamplesFinding], kind: str, T: int) -> str:
    """The text of the first finding of a kind, and the number of thetas, of T, with findings of this kind."""
    of_kind = [finding for finding in findings if finding.kind == kind]
    alike = sum(finding.theta is not None for finding in of_kind)
    return f"{of_kind[0].text}{f' {alike} of {T} thetas have this problem.' * (alike > 1)}"
