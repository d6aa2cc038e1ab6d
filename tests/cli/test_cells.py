"""Numbers in cells of files, and on the command line, where they are read as in the file beside them."""

import numpy as np
import pytest

from cbq.cli.cells import Convention, convention, read_number, read_prices, read_sizes, typed_number


@pytest.mark.parametrize(
    ("cells", "separator", "expected"),
    [
        (["1.5", "2"], ",", Convention.POINT),
        (["1,234", "0.5"], ",", Convention.POINT),
        (["1,5", "2"], ";", Convention.COMMA),
        (["1.234", "0,5"], ";", Convention.COMMA),
        (["1,234", "7.25"], ";", Convention.POINT),
        (["1,234", "2,345"], ";", Convention.COMMA),
        (["1,234", "2,345"], ",", Convention.POINT),
        (["1,234", "2,345"], "\t", Convention.UNKNOWN),
        (["1.234", "2.345"], ";", Convention.UNKNOWN),
        (["0.123", "2.345"], ";", Convention.POINT),
        (["1,234,567", "2,345"], "\t", Convention.POINT),
        (["0,5", "0.5"], ";", Convention.UNKNOWN),
        (["red", "blue, green"], "\t", Convention.POINT),
    ],
)
def test_the_convention_of_a_file_comes_from_the_cells_that_tell(cells, separator, expected):
    assert convention([cells], separator) is expected


@pytest.mark.parametrize(
    ("cell", "kind", "number"),
    [
        ("1.5", Convention.POINT, 1.5),
        ("-.5e-3", Convention.POINT, -0.5e-3),
        ("1,5", Convention.COMMA, 1.5),
        ("1,234.5", Convention.COMMA, 1234.5),  # can be read in one way only
        ("1.234,5", Convention.POINT, 1234.5),
        ("1,234", Convention.POINT, 1234.0),
        ("1,234", Convention.COMMA, 1.234),
        ("1.234", Convention.COMMA, 1234.0),
        ("1.234", Convention.POINT, 1.234),
        ("12,345,678", Convention.COMMA, 12345678.0),
        ("1 234 567,5", Convention.COMMA, 1234567.5),
        ("1'234.5", Convention.POINT, 1234.5),
        ("-£1,234.50", Convention.POINT, -1234.5),
        ("12,5 €", Convention.COMMA, 12.5),
        ("12.5%", Convention.POINT, 0.125),
        ("0.123", Convention.COMMA, 0.123),
    ],
)
def test_numbers_are_read_as_people_write_them(cell, kind, number):
    assert read_number(cell, kind) == number


@pytest.mark.parametrize("cell", ["", "a", "1 2", "1_000", "12,34,5", "1.2.3", "TRUE", "1,2345,678"])
@pytest.mark.parametrize("kind", Convention)
def test_other_cells_are_no_numbers(cell, kind):
    assert read_number(cell, kind) is None


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


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("20000", 20000.0),
        ("2e4", 20000.0),
        ("1,2", [1.0, 2.0]),
        ("20000; 30000", [20000.0, 30000.0]),
        ("0:50000:25000", [0.0, 25000.0, 50000.0]),
        ("0:1:0.1", [0.1 * i for i in range(11)]),
        ("10;0:20:10", [10.0, 0.0, 10.0, 20.0]),
    ],
)
def test_willingness_to_pay(text, expected):
    found = read_prices(text)
    np.testing.assert_allclose(found, expected, rtol=1e-14)
    assert isinstance(found, float) == isinstance(expected, float)


@pytest.mark.parametrize("text", ["20,000", "20,000,30,000", "1,234, 5", "0,20,000"])
def test_a_willingness_to_pay_with_thousands_is_refused(text):
    with pytest.raises(ValueError, match=r'could be one number or several: .* as in "20000; 30000"'):
        read_prices(text)


@pytest.mark.parametrize("text", ["1,two", "", "1:2", "5:1:1", "0:1:0", "0:1:1e-9", "1:2:3:4"])
def test_other_prices_are_refused(text):
    with pytest.raises(ValueError, match=r"must be numbers separated by commas|must have 1 to"):
        read_prices(text)


def test_sizes_are_whole_numbers_and_ranges():
    assert read_sizes("20,50;100") == [20, 50, 100]
    assert read_sizes("50:200:50, 7") == [50, 100, 150, 200, 7]


@pytest.mark.parametrize("text", ["10.5", "a", "1:2", "5:1:1", "1:9:0", "1:100000:1", "0:1:0.5"])
def test_other_sizes_are_refused(text):
    with pytest.raises(ValueError, match=r"--sizes must be whole numbers .*, but it is"):
        read_sizes(text)
