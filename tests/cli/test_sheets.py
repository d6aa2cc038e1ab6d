"""Tables that are read from files: dialects of spreadsheets, encodings, Excel and Parquet."""

import sys

import numpy as np
import pytest
from numpy.testing import assert_array_equal

pytest.importorskip("typer")

from cbq.cli.sheets import read_sheet
from cbq.cli.tables import check_writable, write_table

NAMES = ["rr[1,2]", "net benefit", "é"]
EXPECTED = np.array([[1.5, -2.0, 1234.5], [0.25, 3.0, 1e-3]])


def text_of(separator, decimal, quote):
    cells = [[repr(x).replace(".", decimal) for x in row] for row in EXPECTED.tolist()]
    names = [f'"{name}"' for name in NAMES] if quote else NAMES
    return "\n".join(separator.join(row) for row in [names, *cells]) + "\n"


def check(path, names=NAMES):
    sheet = read_sheet(path)
    assert list(sheet.columns) == names
    assert_array_equal(np.transpose([sheet.values(name) for name in names]), EXPECTED)
    return sheet


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-32", "latin-1"])
def test_encodings(tmp_path, encoding):
    (tmp_path / "a.csv").write_bytes(text_of(",", ".", True).encode(encoding))
    check(tmp_path / "a.csv")


@pytest.mark.parametrize("quote", [True, False])
@pytest.mark.parametrize(
    ("separator", "decimal"), [(",", "."), (";", ","), (";", "."), ("\t", ","), ("\t", "."), ("|", ".")]
)
def test_separators_and_decimal_marks(tmp_path, separator, decimal, quote):
    (tmp_path / "a.txt").write_text(text_of(separator, decimal, quote), encoding="utf-8")
    check(tmp_path / "a.txt")


@pytest.mark.parametrize(
    "text",
    [
        "a,b,,\n1,2,,\n\n3,4,,\n",
        "a,b\n1,2,\n3,4,\n",
        "a,b\r\n1,2\r\n3,4\r\n,\r\n,,,\r\n",
        "sep=,\na,b\n1,2\n3,4\n",
        ' a ,"b"\n 1 , 2\n3,4\n',
        "a b\n1 2\n3 4\n",
    ],
)
def test_empty_cells_at_the_end_and_around_are_left_out(tmp_path, text):
    (tmp_path / "a.csv").write_text(text)
    sheet = read_sheet(tmp_path / "a.csv")
    assert list(sheet.columns) == ["a", "b"]
    assert [sheet.values("a"), sheet.values("b")] == [[1.0, 3.0], [2.0, 4.0]]


@pytest.mark.parametrize(
    "text", ['"","a","b"\n"1",5,6\n"2",7,8\n', "a b\n1 5 6\n2 7 8\n", '"a" "b"\n"x" 5 6\n"y" 7 8\n']
)
def test_row_names_of_r_are_left_out(tmp_path, text):
    (tmp_path / "a.csv").write_text(text)
    sheet = read_sheet(tmp_path / "a.csv")
    assert sheet.unnamed
    assert {name: sheet.values(name) for name in sheet.columns} == {"a": [5.0, 7.0], "b": [6.0, 8.0]}


def test_words_are_kept_and_gaps_are_refused(tmp_path):
    (tmp_path / "a.csv").write_text("word,gap,typo\nTRUE,1,1\nFALSE,NA,2\nTRUE,,3x\n")
    sheet = read_sheet(tmp_path / "a.csv")
    assert sheet.values("word") == ["TRUE", "FALSE", "TRUE"]
    with pytest.raises(ValueError, match=r"'gap' of .* has no value in 2 of 3 rows \(first in line 3\)"):
        sheet.values("gap")
    with pytest.raises(ValueError, match=r"'typo' of .* must hold numbers, but holds '3x' in line 4"):
        sheet.values("typo")


def test_a_number_with_two_readings_is_refused(tmp_path):
    (tmp_path / "a.tsv").write_text("a\tb\n1,234\t1\n2,345\t2\n")
    with pytest.raises(ValueError, match=r"holds '1,234', which may be 1234 or 1\.234"):
        read_sheet(tmp_path / "a.tsv").values("a")


def test_a_workbook_that_is_called_csv_is_named(tmp_path):
    (tmp_path / "a.csv").write_bytes(b"PK\x03\x04...")
    with pytest.raises(ValueError, match="is an Excel or OpenDocument file by its content"):
        read_sheet(tmp_path / "a.csv")


# --- what pandas reads and writes


@pytest.mark.parametrize(("name", "package"), [("a.xlsx", "openpyxl"), ("a.ods", "odf"), ("a.parquet", "pyarrow")])
def test_workbooks_and_parquet_are_written_and_read_without_loss(tmp_path, name, package):
    pytest.importorskip("pandas")
    pytest.importorskip(package)
    path = tmp_path / name
    check_writable(path)
    write_table(path, [*NAMES, "on", "word"], [[*row, i == 0, "ab"[i]] for i, row in enumerate(EXPECTED.tolist())])
    assert not path.read_bytes().startswith(b"rr")
    sheet = read_sheet(path)
    assert_array_equal(np.transpose([sheet.values(each) for each in NAMES]), EXPECTED)
    assert sheet.values("on") == ["TRUE", "FALSE"]
    assert sheet.values("word") == ["a", "b"]


def test_the_first_of_several_sheets_is_read_and_said(tmp_path):
    pd = pytest.importorskip("pandas")
    pytest.importorskip("openpyxl")
    with pd.ExcelWriter(tmp_path / "a.xlsx") as book:
        pd.DataFrame({"a": [1, 2]}).to_excel(book, sheet_name="PSA", index=False)
        pd.DataFrame({"b": [1, 2]}).to_excel(book, sheet_name="notes", index=False)
    sheet = read_sheet(tmp_path / "a.xlsx")
    assert sheet.values("a") == [1.0, 2.0]
    (remark,) = sheet.remarks
    assert remark.endswith("has the sheets PSA, notes, of which the first was read")


@pytest.mark.parametrize(("name", "package"), [("a.xlsx", "openpyxl"), ("a.ods", "odf"), ("a.parquet", "pandas")])
def test_a_package_that_is_missing_is_named(tmp_path, monkeypatch, name, package):
    pytest.importorskip("pandas")
    monkeypatch.setitem(sys.modules, package, None)
    path = tmp_path / name
    path.write_bytes(b"...")
    needed = {"odf": "odfpy"}.get(package, package)
    for use in (check_writable,) if package == "odf" else (read_sheet, check_writable):
        with pytest.raises(ImportError, match=f"needs {needed}.*: python -m pip install {needed}"):
            use(path)


def test_names_of_files_decide_how_a_table_is_written(tmp_path):
    write_table(tmp_path / "a.tsv", ["a", "b"], [[1, "x,y"]])
    assert (tmp_path / "a.tsv").read_text() == "a\tb\n1\tx,y\n"
    write_table(tmp_path / "a.txt", ["a", "b"], [[1, 0.1]])
    assert (tmp_path / "a.txt").read_text() == "a,b\n1,0.1\n"
    with pytest.raises(ValueError, match=r"name an \.xlsx file"):
        check_writable(tmp_path / "a.xls")
