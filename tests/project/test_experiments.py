"""The experiments of the paper: the runner, what it writes, and the paper's claims that hold."""

from __future__ import annotations

import csv
import json
import math
import os
import re
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from matplotlib.figure import Figure
from scipy.integrate import quad
from typer.testing import CliRunner

import cbq
from cbq.cli.commands import app
from cbq.kernels import Matern
from cbq.linalg.engines import NumpyEngine
from experiments import figures, illustration, linear, own_theta, rates, record, rough, runner
from experiments.analysis import (
    ResultTable,
    SeedSummary,
    best_of,
    count_wins,
    is_similar,
    ratios_text,
    ruling,
    slope,
    smaller_error,
    summarise,
    wins_text,
)
from experiments.applied import evppi, expected_loss
from experiments.command import EXPERIMENTS
from experiments.common import TEST_SEED, outer_thetas, problem_with_truth, rmse, share_inside
from experiments.experiment import BANDS, Cell, Experiment, method_cell
from experiments.figures import STYLES, Curve, draw_curve
from experiments.methods import METHODS, SOBOL_OF_X, collect_cell, method_for, score_methods
from experiments.results import open_results
from experiments.runner import RunSummary, redraw, reproduce

pytestmark = [  # of cells as small as these
    pytest.mark.filterwarnings(f"ignore:{kind}:cbq.FitWarning") for kind in ("few thetas", "few points", "beyond")
]

NAMES = [
    *("linear", "linear-all", "linear-d", "calibration", "sir-N", "butterfly-N", "health-N", "sir-cost"),
    *("mobq", "nystrom", "qmc", "ablation-theta", "ablation-x", "illustration", "joint", "rates"),
]


# a tiny experiment that logs its evaluations in a file


def toy_cells(quick):
    return [Cell("toy", T, N, ("CBQ",), seconds=T * N) for T in (2, 4) for N in ((3,) if quick else (3, 5))]


def toy_run(cell, seed):
    log = os.environ["TOY_LOG"]
    with open(log, "a") as file:
        file.write(f"{cell.T} {cell.N} {seed}\n")
    if cell.T == 4 and seed == 1 and "TOY_WORKS" not in os.environ:
        raise ArithmeticError("no such\nluck")
    time.sleep(float(os.environ.get("TOY_SECONDS", "0")))
    return [{"method": "CBQ", "rmse": 10.0**seed / cell.N, "seconds": 0.5}]


def toy_failure(cell, seed):
    raise ArithmeticError("bad luck")


def toy_draw(table):
    page = Figure(figsize=(2, 2))
    page.text(0.1, 0.5, f"{len(table)} rows")
    return page


def toy_verdict(table):
    return f"{len(table)} rows"


TOY = Experiment("toy", "A toy", "nothing is claimed", toy_cells, toy_run, toy_draw, toy_verdict)


@pytest.fixture
def log(tmp_path, monkeypatch):
    """The evaluations so far."""
    path = tmp_path / "log.txt"
    path.touch()
    monkeypatch.setenv("TOY_LOG", str(path))
    return lambda: path.read_text().splitlines()


def read(path):
    with Path(path).open(newline="") as file:
        return list(csv.DictReader(file))


# the runner


def finished(folder):
    """The cells and seeds that need no evaluation."""
    with open_results(folder, write=False) as file:
        return [(each.cell.T, each.cell.N, each.seed) for each in file.results(toy_cells(False)) if not each.failed]


def test_cells_run_seed_by_seed_and_cheap_ones_first(tmp_path, log):
    reproduce(TOY, tmp_path / "out", seeds=2)
    assert log() == [f"{T} {N} {seed}" for seed in (0, 1) for T, N in ((2, 3), (2, 5), (4, 3), (4, 5))]


def test_a_second_run_evaluates_nothing_and_more_seeds_are_added(tmp_path, log, monkeypatch):
    monkeypatch.setenv("TOY_WORKS", "yes")
    reproduce(TOY, tmp_path, seeds=2)
    before = log()
    assert reproduce(TOY, tmp_path, seeds=2) == RunSummary("8 rows", 0)
    assert log() == before
    assert reproduce(TOY, tmp_path, seeds=3) == RunSummary("12 rows", 0)
    assert sorted(log()[8:]) == ["2 3 2", "2 5 2", "4 3 2", "4 5 2"]


def test_expensive_cells_have_fewer_seeds(tmp_path, log):
    few = replace(TOY, cells=lambda quick: [Cell("toy", 2, 3, seeds=1), Cell("toy", 2, 5)])
    reproduce(few, tmp_path, seeds=3)
    assert sorted(log()) == ["2 3 0", "2 5 0", "2 5 1", "2 5 2"]


def test_a_failure_becomes_a_note_and_other_cells_run(tmp_path, log):
    assert reproduce(TOY, tmp_path, seeds=2) == RunSummary("6 rows", 2)
    rows = read(tmp_path / "toy" / "results.csv")
    notes = {(row["T"], row["seed"]): row["note"] for row in rows if row["note"]}
    assert notes == {("4", "1"): "toy failed: ArithmeticError: no such luck"}
    assert sum(row["rmse"] != "" for row in rows) == 6
    found = json.loads((tmp_path / "toy" / "record.json").read_text())
    assert "ArithmeticError" in str(found["notes"])
    assert (found["results"], found["failed"]) == (8, 2)


def test_only_failed_cells_are_tried_again(tmp_path, log, monkeypatch):
    reproduce(TOY, tmp_path, seeds=2)
    monkeypatch.setenv("TOY_WORKS", "yes")
    assert reproduce(TOY, tmp_path, seeds=2) == RunSummary("8 rows", 0)
    assert sorted(log()[8:]) == ["4 3 1", "4 5 1"]
    assert not any(row["note"] for row in read(tmp_path / "toy" / "results.csv") if "note" in row)


