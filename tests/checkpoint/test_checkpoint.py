"""Checkpoints: resuming a run, refusing the file of another run, and reading samples from a file."""

from __future__ import annotations

import ast
import os
import random
import re
import signal
import sqlite3
import subprocess
import sys
import time
import tracemalloc
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

import cbq
from cbq.checkpoint import CheckpointError
from cbq.checkpoint.database import checksum, transaction
from cbq.checkpoint.tables import VERSION
from cbq.io import pack_measure, unpack_measure
from cbq.measures import (
    Beta,
    Empirical,
    Exponential,
    Gamma,
    Gaussian,
    LogMeasure,
    LogNormal,
    Measure,
    Mixture,
    Product,
    StudentT,
    TruncatedGaussian,
    Uniform,
    as_measure,
)
from cbq.problems.problem import Problem
from cbq.runs import CollectWarning, IntegrandError
from cbq.runs.resuming import CHECKED_IF_EDITED, CHECKED_POINTS

pytestmark = pytest.mark.filterwarnings("ignore:.*use of fork:DeprecationWarning")  # by Python 3.12 and 3.13
PRIOR = Uniform([0.0, 1.0], [1.0, 4.0])
REPAIRED = r"the integrand has changed since .* was made \(.*\). Up to 12 of its points .* have the same values"


def family(theta):
    return Gaussian(theta, cov=np.array([[1.0, 0.5], [0.5, 2.0]]))


def f(x, theta):
    return x[:, 0] ** 2 + theta[1] * x[:, 1]


class Counting:
    """f, which records the points that it was called with."""

    def __init__(self, integrand=f):
        self.seen, self._f = [], integrand

    def __call__(self, x, theta):
        self.seen += [tuple(row) for row in x]
        return self._f(x, theta)


def changed(**options):
    return Problem(**{"integrand": Counting(), "family": family, "prior": PRIOR, "name": "quadratic", **options})


def same(one, two):
    assert one.T == two.T
    np.testing.assert_array_equal(one.theta, two.theta)
    np.testing.assert_array_equal(one.counts, two.counts)
    np.testing.assert_array_equal(one.all_points, two.all_points)
    np.testing.assert_array_equal(one.table, two.table)
    assert (one.C, one.design, one.depends_on_theta) == (two.C, two.design, two.depends_on_theta)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "run.sqlite"


# resuming and extending a run


@pytest.mark.parametrize("design", ["iid", "sobol"])
def test_a_finished_run_is_not_evaluated_again(path, design):
    counting = Counting()
    problem = changed(integrand=counting)
    first = problem.collect(4, 25, rng=0, design=design, checkpoint=path, batch=10)
    assert len(counting.seen) == 100 + 3
    counting.seen.clear()
    again = problem.collect(4, 25, rng=0, design=design, checkpoint=path, batch=7)
    assert len(counting.seen) == CHECKED_POINTS
    same(first, again)
    same(first, changed().collect(4, 25, rng=0, design=design))
    assert os.listdir(path.parent) == [path.name]


@pytest.mark.parametrize("design", ["iid", "sobol"])
@pytest.mark.parametrize(
    ("T", "N"), [(6, 25), (4, 33), (6, 33), (4, [25, 40, 25, 26]), (5, [10, 40, 25, 25, 3])], ids=str
)
def test_a_run_can_be_extended(path, design, T, N):
    changed().collect(4, 25, rng=0, design=design, checkpoint=path, batch=10)
    counting = Counting()
    more = changed(integrand=counting).collect(T, N, rng=0, design=design, checkpoint=path, batch=8)
    same(more, changed().collect(T, N, rng=0, design=design))
    counts = np.broadcast_to(N, T)
    fresh = sum(max(0, n - (25 if t < 4 else 0)) for t, n in enumerate(counts))
    assert len(counting.seen) == fresh + CHECKED_POINTS
    assert len(set(counting.seen)) == fresh + CHECKED_POINTS
    counting.seen.clear()
    same(more, changed(integrand=counting).collect(T, N, rng=0, design=design, checkpoint=path))
    assert len(counting.seen) == CHECKED_POINTS


@pytest.mark.parametrize(("T", "N"), [(2, 25), (4, 3), (3, [1, 25, 7])], ids=str)
def test_a_part_of_a_finished_run_can_be_asked_for(path, T, N):
    changed().collect(4, 25, rng=0, checkpoint=path, batch=10)
    counting = Counting()
    same(changed(integrand=counting).collect(T, N, rng=0, checkpoint=path, batch=10), changed().collect(T, N, rng=0))
    assert len(counting.seen) == CHECKED_POINTS
    assert cbq.Samples.from_checkpoint(path).n_evaluations == 100


def test_thetas_of_the_user_and_several_outputs(path):
    theta = np.array([[0.1, 2.0], [0.1, 2.0], [0.9, 3.0]])
    problem = changed(integrand=lambda x, theta: x * theta[0], depends_on_theta=False)
    first = problem.collect(2, 6, rng=0, theta=theta[:2], checkpoint=path)
    second = problem.collect(None, 6, rng=0, theta=theta, checkpoint=path)
    same(second, problem.collect(None, 6, rng=0, theta=theta))
    np.testing.assert_array_equal(first.f, second.f[:2])
    same(cbq.Samples.from_checkpoint(path), second)


