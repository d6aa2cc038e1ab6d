"""Reports: one HTML file that loads nothing, with the numbers of the fit, in which no text becomes markup."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import sys
from html.parser import HTMLParser
from itertools import combinations

import numpy as np
import pytest

import cbq
from cbq.fit.answer_grid import AnswerGrid
from cbq.fit.base import Fit
from cbq.fit.diagnostics import coverage, left_out
from cbq.fit.figures import curve_panel
from cbq.fit.predictive import PredictiveDistribution
from cbq.fit.theta_grids import round_axis
from cbq.plotting import Zone
from cbq.report.charts import json_script, resolved
from cbq.report.page import Page, Section, html_table, notice, paragraph, words
from cbq.voi import EvppiRow, EvppiTable
from command_line import ok
from quiet import silent
from refusals import refusals

VOID = {"meta", "link", "input", "br"}
EVIL = "</script><script>document.title='owned'</script><b onclick=\"alert(1)\">'&"
SIZE = 2_000_000  # bytes at the most


class Read(HTMLParser):
    """What a page consists of; raises where elements are not nested."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.scripts: list[tuple[str | None, str]] = []
        self.text = ""
        self.feed(html)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open and self.open[-1] == "script":
            self.scripts.append((self.tags[-1][1].get("type"), data))
        elif "style" not in self.open:
            self.text += data

    @property
    def data(self):
        return [json.loads(text) for kind, text in self.scripts if kind == "application/json"]

    def reader(self):
        (found,) = [each for each in self.data if "quantities" in each]
        return found


class Known(Fit):
    """A fit whose output c has mean (c + 1) (theta_0 + theta_1 + ...) and the standard deviation 0.1."""

    def __init__(self, theta, C=None):
        self.theta, self.C = np.array(theta, dtype=float), C

    def _predictives(self, theta, *, joint):
        mean, variance = np.sum(theta, axis=1)[None], np.full((1, len(theta)), 0.01)
        return [PredictiveDistribution((c + 1) * mean, variance, np.inf) for c in range(self.C or 1)]

    def _description(self):
        return ["known"]


@pytest.fixture(scope="module")
def butterfly():
    problem = cbq.problems.get("butterfly")
    samples = problem.collect(10, 8, rng=0)
    return problem, samples, cbq.CBQ().fit(samples)


def marks(page, kind):
    """The marks of this kind in all charts of a page."""
    return [mark for chart in page.data for mark in chart.get("marks", ()) if mark["type"] == kind]


def read(fit, tmp_path, *arguments, **options):
    path = tmp_path / "report.html"
    fit.report(path, *arguments, **options)
    html = path.read_text(encoding="utf-8")
    assert len(html) < SIZE
    return Read(html), html


# Pages


def test_a_page_is_well_formed_and_loads_nothing(butterfly, tmp_path):
    problem, samples, fit = butterfly
    page, html = read(fit, tmp_path, samples, prior=problem.prior, truth=problem.exact)
    assert "://" not in html
    for tag, attributes in page.tags:
        assert tag not in {"img", "iframe", "object", "embed", "base", "form"}
        assert "src" not in attributes
        assert not any(name.startswith("on") for name in attributes)
        assert attributes.get("href", "data:,") == "data:,"
    assert "url(http" not in html
    assert "@import" not in html


def test_the_policy_of_a_page_lets_its_own_script_run_and_nothing_else(butterfly, tmp_path):
    page, _ = read(butterfly[2], tmp_path)
    (policy,) = [each["content"] for tag, each in page.tags if each.get("http-equiv") == "Content-Security-Policy"]
    (script,) = [text for kind, text in page.scripts if kind is None]
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert policy.split("; ") == [
        "default-src 'none'",
        "style-src 'unsafe-inline'",
        "img-src data:",
        f"script-src 'sha256-{digest}'",
    ]