def test_the_record_leaves_out_cells_that_are_no_longer_shown(tmp_path, log):
    reproduce(TOY, tmp_path, seeds=1)
    reproduce(replace(TOY, cells=lambda quick: [Cell("toy", 2, 3, ("CBQ",))]), tmp_path, seeds=1)
    found = json.loads((tmp_path / "toy" / "record.json").read_text())
    assert (found["results"], sum(found["code"].values()), found["cells_by_seeds"]) == (1, 1, {"1": 1})


def test_workers_that_loaded_other_files_are_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(runner, "estimator_digest", lambda: "what was loaded before")
    with pytest.raises(RuntimeError, match="files of cbq were changed while joint ran"):
        reproduce(EXPERIMENTS["joint"], tmp_path, quick=True, seeds=1, workers=2)


def test_an_error_in_the_parent_ends_the_workers(tmp_path, log, monkeypatch):
    monkeypatch.setenv("TOY_SECONDS", "0.2")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(Path(__file__).parent), *sys.path]))

    def progress(done, total):
        if done == 1:
            raise OSError("no space left")

    with pytest.raises(OSError, match="no space left"):
        reproduce(TOY, tmp_path, seeds=10, workers=2, progress=progress)
    before = -1
    while len(log()) > before:  # until no worker evaluates any more
        before = len(log())
        time.sleep(1)
    assert before < 20  # of 40


def test_without_matplotlib_nothing_is_evaluated(tmp_path, log, monkeypatch):
    monkeypatch.setattr(figures, "find_spec", lambda name: None)
    with pytest.raises(ImportError, match=r"cbq\[plot\]"):
        reproduce(TOY, tmp_path / "out")
    assert log() == []
    assert not (tmp_path / "out").exists()


def test_a_killed_run_resumes_and_evaluates_no_finished_cell_twice(tmp_path, log, monkeypatch):
    code = "import test_experiments as t; from pathlib import Path; t.reproduce(t.TOY, Path({!r}), seeds=2)"
    paths = os.pathsep.join([str(Path(__file__).parent), *sys.path])
    words = [sys.executable, "-c", code.format(str(tmp_path))]
    child = subprocess.Popen(words, env={**os.environ, "TOY_SECONDS": "0.3", "TOY_WORKS": "yes", "PYTHONPATH": paths})
    while len(log()) < 4:
        assert child.poll() is None
        time.sleep(0.01)
    child.send_signal(signal.SIGKILL)
    child.wait()
    before = log()
    kept = [f"{T} {N} {seed}" for T, N, seed in finished(tmp_path / "toy")]
    assert len(before) - 1 <= len(kept) <= len(before)  # all but the cell that was being evaluated, if any was
    monkeypatch.setenv("TOY_WORKS", "yes")
    reproduce(TOY, tmp_path, seeds=2)
    again = log()[len(before) :]
    assert len(again) == 8 - len(kept)
    assert not {*kept} & {*again}


def test_two_runs_cannot_write_to_the_same_results(tmp_path, log):
    with open_results(tmp_path / "toy", write=True), pytest.raises(cbq.CheckpointError, match="in use by another run"):
        reproduce(TOY, tmp_path)


def test_workers_give_the_same_results(tmp_path):
    experiment = EXPERIMENTS["linear-d"]
    with ThreadPoolExecutor(1) as executor:
        ways = {"here": {}, "processes": {"workers": 2}, "executor": {"executor": executor}}
        for name, way in ways.items():
            reproduce(experiment, tmp_path / name, quick=True, seeds=1, **way)
    tables = [read(tmp_path / name / "linear-d" / "results.csv") for name in ways]
    columns = ("method", "rmse", "coverage", "width")
    here, processes, executed = ([[row[name] for name in columns] for row in table] for table in tables)
    assert here == processes
    assert sorted(here) == sorted(executed)


def test_redraw_evaluates_nothing_and_draws_the_same_figure(tmp_path, log, monkeypatch):
    reproduce(TOY, tmp_path, seeds=2)
    before, folder = log(), tmp_path / "toy"
    image = (folder / "toy.png").read_bytes()
    for path in folder.glob("toy.*"):
        path.unlink()
    monkeypatch.setattr(runner, "estimator_digest", lambda: "other")  # the digest matters for evaluations only
    assert redraw(TOY, tmp_path) == "6 rows"
    assert log() == before
    assert (folder / "toy.png").read_bytes() == image
    assert (folder / "toy.svg").stat().st_size > 1000


def test_redraw_needs_results(tmp_path):
    with pytest.raises(FileNotFoundError, match="no results in"):
        redraw(TOY, tmp_path)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("other", "difference"),
    [
        (TOY, "quick is False in the file, but True was asked for"),
        (replace(TOY, version=2), "the version of the experiment is 1 in the file, but 2 was asked for"),
    ],
)
def test_results_of_other_settings_are_refused_even_with_force(tmp_path, log, other, difference):
    reproduce(TOY, tmp_path, seeds=1)
    with pytest.raises(ValueError, match=difference):
        reproduce(other, tmp_path, quick=other is TOY, force=True)


def test_redraw_refuses_results_of_another_experiment_or_version(tmp_path, log):
    reproduce(TOY, tmp_path, seeds=1)
    with pytest.raises(ValueError, match="the version of the experiment is 1 in the file, but 2 was asked for"):
        redraw(replace(TOY, version=2), tmp_path)
    (tmp_path / "toy").rename(tmp_path / "linear-d")
    with pytest.raises(ValueError, match="the experiment is 'toy' in the file, but 'linear-d' was asked for"):
        redraw(EXPERIMENTS["linear-d"], tmp_path)


