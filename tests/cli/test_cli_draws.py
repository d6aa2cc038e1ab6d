"""Tables of draws on the command line: rows that are no draws are refused, and numbers are typed as in the file."""

import numpy as np
import pytest

pytest.importorskip("typer")

from command_line import ok, refused

N = 200
RNG = np.random.default_rng(3)
A, E = RNG.normal(size=(2, N))
QALY, COST = 6.5 + A[:, None] * [0.5, 0.7], 4000 + 900 * E[:, None] * [1.0, 1.3] + 50 * RNG.normal(size=(N, 2))
VALUES = np.column_stack([QALY, COST])


def write(path, rows, *, label=None, mark=","):
    """A table of draws with rows of text below; label: the name of a column that numbers the rows."""
    header = ["qaly_A", "qaly_B", "cost_A", "cost_B", "a"]
    lines = [list(map(str, row)) for row in np.column_stack([VALUES, A]).tolist()]
    if label is not None:
        header, lines = [label, *header], [[str(i), *line] for i, line in enumerate(lines, start=1)]
    path.write_text("\n".join(mark.join(cells) for cells in [header, *lines, *rows]) + "\n")
    return path


SUMMARIES = {
    "Mean": np.mean(np.column_stack([VALUES, A]), axis=0),
    "SD": np.std(np.column_stack([VALUES, A]), axis=0, ddof=1),
    "Total": np.sum(np.column_stack([VALUES, A]), axis=0),
}


@pytest.mark.parametrize("label", ["draw", "", "number of something"])
@pytest.mark.parametrize("command", ["evppi", "ceac", "evpi", "psa"])
def test_words_in_a_column_that_numbers_the_rows_are_refused(tmp_path, command, label):
    rows = [[word, *(f"{value:.2f}" for value in values)] for word, values in SUMMARIES.items()]
    says = refused(command, write(tmp_path / "psa.csv", rows, label=label), "--wtp", "20000")
    assert f"line 202 of {tmp_path / 'psa.csv'} holds 'Mean' in the column {label!r}, which numbers the rows" in says
    assert says.endswith("Remove lines 202 to 204.")


def test_nothing_in_place_of_a_number_is_refused_as_well(tmp_path):
    rows = [["", *(f"{value:.2f}" for value in SUMMARIES["Mean"])]]
    says = refused("ceac", write(tmp_path / "psa.csv", rows, label="draw"), "--wtp", "20000")
    assert "line 202 of" in says
    assert says.endswith("Remove line 202.")


@pytest.mark.parametrize("labels", [["2a"], ["1b", "7"], []])
def test_other_labels_are_no_summaries(tmp_path, labels):
    rows = [[label, *map(str, VALUES[i]), str(A[i])] for i, label in enumerate(labels)]
    path = write(tmp_path / "psa.csv", rows, label="draw")
    text = path.read_text().splitlines()
    path.write_text("\n".join([text[0], *text[1:50], *text[-len(labels) or len(text) :], *text[50:201]]))
    ok("ceac", path, "--wtp", "20000")


def test_summaries_without_words_are_refused_with_their_lines(tmp_path):
    rows = [list(map(str, values)) for values in SUMMARIES.values()]
    says = refused("ceac", write(tmp_path / "psa.csv", rows), "--wtp", "20000")
    assert f"line 202 of {tmp_path / 'psa.csv'} holds the means of the lines above in 'qaly_A', 'qaly_B'" in says
    assert says.endswith("remove lines 202 to 204.")


@pytest.mark.parametrize("option", ["--wtp", "--cost", "--population", "--horizon", "--fixed-cost", "--delay", "--sd"])
def test_every_number_on_the_command_line_is_read_as_those_of_the_file(tmp_path, option):
    path = write(tmp_path / "psa.csv", [])
    path.write_text(path.read_text().replace(",", ";").replace(".", ","))
    values = {"--wtp": "20000", "--cost": "9,5", "--population": "5000", "--sd": "0,5", option: "30.000"}
    words = ["evsi", path, "--pars", "a", "--study", "normal", "--sizes", "10"]
    says = refused(*words, *(word for pair in values.items() for word in pair))
    assert "30.000 could be 30000 or 30: write one of these" in says


def test_a_workbook_does_not_tell_how_numbers_are_typed(tmp_path):
    pytest.importorskip("openpyxl")
    from cbq.cli.tables import write_table

    write_table(tmp_path / "psa.xlsx", ["qaly_A", "qaly_B", "cost_A", "cost_B"], VALUES.tolist())
    assert "could be 30000 or 30" in refused("ceac", tmp_path / "psa.xlsx", "--wtp", "30.000")
    ok("ceac", tmp_path / "psa.xlsx", "--wtp", "30.5")
    assert "could be 30000 or 30" in refused(
        "psa", tmp_path / "psa.xlsx", "--pars", "cost_A", "--wtp", "3", "--line", "30.000"
    )
