"""`cbq evppi` on tables as people have them, and what it says about them."""

from __future__ import annotations

import shlex

import numpy as np
import pytest

pytest.importorskip("typer")

import cbq
from cbq.cli.draws import column_names, column_sets
from cbq.cli.sheets import read_sheet
from command_line import ok, read, refused

N = 60
RNG = np.random.default_rng(1)
A, B, C = RNG.normal(size=(3, N))
EFFECTS = {"A": 1 + 0.1 * B, "B": 1.1 + 0.1 * A}
COSTS = {"A": 5000 + 100 * C, "B": 7000 + 500 * B}
IDS = np.arange(1, N + 1)


def save(path, columns, separator=",", decimal=".", encoding="utf-8", end=""):
    def cell(value):
        return value if isinstance(value, str) else repr(value).replace(".", decimal)

    rows = zip(*[np.asarray(column).tolist() for column in columns.values()], strict=True)
    lines = [separator.join(f'"{name}"' for name in columns), *(separator.join(map(cell, row)) for row in rows)]
    path.write_bytes("\r\n".join(f"{line}{end}" for line in lines).encode(encoding))
    return path


def sets(text):
    """The first words of the rows of the printed table, up to the legend."""
    lines = text.splitlines()
    end = next(i for i, line in enumerate(lines) if line.startswith("Intervals"))
    return [line.split("  ")[0] for line in lines[1:end]]


def test_a_hostile_table_needs_no_option(tmp_path):
    """Constant and dependent columns, ids, an index, names with commas and spaces, semicolons, decimal commas."""
    pytest.importorskip("openpyxl")
    columns = {
        "": IDS,
        "sim": IDS + 1000,
        "rr[1,2]": A,
        "sum of rr": A + B,
        "cost of GP, visit": 1000 + 200 * C,
        "p": np.full(N, 0.7),
        "arm": np.where(B > 0, "high", "low"),
        "on": np.where(C > 0, "TRUE", "FALSE"),
        "NB usual care": np.full(N, 1000),
        "NB new drug": 1000 + 500 * A + 100 * B,
        "Kosten usual care": C,
        "inc. cost": B,
    }
    table = save(tmp_path / "table.csv", columns, ";", ",", "utf-16", end=";;")
    text = ok("evppi", table, "--out", tmp_path / "evppi.xlsx")
    inputs = ["rr[1,2]", "sum of rr", "cost of GP, visit", "p", "arm", "on", "Kosten usual care"]
    assert sets(text) == inputs
    plain = " ".join(text.split())
    assert "[1] constant, so that there is nothing to learn." in plain
    assert "Decisions: net benefits 'NB usual care', 'NB new drug' (known by their names; --outputs sets" in plain
    assert "Not taken for inputs: 'sim' (numbers or labels the rows); 'inc. cost' (a cost, by its name); name" in plain
    assert "the same as --outputs 'NB usual care,NB new drug'." in plain
    assert f"the same as --pars '{'; '.join(inputs)}'." in plain
    assert "table.csv has a column without a name, which was left out." in plain
    assert (tmp_path / "evppi.xlsx").read_bytes().startswith(b"PK")
    assert (tmp_path / "evppi.png").read_bytes().startswith(b"\x89PNG")
    outputs = {name: columns[name] for name in ("NB usual care", "NB new drug")}
    expected = cbq.evppi(outputs, {name: columns[name] for name in ("rr[1,2]", "p", "arm")})
    written = read_sheet(tmp_path / "evppi.xlsx")
    assert written.columns["pars"] == inputs
    found = dict(zip(inputs, written.values("evppi"), strict=True))
    np.testing.assert_allclose([found[row.pars] for row in expected.rows], [row.evppi for row in expected.rows])


def test_a_guess_is_shown_as_the_options_that_state_it(tmp_path):
    columns = {"sim": range(N), "qaly_A": A, "qaly_B": B, "cost_A": 10 * C, "cost_B": 9 * B, "rr[1,2]": A * B, "p": C}
    table = save(tmp_path / "psa.csv", columns)
    guessed = ok("evppi", table, "--wtp", "100")
    plain = " ".join(guessed.split())
    options = [each.split(". ")[0].rstrip(".") for each in plain.split("the same as ")[1:]]
    assert options == ["--effects qaly_A,qaly_B --costs cost_A,cost_B", "--pars 'rr[1,2]; p'"]
    stated = ok("evppi", table, "--wtp", "100", *(part for each in options for part in shlex.split(each)))
    numbers = guessed.split("Intervals")[0]
    assert numbers == stated.split("Intervals")[0]
    assert "the same as" not in stated


