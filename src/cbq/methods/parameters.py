"""Estimators as scikit-learn knows them: their options by name, copies with other options, and `sklearn.base.clone`."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any, Self, cast

from cbq._checks import flag, shown


class Parameters:
    """The base class of estimators: `get_params` and `set_params`. Estimators are configurations, and never change."""

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The options by name. deep: as in scikit-learn; no option is an estimator, so that it changes nothing."""
        flag(deep, "deep")
        return {field.name: getattr(self, field.name) for field in fields(cast(Any, self))}

    def set_params(self, **options: Any) -> Self:
        """A copy with other options. The estimator itself stays as it is, unlike those of scikit-learn."""
        known = self.get_params()
        unknown = [name for name in options if name not in known]
        if unknown:
            has = f"it has {', '.join(known)}" if known else "it has none"
            raise ValueError(f"{type(self).__name__} has no option {shown(unknown[0])}: {has}.")
        return cast(Self, replace(cast(Any, self), **options))
