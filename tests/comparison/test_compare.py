"""Comparisons: every number agrees with a few lines by hand, and no estimator can stop the others."""

from __future__ import annotations

import io
import re
from dataclasses import FrozenInstanceError, dataclass, fields, replace
from math import isnan, nan

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import norm

import cbq
from cbq.comparison import Comparison, ComparisonRow, compare
from cbq.estimators.base import Compared, Estimator, create, default_estimators, estimator, registrations
from cbq.fit.base import Fit
from cbq.fit.predictive import PredictiveDistribution
from refusals import refusals


def overall_mean(samples):
    """The mean of f over all points, for each output, (C,)."""
    return np.mean(samples.table, axis=0)


class Flat(Fit):
    """The same normal distribution of I at all thetas, or at the observed thetas only."""

    def __init__(self, theta, C, mean, std, observed_only=False):
        self.theta, self.C, self.mean, self.std, self.observed_only = theta, C, mean, std, observed_only

    def _predictives(self, theta, *, joint):
        if self.observed_only and not set(map(tuple, theta)) <= set(map(tuple, self.theta)):
            raise ValueError(f"it predicts at theta = {self.theta[0]} and such only. Use these.")
        variance = np.full((1, len(theta)), self.std**2)
        return [PredictiveDistribution(np.full((1, len(theta)), mean), variance, np.inf) for mean in self.mean]

    def _description(self):
        return ["flat"]


@dataclass(frozen=True)
class Average(Estimator):
    """An estimator for which I is the average of f at all thetas."""

    std: float = 1.0
    observed_only: bool = False

    def _fit(self, samples, pool):
        return Flat(samples.theta, samples.C, overall_mean(samples), self.std, self.observed_only)


class NoIntervals(Average):
    def _fit(self, samples, pool):
        class Bare(Flat):
            def interval(self, theta, level=0.95):
                raise NotImplementedError("there is no standard error. Use the mean.")

            def predict(self, theta, return_std=False, return_cov=False):
                return self.interval(theta) if return_std else super().predict(theta)

        return Bare(samples.theta, samples.C, overall_mean(samples), 1.0)


class SometimesNaN(Average):
    """An estimator whose mean at the second theta of a prediction is NaN."""

    def _fit(self, samples, pool):
        class Patchy(Flat):
            def predict(self, theta, return_std=False, return_cov=False):
                mean = np.array(super().predict(theta))
                mean[1] = np.nan
                return mean

        return Patchy(samples.theta, samples.C, overall_mean(samples), 1.0)


class Refuses:
    """An estimator that raises the error it is given."""

    def __init__(self, error):
        self.error = error

    def fit(self, samples):
        raise self.error


@dataclass(frozen=True)
class OneOutput:
    """An estimator that drops the axis of outputs."""

    def fit(self, samples):
        return Flat(samples.theta, None, overall_mean(samples), 1.0)


def exact(theta):
    """E X^2 for X ~ N(theta, 1)."""
    return theta[:, 0] ** 2 + 1.0


def exact_pair(theta):
    return np.stack([exact(theta), 100.0 * theta[:, 0]], axis=1)


def family(theta):
    return cbq.measures.Gaussian(theta[0], 1.0)


PRIOR = cbq.measures.Uniform(1.0, 3.0)
PROBLEM = cbq.Problem(lambda x, theta: x[:, 0] ** 2, family, PRIOR, exact=exact, depends_on_theta=False)
PAIR = cbq.Problem(lambda x, theta: np.stack([x[:, 0] ** 2, 100.0 * x[:, 0]], axis=1), family, PRIOR, exact=exact_pair)
SAMPLES = PROBLEM.collect(7, 6, rng=0)
PAIRS = PAIR.collect(7, 6, rng=0)
RAGGED = PROBLEM.collect(3, [2, 4, 5], rng=1)
NEW = np.linspace(1.1, 2.9, 5)
METHODS = {"average": Average(), "wide": Average(std=3.0)}
REASONS = [
    ValueError("it needs theta = [1. 2.], sorted. Sort it."),
    TypeError("no"),
    NotImplementedError(),
    ImportError("it needs\n  more packages"),
    ArithmeticError("0/0."),
    np.linalg.LinAlgError("singular"),
]


def comparable(row):
    """A row without its seconds, as text, so that NaN equals NaN."""
    return repr(replace(row, seconds=0.0))