def test_results_of_other_code_are_refused_unless_forced(tmp_path, log, monkeypatch):
    reproduce(TOY, tmp_path, seeds=1)
    mine = record.estimator_digest()
    monkeypatch.setattr(runner, "estimator_digest", lambda: "another")
    with pytest.raises(ValueError, match=f"code of the estimators is '{mine}' in the file, but 'another'"):
        reproduce(TOY, tmp_path, seeds=2)
    assert len(log()) == 4
    reproduce(TOY, tmp_path, seeds=2, force=True)
    assert json.loads((tmp_path / "toy" / "record.json").read_text())["code"] == {mine: 4, "another": 4}


def test_failures_of_other_code_do_not_block_a_run(tmp_path, log, monkeypatch):
    one = replace(TOY, cells=lambda quick: [Cell("toy", 4, 3, ("CBQ",))])
    few = replace(one, run=toy_failure)
    assert reproduce(few, tmp_path, seeds=1) == RunSummary("nothing is finished", 1)
    monkeypatch.setattr(runner, "estimator_digest", lambda: "mended")
    assert reproduce(one, tmp_path, seeds=1) == RunSummary("1 rows", 0)


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (lambda path: path.write_bytes(b""), "holds no results: run the experiment"),
        (lambda path: path.write_bytes(b"SQLite, not"), "is not a checkpoint of cbq"),
        (lambda path: edited(path, "UPDATE results SET rows = '[{'"), "a part of it is not JSON"),
    ],
)
def test_damaged_results_are_reported_with_their_file(tmp_path, log, damage, said):
    reproduce(TOY, tmp_path, seeds=1)
    damage(tmp_path / "toy" / "results.sqlite")
    with pytest.raises((ValueError, cbq.CheckpointError), match=said) as caught:
        redraw(TOY, tmp_path)
    assert "results.sqlite" in str(caught.value)


def edited(path, statement):
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(statement)
        connection.commit()


def test_a_file_in_place_of_the_folder_is_refused(tmp_path):
    (tmp_path / "toy").write_text("mine")
    with pytest.raises(ValueError, match="toy is a file, but a folder for results is needed"):
        reproduce(TOY, tmp_path)


def test_results_are_on_disk_before_the_next_cell_begins(tmp_path, log):
    class Stop(BaseException):
        pass

    def progress(done, total):
        if done == 3:
            raise Stop

    with pytest.raises(Stop):
        reproduce(TOY, tmp_path, seeds=2, progress=progress)
    assert finished(tmp_path / "toy") == [(2, 3, 0), (2, 5, 0), (4, 3, 0)]


# tables


def test_summaries_are_medians_with_standard_errors_of_logarithms():
    point = SeedSummary.of([1.0, 10.0, 1000.0, 100.0, np.nan])
    assert point.seeds == 4
    assert point.middle == pytest.approx(10**1.5)  # half way between the two in the middle, on a log axis
    assert point.middle / point.low == pytest.approx(point.high / point.middle)
    assert SeedSummary.of([-1.0, 3.0]).middle == 1.0
    assert SeedSummary.of([np.nan]) is None


@pytest.mark.parametrize("distribution", ["standard_normal", "laplace", "standard_exponential"])
def test_bands_cover_the_true_median_as_often_as_one_standard_error_does(distribution):
    logs = getattr(np.random.default_rng(0), distribution)(size=(800, 20))
    truth = np.exp(np.log(2) if distribution == "standard_exponential" else 0.0)
    bands = [SeedSummary.of(row) for row in np.exp(logs)]
    held = np.mean([band.low <= truth <= band.high for band in bands])
    assert held == pytest.approx(0.683, abs=0.07)  # the bootstrap of few values is not exact


def test_shares_have_means_that_stay_between_0_and_1():
    rows = tuple({"method": "CBQ", "coverage": value} for value in (1.0, 1.0, 0.7))
    point = ResultTable(rows).summary("coverage")
    assert point.middle == pytest.approx(0.9)
    assert (point.low, point.high) == (pytest.approx(0.8), 1.0)


def test_summarise_returns_a_row_for_each_setting():
    rows = tuple({"T": T, "method": "CBQ", "seed": s, "rmse": T * 10.0**s} for T in (1, 2) for s in range(3))
    found = summarise(ResultTable(rows), ["T", "method"], ["rmse"])
    assert [(row["T"], row["quantity"], row["seeds"]) for row in found] == [(1, "rmse", 3), (2, "rmse", 3)]
    np.testing.assert_allclose([row["middle"] for row in found], [10, 20])


def test_slopes_are_powers():
    x = np.array([1.0, 2.0, 5.0, 10.0])
    assert slope(x, 3 * x**-1.5) == pytest.approx(-1.5)
    assert np.isnan(slope([2.0], [1.0]))


def test_methods_are_compared_on_the_same_samples():
    factors = {1: (1.18, 1.2, 1.22), 2: (0.5, 1.1, 2.0), 3: (0.8, 0.9, 0.85), 4: (7.0, np.inf, np.nan)}  # T by seeds
    rows = []
    for T, several in factors.items():
        for seed, factor in enumerate(several):
            hard = 10.0 ** (3 * seed)  # samples differ more than methods do
            rows += [{"method": m, "T": T, "seed": seed, "rmse": hard * f} for m, f in (("a", 1.0), ("b", factor))]
    table = ResultTable(tuple(rows))
    assert count_wins(table, "a", "b", ["T"]) == (1, 1, 1)  # one seed is not enough
    assert count_wins(table, "b", "a", ["T"]) == (1, 1, 1)
    assert wins_text(table, "a", ["b", "c"], ["T"]).endswith("95%): b 1-1-1")
    assert ratios_text(table, "a", ["b"], T=2) == "b 1.1"