def test_texts_of_users_stay_texts(tmp_path):
    names = cbq.Names(theta=(f"theta {EVIL}",), f=(f"a {EVIL}", EVIL))
    fit = type("Named", (Known,), {"names": names, "choice": EVIL})([[1.0], [2.0], [4.0]], C=2)
    page, html = read(fit, tmp_path, title=f"title {EVIL}", repeat=EVIL, truth=lambda theta: np.hstack([theta, theta]))
    assert [kind for kind, _ in page.scripts].count(None) == 1
    assert not any(tag == "b" or "onclick" in each for tag, each in page.tags)
    assert page.reader()["quantities"][1]["name"] == f"expected {EVIL}"
    assert f"title {EVIL}" in page.text
    assert html.count("<script>") == 1
    assert Read(Page(EVIL, EVIL, notice("warning", EVIL, EVIL, EVIL), [Section(EVIL, paragraph(EVIL))]).html())
    assert Read(html_table([EVIL], [[EVIL]], EVIL).html).text.count("owned") == 3


def test_data_in_a_page_is_the_data_that_was_given():
    texts = ["</script>", "<!--", "&amp;", "\u2028", '"', "\\u003c"]
    page = Read(json_script({"texts": texts, "numbers": [np.nan, np.inf, 1 / 3], "array": np.arange(3.0)}))
    assert page.data == [{"texts": texts, "numbers": [None, None, 0.333333333333], "array": [0.0, 1.0, 2.0]}]


@pytest.mark.parametrize(
    ("value", "half_width", "text"),
    [
        (66.04, 5.2, "66.0"),
        (203.1234, 0.042, "203.123"),
        (612345.6, 437.0, "612350"),
        (-0.5, 1.0, "-0.5"),
        (1.23456789e12, 1e9, "1.2346e+12"),
        (1.0, 3e-11, "1.000000000000e+00"),
        (1e12 + 0.25, 4.9e-4, "1.000000000000250e+12"),
        (0.1234567, np.nan, "0.123457"),
        (0.0, 0.0, "0"),
        (np.nan, 1.0, "-"),
    ],
)
def test_numbers_have_the_digits_that_their_intervals_leave(value, half_width, text):
    assert resolved(value, half_width) == text


@pytest.mark.parametrize("ends", [(20.0, 250.0), (-1.0, 1.0), (0.0, 1e-9), (1e6, 1e6 + 3), (0.3, 0.7)])
def test_sliders_stop_at_round_numbers_inside_the_range(ends):
    axis = round_axis(*ends, 100)
    assert 40 <= len(axis) <= 100
    assert ends[0] <= axis[0] < axis[-1] <= ends[1] * (1 + 1e-15)
    step = np.diff(axis)
    np.testing.assert_allclose(step, step[0], rtol=1e-5)
    assert f"{step[0]:.0e}"[0] in "125"


@pytest.mark.parametrize("p", [1, 2, 3, 5])
@pytest.mark.parametrize(("start", "width"), [(1.7e9, 1e-3), (-1.7e9, 1e-3), (1e6, 1e-3), (1e15, 8.0), (1.0, 1e-13)])
def test_thetas_that_are_large_and_near_to_each_other_stay_apart(start, width, p, tmp_path):
    theta = start + width * np.random.default_rng(0).uniform(size=(9, p))
    prior = cbq.measures.Uniform(np.full(p, start), start + width)
    page, html = read(Known(theta), tmp_path, prior=prior)
    for axis in page.reader()["axes"]:
        assert len(axis) >= 5
        assert np.all(np.diff(axis) > 0)
        assert start <= axis[0] < axis[-1] <= start + width
    cells = [re.findall(r"<td[^>]*>([^<]*)", row) for row in re.findall(r"<tr>(.*?)</tr>", html)]
    assert len({tuple(row[:p]) for row in cells if row}) == len([row for row in cells if row]) > 4
    low, high = re.search(r"theta(?:_0)? from (\S+) to ([-+.e\d]+)", page.text).groups()
    assert float(low) == pytest.approx(theta[:, 0].min(), abs=1e-3 * width, rel=1e-15)
    assert float(high) == pytest.approx(theta[:, 0].max(), abs=1e-3 * width, rel=1e-15)


