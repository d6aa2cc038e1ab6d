"""Findings: what a user should know about a fit, each of a kind that has a remedy, and the warnings that they raise."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path

from cbq.io import Text, saved

# Each kind of finding, and what to do about it. docs/guide/warnings.md says how each is found.
KINDS = {
    "failures": "Make f return a value at all points, or decide what I is to mean where it has none.",
    "measures": (
        "Check measure= and the order of theta and x; pass proposal= if the points were drawn from other measures, or "
        "design='adaptive' if a rule chose them."
    ),
    "noise": "If f is a random simulator, pass stochastic=True to cbq.Problem or cbq.Samples.",
    "bounds": "Correct bounds= of cbq.Problem or cbq.Samples: of a random f they are the bounds of its mean.",
    "equal values": "Take more points there, or points where f is expected to differ; pass bounds= if f has them.",
    "tails": "Take more points, or points from a wider distribution that reach the tails: proposal=... in collect.",
    "ratio": "Pass a wider q to samples.reweighted, and take the points from it: proposal=q in collect.",
    "leave-one-out": "Take more thetas, or compare with other estimators: cbq.compare(samples).",
    "few points": "Take more points per theta, or fewer thetas with more points each.",
    "few thetas": "Take more thetas, if need be with fewer points each.",
    "convergence": "Run longer or more chains.",
    "chains": "Say design='mcmc' if the points are a Markov chain, and thin it: samples.thinned(n).",
    "chosen points": "Use cbq.MOBQ(), which learns f from all points, or cbq.CBQ() with several points at each theta.",
    "shared design": "Draw points of its own for each theta (in collect, scramble='independent'), or take more points.",
    "beyond": "Collect samples there, or predict within the range of the observed thetas.",
    "not learnt": "Take more points, or try cbq.CBQ() or cbq.LSMC().",
    "rounding": "Pass a rougher kernel_x, or drop points that nearly coincide.",
    "design": "Nothing needs to be done if this is what was meant.",
}
REMARKS = frozenset({"rounding", "design"})  # these leave intervals as good as they are, and raise no warning
PACKAGE = f"{Path(__file__).parents[1]}{os.sep}"

_IS_SILENT: ContextVar[bool] = ContextVar("is_silent", default=False)


class FitWarning(UserWarning):
    """The answers of a fit are not what they seem to be; its summary says so, too.

    Examples
    --------
    >>> import warnings
    >>> samples = cbq.problems.get("butterfly").collect(T=3, N=20, rng=0)
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always", cbq.FitWarning)
    ...     fit = cbq.LSMC().fit(samples)
    >>> [finding.kind for finding in fit.serious_findings]
    ['few thetas']
    """


@saved("Finding", kind=Text(tuple(KINDS)), text=Text())
@dataclass(frozen=True)
class Finding:
    """What a user should know about a fit: a kind, one of `KINDS`, and a text of whole sentences.

    Examples
    --------
    >>> from cbq.fit import Finding
    >>> finding = Finding("few thetas", "3 thetas say little about I elsewhere.")
    >>> finding.remedy
    'Take more thetas, if need be with fewer points each.'
    """

    kind: str
    text: str

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise ValueError(f"kind must be one of {', '.join(KINDS)}, but it is {self.kind!r}.")

    def __str__(self) -> str:
        return self.text

    @property
    def remedy(self) -> str:
        """What to do about it: a sentence."""
        return KINDS[self.kind]


def for_some(outputs: int, C: int) -> str:
    """How many of C outputs a finding is about, as a part of its text; empty if there is one output."""
    return f" for {outputs} of {C} outputs" * (C > 1)


@contextmanager
def silent() -> Iterator[None]:
    """Raise no warnings of findings inside, for callers that say themselves what was found."""
    before = _IS_SILENT.set(True)
    try:
        yield
    finally:
        _IS_SILENT.reset(before)


def warn_of(findings: Iterable[Finding]) -> None:
    """Raise a `FitWarning` for each kind of finding, which points to the line outside of cbq that called it.

    The message begins with the kind, so that filters can tell the kinds apart.
    """
    if _IS_SILENT.get():
        return
    texts: dict[str, list[str]] = {}
    for each in findings:
        texts.setdefault(each.kind, []).append(each.text)
    for kind, found in texts.items():
        warnings.warn(f"{kind}: {' '.join(found)} {KINDS[kind]}", FitWarning, stacklevel=_level_of_caller())


def _level_of_caller() -> int:
    """The `stacklevel` of the innermost line outside of cbq, for a warning that the caller of this function raises."""
    level, frame = 1, sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(PACKAGE):
        level, frame = level + 1, frame.f_back
    return level