@pytest.mark.slow
def test_even_methods_seldom_win():
    rng = np.random.default_rng(0)
    for seeds in (2, 5, 20):
        rows = [
            {"method": m, "T": T, "seed": s, "rmse": np.exp(rng.normal())}
            for T in range(400)
            for s in range(seeds)
            for m in "ab"
        ]
        won, even, lost = count_wins(ResultTable(tuple(rows)), "a", "b", ["T"])
        assert even / (won + even + lost) == pytest.approx(0.95, abs=0.03)


# the catalogue


def test_all_experiments_are_listed_and_their_cells_differ():
    assert list(EXPERIMENTS) == NAMES
    for each in EXPERIMENTS.values():
        for quick in (True, False):
            keys = [one.key for one in each.cells(quick)]
            assert len({*keys}) == len(keys)


def test_every_method_has_a_style_and_the_main_ones_differ():
    assert {*METHODS} == {*STYLES}
    main = [STYLES[name] for name in ("CBQ.paper", "LSMC", "KLSMC", "IS", "IS balance", "CBQ", "MOBQ", "Auto")]
    assert len({style.colour for style in main}) == len({style.marker for style in main}) == len(main)


def test_scores_are_those_of_the_fit_and_of_compare():
    one = method_cell("linear", 6, 8, ("CBQ", "IS"), f="inner", thetas=40)
    rows = {row["method"]: row for row in score_methods(one, 3)}
    problem = cbq.problems.get("linear", f="inner")
    theta = problem.prior.sample(40, TEST_SEED)
    fit = cbq.CBQ().fit(problem.collect(6, 8, rng=3))
    comparison = cbq.compare(problem.collect(6, 8, rng=3), {"CBQ": cbq.CBQ()}, problem, theta=theta)
    assert rows["CBQ"]["rmse"] == pytest.approx(comparison.rows[0].rmse, rel=1e-12)
    assert rows["CBQ"]["rmse"] == pytest.approx(rmse(fit.predict(theta), problem.exact(theta)), rel=1e-12)
    assert rows["CBQ"]["coverage"] == pytest.approx(comparison.rows[0].coverage)
    low, high = fit.interval(theta)
    assert rows["CBQ"]["width"] == pytest.approx(np.mean(high - low))
    assert rows["CBQ"]["coverage"] == share_inside(low, problem.exact(theta), high)
    assert rows["IS"]["note"] == ""


def test_scores_are_taken_over_all_outputs():
    (row,) = score_methods(method_cell("health", 5, 6, ("LSMC",), thetas=30), 2)
    problem, theta, truth = problem_with_truth("health", 30)
    fit = cbq.LSMC().fit(problem.collect(5, 6, rng=2))
    low, high = fit.interval(theta)
    assert row["rmse"] == pytest.approx(rmse(fit.predict(theta), truth), rel=1e-12)
    assert row["coverage"] == pytest.approx(share_inside(low, truth, high))
    assert row["width"] == pytest.approx(np.mean(high - low))


def test_a_method_that_refuses_samples_has_a_note():
    (row,) = score_methods(method_cell("health", 4, 5, ("IS",), thetas=10), 0)
    assert "depends on theta" in row["note"]
    assert "rmse" not in row


def test_the_best_method_is_chosen_at_each_x():
    errors = {1: {"a": 2.0, "b": 3.0}, 2: {"a": 5.0, "b": 4.0, "c": 1.0}}
    rows = [{"N": N, "method": m, "rmse": e, "seed": 0} for N, several in errors.items() for m, e in several.items()]
    found = best_of(ResultTable(tuple(rows)), ("a", "b"), "N", "rmse")
    assert [(row["N"], row["method"]) for row in found] == [(1, "a"), (2, "b")]


def test_markers_of_fewer_seeds_are_white():
    rows = [{"N": N, "seed": s, "rmse": 1.0 + s} for N, seeds in ((1, 4), (2, 2), (3, 4)) for s in range(seeds)]
    ax = Figure().subplots()
    draw_curve(ax, Curve("a", ResultTable(tuple(rows)), STYLES["CBQ"]), "N", "rmse", 4)
    drawn = {tuple(line.get_xdata()): line.get_markerfacecolor() for line in ax.lines if line.get_marker() == "s"}
    assert drawn[(2,)] == "white"
    assert drawn[(1, 3)] == STYLES["CBQ"].colour


def test_data_that_are_redrawn_differ_between_seeds_and_have_their_own_truth():
    options = {"f": "square", "thetas": 30}
    fixed, redrawn = (method_cell("linear", 4, 6, ("LSMC",), **options, **more) for more in ({}, {"data": "redrawn"}))
    measures = [[collect_cell(one, seed).measures[0].mean for seed in (0, 1)] for one in (fixed, redrawn)]
    theta = [[collect_cell(one, seed).theta[0] for seed in (0, 1)] for one in (fixed, redrawn)]
    np.testing.assert_array_equal(theta[0], theta[1])
    for one, seed in ((fixed, 0), (redrawn, 1)):
        problem = cbq.problems.get("linear", seed=0 if one is fixed else 2)
        np.testing.assert_allclose(measures[one is redrawn][seed], problem.family(theta[0][seed]).mean)
        points = problem.prior.sample(30, TEST_SEED)
        expected = rmse(cbq.LSMC().fit(problem.collect(4, 6, rng=seed)).predict(points), problem.exact(points))
        assert score_methods(one, seed)[0]["rmse"] == pytest.approx(expected, rel=1e-12)


