"""A regressor with the interface of scikit-learn, for pipelines, cross-validation and grid search."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
import numpy.typing as npt

from cbq.common import Array
from cbq.estimators import KLSMC
from cbq.estimators.base import Estimator
from cbq.fit import Fit
from cbq.samples import Samples

try:
    from sklearn.base import BaseEstimator, RegressorMixin  # type: ignore[import-untyped]
    from sklearn.utils.validation import check_is_fitted, validate_data  # type: ignore[import-untyped]
except ImportError as error:
    raise ImportError("cbq.sklearn needs scikit-learn 1.6 or newer: python -m pip install scikit-learn.") from error

__all__ = ["ConditionalExpectation"]

NESTED = "estimator__"  # before the names of options of the estimator


class ConditionalExpectation(RegressorMixin, BaseEstimator):  # type: ignore[misc]
    """E[y | X] as a regressor of scikit-learn: X are thetas, and y values of f, each at a random x of its theta.

    Rows with equal X are replicates: values of f at further x of the same theta. A splitter for cross-validation should
    keep them together, as `GroupKFold` does.

    Parameters
    ----------
    estimator : an estimator of cbq that needs no measure of x, `cbq.LSMC(...)` or `cbq.KLSMC(...)` (default). Its
        options are parameters of the regressor, such as `estimator__degree`, also in a grid search.

    Attributes
    ----------
    fit_ : the fit of cbq, with `interval`, `band`, `sample`, `plot`, `report` and `save`.
    n_features_in_ : the number of coordinates of theta.

    Examples
    --------
    >>> from sklearn.model_selection import cross_val_score
    >>> samples = cbq.problems.get("butterfly").collect(T=40, N=5, rng=0)
    >>> theta, f = np.repeat(samples.theta, 5, axis=0), samples.f.ravel()
    >>> model = cbq.sklearn.ConditionalExpectation(cbq.LSMC(degree=2)).fit(theta, f)
    >>> mean, std = model.predict([[90.0], [100.0]], return_std=True)
    >>> mean.shape, len(cross_val_score(model, theta, f, cv=4))
    ((2,), 4)
    """

    fit_: Fit

    def __init__(self, estimator: Estimator[Fit] | None = None) -> None:
        self.estimator = estimator

    def fit(self, X: npt.ArrayLike, y: npt.ArrayLike) -> Self:
        """Fit to thetas X (n, p) and values y (n,) or (n, C)."""
        theta, f = validate_data(self, X, y, dtype=np.float64, y_numeric=True, multi_output=True, ensure_min_samples=2)
        columns = {f"theta_{j}": column for j, column in enumerate(theta.T)} | {"x": np.arange(len(theta))}
        outputs = {f"f_{c}": column for c, column in enumerate(f.reshape(len(f), -1).T)}
        samples = Samples.from_frame(columns | outputs, f="f_0" if f.ndim == 1 else list(outputs))
        self.fit_ = self._chosen().fit(samples)
        return self

    def predict(self, X: npt.ArrayLike, return_std: bool = False) -> Array | tuple[Array, Array]:
        """The mean of E[y | X] at thetas X (M, p): (M,) or (M, C). return_std: also its standard deviation, alike."""
        check_is_fitted(self)
        theta = validate_data(self, X, dtype=np.float64, reset=False)
        return self.fit_.predict(theta, return_std=return_std)

    def set_params(self, **params: Any) -> Self:
        """Set parameters, and options of the estimator by names such as `estimator__degree`."""
        nested = {name.removeprefix(NESTED): params.pop(name) for name in [*params] if name.startswith(NESTED)}
        super().set_params(**params)
        if nested:  # an estimator of cbq does not change: it makes a copy with other options
            self.estimator = self._chosen().set_params(**nested)
        return self

    def _chosen(self) -> Estimator[Fit]:
        if self.estimator is not None and not isinstance(self.estimator, Estimator):
            raise TypeError(f"estimator must be an estimator of cbq such as cbq.LSMC(), not {self.estimator!r}.")
        return KLSMC() if self.estimator is None else self.estimator

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags
