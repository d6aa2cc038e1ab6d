"""What notebooks show: figures, tables and progress, in a kernel without any setting; and what terminals show."""

import io
import pickle
import re
import sys
from types import SimpleNamespace

import nbclient
import nbformat
import numpy as np
import pytest

import cbq
from cbq.common import progress
from cbq.common.progress import Bar, reporting
from cbq.fit.summary import Summary
from cbq.measures import Gaussian, Mixture, Uniform
from cbq.report import html

NAMES = {"theta": "<stock>", "x": "demand & co", "f": "profit"}
CELLS = [
    """import cbq
from cbq.measures import Gaussian, Uniform
problem = cbq.Problem(lambda x, theta: x[:, 0] * theta[0], lambda theta: Gaussian(theta[0], 1.0), Uniform([0.0], [1.0]))
samples = problem.collect(8, 6, rng=0)""",
    "fit = cbq.LSMC().fit(samples)\nfit.plot(title='A title')",
    "fit",
    "samples.to_frame().head()",
]


def executed(cells):
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])
    nbclient.NotebookClient(notebook, timeout=120, kernel_name="python3").execute()
    return [[output.get("data", {}) for output in cell.outputs] for cell in notebook.cells]


def test_a_plain_kernel_shows_progress_a_figure_and_tables():
    ((progress,), (figure,), (fit,), (frame,)) = executed(CELLS)
    assert "48/48" in progress["text/plain"]
    assert progress["text/html"] == ""  # a finished bar disappears
    assert "image/png" in figure
    assert "LSMCFit" in fit["text/html"]
    assert "<table" in frame["text/html"]


# figures


@pytest.fixture(scope="module")
def problem():
    return cbq.Problem(
        lambda x, theta: x[:, 0] * theta[0], lambda theta: Gaussian(theta[0], 1.0), Uniform([0.0], [1.0]), names=NAMES
    )


@pytest.fixture(scope="module")
def samples(problem):
    return problem.collect(12, 8, rng=0, design="sobol")


@pytest.fixture(scope="module")
def fit(samples):
    return cbq.LSMC().fit(samples)


def is_png(figure):
    return figure._repr_png_().startswith(b"\x89PNG")


def test_every_figure_shows_itself(fit, samples):
    comparison = cbq.compare(samples, [cbq.LSMC(), cbq.MonteCarlo()])
    assert is_png(fit.plot())
    assert is_png(comparison.plot(title="Errors"))
    assert is_png(cbq.plot(fit, title="a $ b"))
    assert pickle.loads(pickle.dumps(fit.plot())).axes


def test_titles_and_labels_replace_those_of_the_names(fit):
    figure = fit.plot(title="Title", xlabel="X", ylabel="Y")
    assert figure.get_suptitle() == "Title"
    assert [(ax.get_xlabel(), ax.get_ylabel()) for ax in figure.axes] == [("X", "Y")]
    from matplotlib.figure import Figure

    ax = Figure().subplots()
    fit.plot(ax=ax, title="Title", xlabel="X")
    assert (ax.get_title(), ax.get_xlabel(), ax.get_ylabel()) == ("Title", "X", "E[profit]")
    with pytest.raises(TypeError, match="title must be a string, but it is 1"):
        fit.plot(title=1)


def test_the_labels_of_maps_leave_their_colours_alone():
    theta = np.random.default_rng(0).random((14, 2))
    figure = (
        cbq.LSMC()
        .fit(cbq.Samples(theta, np.zeros((14, 3)), np.random.default_rng(1).random((14, 3))))
        .plot(points=5, xlabel="X", ylabel="Y")
    )
    maps = [ax for ax in figure.axes if ax.get_label() != "<colorbar>"]
    assert [ax.get_xlabel() for ax in maps] == ["X", "X"]
    assert [ax.get_ylabel() for ax in maps] == ["Y", ""]
    assert "Y" not in [ax.get_ylabel() for ax in figure.axes if ax not in maps]


@pytest.mark.parametrize("what", [None, 1, "fit", cbq.LSMC(), cbq.Fit])
def test_what_has_no_figure_is_refused(what):
    with pytest.raises(TypeError, match="result must be an object with a figure"):
        cbq.plot(what)


# progress


def test_a_terminal_has_a_bar_of_text(problem, capsys):
    problem.collect(3, 4, rng=0, progress=True)
    out, err = capsys.readouterr()
    assert out == ""
    assert re.search(r"\rproblem \[#{30}\] 12/12.*\n$", err)


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_a_terminal_has_a_bar_by_default(monkeypatch):
    monkeypatch.setattr(sys, "stderr", terminal := Terminal())
    with reporting(None, "work", 0, 4) as report:
        report(4, 4)
    assert "work" in terminal.getvalue()


def test_a_kernel_updates_one_bar_in_place(monkeypatch):
    shown = []
    handle = SimpleNamespace(update=lambda bar: shown.append(("update", bar.done)))

    def display(bar, display_id):
        shown.append(("display", bar.done))
        return handle

    shell = SimpleNamespace(kernel=object())
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: shell))
    monkeypatch.setitem(sys.modules, "IPython.display", SimpleNamespace(display=display))
    with reporting(None, "work", 1, 4) as report:
        report(2, 4)
        report(4, 4)
    assert shown == [("display", 1), ("update", 2), ("update", 4)]


def test_a_shell_that_is_no_kernel_is_no_notebook(monkeypatch):
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: SimpleNamespace()))
    assert not progress.in_notebook()
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: None))
    assert not progress.in_notebook()


def test_a_bar_draws_ten_times_a_second_and_at_the_end():
    drawn, ticks = [], iter(np.arange(1000) / 64)
    bar = progress.Drawing(Bar("work", 0, 30, 0), lambda bar: drawn.append(bar.done), lambda: next(ticks))
    for done in range(1, 31):
        bar.report(done, 30)
    assert drawn == [1, 8, 15, 22, 29, 30]
    assert "&lt;b&gt;" in Bar("<b>", 1, 2, 0)._repr_html_()


def test_a_bar_shows_what_a_run_does_until_it_goes_on():
    drawn = []
    bar = progress.Drawing(Bar("work", 0, 30, 0), lambda bar: drawn.append(repr(bar)))
    bar.doing("choosing runs")
    assert drawn[-1].endswith("0/30, choosing runs")
    bar.report(30, 30)
    assert "choosing" not in drawn[-1]


def test_a_log_has_lines_once_a_run_has_lasted(capsys):
    ticks = iter([0.0, 59.0, 61.0])
    log = progress.Lines(lambda: next(ticks))
    log.line("early")
    log.line("late")
    assert capsys.readouterr().err == "late\n"


# reprs


def test_html_is_escaped_and_has_what_matters(problem, samples, fit):
    shown = {
        "problem": problem,
        "samples": samples,
        "fit": fit,
        "summary": fit.summary(),
        "prior": problem.prior,
        "mixture": Mixture([0.5, 0.5], [Gaussian(0.0, 1.0), Gaussian(1.0, 1.0)]),
        "suggestion": cbq.CBQ().fit(samples).suggest(3),
        "comparison": cbq.compare(samples, [cbq.LSMC()]),
        "answer": cbq.nested_expectation(fit, np.square, samples.theta),
    }
    html = {name: each._repr_html_() for name, each in shown.items()}
    assert all("<table" in text and "<stock>" not in text for text in html.values())
    for name in ("problem", "samples", "fit", "summary", "suggestion"):
        assert "&lt;stock&gt;" in html[name]
    assert "demand &amp; co" in html["samples"]
    assert "Uniform" in html["prior"]


def test_html_of_adaptive_runs(problem):
    answer = problem.solve(rtol=0.5, budget=40, rng=0, progress=False)
    with problem.session(rng=0) as session:
        asked = session.ask(30)
    for each in (
        answer,
        answer.history,
        asked,
        asked.__class__(asked.ids[:0], asked.theta[:0], asked.x[:0], asked.names),
    ):
        assert "<div" in each._repr_html_()
    assert "..." in asked._repr_html_()
    assert re.fullmatch(r"Asked\(30 runs, <stock> = .* to .*, demand & co = .* to .*\)", repr(asked))
    assert repr(answer.history).startswith("History(")
    assert answer.summary().description[0].startswith(("Reached", "Not reached"))


def test_tables_of_many_rows_show_both_ends():
    shown = html.column_table({"a": np.arange(100.0)})
    assert ">0<" in shown
    assert ">99<" in shown
    assert ">50<" not in shown
    assert "100 rows" in shown


def test_reprs_show_shapes_and_ranges(samples, fit, problem):
    ranges = samples.names.ranges("theta", samples.theta)
    assert re.fullmatch(r"<stock> = 0\.\d+ to 0\.\d+", ranges)
    assert repr(fit) == f"LSMCFit(T=12, p=1, C=None, {ranges})"
    assert f"design='sobol', {ranges}, names=(theta = <stock>" in repr(samples)
    random = cbq.Problem(None, problem.family, problem.prior, stochastic=True, bounds=(0, 1), depends_on_theta=False)
    assert repr(random).endswith("integrand=None, depends_on_theta=False, stochastic=True, bounds=(0, 1))")


def test_a_summary_is_a_text_that_knows_its_parts(samples):
    fit = cbq.Auto().fit(samples)
    summary = fit.summary()
    assert isinstance(summary, str)
    assert summary.choice == fit.choice
    assert summary.startswith(fit.choice)
    assert summary.findings == fit.findings
    assert summary.warnings == fit.warnings
    assert all(line in summary for line in summary.description)
    assert repr(summary) == str(summary) == f"{summary}"
    again = pickle.loads(pickle.dumps(summary))
    assert type(again) is Summary
    assert (again, again.choice, again.findings) == (summary, summary.choice, summary.findings)