def test_thetas_over_decades_have_even_logarithms(tmp_path):
    axis = np.array(read(Known(np.geomspace(1e-3, 1e3, 30)[:, None]), tmp_path)[0].reader()["axes"][0])
    np.testing.assert_allclose(np.diff(np.log10(axis)), np.log10(axis[-1] / axis[0]) / (len(axis) - 1), atol=0.01)
    axis = np.array(read(Known(np.linspace(1e-3, 1.0, 30)[:, None]), tmp_path)[0].reader()["axes"][0])
    np.testing.assert_allclose(np.diff(axis), axis[1] - axis[0], rtol=1e-6)


# What a report says


@pytest.mark.parametrize("p", [1, 2, 3, 5])
def test_sliders_read_what_the_fit_says(p, tmp_path):
    theta = np.random.default_rng(0).uniform(1, 2, (12, p))
    fit = Known(theta, C=2)
    page, _ = read(fit, tmp_path, level=0.8)
    found = page.reader()
    axes = [np.array(axis) for axis in found["axes"]]
    for j, axis in enumerate(axes):
        assert axis[0] <= theta[:, j].min() + 0.1
        assert theta[:, j].max() - 0.1 <= axis[-1]
    if p < 5:
        assert found["full"]
        grid = np.stack([each.ravel() for each in np.meshgrid(*axes, indexing="ij")], axis=1)
    else:
        grid = np.repeat(
            [[axis[m] for axis, m in zip(axes, found["middle"], strict=True)]], sum(map(len, axes)), axis=0
        )
        starts = np.cumsum([0, *map(len, axes)])
        for j, axis in enumerate(axes):
            grid[starts[j] : starts[j + 1], j] = axis
    low, high = fit.interval(grid, 0.8)
    for c, each in enumerate(found["quantities"]):
        np.testing.assert_allclose(each["mean"], fit.predict(grid)[:, c], rtol=1e-11)
        np.testing.assert_allclose(each["low"], low[:, c], rtol=1e-11)
        np.testing.assert_allclose(each["high"], high[:, c], rtol=1e-11)
    assert found["level"] == "80%"


def test_the_report_covers_the_prior_and_marks_what_is_beyond(tmp_path):
    fit = Known(np.linspace(1, 2, 9)[:, None])
    page, _ = read(fit, tmp_path, prior=cbq.measures.Uniform(0.0, 10.0))
    found = page.reader()
    assert found["axes"][0][0] < 0.2
    assert found["axes"][0][-1] > 9.8
    assert found["marked"] == np.flatnonzero(fit.beyond(np.array(found["axes"][0]))).tolist()
    zones = [span for mark in marks(page, "zone") for span in mark["spans"]]
    assert zones
    assert all(start < end for start, end in zones)


def test_the_table_has_the_numbers_of_the_fit(tmp_path):
    fit = Known(np.linspace(20, 220, 9)[:, None])
    _, html = read(fit, tmp_path, truth=lambda theta: theta[:, 0] + 0.01)
    rows = [re.findall(r"<td[^>]*>([^<]*)", row) for row in re.findall(r"<tr>(.*?)</tr>", html)]
    rows = [[float(cell) for cell in row] for row in rows if row]
    assert 5 <= len(rows) <= 15
    for theta, mean, half, low, high, truth in rows:
        assert theta % 20 == 0
        assert mean == pytest.approx(theta, abs=0.006)
        assert [low, high] == pytest.approx([end[0] for end in fit.interval([theta])], abs=0.006)
        assert half == pytest.approx(0.196, abs=0.01)
        assert truth == pytest.approx(theta + 0.01, abs=0.006)


def test_warnings_with_remedies_stand_before_everything_else(tmp_path):
    problem = cbq.problems.get("butterfly")
    with pytest.warns(cbq.FitWarning):
        fit = cbq.CBQ().fit(problem.collect(3, 2, rng=0))
    _, html = read(fit, tmp_path)
    finding = fit.serious_findings[0]
    where = html.index(words(finding.text[1:]))
    assert where < html.index(words(finding.remedy), where) < html.index("<h2>The question")
    assert "No warnings." not in html.partition("<section>")[0]


