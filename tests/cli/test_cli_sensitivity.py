"""`cbq sensitivity`: from a saved fit and from a table of draws."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("typer")

from command_line import ok, read, refused

HEADS = ["input", "output", "first", "first_low", "first_high", "total", "total_low", "total_high"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """The output of `cbq run`, with a fit and the record of its problem."""
    path = tmp_path_factory.mktemp("run")
    ok("run", "sobol-g", "--T", 32, "--N", 8, "--method", "mobq", "--option", "a=[0.0, 1.0]", "--out", path)
    return path


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    path = tmp_path_factory.mktemp("table") / "draws.csv"
    x = np.random.default_rng(0).normal(size=(300, 3))
    rows = np.column_stack([x, x @ [1.0, 2.0, 0.5]])
    np.savetxt(path, rows, delimiter=",", header="a,b,c,y", comments="")
    return path


def test_a_saved_fit_needs_nothing_else(folder, tmp_path):
    out = tmp_path / "indices.csv"
    text = ok("sensitivity", folder / "fit.cbq", "--shapley", "--second-order", "--out", out)
    written = read(out)
    assert written["input"] == ["theta", "x"]
    assert list(written)[:8] == HEADS
    v = np.array([1 / 3, 1 / 12])
    first = v / (np.prod(1 + v) - 1)
    low, high = (np.array(written[name], dtype=float) for name in ("first_low", "first_high"))
    assert np.all((low <= first) & (first <= high))
    assert "second" in text
    assert "Which inputs matter" in (tmp_path / "indices.html").read_text(encoding="utf-8")
    assert (tmp_path / "indices.png").stat().st_size > 1000
    assert "x " in ok("sensitivity", folder / "fit.cbq", "--theta", 0.5)


def test_a_table_needs_the_names_of_its_outputs(table):
    text = ok("sensitivity", table, "--outputs", "y", "--group", "both: a, b")
    assert [line.split()[0] for line in text.splitlines()[:3]] == ["input", "both", "c"]
    assert "--outputs y1,y2" in refused("sensitivity", table)


def test_options_that_do_not_fit_are_refused(folder, table, tmp_path):
    fit = folder / "fit.cbq"
    assert refused("sensitivity", table, "--outputs", "y", "--theta", 1).startswith("--theta is for a fit")
    assert refused("sensitivity", fit, "--outputs", "y").startswith("--outputs is for a table")
    assert "name and inputs" in refused("sensitivity", fit, "--group", "theta")
    assert "not an input" in refused("sensitivity", fit, "--group", "g: y")
    assert "would overwrite" in refused("sensitivity", table, "--outputs", "y", "--out", table)
    assert "the chart is a .png" in refused("sensitivity", table, "--outputs", "y", "--out", tmp_path / "a.png")
    alone = tmp_path / "fit.cbq"
    alone.write_bytes(fit.read_bytes())
    assert "pass --problem" in refused("sensitivity", alone)
