"""The regressor for scikit-learn: its own checks, and what pipelines, cross-validation and grid search do with it."""

import pickle
import subprocess
import sys

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, GroupKFold, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import check_estimator

import cbq
from cbq.sklearn import ConditionalExpectation

RNG = np.random.default_rng(0)
THETA = np.repeat(RNG.random((30, 2)), 4, axis=0)
F = np.sin(3 * THETA[:, 0]) + THETA[:, 1] ** 2 + 0.1 * RNG.standard_normal(120)
REPLICATES = np.repeat(np.arange(30), 4)


@pytest.mark.filterwarnings("ignore::cbq.FitWarning", "ignore::sklearn.exceptions.SkipTestWarning")
@pytest.mark.parametrize("estimator", [None, cbq.LSMC()], ids=repr)
def test_it_passes_the_checks_of_scikit_learn(estimator):
    results = check_estimator(ConditionalExpectation(estimator), on_fail=None)
    assert {each["status"] for each in results} <= {"passed", "skipped"}
    assert {each["check_name"] for each in results if each["status"] == "skipped"} <= {"check_array_api_input"}


@pytest.mark.parametrize("order", [np.arange(120), RNG.permutation(120)], ids=["in order", "shuffled"])
def test_rows_with_equal_thetas_are_replicates(order):
    """It is the fit to the averages of four values at each of 30 thetas, whatever the order of the rows."""
    model = ConditionalExpectation(cbq.LSMC(degree=3)).fit(THETA[order], F[order])
    assert len(model.fit_.theta) == 30
    expected = cbq.LSMC(degree=3).fit(cbq.Samples(THETA[::4], np.arange(120.0).reshape(30, 4), F.reshape(30, 4)))
    np.testing.assert_allclose(model.predict(THETA[::4]), expected.predict(THETA[::4]), rtol=1e-9)
    mean, std = model.predict(THETA[::4], return_std=True)
    np.testing.assert_allclose(std, expected.predict(THETA[::4], return_std=True)[1], rtol=1e-7)
    assert_array_equal(mean, model.predict(THETA[::4]))


def test_it_works_in_pipelines_cross_validation_and_grid_search():
    pipeline = make_pipeline(StandardScaler(), ConditionalExpectation())
    splits = {"cv": GroupKFold(5), "groups": REPLICATES}
    assert np.min(cross_val_score(pipeline, THETA, F, **splits)) > 0.8
    grid = {"estimator__degree": [0, 3]}
    search = GridSearchCV(ConditionalExpectation(cbq.LSMC()), grid, cv=GroupKFold(5)).fit(THETA, F, groups=REPLICATES)
    assert search.best_params_ == {"estimator__degree": 3}
    flat, curved = search.cv_results_["mean_test_score"]
    assert flat < 0.1 < 0.9 < curved
    assert search.best_estimator_.estimator == cbq.LSMC(degree=3)


def test_options_of_the_estimator_are_parameters():
    model = ConditionalExpectation(cbq.LSMC())
    assert model.get_params()["estimator__largest"] == 4
    assert model.set_params(estimator__degree=2, estimator__ridge=0.5).estimator == cbq.LSMC(degree=2, ridge=0.5)
    assert clone(model).estimator == model.estimator
    assert ConditionalExpectation().set_params(estimator__ridge=0.5).estimator == cbq.KLSMC(ridge=0.5)
    with pytest.raises(ValueError, match="LSMC has no option 'degre'"):
        model.set_params(estimator__degre=2)
    with pytest.raises(TypeError, match=r"estimator must be an estimator of cbq such as cbq\.LSMC\(\), not 'LSMC'"):
        ConditionalExpectation("LSMC").fit(THETA, F)
    with pytest.raises(ValueError, match="CBQ needs the measures of x"):
        ConditionalExpectation(cbq.CBQ()).fit(THETA, F)


def test_fitted_models_answer_further_questions_and_are_pickled():
    model = ConditionalExpectation().fit(THETA, np.stack([F, -F], axis=1))
    assert model.predict(THETA[:3]).shape == (3, 2)
    low, high = model.fit_.interval(THETA[:3])
    assert np.all(low < high)
    assert_array_equal(pickle.loads(pickle.dumps(model)).predict(THETA[:3]), model.predict(THETA[:3]))


def test_it_is_imported_when_it_is_used_and_asks_for_scikit_learn():
    code = "import cbq, sys; sys.modules['sklearn.base'] = None\ntry: cbq.sklearn\nexcept ImportError as e: print(e)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "cbq.sklearn needs scikit-learn 1.6 or newer: python -m pip install scikit-learn.\n"