def test_a_report_says_how_samples_were_made_and_how_to_repeat_it(butterfly, tmp_path):
    problem, samples, fit = butterfly
    page, _ = read(fit, tmp_path, samples, prior=problem.prior, repeat="make it again")
    for text in (
        "80 evaluations of f",
        "10 thetas with 8 iid points each",
        "LogNormal",
        "make it again",
        cbq.__version__,
    ):
        assert text in page.text
    assert "Leave-one-theta-out" in page.text
    assert "Averages of f against the estimate" in page.text
    assert "Coverage of the truth" not in page.text


def test_names_make_the_question(tmp_path):
    fit = type("Named", (Known,), {"names": cbq.Names(theta=("stock",), f=("profit",))})([[1.0], [2.0], [3.0]])
    page, _ = read(fit, tmp_path)
    assert "What is the expected profit as a function of stock?" in page.text
    assert "Expected profit is smallest" in page.text


class Curve(Known):
    """A fit whose mean (M, C) and half-width are functions of theta (M, p), cut off at bounds."""

    def __init__(self, theta, mean, half, bounds=(-np.inf, np.inf)):
        super().__init__(theta, *mean(theta).shape[1:])
        self._mean, self._half, self._bounds = mean, half, bounds

    def predict(self, theta):
        return np.clip(self._mean(np.asarray(theta)), *self._bounds)

    def interval(self, theta, level=0.95):
        mean = self._mean(np.asarray(theta))
        return np.clip(mean - self._half, *self._bounds), np.clip(mean + self._half, *self._bounds)


LINE, UNIFORM = np.linspace(0.0, 10.0, 9)[:, None], cbq.measures.Uniform(0.0, 10.0)
SQUARE = np.random.default_rng(0).uniform(size=(9, 2))
EXTREMES = {
    "a plateau at a bound": (
        Curve(LINE, lambda t: 5 - t[:, 0], 0.2, (0.0, np.inf)),
        "smallest, 0, somewhere with theta from 4.8 to 10, where the range shown ends, and largest, "
        "4.80 to 5.20, somewhere with theta from 0 to 0.4, where the range shown ends",
    ),
    "a plateau that may be above the bound": (
        Curve(LINE, lambda t: np.maximum(3 - t[:, 0], 0.05), 0.1, (0.0, np.inf)),
        "smallest, 0.000 to 0.150, somewhere with theta from 2.75 to 10",
    ),
    "the end of the prior": (
        Curve(LINE, lambda t: t[:, 0], 0.002),
        "smallest, 0.0000 at theta = 0, where the range shown ends, and largest, 10.0000 at theta = 10, where",
    ),
    "inside": (Curve(LINE, lambda t: (t[:, 0] - 4) ** 2, 0.001), "smallest, 0.0000 at theta = 4, and largest"),
    "near the end": (
        Curve(LINE, lambda t: t[:, 0], 0.5),
        "smallest, -0.50 to 0.50, somewhere with theta from 0 to 1, where the range shown ends, and largest, "
        "9.50 to 10.50, somewhere with theta from 9 to 10, where the range shown ends",
    ),
    "large, with small differences": (
        Curve(LINE, lambda t: 1e12 + t[:, 0], 0.004),
        "smallest, 1.000000000000000e+12 at theta = 0, where the range shown ends, and largest, 1.000000000010000e+12",
    ),
    "flat": (
        Curve(LINE, lambda t: 0.1 * np.sin(t[:, 0]), 0.2),
        "Where I(theta) is smallest or largest cannot be told: its intervals at all thetas overlap, and reach from "
        "-0.30 to 0.30",
    ),
    "constant but for rounding": (
        Curve(LINE, lambda t: 3.3 * (1 + 1e-15 * np.sin(99 * t[:, 0])), 0.0),
        "Where I(theta) is smallest or largest cannot be told",
    ),
    "infinite": (
        Curve(LINE, lambda t: t[:, 0], np.inf),
        "cannot be told: its intervals at all thetas overlap, and reach from -inf to inf",
    ),
    "two coordinates": (
        Curve(SQUARE, lambda t: (t[:, 0] - 0.5) ** 2, 0.0),
        "smallest, 0, somewhere with theta_0 = 0.5, theta_1 from ",
    ),
    "two outputs": (
        Curve(LINE, lambda t: np.stack([t[:, 0], 0 * t[:, 0]], 1), 0.001),
        "Where I_1(theta) is smallest or largest cannot be told",
    ),
}