def test_an_error_keeps_finished_batches(path):
    whole = changed().collect(3, 20, rng=0)
    late = whole.points(2)[13, 0]

    def broken(x, theta):
        return np.where(x[:, 0] == late, np.nan, f(x, theta))

    with pytest.raises(IntegrandError, match=r"t = 2 .*i = 13.* 50 of 60 points are in .*: call collect again"):
        changed(integrand=Counting(broken)).collect(3, 20, rng=0, checkpoint=path, batch=10)
    counting = Counting()
    with pytest.warns(CollectWarning, match=REPAIRED):
        same(changed(integrand=counting).collect(3, 20, rng=0, checkpoint=path, batch=10), whole)
    assert len(counting.seen) == 10 + CHECKED_IF_EDITED


def test_an_interrupt_keeps_finished_batches(path):
    whole = changed().collect(3, 20, rng=0)

    def interrupted(x, theta):
        if theta[0] == whole.theta[1, 0]:
            raise KeyboardInterrupt
        return f(x, theta)

    with pytest.raises(KeyboardInterrupt, match=r"interrupted\. 20 of 60 points are in .*run\.sqlite: call collect"):
        changed(integrand=Counting(interrupted)).collect(3, 20, rng=0, checkpoint=path, batch=10)
    counting = Counting()
    with pytest.warns(CollectWarning, match=REPAIRED):
        same(changed(integrand=counting).collect(3, 20, rng=0, checkpoint=path, batch=10), whole)
    assert len(counting.seen) == 40 + CHECKED_IF_EDITED
    with pytest.raises(KeyboardInterrupt, match=r"Nothing is kept: with checkpoint='run.sqlite'"):
        changed(integrand=interrupted).collect(3, 20, rng=0)


def test_a_batch_is_reported_after_it_is_on_the_disk(path):
    """The file is locked while its run is going on, so that copies of it are inspected."""
    seen = []

    def inspect(done, total):
        copy = path.parent / f"copy{done}.sqlite"
        for suffix in ("", "-wal"):
            if (source := path.with_name(path.name + suffix)).exists():
                copy.with_name(copy.name + suffix).write_bytes(source.read_bytes())
        with sqlite3.connect(copy) as connection:
            seen.append((done, *connection.execute("SELECT sum(stop - start) FROM batches").fetchone()))
        connection.close()

    # Reading the file releases the locks of this process, which is harmless here: no other process wants them.
    changed().collect(3, 20, rng=0, checkpoint=path, batch=10, in_flight=2, progress=inspect)
    assert seen[-1][0] == 60
    assert all(done == stored for done, stored in seen)


def test_a_run_that_resumes_says_what_it_reuses(path, capsys):
    changed().collect(4, 120, rng=0, checkpoint=path)
    assert capsys.readouterr().err == ""
    changed().collect(4, 120, rng=0, checkpoint=path)
    assert capsys.readouterr().err == f"{path}: 480 reused, 0 evaluated\n"
    changed().collect(5, 120, rng=0, checkpoint=path, progress=lambda done, total: None)
    assert capsys.readouterr().err == f"{path}: 480 reused, 120 evaluated\n"
    changed().collect(5, 120, rng=0, checkpoint=path, progress=False)
    assert capsys.readouterr().err == ""


# an integrand that was edited


SIMULATOR = """
import sys
import cbq

def f(x, theta):
    return {value}

def family(theta):
    return cbq.measures.Gaussian(theta[0], 1.0)

problem = cbq.Problem(f, family, cbq.measures.Uniform(0.0, 1.0))
try:
    samples = problem.collect({T}, 30, rng=0, checkpoint={path!r}, **{options!r})
    print(repr(samples.f.tolist()))
except cbq.runs.CheckpointError as error:
    sys.exit(str(error))
"""


def simulate(file, path, value, T=4, **options):
    """The values that the simulator in a file gives, or what it says if it fails; and its warnings."""
    file.write_text(SIMULATOR.format(value=value, path=str(path), T=T, options=options))
    child = subprocess.run([sys.executable, str(file)], capture_output=True, text=True, check=False)
    return (np.array(ast.literal_eval(child.stdout)) if child.returncode == 0 else None), child.stderr


@pytest.mark.parametrize("executor", [None, 2])
def test_an_edited_simulator_is_refused(tmp_path, path, executor):
    file = tmp_path / "simulator.py"
    old, _ = simulate(file, path, "x[:, 0] * theta[0]", executor=executor)
    before = path.read_bytes()
    for T in (4, 6):
        values, says = simulate(file, path, "100 + x[:, 0] * theta[0]", T=T, executor=executor)
        assert values is None
        place = r"at theta index t = 0 \(theta = \[.*\]\), point i = 0 \(x = \[.*\]\)"
        numbers = re.search(place + r", it has (.*), and f now gives (.*)\. The integrand was edited", says)
        assert float(numbers[1]) == pytest.approx(old[0, 0])
        assert float(numbers[2]) == pytest.approx(100 + old[0, 0])
        assert "The integrand was edited since (f). " in says
        assert re.search("Pass another name to start a new run, or on_change='reuse'", says)
        assert path.read_bytes() == before
    kept, says = simulate(file, path, "100 + x[:, 0] * theta[0]", T=6, executor=executor, on_change="reuse")
    assert re.search(r"the integrand has changed since .* \(f\)\. .* missing ones come from the new f", says)
    np.testing.assert_array_equal(kept[:4], old)
    assert np.all(kept[4:] > 50)


