"""The summary of a fit: a text that prints well, and knows its parts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from cbq import _html
from cbq.fit.findings import Finding


class Summary(str):
    """A text of several lines, whose parts are attributes.

    choice : why the estimator was chosen, where several were tried; else None.
    description : the lines on how the fit was made and what was chosen.
    findings : what a user should know, each with a `kind`, a `text` and a `remedy`; their texts are `warnings`.
    """

    choice: str | None
    description: tuple[str, ...]
    findings: tuple[Finding, ...]

    def __new__(
        cls,
        text: str,
        choice: str | None = None,
        description: Sequence[str] = (),
        findings: Sequence[Finding] = (),
    ) -> Summary:
        found = super().__new__(cls, text)
        found.choice, found.description, found.findings = choice, tuple(description), tuple(findings)
        return found

    @property
    def warnings(self) -> tuple[str, ...]:
        """The texts of all findings."""
        return tuple(map(str, self.findings))

    def __repr__(self) -> str:
        return str(self)

    def __getnewargs__(self) -> tuple[Any, ...]:
        return str(self), self.choice, self.description, self.findings

    def _repr_html_(self) -> str:
        title, *lines = self.description or str(self).split("\n")
        notes = [f"Warning: {each} {each.remedy}" for each in self.findings] or ["No warnings."]
        return _html.box(title, {"": "\n".join(filter(None, [self.choice, *lines]))}, notes=notes)