@pytest.mark.parametrize(("fit", "says"), EXTREMES.values(), ids=EXTREMES)
def test_extremes_are_placed_only_as_far_as_the_intervals_tell(fit, says, tmp_path):
    page, _ = read(fit, tmp_path, prior=UNIFORM if fit.p == 1 else None)
    assert says in page.text


def test_an_expectation_that_may_be_zero_in_many_places_is_called_smallest_in_none(tmp_path):
    """E max(X - 10 t, 0), X ~ N(5, 2^2), falls in t throughout; bounds cut its intervals off at 0."""
    problem = cbq.Problem(
        lambda x, theta: np.maximum(x[:, 0] - 10 * theta[0], 0.0),
        lambda theta: cbq.measures.Gaussian(5.0, std=2.0),
        cbq.measures.Uniform(0.0, 2.0),
        bounds=(0.0, np.inf),
        names={"theta": "capacity", "f": "beds exceeded"},
    )
    page, _ = read(problem.solve(tolerance=1e-3, budget=24, rng=0), tmp_path)
    place = re.search(r"exceeded is smallest, (\S+) to (\S+), somewhere with capacity from (\S+) to (\S+),", page.text)
    low, high, start, end = map(float, place.groups())
    assert low <= 0.0 < high
    assert start < 1.0 < 1.9 < end


@pytest.mark.filterwarnings("ignore::cbq.FitWarning")
@pytest.mark.parametrize(
    "method",
    [cbq.MOBQ(), cbq.LSMC(), cbq.KLSMC(), cbq.MonteCarlo(), cbq.ImportanceSampling()],
    ids=lambda m: type(m).__name__,
)
def test_every_estimator_has_a_report(method, tmp_path):
    problem = cbq.problems.get("butterfly")
    samples = problem.collect(8, 6, rng=1)
    page, _ = read(method.fit(samples), tmp_path, samples, prior=problem.prior, truth=problem.exact)
    assert page.reader()["quantities"]


@pytest.mark.filterwarnings("ignore::cbq.FitWarning")
def test_fits_to_the_observed_thetas_of_two_coordinates_have_a_table(tmp_path):
    samples = cbq.problems.get("linear").collect(6, 5, rng=0)
    page, html = read(cbq.MonteCarlo().fit(samples), tmp_path, samples)
    assert not any("quantities" in each for each in page.data)
    assert html.count("<tr>") == 7