# Against the truth ----------------------------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore:beyond:cbq.FitWarning")
@pytest.mark.parametrize("method", [Average(std=2.0), cbq.CBQ()], ids=["average", "CBQ"])
@pytest.mark.parametrize("level", [0.5, 0.95])
def test_errors_coverage_and_width_agree_with_hand_computation(method, level):
    (row,) = compare(SAMPLES, method, exact, theta=NEW, level=level).rows
    fit = method.fit(SAMPLES)
    low, high = fit.interval(NEW, level)
    errors = [fit.predict([theta])[0] - (theta**2 + 1) for theta in NEW]
    assert_allclose(row.rmse, (sum(error**2 for error in errors) / 5) ** 0.5, rtol=1e-12, atol=1e-12)  # I is near 10
    assert row.coverage == sum(a <= theta**2 + 1 <= b for a, b, theta in zip(low, high, NEW, strict=True)) / 5
    assert_allclose(row.width, sum(high - low) / 5, rtol=1e-12)
    assert isnan(row.loo)
    assert row.seconds > 0
    assert (row.T, row.N, row.evaluations, row.output, row.note) == (7, 6, 42, None, "")


def test_coverage_is_between_zero_and_one():
    (row,) = compare(SAMPLES, Average(std=1.0), exact, theta=NEW).rows
    assert 0 < row.coverage < 1


def test_a_problem_is_evaluated_at_draws_from_its_prior():
    (row,) = compare(SAMPLES, Average(), PROBLEM).rows
    # I is theta^2 + 1 with theta uniform on (1, 3), and the prediction is the constant m
    m = overall_mean(SAMPLES)[0]
    theta = np.linspace(1, 3, 200_001)
    assert_allclose(row.rmse, np.sqrt(np.mean((theta**2 + 1 - m) ** 2)), rtol=0.05)
    again = compare(SAMPLES, Average(), PROBLEM).rows[0]
    assert comparable(again) == comparable(row)
    at_new = compare(SAMPLES, Average(), PROBLEM, theta=NEW).rows[0]
    assert comparable(at_new) == comparable(compare(SAMPLES, Average(), exact, theta=NEW).rows[0])


def test_a_function_and_an_array_are_compared_at_the_observed_thetas():
    by_function = compare(SAMPLES, Average(), exact).rows[0]
    by_array = compare(SAMPLES, Average(), exact(SAMPLES.theta)).rows[0]
    by_column = compare(SAMPLES, Average(), exact(SAMPLES.theta)[:, None]).rows[0]
    explicit = compare(SAMPLES, Average(), exact, theta=SAMPLES.theta).rows[0]
    assert comparable(by_function) == comparable(by_array) == comparable(by_column) == comparable(explicit)
    assert_allclose(by_function.rmse, np.sqrt(np.mean((overall_mean(SAMPLES) - exact(SAMPLES.theta)) ** 2)), rtol=1e-12)


def test_an_estimator_that_predicts_at_observed_thetas_only_is_scored_there():
    here, there = compare(SAMPLES, {"here": Average(observed_only=True), "all": Average()}, PROBLEM).rows
    at_observed = compare(SAMPLES, Average(), exact).rows[0]
    assert (here.rmse, here.coverage, here.width) == (at_observed.rmse, at_observed.coverage, at_observed.width)
    assert here.rmse != there.rmse
    assert here.note == "scored at the observed thetas, because it does not predict elsewhere"
    assert there.note == ""
    assert compare(SAMPLES, Average(observed_only=True), exact).rows[0].note == ""


def test_without_a_truth_at_the_observed_thetas_it_has_no_scores():
    (row,) = compare(SAMPLES, Average(observed_only=True), exact(NEW[:, None]), theta=NEW).rows
    assert isnan(row.rmse)
    assert row.seconds > 0
    assert row.note == f"no predictions: it predicts at theta = {SAMPLES.theta[0]} and such only"


def test_the_truth_is_evaluated_only_where_it_is_used():
    asked = []

    def truth(theta):
        asked.append(len(theta))
        return exact(theta)

    compare([SAMPLES, RAGGED], METHODS, truth, theta=NEW)
    assert asked == [5]
    compare([SAMPLES, RAGGED], METHODS, truth)
    assert asked == [5, 7, 3]


# Leaving thetas out ---------------------------------------------------------------------------------------------------