def test_an_edit_that_keeps_the_values_is_accepted_with_a_warning(tmp_path, path):
    file = tmp_path / "simulator.py"
    old, says = simulate(file, path, "x[:, 0] * theta[0]")
    assert says == ""
    same_values, says = simulate(file, path, "theta[0] * x[:, 0]")
    np.testing.assert_array_equal(same_values, old)
    assert re.search(r"CollectWarning: the integrand has changed since .*run.sqlite was made \(f\)", says)
    assert re.search("Up to 12 of its points were evaluated again and have the same values", says)
    assert "problem.collect" in says  # the line that the warning points to
    assert "120 reused, 0 evaluated" in says


def test_an_edited_family_is_reported(path):
    def cautious(theta):
        return family(theta)

    changed().collect(4, 5, rng=0, checkpoint=path)
    says = r"the family has changed since .* was made \(.*cautious.*\)\. Its measures at the stored thetas are the same"
    with pytest.warns(CollectWarning, match=says) as caught:
        changed(family=cautious).collect(4, 5, rng=0, checkpoint=path)
    assert caught[0].filename == __file__


def test_a_change_somewhere_else_is_found_by_the_values(path):
    """Everything that Python shows is the same: what f reads has changed."""
    file = path.with_name("gain.txt")

    def scaled(x, theta):
        return float(file.read_text()) * f(x, theta)

    file.write_text("1")
    changed(integrand=scaled).collect(4, 25, rng=0, checkpoint=path)
    file.write_text("1.001")
    with pytest.raises(CheckpointError, match=r"holds values of another f.*, or something it reads or calls"):
        changed(integrand=scaled).collect(4, 25, rng=0, checkpoint=path)


def test_an_integrand_that_fails_where_it_had_a_value_has_changed(path):
    changed().collect(4, 25, rng=0, checkpoint=path)
    with pytest.raises(CheckpointError, match=r"of another f: at .* it has .*, and f now returned nan. The integ"):
        changed(integrand=Counting(lambda x, theta: np.nan * f(x, theta))).collect(4, 25, rng=0, checkpoint=path)


def test_a_random_integrand_is_refused_and_can_be_reused(path):
    rng = np.random.default_rng(0)
    problem = changed(integrand=Counting(lambda x, theta: rng.normal(size=len(x))))
    first = problem.collect(4, 25, rng=0, checkpoint=path)
    with pytest.raises(CheckpointError, match="or it is random"):
        problem.collect(4, 25, rng=0, checkpoint=path)
    same(problem.collect(4, 25, rng=0, checkpoint=path, on_change="reuse"), first)


def test_rounding_is_no_change(path):
    changed().collect(4, 25, rng=0, checkpoint=path)
    other_machine = Counting(lambda x, theta: (1 + 1e-12) * f(x, theta) + 1e-13)
    with pytest.warns(CollectWarning, match=REPAIRED):
        changed(integrand=other_machine).collect(4, 25, rng=0, checkpoint=path)


def test_single_precision_is_no_change(path):
    """Values depend on the size of the batch, and those near zero have few digits."""
    A = np.random.default_rng(0).normal(size=(2, 500)).astype(np.float32)

    def network(x, theta):
        return np.tanh(x.astype(np.float32) @ A) @ A[0] / 500

    for _ in range(2):
        changed(integrand=Counting(network)).collect(20, 50, rng=0, checkpoint=path)


def test_a_file_without_values_takes_an_f_that_was_corrected_unless_it_has_another_shape(path):
    def fails_later(outputs):
        def broken(x, theta):
            if len(x) > 3:
                raise ZeroDivisionError
            return np.zeros((len(x), *outputs))

        return changed(integrand=Counting(broken))

    with pytest.raises(IntegrandError, match="0 of 80 points are in"):
        fails_later((3,)).collect(4, 20, rng=0, checkpoint=path)
    with pytest.raises(CheckpointError, match=r"begun for values of shape \(3,\) .* f returns \(\) now.* another name"):
        changed().collect(4, 20, rng=0, checkpoint=path)
    path.unlink()
    with pytest.raises(IntegrandError):
        fails_later(()).collect(4, 20, rng=0, checkpoint=path)
    same(changed().collect(4, 20, rng=0, checkpoint=path), changed().collect(4, 20, rng=0))


def test_points_that_are_checked_are_spread_over_the_run(path):
    counting = Counting()
    changed(integrand=counting).collect(5, 20, rng=0, checkpoint=path)
    counting.seen.clear()
    s = changed(integrand=counting).collect(5, 20, rng=0, checkpoint=path)
    assert counting.seen == [tuple(s.x[0, 0]), tuple(s.x[2, 10]), tuple(s.x[4, 19])]


# failures of f


def broken_above(x, theta):
    return np.where(x[:, 0] > theta[0] + 1, np.nan, f(x, theta))


def test_skipped_points_are_remembered_and_evaluated_again_on_request(path):
    whole = changed().collect(3, 40, rng=0)
    bad = whole.x[..., 0] > whole.theta[:, :1] + 1
    counting = Counting(broken_above)
    problem, options = changed(integrand=counting), {"rng": 0, "checkpoint": path, "batch": 16}
    with pytest.warns(CollectWarning):
        first = problem.collect(3, 40, on_error="skip", **options)
    counting.seen.clear()
    with pytest.warns(CollectWarning, match=f"failed at {np.count_nonzero(bad)} of 120 points.*returned nan"):
        same(problem.collect(3, 40, on_error="skip", **options), first)
    same(cbq.Samples.from_checkpoint(path), first)
    assert len(counting.seen) == CHECKED_POINTS
    repaired = Counting()
    with pytest.warns(CollectWarning, match=REPAIRED):
        same(changed(integrand=repaired).collect(3, 40, **options), whole)
    assert sorted(repaired.seen[CHECKED_IF_EDITED:]) == sorted(tuple(row) for row in whole.x[bad])
    same(cbq.Samples.from_checkpoint(path), whole)
    with pytest.warns(CollectWarning, match=r"the integrand has changed since .* Nothing is evaluated again"):
        changed().collect(3, 40, on_change="reuse", **options)
    same(changed().collect(3, 40, on_error="skip", **options), whole)  # which is silent: the user has decided