def test_sets_with_commas_names_and_dependent_columns(tmp_path):
    columns = {"rr[1,2]": A, "rr[1,3]": B, "sum, all": A + B, "nb1": 0 * A, "nb2": A + 0.3 * B + C}
    table = save(tmp_path / "psa.csv", columns)
    text = ok("evppi", table, "--pars", "rr[1,2]; rr[1,2], rr[1,3], sum, all; 'rr[1,3]'")
    assert sets(text) == ["rr[1,2]", "rr[1,2], rr[1,3], sum, all", "rr[1,3]"]
    assert "'sum, all' left out, because other columns of the set determine it" in " ".join(text.split())
    text = ok("evppi", table, "--pars", "risks: rr[1,2], rr[1,3]; other: sum, all")
    assert sets(text) == ["risks", "other"]
    assert "Sets: risks (rr[1,2], rr[1,3]), other (sum, all)." in text
    assert sets(ok("evppi", table, "--pars", "pairs"))[0] == "rr[1,2], rr[1,3]"
    assert "'rr[2,2]', which is not a column: did you mean 'rr[1,2]'" in refused("evppi", table, "--pars", "rr[2,2]")


def test_effects_and_costs_in_one_table_or_in_three(tmp_path):
    whole = {"id": IDS, **{f"qaly_{k}": v for k, v in EFFECTS.items()}, **{f"cost_{k}": v for k, v in COSTS.items()}}
    table = save(tmp_path / "psa.csv", whole | {"c_drug": C, "p": A})
    needed = refused("evppi", table)
    assert f"need a willingness to pay: cbq evppi {table} --wtp 20000,30000" in needed
    one = ok("evppi", table, "--wtp", "20000")
    assert sets(one) == ["c_drug", "p"]
    effects = save(tmp_path / "e.csv", {"draw": IDS, **EFFECTS}, "\t")
    costs = save(tmp_path / "c.csv", {"draw": IDS, "B": COSTS["B"], "A": COSTS["A"]}, ";", ",")
    inputs = save(tmp_path / "p.csv", {"draw": IDS, "c_drug": C, "p": A})
    files = ["--effects-file", effects, "--costs-file", costs]
    three = ok("evppi", *files, "--inputs-file", inputs, "--wtp", "20000")
    assert three.splitlines()[:3] == one.splitlines()[:3]
    assert ok("evppi", inputs, *files, "--wtp", "20000") == three
    assert "need a willingness to pay" in refused("evppi", inputs, *files)
    short = save(tmp_path / "short.csv", {"c_drug": C[:50], "p": A[:50]})
    assert "has 60 rows and inputs has 50" in refused("evppi", short, *files, "--wtp", "20000")


def test_net_benefits_beside_inputs_in_another_file(tmp_path):
    outputs = save(tmp_path / "nb.csv", {"id": IDS, "old": 0 * A, "new": A + B})
    inputs = save(tmp_path / "p.csv", {"a": A, "b": B})
    text = ok("evppi", outputs, "--inputs-file", inputs)
    assert sets(text) == ["a", "b"]
    assert "Decisions: net benefits 'old', 'new' (all columns)." in text
    single = save(tmp_path / "inc.csv", {"a": A, "b": B, "INMB": A + B})
    assert ok("evppi", single).splitlines()[:3] == text.splitlines()[:3]
    assert "Incremental: 'INMB', against a decision with net benefit 0" in ok("evppi", single)


def test_what_is_unclear_is_refused_with_a_command_to_paste(tmp_path):
    table = save(tmp_path / "psa.csv", {"id": IDS, "x": A, "old": B, "new": C})
    says = refused("evppi", table)
    assert "they are 'x', 'old', 'new'" in says
    assert f"cbq evppi {table} --outputs old,new" in says
    assert sets(ok("evppi", table, "--outputs", "old,new")) == ["x"]


def test_excel_and_parquet_tables_are_read(tmp_path):
    pd = pytest.importorskip("pandas")
    pytest.importorskip("openpyxl")
    pytest.importorskip("pyarrow")
    frame = pd.DataFrame({"draw": IDS, "a": A, "on": B > 0, "nb1": 0 * A, "nb2": A + 0.5 * (B > 0)})
    frame.to_csv(tmp_path / "psa.csv")
    frame.to_excel(tmp_path / "psa.xlsx", index=False)
    frame.to_parquet(tmp_path / "psa.parquet")
    tables = [ok("evppi", tmp_path / f"psa.{kind}").splitlines()[:4] for kind in ("csv", "xlsx", "parquet")]
    assert tables[0] == tables[1] == tables[2]
    ok("evppi", tmp_path / "psa.csv", "--out", tmp_path / "out.tsv")
    assert len((tmp_path / "out.tsv").read_text().splitlines()[0].split("\t")) > 5
    assert "name an .xlsx file" in refused("evppi", tmp_path / "psa.csv", "--out", tmp_path / "out.xls")
    ok("evppi", tmp_path / "psa.csv", "--out", tmp_path / "out.csv")
    assert read(tmp_path / "out.csv")["pars"] == ["a", "on"]