def test_sobol_points_of_x_have_the_thetas_of_independent_points():
    iid, of_x, both = (collect_cell(method_cell("linear", 4, 8, (), design=d), 3) for d in ("iid", SOBOL_OF_X, "sobol"))
    np.testing.assert_array_equal(of_x.theta, iid.theta)
    assert not np.any(of_x.theta == both.theta)


def test_the_value_of_decisions_is_that_of_the_plug_in_estimate():
    for name, value in (("butterfly", expected_loss), ("health", evppi)):
        (row,) = score_methods(method_cell(name, 5, 6, ("LSMC",), thetas=40), 1, value)
        problem, (theta, truth) = cbq.problems.get(name), outer_thetas(name)
        estimate = cbq.LSMC().fit(problem.collect(5, 6, rng=1)).predict(theta)
        assert row["value_error"] == pytest.approx(abs(value(estimate) - value(truth)), rel=1e-10)
    assert evppi(outer_thetas("health")[1]) == pytest.approx(cbq.problems.health.EVPPI, rel=0.01)
    theta = cbq.problems.get("butterfly").prior.transport((np.arange(4000)[:, None] + 0.5) / 4000)
    loss = expected_loss(cbq.problems.get("butterfly").exact(theta))
    assert loss == pytest.approx(cbq.problems.butterfly.EXPECTED_LOSS, rel=1e-4)


@pytest.mark.parametrize("treatment", own_theta.TREATMENTS)
def test_inputs_given_one_theta_agree_with_the_joint_distribution(treatment):
    health, c = cbq.problems.health, treatment.c
    # over theta of the other treatment, the measure given both thetas averages to the one given theta_c
    theta = np.array([0.63, 0.91])[c]
    z = (theta - health.THETA_MEAN[c]) / health.THETA_STD[c]
    other = health.THETA_MEAN[1 - c] + health.THETA_STD[1 - c] * (
        health.RHO * z + np.sqrt(1 - health.RHO**2) * np.array([-1.0, 1.0])  # two points with the right two moments
    )
    pairs = np.insert(other[:, None], c, theta, axis=1)
    given_both = [health.family(pair) for pair in pairs]
    inputs = list(own_theta.INPUTS[c])
    means = np.array([each.mean[inputs] for each in given_both])
    covariance = given_both[0].cov[np.ix_(inputs, inputs)] + np.cov(means.T, bias=True)
    found = treatment.family(np.array([theta]))
    np.testing.assert_allclose(found.mean, means.mean(axis=0), rtol=1e-12)
    np.testing.assert_allclose(found.cov, covariance, rtol=1e-12, atol=1e-15)
    x = np.random.default_rng(0).normal(size=(5, 17))
    both = health.integrand(x, np.insert([0.0], c, theta))[:, c]
    np.testing.assert_allclose(treatment.integrand(x[:, inputs], np.array([theta])), both, rtol=1e-12)


def test_conditioning_on_single_thetas_does_not_give_the_value_of_learning_both():
    problem = cbq.problems.get("health")
    theta = problem.prior.sample(100_000, np.random.default_rng(0))
    own = np.column_stack([each.exact(theta[:, [each.c]]) for each in own_theta.TREATMENTS])
    assert evppi(problem.exact(theta)) == pytest.approx(cbq.problems.health.EVPPI, abs=10)
    assert evppi(own) == pytest.approx(504, abs=10)


def test_the_illustrated_process_of_f_has_the_integral_of_stage_one():
    (one,) = illustration.cells(True)
    samples = collect_cell(one, 0)
    fit = cbq.CBQ.paper(kernel_x=illustration.kernel_x()).fit(samples)
    u = (np.arange(20_000)[:, None] + 0.5) / 20_000
    for t in range(2):
        mean, std = illustration.process_of_f(samples, t, float(fit.stage1.std[t]), samples.measure(t).transport(u))
        assert np.mean(mean) == pytest.approx(fit.stage1.mean[t], abs=1e-3 * np.std(samples.table))
        nodes, _ = illustration.process_of_f(samples, t, 1.0, samples.points(t))
        np.testing.assert_allclose(nodes, samples.values(t), atol=1e-3 * np.std(samples.table))
        assert np.all(std < 1.01 * np.max(std[[0, -1]]))


def test_linear_counts_wins_over_thirty_settings():
    shown = {(dict(one.options)["f"], one.T, one.N) for one in linear.cells(False) if "CBQ.paper" in one.methods}
    grid, cross = linear.sizes(False)
    assert len(grid) * 2 == 30
    assert {(f, *size) for f in ("square", "inner") for size in (*grid, *cross)} == shown


def test_the_paper_method_has_the_kernel_of_the_problem():
    for name in ("CBQ.paper", "CBQ.paper, theta Gaussian"):
        assert "Stein" in repr(method_for(name, "sir").kernel_x)
        assert "Stein" not in repr(method_for(name, "linear").kernel_x)
    assert isinstance(method_for("CBQ.paper, theta Gaussian", "sir").kernel_theta, cbq.kernels.RBF)
    assert "Stein" in repr(method_for("CBQ.paper, Stein", "butterfly").kernel_x)


# the command line


def invoke(*words):
    return CliRunner().invoke(app, ["reproduce", *map(str, words)])


def check_outputs(folder, experiment, seeds):
    """Every file of an experiment is written; returns its record."""
    name = experiment.name
    assert (folder / f"{name}.png").read_bytes().startswith(b"\x89PNG")
    assert "</svg>" in (folder / f"{name}.svg").read_text()
    rows, lines = read(folder / "results.csv"), read(folder / "summary.csv")
    assert {line["method"] for line in lines} <= {row["method"] for row in rows}
    assert all(float(line["low"]) <= float(line["middle"]) <= float(line["high"]) for line in lines)
    assert not [row["note"] for row in rows if "failed" in row.get("note", "")]
    found = json.loads((folder / "record.json").read_text())
    assert found["experiment"] == name
    assert found["seeds"] == seeds
    assert found["seconds"] > 0
    one = found["runs"][-1]
    assert one["versions"]["numpy"] == np.__version__
    assert one["machine"]["cores"] >= 1
    assert {one["code"]} == {*found["code"]}
    caption = (folder / "caption.md").read_text().strip()
    assert caption == found["caption"]
    assert "seed" in caption
    assert "{" not in caption
    return found