def test_skipped_points_that_fail_again_are_raised(path):
    problem, options = changed(integrand=broken_above), {"rng": 0, "checkpoint": path}
    with pytest.warns(CollectWarning):
        problem.collect(3, 40, on_error="skip", **options)
    with pytest.raises(IntegrandError, match="returned nan"):
        problem.collect(3, 40, **options)


# files that are refused


OTHERS = {
    "seed": ({}, {"rng": 1}, "the seed is rng=0 in the file, and rng=1 was asked for"),
    "design": ({}, {"design": "sobol"}, "the design is 'iid' in the file, and 'sobol' was asked for"),
    "name": ({"name": "other"}, {}, "the name of the problem is 'quadratic' in the file, and 'other' was asked"),
    "depends": ({"depends_on_theta": False}, {}, "depends_on_theta is True in the file, and False was asked"),
    "prior": ({"prior": Uniform([0.0, 1.0], [1.0, 5.0])}, {}, r"theta index t = 0 is \[.*\] in the file, and \["),
    "theta": ({}, {"theta": np.ones((4, 2))}, r"theta index t = 0 is .*\[1\. 1\.\] was asked for"),
    "family": (
        {"family": lambda theta: Gaussian(theta, 1.0)},
        {},
        r"the measure of x at theta index t = 0 is Gaussian\(.*\) in the file, and Gaussian\(.*, 1, 0, 0, 1\) "
        r"was asked for",
    ),
    "kind": ({"family": lambda theta: LogNormal(theta, 1.0)}, {}, r"is Gaussian\(.* in the file, and LogNormal\("),
    "d": ({"family": lambda theta: Gaussian(0.0, 1.0)}, {}, "the dimension d of x is 2 in the file, and 1 was asked"),
}


@pytest.mark.parametrize(("problem", "options", "message"), OTHERS.values(), ids=OTHERS)
def test_another_run_is_refused_and_the_difference_named(path, problem, options, message):
    changed().collect(4, 5, rng=0, checkpoint=path)
    before = path.read_bytes()
    counting = Counting()
    with pytest.raises(CheckpointError, match=message) as caught:
        changed(**{"integrand": counting, **problem}).collect(4, 5, **{"rng": 0, "checkpoint": path, **options})
    assert "is the checkpoint of another run" in str(caught.value)
    assert path.read_bytes() == before
    assert not counting.seen


def test_another_scramble_is_refused(path):
    changed().collect(4, 5, rng=0, design="sobol", checkpoint=path)
    with pytest.raises(CheckpointError, match="the scramble is 'independent' in the file, and 'common' was asked for"):
        changed().collect(4, 5, rng=0, design="sobol", scramble="common", checkpoint=path)


def test_other_outputs_are_refused(path):
    changed().collect(4, 5, rng=0, checkpoint=path)
    says = r"holds values of another f: .* returned shape \(1, 2\) .* but \(1,\) is needed"
    with pytest.raises(CheckpointError, match=says):
        changed(integrand=lambda x, theta: x).collect(5, 5, rng=0, checkpoint=path)


def test_a_file_that_is_no_database_is_refused_and_left_unchanged(path):
    path.write_text("theta,x,f\n" * 500)
    before = path.read_bytes()
    for attempt in (lambda: changed().collect(4, 5, rng=0, checkpoint=path), lambda: cbq.Samples.from_checkpoint(path)):
        with pytest.raises(CheckpointError, match=r"is not a checkpoint of cbq \(file is not a database\)"):
            attempt()
    assert path.read_bytes() == before


def test_another_database_is_refused_and_left_unchanged(path):
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE music (title TEXT)")
    connection.close()
    before = path.read_bytes()
    for attempt in (lambda: changed().collect(4, 5, rng=0, checkpoint=path), lambda: cbq.Samples.from_checkpoint(path)):
        with pytest.raises(CheckpointError, match="is not a checkpoint of cbq, but a database with music"):
            attempt()
    assert path.read_bytes() == before


def test_an_empty_file_is_a_new_checkpoint(path):
    path.touch()
    same(changed().collect(4, 5, rng=0, checkpoint=path), changed().collect(4, 5, rng=0))


def test_folders_are_refused(tmp_path):
    with pytest.raises(CheckpointError, match="is a folder or a device"):
        changed().collect(4, 5, rng=0, checkpoint=tmp_path)
    with pytest.raises(FileNotFoundError, match="there is no folder"):
        changed().collect(4, 5, rng=0, checkpoint=tmp_path / "none" / "run.sqlite")
    with pytest.raises(FileNotFoundError, match="there is no checkpoint"):
        cbq.Samples.from_checkpoint(tmp_path / "none.sqlite")


def test_a_name_with_nul_is_refused():
    for attempt in (
        lambda: changed().collect(4, 5, rng=0, checkpoint="run\0.sqlite"),
        lambda: cbq.Samples.from_checkpoint("run\0.sqlite"),
    ):
        with pytest.raises(ValueError, match=r"must be the name of a file, but .* contains NUL"):
            attempt()