def by_hand(method, samples, groups, level, c=0):
    """The error, coverage and width of a method for output c, where thetas are left out in groups of indices."""
    stage1 = cbq.CBQ().fit(samples).stage1
    estimate, error = (values.reshape(samples.T, -1)[:, c] for values in (stage1.mean, stage1.std))
    differences, inside, widths = [], [], []
    for group in groups:
        fit = method.fit(samples.select([t for t in range(samples.T) if t not in group]))
        for t in group:
            theta = samples.theta[[t]]
            mean, std = (np.ravel(values)[c] for values in fit.predict(theta, return_std=True))
            low, high = norm.interval(level, mean, np.hypot(std, error[t]))
            differences.append(estimate[t] - mean)
            inside.append(low <= estimate[t] <= high)
            widths.append(np.ptp([np.ravel(end)[c] for end in fit.interval(theta, level)]))
    return np.sqrt(np.mean(np.square(differences))), np.mean(inside), np.mean(widths)


@pytest.mark.filterwarnings("ignore:beyond:cbq.FitWarning")
@pytest.mark.filterwarnings("ignore:few thetas:cbq.FitWarning")
@pytest.mark.parametrize("method", [Average(std=2.0), cbq.CBQ()], ids=["average", "CBQ"])
@pytest.mark.parametrize(
    ("folds", "groups"),
    [(10, [[t] for t in range(7)]), (7, [[t] for t in range(7)]), (3, [[0, 3, 6], [1, 4], [2, 5]])],
)
def test_left_out_errors_agree_with_refits_by_hand(method, folds, groups):
    (row,) = compare(SAMPLES, method, folds=folds, level=0.8).rows
    loo, coverage, width = by_hand(method, SAMPLES, groups, 0.8)
    assert_allclose(row.loo, loo, rtol=1e-9)
    assert row.coverage == coverage
    assert_allclose(row.width, width, rtol=1e-9)
    assert isnan(row.rmse)


def test_left_out_coverage_is_between_zero_and_one():
    (row,) = compare(SAMPLES, Average(std=1.0)).rows
    assert 0 < row.coverage < 1


def test_left_out_coverage_allows_for_the_error_of_the_estimates():
    # the truth is constant and the estimator predicts it exactly: all differences are errors of the estimates
    class Zero:
        def fit(self, samples):
            return Flat(samples.theta, None, [0.0], 0.0)

    noise = cbq.Problem(lambda x, theta: np.sign(np.sin(40 * x[:, 0])), family, PRIOR).collect(30, 5, rng=2)
    (row,) = compare(noise, Zero(), level=0.9).rows
    assert row.loo > 0.1
    assert row.width == 0
    assert row.coverage > 0.7


def test_there_is_no_error_if_thetas_cannot_be_left_out():
    (single,) = compare(SAMPLES.select([0]), Average()).rows
    assert (isnan(single.loo), isnan(single.coverage), single.seconds > 0) == (True, True, True)
    assert "one theta" in single.note
    (here,) = compare(SAMPLES, Average(observed_only=True)).rows
    assert isnan(here.loo)
    assert here.seconds > 0
    assert here.note.startswith("no leave-one-out error: it predicts at theta")


def test_samples_that_stage_1_refuses_still_give_rows():
    enormous = SAMPLES.with_values(np.asarray(SAMPLES.f) * 1e200)
    (row,) = compare(enormous, Average()).rows
    assert isnan(row.loo)
    assert row.note.startswith("no leave-one-out error, because stage 1 has no estimates to compare with: ")


# What estimators may do -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("truth", [None, PROBLEM], ids=["left-out", "truth"])
@pytest.mark.parametrize("error", REASONS, ids=lambda error: type(error).__name__)
def test_an_estimator_that_refuses_has_a_row(error, truth):
    first, last = compare(SAMPLES, {"no": Refuses(error), "yes": Average()}, truth).rows
    assert all(isnan(getattr(first, name)) for name in ("rmse", "loo", "coverage", "width", "seconds"))
    assert (first.T, first.N, first.evaluations) == (7, 6, 42)
    assert comparable(last) == comparable(compare(SAMPLES, {"yes": Average()}, truth).rows[0])


def test_the_note_is_the_first_sentence_of_the_error():
    notes = [compare(SAMPLES, Refuses(error), PROBLEM).rows[0].note for error in REASONS]
    assert notes[0] == "it needs theta = [1. 2.], sorted"
    assert notes[2:5] == ["NotImplementedError", "it needs more packages", "0/0"]


def test_other_errors_are_raised():
    with pytest.raises(KeyError):
        compare(SAMPLES, Refuses(KeyError("typo")), PROBLEM)


@pytest.mark.parametrize("truth", [None, exact], ids=["left-out", "truth"])
def test_an_estimator_without_intervals_has_an_error(truth):
    bare, full = compare(SAMPLES, [NoIntervals(), Average()], truth).rows
    assert bare.error == full.error
    assert (isnan(bare.coverage), isnan(bare.width)) == (True, True)
    assert bare.note == "no intervals: there is no standard error"


def test_invalid_predictions_are_noted():
    (row,) = compare(SAMPLES, SometimesNaN(), exact).rows
    assert isnan(row.rmse)
    assert row.note == "no predictions: its predictions are NaN at 1 of 7 thetas"
    (row,) = compare(SAMPLES, SometimesNaN(), PROBLEM).rows
    assert row.note == "no predictions: its predictions are NaN at 1 of 1000 thetas"
    (row, _) = compare(PAIRS, OneOutput(), PAIR).rows
    assert row.note == "no predictions: it predicts 1 outputs, but f has 2"

    class Nothing:
        def fit(self, samples):
            return None

    assert compare(SAMPLES, Nothing()).rows[0].note == "fit returned a NoneType, but it must return a cbq.Fit"


def test_estimators_are_named_by_class_and_options():
    def names(methods):
        return [row.method for row in compare(SAMPLES, methods, exact).rows]

    assert names(METHODS) == ["average", "wide"]
    assert names(Average()) == ["Average"]
    assert names([Average(), NoIntervals()]) == ["Average", "NoIntervals"]
    assert names((Average(), Average(std=2.0, observed_only=True))) == [
        "Average",
        "Average(std=2.0, observed_only=True)",
    ]
    assert names([cbq.CBQ(ard=False), cbq.CBQ.paper(), cbq.CBQ()]) == ["CBQ(ard=False)", "PaperCBQ", "CBQ"]


def test_the_default_comparison_is_that_of_the_registry():
    labels = ["CBQ", "CBQ, borrowing", "MOBQ", "LSMC", "KLSMC", "ImportanceSampling", "MonteCarlo"]
    chosen = default_estimators(SAMPLES)
    assert list(chosen) == labels
    assert chosen["CBQ, borrowing"] == cbq.CBQ(borrow=200)
    assert list(default_estimators(PAIRS)) == [label for label in labels if label != "CBQ, borrowing"]
    rows = compare(SAMPLES, None, PROBLEM).rows
    assert [row.method for row in rows] == labels
    assert not isnan(rows[0].rmse)


def test_an_estimator_enters_the_registry_by_its_declaration(monkeypatch):
    monkeypatch.setattr("cbq.estimators.base._REGISTRATIONS", {each.name: each for each in registrations()})
    known = [each.name for each in registrations()]
    wide = Compared("wide", {"std": 3.0}, suits=lambda samples: samples.C is None)
    declared = estimator("average", title="the average of f", order=0, compared=[Compared("average"), wide])(Average)
    assert declared is Average
    assert create("average") == Average()
    assert [each.name for each in registrations()] == ["average", *known]
    assert list(default_estimators(SAMPLES))[:3] == ["average", "wide", "CBQ"]
    assert default_estimators(SAMPLES)["wide"] == Average(std=3.0)
    assert list(default_estimators(PAIRS))[:2] == ["average", "CBQ"]
    with pytest.raises(ValueError, match="'average' is registered already: choose another name for OneOutput"):
        estimator("average", title="", order=0)(OneOutput)


# Samples of several sizes, several outputs ----------------------------------------------------------------------------


def test_several_samples_and_outputs_have_rows_of_their_own():
    sizes = [PAIRS, PAIR.collect(4, [2, 3, 4, 6], rng=3)]
    rows = compare(sizes, METHODS, PAIR).rows
    assert [(row.T, row.N, row.evaluations, row.output, row.method) for row in rows] == [
        (T, N, n, c, method) for T, N, n in ((7, 6, 42), (4, 3.75, 15)) for c in (0, 1) for method in METHODS
    ]
    single = [
        row
        for c in (0, 1)
        for row in compare(PAIRS.output(c), METHODS, lambda t, c=c: exact_pair(t)[:, c], theta=NEW).rows
    ]
    together = compare(PAIRS, METHODS, PAIR, theta=NEW).rows
    for one, both in zip(single, together, strict=True):
        assert_allclose([both.rmse, both.coverage, both.width], [one.rmse, one.coverage, one.width], rtol=1e-12)
    for c, left_out in enumerate(compare(PAIRS, METHODS).rows[::2]):
        by_refits = by_hand(Average(), PAIRS, [[t] for t in range(7)], 0.95, c)
        assert_allclose([left_out.loo, left_out.coverage, left_out.width], by_refits, rtol=1e-9)


def test_the_result_is_reproducible_and_inputs_are_not_changed():
    before = [SAMPLES.theta.copy(), np.array(SAMPLES.f), np.array(SAMPLES.x)]
    theta, truth = NEW.copy(), exact(NEW[:, None])
    first, again = (compare(SAMPLES, {"CBQ": cbq.CBQ()}, truth, theta=theta) for _ in range(2))
    left, right = (compare(SAMPLES, {"CBQ": cbq.CBQ()}) for _ in range(2))
    assert list(map(comparable, first.rows + left.rows)) == list(map(comparable, again.rows + right.rows))
    for array, copy in zip((SAMPLES.theta, SAMPLES.f, SAMPLES.x, theta), (*before, NEW), strict=True):
        assert_array_equal(array, copy)
    with pytest.raises(FrozenInstanceError):
        first.rows[0].rmse = 0.0
    with pytest.raises(FrozenInstanceError):
        first.rows = ()


def test_comparisons_can_be_added():
    a, b = compare(SAMPLES, {"a": Average()}, PROBLEM), compare(SAMPLES, {"b": Average(2.0)}, PROBLEM)
    assert (a + b).rows == a.rows + b.rows
    with pytest.raises(ValueError, match=r"intervals of level 0\.95 and 0\.5 cannot be added"):
        a + compare(SAMPLES, Average(), PROBLEM, level=0.5)
    with pytest.raises(TypeError):
        a + 1


# Tables ---------------------------------------------------------------------------------------------------------------


def row(method="CBQ", **values):
    sizes = {"T": 20, "N": 50, "output": None, "evaluations": 1000}
    scores = {"rmse": 0.5, "loo": nan, "coverage": 0.9, "width": 2, "seconds": 1, "note": ""}
    return ComparisonRow(method, **{**sizes, **scores, **values})


def test_the_table_is_aligned_with_the_best_row_marked_and_notes_below():
    table = Comparison(
        (
            row(rmse=0.01234),
            row("a longer name", rmse=1234.5, coverage=nan, width=nan, note="no intervals: none"),
            row("third", rmse=nan, seconds=nan, note="refused"),
            row("fourth", note="refused"),
        )
    )
    lines = str(table).splitlines()
    assert lines == [
        "method          T   N     rmse  coverage  width  seconds  note",
        "CBQ            20  50  0.0123*     90.0%      2        1",
        "a longer name  20  50    1230          -      -        1   [1]",
        "third          20  50       -      90.0%      2        -   [2]",
        "fourth         20  50     0.5      90.0%      2        1   [2]",
        "Intervals: 95%; *: the smallest error.",
        "[1] no intervals: none.",
        "[2] refused.",
    ]
    assert repr(table) == str(table)


def test_the_best_row_of_each_size_and_output_is_marked():
    rows = [row(N=N, output=c, rmse=N + c + i, method=f"m{i}") for N in (1, 2) for c in (0, 1) for i in (1, 0)]
    lines = str(Comparison(tuple(rows))).splitlines()[1:-1]
    assert [line.split()[0] for line in lines if "*" in line] == ["m0"] * 4
    assert "*" not in str(Comparison((row(),)))


def test_empty_columns_are_left_out():
    header = str(compare(SAMPLES, METHODS)).splitlines()[0].split()
    assert header == ["method", "T", "N", "loo", "coverage", "width", "seconds"]
    assert "left-out thetas" in str(compare(SAMPLES, METHODS))
    assert "output" in str(Comparison((row(output=0),))).splitlines()[0]


def test_the_data_frame_is_tidy():
    pd = pytest.importorskip("pandas")
    result = compare(PAIRS, METHODS, PAIR)
    frame = result.to_frame()
    assert isinstance(frame, pd.DataFrame)
    names = "method T N output evaluations rmse loo coverage width seconds note"
    assert list(frame.columns) == names.split()
    assert {*names.split(), "coverages"} == {field.name for field in fields(ComparisonRow)}
    assert_array_equal(frame["rmse"], [row.rmse for row in result.rows])
    assert list(frame["output"]) == [0, 0, 1, 1]


def test_html_is_escaped():
    html = Comparison((row("<b>", note="a < b"), row("CBQ"))).__getattribute__("_repr_html_")()
    assert re.search("<th [^>]*>rmse</th>", html)
    assert "&lt;b&gt;" in html
    assert "a &lt; b" in html
    assert "<b>" not in html


# Figures --------------------------------------------------------------------------------------------------------------


def png(figure):
    file = io.BytesIO()
    figure.savefig(file, format="png", dpi=40)
    assert len(file.getvalue()) > 2000


def words(ax):
    return [text.get_text() for text in ax.texts]


def test_estimators_are_dots_if_all_samples_have_one_size():
    rows = (
        row(rmse=0.01, seconds=2),
        row("b", rmse=3.0, seconds=20),
        row("no", rmse=nan, seconds=nan),
        row("z", rmse=0.0),
    )
    figure = Comparison(rows).plot()
    errors, seconds = figure.axes
    assert (errors.get_xlabel(), seconds.get_xlabel()) == ("RMSE", "seconds of the fit")
    assert [label.get_text() for label in errors.get_yticklabels()] == ["CBQ", "b", "no", "z"]
    dots = [line.get_xydata()[0].tolist() for line in errors.lines if line.get_marker() == "o"]
    assert dots == [[0.01, 0.0], [3.0, 1.0]]
    assert words(errors) == ["0.01", "3", "no estimate", "0"]
    assert words(seconds) == ["2", "20", "no estimate", "1"]
    low, high = errors.get_xlim()
    assert low < 0.01 < 3.0 < high
    assert errors.get_xscale() == seconds.get_xscale() == "log"
    png(figure)


def test_dots_of_several_samples_of_one_size_show_the_median():
    rows = tuple(row(rmse=value) for value in (1.0, 2.0, 9.0))
    errors, _ = Comparison(rows).plot().axes
    every, middle = [line.get_xdata().tolist() for line in errors.lines if line.get_marker() == "o"]
    assert (every, middle) == ([1.0, 2.0, 9.0], [2.0])


@pytest.mark.parametrize("methods", [1, 2, 8, 20])
def test_figures_grow_with_the_number_of_estimators(methods):
    rows = tuple(row(f"method {i}", rmse=1.0 + i) for i in range(methods))
    figure = Comparison(rows).plot()
    png(figure)
    (width, height), per_method = figure.get_size_inches(), 0.3
    assert height > per_method * methods
    labels = [label.get_window_extent() for label in figure.axes[0].get_yticklabels()]
    assert not any(a.overlaps(b) for i, a in enumerate(labels) for b in labels[:i])
    words_drawn = [text.get_window_extent() for text in figure.axes[0].texts]
    assert all(box.x0 >= 0 and box.x1 <= width * figure.dpi for box in words_drawn)


def lines(ax):
    return {line.get_label(): line.get_xydata().tolist() for line in ax.lines if not line.get_label().startswith("_")}


def test_lines_over_N():
    result = compare([PROBLEM.collect(5, N, rng=0) for N in (8, 2, 4)], METHODS, PROBLEM)
    figure = result.plot()
    errors, seconds = figure.axes
    wanted = {
        name: [[r.N, r.rmse] for r in sorted(result.rows, key=lambda r: r.N) if r.method == name] for name in METHODS
    }
    assert lines(errors) == wanted
    assert set(lines(seconds)) == set(METHODS)
    assert errors.get_xscale() == errors.get_yscale() == seconds.get_yscale() == "log"
    assert (errors.get_ylabel(), seconds.get_ylabel()) == ("RMSE", "seconds of the fit")
    assert errors.get_xlabel() == seconds.get_xlabel() == r"points $N$ at each $\theta$"
    assert [label.get_text() for label in errors.get_xticklabels()] == ["2", "4", "8"]
    assert [text.get_text() for text in figure.legends[0].get_texts()] == list(METHODS)
    png(figure)


def test_lines_over_evaluations_where_T_differs_too():
    result = compare([SAMPLES, PROBLEM.collect(4, 6, rng=0)], METHODS)
    errors, _ = result.plot().axes
    assert (errors.get_xlabel(), errors.get_ylabel()) == ("evaluations of $f$", "leave-one-out error")
    assert [x for x, _ in lines(errors)["wide"]] == [24, 42]


def test_lines_go_through_medians_and_skip_unknown_values():
    rows = [
        row(N=N, rmse=value)
        for N, values in {10: (1, 5, 2), 20: (nan, 3, 4), 40: (nan, 0.0, nan)}.items()
        for value in values
    ]
    errors, _ = Comparison(tuple(rows)).plot().axes
    assert lines(errors) == {"CBQ": [[10, 2.0], [20, 3.5]]}
    assert max(len(line.get_xdata()) for line in errors.lines) == 5


def test_twenty_lines_have_distinct_styles():
    figure = Comparison(tuple(row(f"m{i}", N=N, rmse=i / N) for i in range(1, 21) for N in (1, 2))).plot()
    drawn = figure.axes[0].lines
    assert len({(line.get_color(), line.get_marker(), line.get_linestyle()) for line in drawn}) == len(drawn) == 20
    png(figure)


def test_the_legend_names_estimators_without_an_estimate():
    figure = Comparison(tuple(row(m, N=N, rmse=r) for m, r in (("a", 1.0), ("b", nan)) for N in (1, 2))).plot()
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["a", "b (no estimate)"]


def test_a_row_of_panels_for_each_output():
    for samples in (PAIRS, [PAIRS, PAIR.collect(7, 3, rng=0)]):
        figure = compare(samples, METHODS, PAIR).plot()
        assert len(figure.axes) == 4
        labels = [ax.get_xlabel() + ax.get_ylabel() for ax in figure.axes]
        assert "output 0" in labels[0]
        assert "output 1" in labels[2]
        small, large = figure.axes[0], figure.axes[2]
        limits = [ax.get_xlim() if isinstance(samples, cbq.Samples) else ax.get_ylim() for ax in (small, large)]
        assert limits[1][1] > 5 * limits[0][1]  # outputs of different scales do not share an axis
        png(figure)


def test_a_comparison_without_any_score_can_be_drawn():
    png(Comparison((row(rmse=nan, seconds=nan),)).plot())
    png(Comparison((row(rmse=nan, seconds=nan), row(rmse=nan, seconds=nan, N=7))).plot())


@pytest.mark.parametrize("samples", [SAMPLES, [SAMPLES, RAGGED]], ids=["dots", "lines"])
def test_figures_can_be_drawn_into_given_axes(samples):
    from matplotlib.figure import Figure

    result = compare(samples, METHODS, PROBLEM)
    figure = Figure()
    pair = figure.subplots(1, 2)
    assert result.plot(pair) is figure
    assert len(figure.axes) == 2
    assert pair[1].lines
    alone = Figure().subplots()
    assert result.plot(alone) is alone.figure
    assert "RMSE" in alone.get_xlabel() + alone.get_ylabel()
    png(figure)
    with pytest.raises(ValueError, match="one output"):
        compare(PAIRS, METHODS, PAIR).plot(pair)


# Errors ------------------------------------------------------------------------------------------------------

NO_ANSWER = cbq.Problem(lambda x, theta: x[:, 0], family, PRIOR, name="mine")
PLANE = cbq.problems.get("linear", dim=2)

test_bad_values = refusals(
    {
        "level": (lambda: compare(SAMPLES, METHODS, level=95), "level must lie between 0 and 1.*95"),
        "folds": (lambda: compare(SAMPLES, METHODS, folds=1), "folds must be an integer, 2 or more, but it is 1"),
        "folds 2.5": (
            lambda: compare(SAMPLES, METHODS, folds=2.5),
            "folds must be an integer, 2 or more, but it is 2.5",
        ),
        "no methods": (lambda: compare(SAMPLES, {}), "methods is empty"),
        "no methods in a list": (lambda: compare(SAMPLES, []), "methods is empty"),
        "names": (lambda: compare(SAMPLES, [Average(), Average()]), "two methods have the name 'Average'"),
        "no samples": (lambda: compare([], METHODS), "samples is empty"),
        "p": (lambda: compare([SAMPLES, PLANE.collect(2, 3, rng=0)], METHODS), "p = 1 and 2"),
        "C": (lambda: compare([SAMPLES, PAIRS], METHODS), "C = None and 2"),
        "theta alone": (lambda: compare(SAMPLES, METHODS, theta=NEW), "pass truth"),
        "theta": (lambda: compare(SAMPLES, METHODS, exact, theta=np.ones((3, 2))), r"the samples' theta has p = 1"),
        "shape": (lambda: compare(SAMPLES, METHODS, np.ones(3)), r"truth has shape \(3,\).*\(7,\)"),
        "shape at theta": (lambda: compare(SAMPLES, METHODS, np.ones(7), theta=NEW), r"truth has shape \(7,\).*\(5,\)"),
        "one column": (lambda: compare(PAIRS, METHODS, exact), r"truth has shape \(7,\).*\(7, 2\)"),
        "too many": (lambda: compare(SAMPLES, METHODS, exact_pair), r"truth has shape \(7, 2\).*\(7,\)"),
        "NaN": (lambda: compare(SAMPLES, METHODS, np.full(7, np.nan)), "truth must be finite"),
        "array of many": (lambda: compare([SAMPLES, RAGGED], METHODS, np.ones(7)), "different thetas"),
        "no exact": (lambda: compare(SAMPLES, METHODS, NO_ANSWER), "exact I of problem 'mine' is not known"),
        "other problem": (lambda: compare(SAMPLES, METHODS, PLANE), "p = 2, but the samples have p = 1"),
        "no rows": (lambda: Comparison(()), "needs at least one row"),
    },
    ValueError,
)

