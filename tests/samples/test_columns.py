"""Rows that summarise a table are no draws; numbers that are typed beside a file are read as those of the file."""

import numpy as np
import pytest

import cbq
from cbq.samples.columns import find_summary

pytest.importorskip("typer")

from cbq.cli.cells import Convention, read_prices, typed_number
from command_line import ok, refused

N = 200
RNG = np.random.default_rng(3)
A, E = RNG.normal(size=(2, N))
QALY, COST = 6.5 + A[:, None] * [0.5, 0.7], 4000 + 900 * E[:, None] * [1.0, 1.3] + 50 * RNG.normal(size=(N, 2))
VALUES = np.column_stack([QALY, COST])
MADE = {
    "means": lambda v: [np.mean(v, axis=0)],
    "means and deviations": lambda v: [np.mean(v, axis=0), np.std(v, axis=0, ddof=1)],
    "total": lambda v: [np.sum(v, axis=0)],
    "extremes first": lambda v: [np.min(v, axis=0), np.max(v, axis=0), np.mean(v, axis=0)],
}

# --- in Python


@pytest.mark.parametrize("made", MADE)
@pytest.mark.parametrize("decimals", [None, 6, 3])
def test_summaries_below_draws_are_found(made, decimals):
    rows = np.array(MADE[made](VALUES))
    found = find_summary(np.vstack([VALUES, rows if decimals is None else np.round(rows, decimals)]))
    assert found.draws == N


def draws_of(kind, rng, n, C):
    z = rng.normal(size=(n, C))
    return {
        "normal": z,
        "rounded": np.round(z, 2),
        "money": np.round(5000 + 900 * z),
        "binary": (z > 0).astype(float),
        "counts": rng.poisson(3, (n, C)).astype(float),
        "determined": np.round(1000 + 300 * z[:, :1] * np.arange(1, C + 1)),
        "repeated": z[rng.integers(0, n // 4 + 1, n)],
        "heavy tails": rng.standard_t(1.2, (n, C)),
        "sorted": np.sort(z, axis=0),
        "mostly zero": np.where(rng.random((n, C)) < 0.9, 0.0, np.round(100 * np.abs(z))),
        "huge": 1.7e308 * np.tanh(z),
    }[kind]


KINDS = ["normal", "rounded", "money", "binary", "counts", "determined", "repeated", "heavy tails", "sorted", "huge"]


@pytest.mark.parametrize("kind", [*KINDS, "mostly zero"])
def test_draws_are_not_taken_for_summaries(kind):
    rng = np.random.default_rng(4)
    for n in (1, 2, 11, 12, 30, 60, 200):
        for C in (1, 2, 4):
            assert all(find_summary(draws_of(kind, rng, n, C)) is None for _ in range(4))


def test_summaries_are_refused_by_all_analyses():
    table = {"old": np.append(QALY[:, 0], QALY[:, 0].mean()), "new": np.append(QALY[:, 1], QALY[:, 1].mean())}
    inputs = {"a": np.append(A, A.mean())}
    for analysis in (
        lambda: cbq.evppi(table, inputs, "all"),
        lambda: cbq.evpi(table),
        lambda: cbq.voi.ceac(table),
    ):
        with pytest.raises(
            ValueError, match=r"row 200 of outputs holds the means of the rows above.*leave row 200 out"
        ):
            analysis()


# --- in files


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


# --- numbers that are typed


@pytest.mark.parametrize(
    ("text", "kind", "number"),
    [
        ("30000", Convention.COMMA, 30000.0),
        ("0,5", Convention.COMMA, 0.5),
        ("1.234,5", Convention.COMMA, 1234.5),
        ("12.5", Convention.COMMA, 12.5),
        ("30.000", Convention.POINT, 30.0),
        ("-1e3", Convention.POINT, -1000.0),
        ("\u22125", Convention.POINT, -5.0),
        ("0.125", Convention.UNKNOWN, 0.125),
        ("12,5", Convention.POINT, None),
        ("x", Convention.COMMA, None),
    ],
)
def test_typed_numbers(text, kind, number):
    assert typed_number(text, kind, "--cost") == number


@pytest.mark.parametrize("kind", [Convention.COMMA, Convention.UNKNOWN])
def test_typed_numbers_with_two_readings_are_refused(kind):
    for text in ("30.000", "0:50.000:1000", "20000; 30.000"):
        with pytest.raises(ValueError, match=r"--willingness-to-pay (30|50).000 could be (30|50)000 or (30|50):"):
            read_prices(text, kind)


def test_lists_of_prices_beside_decimal_commas():
    assert read_prices("20000,30000", Convention.COMMA) == [20000.0, 30000.0]
    assert read_prices("0,5; 1,5", Convention.COMMA) == [0.5, 1.5]
    with pytest.raises(ValueError, match=r'10,20 could be one number or several.*write 10.20 .* and "10; 20"'):
        read_prices("10,20", Convention.COMMA)


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