# read-only files


@pytest.fixture
def read_only(tmp_path):
    """A function that makes the file system of `tmp_path` read-only; only a user with privileges can."""
    if not hasattr(os, "geteuid"):
        pytest.skip("there are no mounts")

    def mount(*options):
        command = ["mount", *options, str(tmp_path)]
        return subprocess.run(command, capture_output=True, check=False).returncode == 0

    if not mount("-t", "tmpfs", "tmpfs"):
        pytest.skip("this user may not mount file systems")
    yield lambda: mount("-o", "remount,ro") or pytest.fail("the file system is still writable")
    subprocess.run(["umount", str(tmp_path)], check=True)


def without_write_access(monkeypatch):
    """Let the operating system say that nothing can be written, as on a read-only file system."""
    access = os.access
    monkeypatch.setattr(os, "access", lambda path, mode: mode != os.W_OK and access(path, mode))


def check_read_only_checkpoint(path, whole, fresh):
    before = path.read_bytes()
    same(cbq.Samples.from_checkpoint(path), whole)
    with pytest.raises(CheckpointError, match=r"run.sqlite is read-only, or in a read-only folder.*from_checkpoint"):
        changed().collect(4, 40, rng=0, checkpoint=path)
    with pytest.raises(CheckpointError, match=r"new.sqlite is read-only, or in a read-only folder"):
        changed().collect(4, 40, rng=0, checkpoint=fresh)
    assert path.read_bytes() == before
    assert os.listdir(path.parent) == [path.name]


def test_a_finished_checkpoint_on_a_read_only_file_system_can_be_read(path, read_only):
    whole = changed().collect(4, 40, rng=0, checkpoint=path)
    read_only()
    check_read_only_checkpoint(path, whole, path.with_name("new.sqlite"))


def test_a_finished_checkpoint_without_write_access_can_be_read(path, monkeypatch):
    whole = changed().collect(4, 40, rng=0, checkpoint=path)
    without_write_access(monkeypatch)
    check_read_only_checkpoint(path, whole, path.with_name("new.sqlite"))


def test_an_unfinished_checkpoint_without_write_access_says_what_to_copy(path, monkeypatch):
    changed().collect(4, 40, rng=0, checkpoint=path)
    path.with_name("run.sqlite-wal").write_bytes(b"batches")
    without_write_access(monkeypatch)
    with pytest.raises(CheckpointError, match=r"is read-only.* a part of it is in .*run.sqlite-wal. Copy both files"):
        cbq.Samples.from_checkpoint(path)


def test_a_run_that_fails_at_its_first_call_leaves_no_file(path):
    with pytest.raises(IntegrandError):
        changed(integrand=lambda x, theta: 1.0).collect(4, 5, rng=0, checkpoint=path)
    assert os.listdir(path.parent) == []


@pytest.mark.parametrize(
    ("version", "says"),
    [
        (VERSION + 1, f"reads version {VERSION} of cbq-checkpoint: cbq .* wrote it. Upgrade"),
        (VERSION - 1, f"reads version {VERSION} of cbq-checkpoint: an older development version wrote it. Collect"),
    ],
)
def test_another_version_of_the_format_is_refused(path, version, says):
    changed().collect(4, 5, rng=0, checkpoint=path)
    connection = sqlite3.connect(path)
    (text,) = connection.execute("SELECT json FROM meta").fetchone()
    other = text.replace(f'"version": {VERSION}', f'"version": {version}')
    connection.execute("UPDATE meta SET json = ?, checksum = ?", (other, checksum(other)))
    connection.commit()
    connection.close()
    with pytest.raises(CheckpointError, match=f"has version {version} of the format cbq-checkpoint, .* {says}"):
        changed().collect(4, 5, rng=0, checkpoint=path)


def test_a_damaged_file_is_refused_and_left_unchanged(path):
    """Whichever bit is flipped, the file is refused or its samples are unchanged."""
    reference = changed().collect(4, 600, rng=0, checkpoint=path)
    whole = path.read_bytes()
    rng, refused = random.Random(0), 0
    for _ in range(80):
        damaged = bytearray(whole)
        place = rng.randrange(len(whole))
        damaged[place] ^= 1 << rng.randrange(8)
        path.write_bytes(damaged)
        for attempt in (
            lambda: changed().collect(4, 600, rng=0, checkpoint=path),
            lambda: cbq.Samples.from_checkpoint(path),
        ):
            try:
                same(attempt(), reference)
            except CheckpointError:
                refused += 1
                assert path.read_bytes() == damaged
    assert refused > 40  # much of a small file is free space


def test_a_file_whose_list_of_tables_is_lost_does_not_look_new(path):
    changed().collect(4, 40, rng=0, checkpoint=path)
    damaged = bytearray(path.read_bytes())
    tables = int.from_bytes(damaged[103:105])  # the number of rows of the schema, on the first page
    assert tables > 1
    damaged[103:105] = bytes(2)
    path.write_bytes(damaged)
    for attempt in (
        lambda: changed().collect(4, 40, rng=0, checkpoint=path),
        lambda: cbq.Samples.from_checkpoint(path),
    ):
        with pytest.raises(CheckpointError, match="is damaged: its list of tables is lost"):
            attempt()
        assert path.read_bytes() == damaged


def test_a_schema_that_is_no_text_is_damage(path):
    changed().collect(4, 40, rng=0, checkpoint=path)
    damaged = bytearray(path.read_bytes())
    name = damaged.find(b"meta")
    damaged[name : name + 4] = b"\xff\xc3\x80\xff"
    path.write_bytes(damaged)
    for attempt in (
        lambda: changed().collect(4, 40, rng=0, checkpoint=path),
        lambda: cbq.Samples.from_checkpoint(path),
    ):
        with pytest.raises(CheckpointError, match="is damaged"):
            attempt()
        assert path.read_bytes() == damaged


@pytest.mark.parametrize("share", [0.1, 0.5, 0.9])
def test_a_truncated_file_is_reported(path, share):
    changed().collect(4, 500, rng=0, checkpoint=path, batch=10)
    cut = path.read_bytes()[: int(share * path.stat().st_size) // 4096 * 4096]
    path.write_bytes(cut)
    with pytest.raises(CheckpointError, match="is damaged"):
        changed().collect(4, 500, rng=0, checkpoint=path)
    assert path.read_bytes() == cut


TRY = """
import sys
sys.path.insert(0, {folder!r})
from test_checkpoint import changed
try:
    changed().collect(3, 20, rng=0, checkpoint={path!r})
except ValueError as error:
    print(error)
"""


def test_two_runs_on_one_file_are_refused(path):
    output = []

    def another(done, total):
        if not output:
            code = TRY.format(folder=os.path.dirname(__file__), path=str(path))
            child = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
            output.append(child.stdout)

    s = changed().collect(3, 20, rng=0, checkpoint=path, batch=10, progress=another)
    assert re.search(r"run\.sqlite is in use by another run: wait", output[0])
    same(s, changed().collect(3, 20, rng=0))


def test_two_runs_of_one_process_are_refused(path):
    def nested(x, theta):
        if path.exists() and path.stat().st_size:
            changed().collect(3, 20, rng=0, checkpoint=path)
        return f(x, theta)

    with pytest.raises(IntegrandError, match="is in use by another run"):
        changed(integrand=nested).collect(3, 20, rng=0, checkpoint=path)


# samples from a file


def test_samples_of_an_unfinished_run(path):
    whole = changed().collect(3, 20, rng=0)

    def interrupted(x, theta):
        if theta[0] == whole.theta[1, 0] and x[0, 0] != whole.x[1, 0, 0]:
            raise KeyboardInterrupt
        return f(x, theta)

    with pytest.raises(KeyboardInterrupt):
        changed(integrand=interrupted).collect(3, 20, rng=0, checkpoint=path, batch=8)
    s = cbq.Samples.from_checkpoint(path)
    assert s.counts.tolist() == [20, 8]
    for t in range(2):
        np.testing.assert_array_equal(s.points(t), whole.points(t)[: s.counts[t]])
        np.testing.assert_array_equal(s.values(t), whole.values(t)[: s.counts[t]])
        assert s.measure(t).equals(whole.measure(t))


def test_a_file_without_values_says_so(path):
    def interrupted(x, theta):
        if len(x) > 3:
            raise KeyboardInterrupt
        return f(x, theta)

    with pytest.raises(KeyboardInterrupt):
        changed(integrand=interrupted).collect(3, 20, rng=0, checkpoint=path)
    with pytest.raises(CheckpointError, match="has no finished batch"):
        cbq.Samples.from_checkpoint(path)


def test_a_measure_in_place_of_those_of_the_file(path):
    whole = changed().collect(3, 20, rng=0, checkpoint=path)
    s = cbq.Samples.from_checkpoint(path, family)
    same(s, whole)
    assert s.family is family
    with pytest.raises(CheckpointError, match=r"does not go with this measure: at theta = .* Gaussian\(.*Gaussian\("):
        cbq.Samples.from_checkpoint(path, lambda theta: Gaussian(theta, cov=3.0))


class Own(Gaussian):
    """A measure that the user wrote."""


def test_measures_that_are_code_must_be_passed_again(path):
    problem = changed(family=lambda theta: Own(theta, cov=2.0))
    whole = problem.collect(3, 20, rng=0, checkpoint=path)
    with pytest.raises(CheckpointError, match=r"does not hold the measure Own\(dim=2.*pass measure="):
        cbq.Samples.from_checkpoint(path)
    same(cbq.Samples.from_checkpoint(path, lambda theta: Own(theta, cov=2.0)), whole)
    with pytest.raises(CheckpointError, match=r"point i = 0 of theta index t = 0 is .* and .* would be drawn now"):
        changed(family=lambda theta: Own(theta, cov=3.0)).collect(3, 20, rng=0, checkpoint=path)


def test_a_measure_that_all_thetas_share_is_stored_once(path):
    measure = Gaussian([0.0, 1.0], cov=2.0)
    changed(family=lambda theta: measure).collect(3, 20, rng=0, checkpoint=path)
    s = cbq.Samples.from_checkpoint(path)
    assert s.measure(0) is s.measure(2)
    assert s.measure(0).equals(measure)


MEASURES = {
    "beta": Beta(2.0, 3.0),
    "empirical": Empirical([[0.0, 1.0], [2.0, 3.0]], [0.25, 0.75]),
    "exponential": Exponential(2.0),
    "gamma": Gamma(3.0, 2.0),
    "batch": Gamma([3.0, 4.0, 5.0], 2.0),
    "gaussian": Gaussian([1.0, 2.0], [[1.0, 0.3], [0.3, 2.0]]),
    "lognormal": LogNormal(0.1, cov=0.2),
    "log measure": LogMeasure(Gamma(2.0, 1.0)),
    "mixture": Mixture([0.25, 0.75], [Gaussian(0.0, 1.0), StudentT(3.0, 0.0, 1.0)]),
    "product": Product([Gamma(2.0, 1.0), Mixture([0.25, 0.75], [Gaussian(0.0, 1.0), Beta(2.0, 2.0)])]),
    "scipy": as_measure(stats.gumbel_r(1.0, 2.0)),
    "scipy with a shape": as_measure(stats.weibull_min(1.5, 0.0, 2.0)),
    "student": StudentT(4.0, 0.0, 1.0),
    "truncated": TruncatedGaussian(0.0, 1.0, -1.0, np.inf),
    "uniform": Uniform([0.0, 1.0], [1.0, 3.0]),
}


@pytest.mark.parametrize("measure", MEASURES.values(), ids=MEASURES)
def test_unpacking_a_packed_measure_gives_the_measure(measure):
    text, numbers = pack_measure(measure)
    again = unpack_measure(text, numbers, Measure)
    assert again.equals(measure)
    np.testing.assert_array_equal(again.sample(5, 0), measure.sample(5, 0))
    with pytest.raises(ValueError, match=r"needs \d+ numbers, but \d+ are left"):
        unpack_measure(text, numbers[:-1], Measure)
    with pytest.raises(ValueError, match="leaves 1 numbers unused"):
        unpack_measure(text, np.append(numbers, 0.0), Measure)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "not JSON"),
        ("[]", "measure must be an object with a type"),
        ('{"type": "Cauchy"}', "measure of type 'Cauchy', but this cbq knows only .*Gaussian"),
        ('{"type": "RBF", "lengthscale": 1.0}', "measure of type 'RBF', but this cbq knows only .*Gaussian"),
        ('{"type": "Gamma", "shape": [-1], "rate": [1]}', "measure/shape must be a shape, a list of integers"),
        ('{"type": "Gamma", "shape": [1]}', "measure/rate is missing"),
        ('{"type": "Exponential", "rate": [1], "x": [1]}', "measure/x is unknown"),
        (
            '{"type": "ScipyDistribution", "dist": "os", "shapes": [], "loc": [1], "scale": [1]}',
            "no continuous distribution 'os'",
        ),
        ('{"type": "Product", "measures": 3}', "measure/measures must be a list"),
    ],
)
def test_texts_that_are_no_measure_are_refused(text, message):
    with pytest.raises(ValueError, match=message):
        unpack_measure(text, np.ones(2), Measure)