def test_a_report_needs_no_matplotlib(butterfly, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    read(butterfly[2], tmp_path)


def test_reports_of_many_outputs_stay_small(tmp_path):
    fit = Known(np.random.default_rng(0).uniform(size=(20, 2)), C=40)
    page, html = read(fit, tmp_path)
    assert len(page.reader()["quantities"]) == 40
    assert len(html) < 1_000_000


def test_a_fit_without_intervals_has_none_in_its_report(tmp_path):
    class Bare(Known):
        def interval(self, theta, level=0.95):
            raise ValueError("no standard errors")

    page, html = read(Bare([[1.0], [2.0], [3.0]]), tmp_path)
    assert set(page.reader()["quantities"][0]["low"]) == {None}
    assert "nan" not in html.lower().replace("nanometre", "")


# Checks


def test_coverage_tolerates_chance_and_nothing_more():
    assert coverage(np.zeros((100, 1))) == (1.0, True)
    assert coverage(np.array([[3.0]] * 5 + [[0.0]] * 95)) == (0.95, True)
    assert coverage(np.array([[3.0]] * 10 + [[0.0]] * 90)) == (0.9, False)


def test_residuals_that_are_too_large_look_wrong():
    theta = np.arange(20.0)[:, None]
    assert left_out(np.full((20, 1), 1.0), theta, calibrated=True).good
    wrong = left_out(np.full((20, 1), 5.0), theta, calibrated=False)
    assert not wrong.good
    assert "5 times as large as predicted, and 0% of 20" in wrong.verdict
    assert "too narrow" in wrong.verdict


def test_averages_far_from_the_estimate_look_wrong(tmp_path):
    rng = np.random.default_rng(0)
    theta, x = np.linspace(1, 2, 30), rng.normal(size=(30, 10))
    for shift, verdict in ((0.0, "This looks right."), (2.0, "Fewer than expected")):
        samples = cbq.Samples(theta, x, theta[:, None] + shift + x, cbq.measures.Gaussian(0, 1))
        page, _ = read(Known(theta[:, None]), tmp_path, samples)
        assert verdict in page.text


def test_a_wrong_curve_does_not_cover_the_truth(tmp_path):
    fit = Known(np.linspace(1, 2, 9)[:, None])
    right, _ = read(fit, tmp_path, truth=lambda theta: theta[:, 0] + 0.1)
    assert "100% of the truths are inside 95% intervals; the root mean squared error is 0.1." in right.text
    wrong, _ = read(fit, tmp_path, truth=lambda theta: theta[:, 0] + 0.3)
    assert "0% of the truths are inside 95% intervals; the root mean squared error is 0.3." in wrong.text
    assert "too narrow" in wrong.text


# Answers, tables of EVPPI, and the command line


def test_the_report_of_an_answer_tells_how_it_was_reached(tmp_path):
    problem = cbq.Problem(
        lambda x, theta: np.sin(x[:, 0] + theta[0]),
        lambda theta: cbq.measures.Gaussian(theta, 1.0),
        cbq.measures.Uniform(0.0, 1.0),
        name="waves",
    )
    answer = problem.solve(budget=18, rng=0)
    page, _ = read(answer, tmp_path, repeat="again")
    assert answer.lines()[0] in page.text
    assert "waves: I(theta) as a function of theta" in page.text
    (history,) = [each for each in page.data if each.get("x", {}).get("label") == "runs"]
    assert history["marks"][0]["x"] == answer.history.runs.tolist()


@pytest.mark.parametrize(
    ("goal", "kind", "says"),
    [
        ({"tolerance": 1e-9}, "failed", "Not reached:"),
        ({"tolerance": 1e3}, "good", "Reached:"),
        ({}, "remark", "No accuracy was asked for:"),
    ],
    ids=["not reached", "reached", "budget"],
)
def test_the_report_of_an_answer_opens_with_whether_the_goal_was_reached(goal, kind, says, tmp_path):
    problem = cbq.Problem(
        lambda x, theta: np.sin(x[:, 0] + theta[0]),
        lambda theta: cbq.measures.Gaussian(theta, 1.0),
        cbq.measures.Uniform(0.0, 1.0),
    )
    answer = problem.solve(**goal, budget=40, rng=0)
    assert answer.reached == (kind == "good")
    _, html = read(answer, tmp_path)
    top = html[html.index("</noscript>") : html.index("<h2>The question")]
    first = re.search(r'class="notice (\w+)" role="\w+"><p><strong>([^<]*)</strong> ([^<]*)<', top)
    assert first.groups()[:2] == (kind, says)
    assert f"{says} {first[3][:1].lower()}{first[3][1:]}" == answer.lines()[0]
    assert ("notice good" in top) == (kind == "good")
    assert answer.summary().startswith(says)
    assert repr(answer).startswith(f"AdaptiveAnswer({says[:-1].lower()}, ")


def row(name, value, price=None, note=""):
    return EvppiRow(name, price, value, 0.1, value - 0.2, value + 0.2, value, 9.0, 60, 10, 0.0, note)


def test_the_report_of_evppi_has_bars_a_map_and_all_rows(tmp_path):
    singles = [("a", 1.0), (EVIL, 4.0), ("c", 2.0), ("d", 3.0)]
    pairs = [(f"{a}, {b}", v + w) for (a, v), (b, w) in combinations(singles, 2)]
    found = EvppiTable(tuple(row(name, value) for name, value in [*singles, *pairs]))
    page, html = read(found, tmp_path)
    (bars,), (evpi,), (pairs_map,) = (marks(page, kind) for kind in ("bars", "rule", "heat"))
    assert bars["value"] == sorted((each.evppi for each in found.rows), reverse=True)
    assert evpi["at"] == 9.0
    assert np.diag(np.array(pairs_map["cells"], dtype=float)).tolist() == [4.0, 3.0, 2.0, 1.0]
    assert html.count("<tr>") == 11


def test_evppi_over_the_willingness_to_pay_has_a_slider(tmp_path):
    rows = [row(name, value * price, price) for name, value in (("a", 1.0), ("b", 0.1)) for price in (3.0, 1.0, 2.0)]
    page, _ = read(EvppiTable(tuple(rows)), tmp_path, title="A study")
    found = page.reader()
    assert found["axes"] == [[1.0, 2.0, 3.0]]
    assert [each["mean"] for each in found["quantities"]] == [[1.0, 2.0, 3.0], [0.1, 0.2, 0.3], [9.0] * 3]
    assert "A study" in page.text


def test_notes_of_evppi_are_warnings(tmp_path):
    page, html = read(EvppiTable((row("a", 1.0, note="few landmarks"),)), tmp_path)
    assert "'a': few landmarks." in " ".join(page.text.split())
    assert html.index("few landmarks") < html.index("<h2>The question")


def test_commands_write_reports_that_name_the_command(tmp_path):
    words_ = ["run", "sir", "--T", 6, "--N", 5, "--seed", 3, "--method", "lsmc", "--out", tmp_path / "run"]
    assert "report.html" in ok(*words_)
    page = Read((tmp_path / "run" / "report.html").read_text(encoding="utf-8"))
    assert "cbq run sir --T 6 --N 5 --seed 3 --method lsmc" in page.text
    assert "Coverage of the truth" in page.text
    assert "report.html" in ok("solve", "linear", "--option", "dim=1", "--budget", 16, "--out", tmp_path / "solve")
    page = Read((tmp_path / "solve" / "report.html").read_text(encoding="utf-8"))
    assert "How the run went" in page.text
    draws = np.random.default_rng(0).normal(size=(60, 3))
    lines = ["p1,nb1,nb2", *(",".join(map(str, each)) for each in draws)]
    (tmp_path / "psa.csv").write_text("\n".join(lines))
    ok("evppi", tmp_path / "psa.csv", "--outputs", "nb1,nb2", "--out", tmp_path / "evppi.csv")
    page = Read((tmp_path / "evppi.html").read_text(encoding="utf-8"))
    assert "cbq evppi" in page.text


FIT = Known([[1.0], [2.0], [4.0]])
PLANE = Known(np.random.default_rng(0).uniform(size=(9, 2)))

test_bad_requests_are_refused = refusals(
    {
        "prior": (lambda: PLANE.report("r.html", prior=cbq.measures.Uniform(0.0, 1.0)), "prior must be one measure"),
        "level": (lambda: FIT.report("r.html", level=95), "level must lie between 0 and 1"),
        "title": (lambda: FIT.report("r.html", title="a" * 400), "title must have 300 characters"),
        "samples of another fit": (
            lambda: PLANE.report("r.html", cbq.problems.get("butterfly").collect(2, 2, rng=0)),
            "samples have p = 1 and C = None, but the fit 2 and None",
        ),
    },
    ValueError,
)
test_wrong_types_are_refused = refusals(
    {
        "samples": (lambda: FIT.report("r.html", [1.0]), "samples must be cbq.Samples"),
        "truth": (lambda: FIT.report("r.html", truth=[1.0]), "truth must be a function of theta"),
        "title": (lambda: FIT.report("r.html", title=3), "title"),
    },
    TypeError,
)


def test_a_curve_has_zones_beyond_the_observed_thetas():
    fit = Known(np.linspace(0, 1, 9)[:, None])
    with silent():
        grid = AnswerGrid.of(fit, cbq.measures.Uniform(-5.0, 5.0), 0.9)
        panel = curve_panel(grid, 0)
    ((below, above),) = [mark.spans for mark in panel.marks if isinstance(mark, Zone)]
    inside = grid.theta[~fit.beyond(grid.theta), 0]
    assert below[1] < inside.min() <= inside.max() < above[0]