@pytest.mark.slow
def test_all_quick_experiments_write_all_outputs(tmp_path):
    result = invoke("--quick", "--all", "--out", tmp_path)
    assert result.exit_code == 0, result.output
    assert result.stderr == ""
    for name in NAMES:
        assert f"{name}: {EXPERIMENTS[name].claim}." in result.stdout
        found = check_outputs(tmp_path / name, EXPERIMENTS[name], [0] if name == "illustration" else [0, 1])
        assert len(found["runs"]) == 1


@pytest.mark.parametrize("name", NAMES)
def test_one_finished_cell_can_be_drawn_and_one_failed_cell_reported(name, tmp_path):
    experiment = EXPERIMENTS[name]
    first = min(experiment.cells(True), key=lambda one: one.seconds)
    failing = replace(experiment, cells=lambda quick: [first], run=toy_failure)
    assert reproduce(failing, tmp_path, quick=True, seeds=1) == RunSummary("nothing is finished", 1)
    done = replace(experiment, cells=lambda quick: [first])
    assert reproduce(done, tmp_path, quick=True, seeds=1).failed == 0
    assert (tmp_path / name / f"{name}.png").stat().st_size > 1000
    check_outputs(tmp_path / name, experiment, [0])


def test_list_shows_all_experiments_with_their_minutes():
    result = invoke("--list", "--workers", 2)
    assert result.exit_code == 0
    rows = [line for line in result.stdout.splitlines() if line.split()[:1] and line.split()[0] in NAMES]
    assert [row.split()[0] for row in rows] == NAMES
    minutes = sum(float(row.split()[-1]) for row in rows)
    (total,) = re.findall(r"20 seeds: about (\d+) minutes in all on 2 cores\.", result.stdout)
    assert float(total) == pytest.approx(minutes, abs=1.5)  # each is rounded


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["linear-d", "nonsense"], "there is no experiment 'nonsense': the experiments are linear, linear-all"),
        ([], "name an experiment, as in cbq reproduce linear, or pass --all"),
        (["rates", "--all"], "pass names or --all, not both"),
        (["rates", "--plot-only", "--out", "nowhere"], "there are no results in nowhere"),
    ],
)
def test_mistakes_are_reported_in_one_line(words, said, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    result = invoke(*words)
    assert result.exit_code == 1
    (line,) = result.stderr.splitlines()
    assert line.startswith(f"cbq: error: {said}")
    assert not list(tmp_path.iterdir())


def test_failed_evaluations_end_in_an_error(tmp_path, monkeypatch):
    monkeypatch.setitem(EXPERIMENTS, "joint", replace(EXPERIMENTS["joint"], run=toy_failure))
    result = invoke("joint", "--quick", "--out", tmp_path)
    assert result.exit_code == 1
    assert "2 evaluations failed: results.csv says how, and the same command tries them again." in result.stderr
    assert invoke("joint", "--quick", "--out", tmp_path, "--plot-only").exit_code == 0


def test_plot_only_of_all_skips_experiments_without_results(tmp_path):
    assert invoke("joint", "--quick", "--out", tmp_path).exit_code == 0
    result = invoke("--all", "--plot-only", "--out", tmp_path)
    assert result.exit_code == 0, result.output
    assert "rates: there are no results yet." in result.stdout
    assert EXPERIMENTS["joint"].claim in result.stdout


def test_without_a_checkout_the_command_says_what_to_do(tmp_path):
    shutil.copytree(Path(cbq.__file__).parent, tmp_path / "site" / "cbq", ignore=shutil.ignore_patterns("__pycache__"))
    environment = {**os.environ, "PYTHONPATH": str(tmp_path / "site")}
    words = [sys.executable, "-m", "cbq", "reproduce", "--list"]
    done = subprocess.run(words, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == (
        "cbq: error: the experiments of the paper are not part of the installed package: get the repository of cbq, "
        "and run this command from its root.\n"
    )
    root = Path(runner.__file__).parents[1]
    done = subprocess.run(words, cwd=root, env=environment, capture_output=True, text=True, check=True)
    assert "linear-d" in done.stdout


def test_the_package_does_not_import_the_experiments():
    code = "import sys, cbq.cli; cbq.cli.main(['--help']); assert 'experiments' not in sys.modules"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "reproduce" in done.stdout


def test_benchmarks_can_be_imported_and_share_the_pool_of_the_experiments():
    folder = Path(runner.__file__).parents[1] / "benchmarks"
    for here in (folder / "published", folder):
        names = sorted(path.stem for path in here.glob("*.py"))
        assert len(names) > 7
        code = f"import sys; sys.path.insert(0, sys.argv[1]); import {', '.join(names)}; "
        words = [sys.executable, "-c", code + "print(sys.modules['_common'].one_thread.__module__)", str(here)]
        done = subprocess.run(words, capture_output=True, text=True, check=True)
        assert done.stdout == "experiments.common\n"


# the problem at the edge of the theorem


@pytest.mark.parametrize("s", [1.0, 2.5])
@pytest.mark.parametrize("end", [0.5, 1.0])
def test_the_averages_of_rough_functions_agree_with_quadrature(s, end):
    g = rough.rough_problem(s, s).integrand.__self__.g
    edges = np.linspace(0, end, 4001)[:, None]  # the fastest wave has 11000 half periods on (0, 1)
    nodes, weights = np.polynomial.legendre.leggauss(16)
    half = 0.5 * np.diff(edges, axis=0)
    x = edges[:-1] + half * (1 + nodes)
    assert g.average(end) == pytest.approx(np.sum(half * weights * g(x.ravel()).reshape(x.shape)) / end, abs=1e-12)


def test_rough_functions_have_the_requested_smoothness():
    # differences over h have a mean square of h^(2 r) for r < 1, where the function lies in H^s for s < r only
    x = np.linspace(0, 0.9, 20001)
    g = rough.rough_problem(0.6, 1.0).integrand.__self__.g
    h = 2.0 ** -np.arange(4, 10)
    sizes = [np.sqrt(np.mean((g(x + step) - g(x)) ** 2)) for step in h]
    assert slope(h, sizes) == pytest.approx(0.6 + rough.MARGIN, abs=0.05)


def test_the_truth_of_the_rough_problem_is_the_mean_of_f_under_its_measure():
    problem = rough.rough_problem(2.5, 2.5)
    for theta in ([0.2], [0.7]):
        x = problem.family(np.array(theta)).sample(200_000, np.random.default_rng(0))
        f = problem.evaluate(np.array(theta), x)
        assert problem.exact(np.array([theta]))[0] == pytest.approx(np.mean(f), abs=5 * np.std(f) / np.sqrt(len(f)))


def test_the_recipe_of_the_theorem_agrees_with_textbook_formulas():
    samples, new = rough.rough_problem(2.0, 2.0).collect(7, 6, rng=0), np.linspace(0.1, 0.9, 4)[:, None]
    fit, kernel = rates.recipe(1.5, 1.5, 0.3).fit(samples), Matern(1.5, 0.5)

    def k(u, v):
        return kernel(np.array([[u]]), np.array([[v]]))[0, 0]

    def embedded(v, w):
        parts = (quad(k, 0, end, args=(v,), points=[v] if v < end else None)[0] / end for end in (1.0, 0.5))
        return np.dot([1 - w, w], list(parts))

    mean, std = fit.stage1.mean, fit.stage1.std
    for t, w in enumerate(rough.share_of_half(samples.theta)[:2]):
        x = samples.points(t)
        z = (1 - w) * quad(embedded, 0, 1, args=(w,))[0] + w * quad(embedded, 0, 0.5, args=(w,))[0] / 0.5
        mu = np.array([embedded(v, w) for v in x[:, 0]])
        assert mean[t] == pytest.approx(mu @ np.linalg.solve(kernel(x), samples.values(t)), rel=1e-8)
        assert std[t] ** 2 == pytest.approx(z - mu @ np.linalg.solve(kernel(x), mu), rel=1e-6)
    K2 = kernel(samples.theta) + np.diag(std**2 + 0.3)
    expected = kernel(new, samples.theta) @ np.linalg.solve(K2, mean)
    np.testing.assert_allclose(fit._quiet.predict(new), expected, rtol=1e-9)


# claims of the paper


def medians(name, T, N, methods, seeds, **options):
    """Median RMSEs over seeds."""
    one = method_cell(name, T, N, methods, thetas=100, **options)
    rows = [row for seed in range(seeds) for row in score_methods(one, seed)]
    return {method: np.median([row["rmse"] for row in rows if row["method"] == method]) for method in methods}


def test_the_paper_method_beats_all_baselines_on_linear():
    errors = medians("linear", 50, 50, ("CBQ.paper", "LSMC", "KLSMC", "IS", "IS balance"), 7)
    mine = errors.pop("CBQ.paper")
    assert 3 * mine < min(errors.values())


def test_the_paper_method_beats_all_baselines_on_sir():
    errors = medians("sir", 15, 40, ("CBQ.paper", "LSMC", "KLSMC", "IS", "IS balance"), 5)
    mine = errors.pop("CBQ.paper")
    assert 1.3 * mine < min(errors.values())


def test_the_captions_name_few_seeds_only_where_there_are_some(tmp_path, log, monkeypatch):
    monkeypatch.setenv("TOY_WORKS", "yes")
    captioned = replace(TOY, caption=BANDS)
    reproduce(captioned, tmp_path / "all", seeds=2)
    assert "White markers" not in (tmp_path / "all" / "toy" / "caption.md").read_text()
    some = replace(captioned, cells=lambda quick: [replace(cell, seeds=cell.T // 2) for cell in toy_cells(quick)])
    reproduce(some, tmp_path / "some", seeds=2)
    assert "White markers: 1 seeds." in (tmp_path / "some" / "toy" / "caption.md").read_text()


def test_verdicts_follow_their_rules():
    rows = [
        {"method": m, "seed": seed, "T": T, "rmse": size * np.exp(0.01 * seed)}
        for T in range(10)
        for seed in range(3)
        for m, size in (("a", 1.0), ("b", 2.0), ("c", 2.0 if T < 4 else 1.0), ("d", 0.5))
    ]
    table = ResultTable(tuple(rows))
    outcomes = {o: smaller_error(table, "a", [o], ("T",)) for o in "bcde"}
    assert outcomes == {"b": "holds", "c": "holds partly", "d": "does not hold", "e": None}
    assert is_similar(1.0, 2.0)
    assert not is_similar(1.0, 2.1)
    assert is_similar(1.0, math.nan) is None
    assert ruling("it works", None) == "Verdict: it works: nothing can be said yet"
    assert ruling("it works", outcomes["c"]) == "Verdict: it works: holds partly"


def test_mobq_on_whitened_inputs_has_the_error_of_the_paper_kernel():
    cell = method_cell("health", 20, 20, ("CBQ.paper", "MOBQ, paper's kernel"), thetas=50)
    errors = [row["rmse"] for row in score_methods(cell, 0)]
    assert 0.4 < errors[1] / errors[0] < 2.5


def test_mobq_to_the_letter_agrees_with_its_formulas():
    """Zero mean, standardised f, and the likeliest of 5 x 4 pairs, by dense algebra."""
    samples = cbq.problems.get("linear").collect(T=6, N=5, rng=0, progress=False)
    x, f = samples.all_points, samples.table[:, 0]
    y, best = (f - f.mean()) / f.std(), (-np.inf,)
    apart2 = np.sum((x[:, None] - x) ** 2, axis=-1)
    for ell in (0.1, 0.3, 1.0, 3.0, 10.0):
        K = np.exp(-0.5 * apart2 / ell**2) + 1e-6 * np.eye(len(x))
        for A in (1.0, 10.0, 100.0, 1000.0):
            log_p = -0.5 * (y @ np.linalg.solve(A * K, y) + np.linalg.slogdet(A * K)[1])
            best = max(best, (log_p, ell, A), key=lambda each: each[0])
    _, ell, A = best
    K = np.exp(-0.5 * apart2 / ell**2) + 1e-6 * np.eye(len(x))
    measure = samples.measures[2]
    mean, cov = measure.moments()
    wide = cov + ell**2 * np.eye(2)
    z = [np.exp(-0.5 * (e - mean) @ np.linalg.solve(wide, e - mean)) * ell**2 / np.sqrt(np.linalg.det(wide)) for e in x]
    initial = ell**2 / np.sqrt(np.linalg.det(wide + cov))
    fit = method_for("MOBQ, paper", "linear").fit(samples)
    found = fit.predict(samples.theta[2:3], return_std=True)
    weights = np.linalg.solve(K, z)
    assert found[0] == pytest.approx(f.mean() + f.std() * weights @ y, rel=1e-6)
    assert found[1] == pytest.approx(f.std() * np.sqrt(A * (initial - weights @ z)), rel=1e-4)


def slopes(sweep, nu, values, other, method, seeds=3):
    """The slope of the median error of a method over T or N."""
    sizes = [(other, v) if sweep == "N" else (v, other) for v in values]
    found = []
    for T, N in sizes:
        one = Cell("rough", T, N, options=(("nu", nu), ("sweep", sweep)), thetas=100)
        rows = [row for seed in range(seeds) for row in rates.run(one, seed) if row["method"] == method]
        found.append(np.median([row["rmse"] for row in rows]))
    return slope(values, found)


@pytest.mark.parametrize(("nu", "steepest", "flattest"), [(0.5, -1.5, -0.7), (1.5, -2.3, -1.3)])
def test_without_lambda_the_error_falls_in_N_about_as_the_theorem_says(nu, steepest, flattest):
    # N^-1 and N^-2 in the limit
    assert steepest < slopes("N", nu, (8, 16, 32, 64), 64, rates.INTERPOLATED) < flattest


def test_the_slow_rate_in_T_is_due_to_lambda():
    ridge, none = (slopes("T", 1.5, (16, 32, 64), 64, name) for name in (rates.RIDGE, rates.INTERPOLATED))
    assert none < -1  # T^-2 in the limit
    assert -0.8 < ridge < -0.25  # T^-1/4 is a bound


@pytest.mark.parametrize("nu", rates.SMOOTHNESS)
@pytest.mark.parametrize(("stratified", "tolerance"), [(False, 0.1), (True, 0.06)])
def test_the_worst_case_falls_with_the_exponent_of_the_theorem(nu, stratified, tolerance):
    rng, values = np.random.default_rng(0), np.array([16, 32, 64, 128])
    problem, errors = rough.rough_problem(nu + 0.5, 2.5), []
    for n in values:
        x = rng.uniform(size=(50, n, 1))  # independent points leave gaps of the order log(n) / n
        x = (np.arange(n)[:, None] + x) / n if stratified else x
        samples = cbq.Samples(rng.uniform(size=50), x, x[..., 0], problem.family, design="adaptive")
        errors.append(np.median(rates.recipe(nu, 2.5, 0.0).fit(samples).stage1.std))
    assert slope(values, errors) == pytest.approx(-(nu + 0.5), rel=tolerance)


class Counting(NumpyEngine):
    """An engine that counts the matrices of each size that it factors."""

    def __init__(self):
        self.sizes = Counter()

    def counted(self, factor):
        self.sizes[factor.n] += math.prod(factor.batch_shape)
        return factor

    def factor(self, K, **options):
        return self.counted(super().factor(K, **options))

    def factor_gram(self, kernel, x, **options):
        return self.counted(super().factor_gram(kernel, x, **options))


def factored(method, T, N):
    """How many matrices of each size a fit factors."""
    engine = Counting()
    with cbq.engine(engine):
        method.fit(cbq.problems.get("linear").collect(T, N, rng=0))
    return engine.sizes


def test_mobq_costs_the_cube_of_the_number_of_points_and_two_stages_do_not():
    given = cbq.MOBQ(kernel_x=cbq.kernels.RBF(1.0), selection=cbq.Selection(screened=1000))  # on all points
    pooled = [factored(given, T, 20) for T in (10, 30)]
    assert [max(found) for found in pooled] == [200, 600]
    cost = [sum(count * n**3 for n, count in found.items()) for found in pooled]
    assert slope([1, 3], cost) == pytest.approx(3, abs=0.3)  # it may take one jitter more or less
    for T in (10, 30):
        found = factored(cbq.CBQ.paper(), T, 20)
        assert {*found} == {20, T}
        assert T <= found[20] <= T + 10  # T N^3, and the lengthscales that are tried at one theta