@pytest.mark.parametrize("measure", [Own(0.0, 1.0), Product([Own(0.0, 1.0), Gamma(1.0, 1.0)])], ids=["own", "inside"])
def test_measures_with_code_are_not_packed(measure):
    with pytest.raises(ValueError, match="code of your own"):
        pack_measure(measure)


# layers

LAYERS = ["checkpoint", "samples", "runs", "problems"]


@pytest.mark.parametrize("layer", LAYERS)
def test_a_layer_imports_none_above_it_not_even_within_functions(layer):
    above = LAYERS[LAYERS.index(layer) + 1 :]
    root = Path(cbq.__file__).parent
    for file in [*root.glob(f"{layer}.py"), *root.glob(f"{layer}/*.py")]:
        nodes = [node for node in ast.walk(ast.parse(file.read_text())) if isinstance(node, ast.ImportFrom)]
        names = {f"{node.module}.{alias.name}" for node in nodes for alias in node.names}
        assert not [name for name in names if name.split(".")[:1] == ["cbq"] and name.split(".")[1] in above], file


# killed runs

CHILD = """
import os, sys, time
import numpy as np
import cbq

log = os.open({log!r}, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
reported = os.open({reported!r}, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
pids = os.open({log!r} + ".pids", os.O_WRONLY | os.O_APPEND | os.O_CREAT)

def f(x, theta):
    os.write(pids, b"%d\\n" % os.getpid())
    os.write(log, (theta.tobytes().hex() + " " + x.tobytes().hex() + "\\n").encode())
    time.sleep(0.004)  # so that the kill happens during the run
    return x[:, 0] * theta[0]

problem = cbq.Problem(f, lambda theta: cbq.measures.Gaussian(theta, 1.0), cbq.measures.Uniform([0.0, 1.0], [1.0, 2.0]))
problem.collect({T}, {N}, rng=7, design="sobol", batch={batch}, checkpoint={path!r}, executor={workers},
    in_flight={in_flight}, progress=lambda done, total: os.write(reported, b"%d\\n" % done))
"""
BATCH = 5


def lines(path):
    return path.read_text().splitlines() if path.exists() else []


def stored(path):
    """The batches in the file, as the integrand writes them to its log; neighbours may share a row."""
    if not path.exists():
        return set()
    connection = sqlite3.connect(path)
    try:
        tables = connection.execute("SELECT name FROM sqlite_master").fetchall()
        if not tables:
            return set()
        rows = connection.execute("SELECT theta, x FROM batches JOIN thetas USING (t)").fetchall()
    finally:
        connection.close()
    size = BATCH * 2 * 8  # bytes
    return {f"{theta.hex()} {x[i : i + size].hex()}" for theta, x in rows for i in range(0, len(x), size)}


