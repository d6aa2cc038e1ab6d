"""A context in which findings of fits raise no warnings."""

from __future__ import annotations

import warnings

import cbq


def silent():
    """Ignore `cbq.FitWarning` inside."""
    return warnings.catch_warnings(action="ignore", category=cbq.FitWarning)