test_bad_types = refusals(
    {
        "samples": (lambda: compare([1.0], METHODS), "samples must be cbq.Samples.*float"),
        "array": (lambda: compare(np.ones(3), METHODS), "samples must be cbq.Samples.*ndarray"),
        "class": (lambda: compare(SAMPLES, cbq.CBQ), r"the class CBQ arrived: pass CBQ\(\)"),
        "class in a list": (lambda: compare(SAMPLES, [Average]), "the class Average"),
        "string": (lambda: compare(SAMPLES, "CBQ"), "must have fit.*str"),
        "value": (lambda: compare(SAMPLES, {"CBQ": None}), "must have fit.*NoneType"),
        "name": (lambda: compare(SAMPLES, {1: Average()}), "one name is 1"),
    },
    TypeError,
)


LEVELS = (0.2, 0.5, 0.8)


def test_coverage_at_several_levels_is_the_share_inside_intervals_of_each():
    problem = cbq.problems.get("butterfly")
    samples, theta = problem.collect(12, 10, rng=0), np.linspace(60, 140, 50)[:, None]
    found = compare(samples, cbq.CBQ(), truth=problem.exact, theta=theta, levels=LEVELS)
    fit, truth = cbq.CBQ().fit(samples), problem.exact(theta)
    for level, share in zip(LEVELS, found.rows[0].coverages, strict=True):
        low, high = fit.interval(theta, level)
        assert share == np.mean((low <= truth) & (truth <= high))
    assert found.levels == LEVELS
    assert found.rows[0].coverage == compare(samples, cbq.CBQ(), truth=problem.exact, theta=theta).rows[0].coverage


def test_coverage_at_left_out_thetas_grows_with_the_level():
    samples = cbq.problems.get("butterfly").collect(12, 10, rng=0)
    one = compare(samples, cbq.LSMC(), level=0.5).rows[0].coverage
    found = compare(samples, cbq.LSMC(), levels=np.array([0.9, 0.5, 0.5])).rows[0].coverages
    assert found[0] == one
    assert len(found) == 2
    assert found[0] <= found[1]


def test_the_figure_of_coverage_has_a_line_for_each_estimator_with_intervals():
    samples = cbq.problems.get("butterfly").collect(12, 10, rng=0)
    methods = {"good": cbq.LSMC(), "none": NoIntervals()}
    found = compare([samples, samples], methods, truth=cbq.problems.get("butterfly"), levels=LEVELS)
    (ax,) = found.plot_coverage().axes
    lines = {line.get_label(): line for line in ax.lines}
    assert "none" not in lines
    assert_allclose(lines["good"].get_xdata(), [*LEVELS, 0.95])
    assert_allclose(lines["good"].get_ydata(), [*found.rows[0].coverages, found.rows[0].coverage])
    assert (found + found).levels == LEVELS


def test_levels_that_differ_or_are_none_are_refused():
    samples = cbq.problems.get("butterfly").collect(12, 10, rng=0)
    plain, several = compare(samples, cbq.LSMC()), compare(samples, cbq.LSMC(), levels=LEVELS)
    with pytest.raises(ValueError, match="cannot be added: compare with the same levels"):
        plain + several
    with pytest.raises(ValueError, match="there is one level only: pass levels="):
        plain.plot_coverage()
    for levels in ((1.0,), [0.0], [[0.5]], 0.5, (np.nan,)):
        with pytest.raises(ValueError, match="levels must"):
            compare(samples, cbq.LSMC(), levels=levels)