def kill_while_running(code, log, rng, *, most_calls=5, longest_delay=0.008):
    """Start a run, kill it at a random moment after a few calls of f, and return whether it was still running."""
    begin, calls, delay = len(lines(log)), rng.randint(1, most_calls), rng.uniform(0, longest_delay)
    child = subprocess.Popen([sys.executable, "-c", code])
    while child.poll() is None and len(lines(log)) < begin + calls:
        time.sleep(0.001)
    time.sleep(delay)
    running = child.poll() is None
    child.send_signal(signal.SIGKILL)
    child.wait()
    return running


@pytest.mark.parametrize(
    ("workers", "in_flight", "kills"),
    [
        pytest.param(None, 1, 2, id="in this process, twice"),
        pytest.param(None, 1, 10, marks=pytest.mark.slow, id="in this process, ten times"),
        pytest.param(2, 4, 10, marks=pytest.mark.slow, id="in a pool, ten times"),
    ],
)
def test_a_run_that_was_killed_ends_with_the_samples_of_an_uninterrupted_run(tmp_path, workers, in_flight, kills):
    path, log, reported = (tmp_path / name for name in ("run.sqlite", "log", "reported"))
    T, N = 6, 15 * kills
    code = CHILD.format(
        log=str(log),
        reported=str(reported),
        path=str(path),
        workers=workers,
        in_flight=in_flight,
        T=T,
        N=N,
        batch=BATCH,
    )
    rng, finished = random.Random(0), set()
    for _ in range(kills):
        before = len(lines(log))
        assert kill_while_running(code, log, rng)
        assert not finished & set(lines(log)[before:])  # no finished batch is evaluated again
        finished = stored(path)
        assert len(finished) * BATCH >= max(map(int, lines(reported)), default=0)  # what was reported is in the file
    before = len(lines(log))
    subprocess.run([sys.executable, "-c", code], check=True)
    assert not finished & set(lines(log)[before:])
    assert len(stored(path)) == T * N // BATCH

    calls = Counter(line for line in lines(log) if len(bytes.fromhex(line.split()[1])) == BATCH * 2 * 8)
    assert set(calls) == stored(path)
    assert calls.total() - len(calls) <= kills * in_flight  # only pending batches are repeated after a kill

    same(cbq.Samples.from_checkpoint(path), uninterrupted(T, N))


def uninterrupted(T, N):
    """The samples of the run of CHILD."""
    problem = Problem(
        lambda x, theta: x[:, 0] * theta[0], lambda theta: Gaussian(theta, 1.0), Uniform([0.0, 1.0], [1.0, 2.0])
    )
    return problem.collect(T, N, rng=7, design="sobol")


@pytest.mark.slow
def test_kills_of_the_run_and_of_its_workers_cost_the_points_in_flight_and_nothing_else(tmp_path):
    path, log = tmp_path / "run.sqlite", tmp_path / "log"
    names = {"path": str(path), "log": str(log), "reported": str(tmp_path / "reported")}
    T, N, kills, workers = 6, 200, 10, 2
    code = CHILD.format(T=T, N=N, batch=BATCH, workers=workers, in_flight=None, **names)
    rng, child = random.Random(1), subprocess.Popen([sys.executable, "-c", code])
    for kill in range(kills):
        begin, calls = len(lines(log)), rng.randint(5, 12)
        while child.poll() is None and len(lines(log)) < begin + calls:
            time.sleep(0.001)
        assert child.poll() is None, "the run ended before it could be killed"
        if kill % 2:
            child.kill()
            child.wait()
            child = subprocess.Popen([sys.executable, "-c", code])
        else:
            os.kill(int(lines(Path(f"{log}.pids"))[-1]), signal.SIGKILL)
    assert child.wait() == 0
    same(cbq.Samples.from_checkpoint(path), uninterrupted(T, N))
    calls = Counter(line for line in lines(log) if len(bytes.fromhex(line.split()[1])) == BATCH * 2 * 8)
    assert set(calls) == stored(path)
    assert calls.total() - len(calls) <= kills // 2 * (workers + 1)  # one batch of a worker, one of each of the run's


@pytest.mark.slow
def test_a_million_evaluations_load_in_little_memory(path):
    measure = Gaussian([0.0, 1.0], 1.0)
    problem = changed(integrand=lambda x, theta: x[:, 0], family=lambda theta: measure)
    whole = problem.collect(1000, 1000, rng=0, checkpoint=path, progress=False)
    tracemalloc.start()
    s = cbq.Samples.from_checkpoint(path)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    same(s, whole)
    assert peak < 2**30


def test_a_small_parameter_of_a_measure_counts_beside_a_large_one(tmp_path):
    def family(small):
        return lambda theta: Gaussian([0.0, 0.0], np.diag([1e4, small]))

    path = tmp_path / "run.sqlite"
    problem = cbq.Problem(lambda x, theta: x[:, 0], family(1e-6), Uniform(0.0, 1.0))
    problem.collect(2, 3, rng=0, checkpoint=path)
    cbq.Samples.from_checkpoint(path, family(1e-6))
    with pytest.raises(CheckpointError, match="go with this measure"):
        cbq.Samples.from_checkpoint(path, family(9e-6))


def test_a_transaction_that_was_interrupted_as_it_began_is_undone(tmp_path):
    connection = sqlite3.connect(tmp_path / "a.sqlite", isolation_level=None)
    connection.execute("CREATE TABLE points (n)")
    connection.execute("BEGIN IMMEDIATE")
    connection.execute("INSERT INTO points VALUES (1)")
    with transaction(connection):
        connection.execute("INSERT INTO points VALUES (2)")
    assert connection.execute("SELECT n FROM points").fetchall() == [(2,)]
    connection.close()