KNOWN = ["a", "b", "rr[1,2]", "a, b", "x;y", "k: v", "it's"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a,b", ["a", "b"]),
        ("a, b", ["a, b"]),  # is a column
        ("b,a", ["b", "a"]),
        (" rr[1,2] , a,", ["rr[1,2]", "a"]),
        ("rr[3,4],b", ["rr[3,4]", "b"]),  # to be refused by name
        ('"c, d",b', ["c, d", "b"]),
        ("it's,b", ["it's", "b"]),
        ("x;y,k: v", ["x;y", "k: v"]),
    ],
)
def test_lists_of_names(text, expected):
    assert column_names(text, KNOWN) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a;b; b,a;", [["a"], ["b"], ["b", "a"]]),
        ("x;y;k: v", [["x;y"], ["k: v"]]),
        ("first: a,b; second: rr[1,2]", {"first": ["a", "b"], "second": ["rr[1,2]"]}),
        ("first: b; a", {"first": ["b"], "a": ["a"]}),
    ],
)
def test_sets_of_names(text, expected):
    assert column_sets(text, KNOWN) == expected


@pytest.mark.parametrize(
    ("text", "says"), [("a, b: a", "colon out of place"), ("s: a; s: b", "gives two sets the same name")]
)
def test_sets_that_are_not_clear_are_refused(text, says):
    with pytest.raises(ValueError, match=says):
        column_sets(text, ["a", "b"])


def test_values_for_a_population(tmp_path):
    table = save(tmp_path / "psa.csv", {"a": A, "nb_old": 0 * A, "nb_new": A + 0.2 * B})
    out, options = tmp_path / "found.csv", ("--population", 1000, "--horizon", 10, "--discount", 0.035)
    text = ok("evppi", table, "--out", out, *options)
    one = cbq.evppi({"old": 0 * A, "new": A + 0.2 * B}, {"a": A}).rows[0]
    assert float(read(out)["evppi"][0]) == pytest.approx(1000 * (1 - 1.035**-10) / np.log(1.035) * one.evppi)
    assert "Values are for a population of 8461.31" in text
    assert ok("psa", table, "--population", 50).count("Values are for a population of 50.") == 2  # EVPI and EVPPI
    assert "--horizon and --discount came without --population" in refused("evppi", table, "--horizon", 10)
    assert "--discount came without --horizon" in refused("psa", table, "--population", 9, "--discount", 0.1)


def test_charts_and_reports_of_several_kinds_with_a_currency_and_a_title(tmp_path):
    pytest.importorskip("docx")
    pytest.importorskip("fpdf")
    table = save(tmp_path / "t.csv", {"a": A, "nb1": np.zeros(N), "nb2": A + 0.1 * B}, ",", ".", "utf-8")
    kinds = ("--charts", "svg,pdf", "--reports", "html,docx", "--currency", "EUR", "--title", "The drug")
    text = ok("evppi", table, "--out", tmp_path / "r.csv", *kinds)
    assert "Money is in EUR." in text
    assert {each.name for each in tmp_path.iterdir()} == {"t.csv", "r.csv", "r.svg", "r.pdf", "r.html", "r.docx"}
    assert "<h1>The drug</h1>" in (tmp_path / "r.html").read_text("utf-8")
    assert "--charts must be one or several of png, svg, pdf" in refused("evppi", table, "--charts", "gif")
    assert "would both write a .pdf" in refused(
        "evppi", table, "--out", tmp_path / "r.csv", "--charts", "pdf", "--reports", "pdf"
    )


def test_studies_of_two_arms_and_of_ones_own(tmp_path):
    p, ratio = 1 / (1 + np.exp(1 - 0.3 * A)), np.exp(0.2 * B)
    table = save(tmp_path / "t.csv", {"p": p, "or": ratio, "nb1": np.zeros(N), "nb2": 5 - 5 * ratio}, ",", ".", "utf-8")
    options = ("--pars", "p, or", "--sizes", "50")
    text = ok("evsi", table, *options, "--study", "binomial", "--ratio", "odds", "--lost", "0.2")
    assert "LossToFollowUp(study=TwoArm(end_point=BinomialCount(), ratio='odds'), lost=0.2)" in " ".join(text.split())
    own = tmp_path / "own_trial.py"
    own.write_text(
        "def simulate(row, n, rng):\n    return [rng.normal(row['p'], 1 / n), rng.normal(row['or'], 1 / n)]\n"
    )
    paid = ("--cost", "1", "--population", "100", "--horizon", "10", "--uptake", "4")
    text = ok("evsi", table, *options, "--study", f"{own}:simulate", "--arms", "2", *paid)
    assert "arms=2" in text
    row = next(line for line in text.splitlines() if line.startswith("p, or") and " 800 " in line).split()
    assert row[-6 - 1] == "100"  # the cost of 2 x 50 participants
    assert "--ratio must be odds or risk of --study binomial" in refused(
        "evsi", table, *options, "--study", "binomial", "--ratio", "hazard"
    )
    assert "--arms is for a study of your own" in refused("evsi", table, *options, "--study", "binomial", "--arms", "2")
    assert "has no 'simulat': did you mean 'simulate'?" in refused("evsi", table, *options, "--study", f"{own}:simulat")
