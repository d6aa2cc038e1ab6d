"""The file of a run belongs to one process: forks leave it alone, and a file that is taken away is missed."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile

import numpy as np
import pytest

import cbq
from cbq.checkpoint import CheckpointError
from cbq.checkpoint.ledger import Ledger, read_ledger
from cbq.measures import Gaussian, Uniform
from tests.checkpoint.test_checkpoint import same

pytestmark = pytest.mark.filterwarnings("ignore:.*use of fork:DeprecationWarning")  # by Python 3.12 and 3.13


def f(x, theta):
    return np.sin(x[:, 0])


def problem(integrand=f):
    return cbq.Problem(integrand, lambda theta: Gaussian(theta, 1.0), Uniform(0.0, 1.0), name="curve")


# forks

FORKING = """
import gc, multiprocessing, os, signal, sys
import numpy as np
import cbq

problem = cbq.Problem(None, lambda theta: cbq.measures.Gaussian(theta, 1.0), cbq.measures.Uniform(0.0, 1.0))


def forked(child):
    sys.stdout.flush()
    process = os.fork()
    if process == 0:
        child()
        sys.exit()
    assert os.waitpid(process, 0)[1] == 0


def forgets():
    sessions.clear()
    gc.collect()


def tells():
    for attempt in (lambda: session.tell([15], [0.5]), lambda: session.ask(1)):
        try:
            attempt()
        except cbq.CheckpointError as error:
            print(error)


def opens():
    try:
        problem.session(rng=0, budget=100, checkpoint=path)
    except cbq.CheckpointError as error:
        print(error)


children = (
    lambda: forked(lambda: None),
    lambda: forked(session.close),
    lambda: forked(forgets),
    lambda: forked(tells),
    lambda: forked(opens),
    lambda: forked(lambda: forked(lambda: session.close())),
    lambda: (p := multiprocessing.get_context("fork").Process(target=forgets), p.start(), p.join()),
    lambda: multiprocessing.get_context("fork").Pool(2).map(abs, range(4)),
)
path = sys.argv[1]
sessions = [problem.session(rng=0, budget=100, checkpoint=path)]
session = sessions[0]
runs = session.ask(16)
for child in children:
    session.tell(session.pending.ids[:1], [0.5])
    child()
    session.tell(session.pending.ids[:1], [0.5])
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_fork_leaves_the_file_to_its_parent(tmp_path):
    """Forks that exit, close, forget, tell, open or fork, and those of multiprocessing; then the parent is killed."""
    if not hasattr(os, "fork"):
        pytest.skip("there are no forks")
    path = tmp_path / "run.sqlite"
    words = [sys.executable, "-W", "ignore", "-c", FORKING, str(path)]
    child = subprocess.run(words, capture_output=True, text=True, check=False)
    assert child.returncode == -signal.SIGKILL, child.stderr
    assert len(read_ledger(path).results) == 16
    told = r"run.sqlite was opened by process \d+, and this is a fork of it: write in that process alone"
    assert len(re.findall(told, child.stdout)) == 2
    assert "run.sqlite is in use by another run" in child.stdout


def test_a_fork_within_an_integrand_ends_there(tmp_path):
    """As does one that f makes and that goes on by mistake."""
    path, forked = tmp_path / "run.sqlite", []

    def forking(x, theta):
        if not forked and len(x) > 3:
            forked.append(os.fork())
            if forked[0] == 0:
                sys.exit()
            os.waitpid(forked[0], 0)
        return f(x, theta)

    same(problem(forking).collect(3, 20, rng=0, checkpoint=path, batch=5), problem().collect(3, 20, rng=0))
    same(cbq.Samples.from_checkpoint(path), problem().collect(3, 20, rng=0))


# files that are taken away


def delete(path):
    path.unlink()


def move(path):
    path.rename(path.with_name("moved.sqlite"))


def replace(path):
    other = path.with_name("other.sqlite")
    problem().collect(2, 3, rng=5, checkpoint=other)
    other.replace(path)


def delete_log(path):
    path.with_name(path.name + "-wal").unlink()


def delete_all(path):
    for each in path.parent.iterdir():
        each.unlink()


def delete_folder(path):
    shutil.rmtree(path.parent)


@pytest.fixture
def path(tmp_path, monkeypatch):
    """A file in a folder of its own; the folder for temporary files is empty."""
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    (tmp_path / "run").mkdir()
    return tmp_path / "run" / "run.sqlite"


def rescued(error):
    """The file that an error names."""
    found = re.search(
        r"was deleted, moved or replaced while .* All that it held is in (.*): resume the run", str(error)
    )
    assert found is not None, error
    return found[1]


@pytest.mark.parametrize("when", [10, 30, 60])
@pytest.mark.parametrize("take", [delete, move, replace, delete_log, delete_all, delete_folder])
def test_a_file_that_is_taken_away_during_a_run_is_missed_and_its_values_are_kept(path, take, when):
    """After the first batch, in the middle, and after the last one, when samples would be returned."""
    taken = []

    def progress(done, total):
        if done >= when and not taken:
            taken.append(take(path))

    options = {"rng": 0, "batch": 10, "in_flight": 1}
    with pytest.raises(CheckpointError) as caught:
        problem().collect(3, 20, checkpoint=path, progress=progress, **options)
    found = cbq.Samples.from_checkpoint(rescued(caught.value))
    assert found.n_evaluations == min(when + 10, 60)
    expected = problem().collect(3, 20, rng=0)
    same(problem().collect(3, 20, checkpoint=rescued(caught.value), **options), expected)
    if take is replace:  # the other file has no part of this run
        same(cbq.Samples.from_checkpoint(path), problem().collect(2, 3, rng=5))
    else:  # a new run can begin under the same name
        path.parent.mkdir(exist_ok=True)
        same(problem().collect(3, 20, checkpoint=path, **options), expected)


@pytest.mark.parametrize("take", [delete, replace])
@pytest.mark.parametrize("write", [True, False], ids=["tell", "close"])
def test_a_session_whose_file_is_taken_away_says_so(path, take, write):
    session = problem().session(rng=0, checkpoint=path)
    runs = session.ask(16)
    session.tell(runs.ids[:8], f(runs.x[:8], None))
    take(path)
    with pytest.raises(CheckpointError) as caught:
        session.tell(runs.ids[8:], f(runs.x[8:], None)) if write else session.close()
    assert len(read_ledger(rescued(caught.value)).results) == (16 if write else 8)
    session.close()  # which has nothing left to do
    with pytest.raises(CheckpointError, match="was deleted, moved or replaced"):
        session.ask(1)


def test_what_cannot_be_copied_is_said(path, monkeypatch):
    session = problem().session(rng=0, checkpoint=path)
    session.ask(4)
    path.unlink()
    monkeypatch.setattr(tempfile, "mkstemp", lambda *args: (_ for _ in ()).throw(OSError("the disk is full")))
    with pytest.raises(CheckpointError, match=r"What it held could not be copied \(OSError: the disk is full\)"):
        session.close()


def test_a_name_that_is_a_link_is_the_file_it_leads_to(path):
    link = path.with_name("link.sqlite")
    path.touch()
    link.symlink_to(path)
    expected = problem().collect(3, 20, rng=0)
    same(problem().collect(3, 20, rng=0, checkpoint=link), expected)
    same(cbq.Samples.from_checkpoint(path), expected)
    assert sorted(os.listdir(path.parent)) == ["link.sqlite", "run.sqlite"]


def test_a_file_that_is_still_empty_and_was_replaced_is_not_removed(path):
    def replacing(x, theta):
        path.unlink()
        path.write_text("notes of mine")
        raise ZeroDivisionError

    with pytest.raises(cbq.IntegrandError):
        problem(replacing).collect(3, 20, rng=0, checkpoint=path)
    assert path.read_text() == "notes of mine"


# writing that is held back


def noted(path):
    return read_ledger(path).notes


def test_what_is_held_reaches_the_file_at_once_or_not_at_all(path):
    settings = {"d": 1, "p": 1, "design": "adaptive"}
    for keeps in (False, True):
        ledger = Ledger(path, settings, {})
        ledger.note("before", keeps)
        ledger.hold()
        ledger.note("held", 1)
        with pytest.raises(ValueError, match="not JSON compliant"):
            ledger.note("nan", float("nan"))  # takes back itself, and nothing else
        if keeps:
            ledger.keep()
            ledger.note("after", 2)
        ledger.close()
        assert noted(path) == ({"before": True, "held": 1, "after": 2} if keeps else {"before": False})


def test_what_is_held_is_no_part_of_a_rescued_file(path):
    ledger = Ledger(path, {"d": 1, "p": 1, "design": "adaptive"}, {})
    ledger.note("before", 1)
    ledger.hold()
    ledger.note("held", 2)
    path.unlink()
    with pytest.raises(CheckpointError, match=r"All that it held is in (\S*):") as raised:
        ledger.note("missed", 3)
    assert noted(re.search(r"is in (\S*):", str(raised.value))[1]) == {"before": 1}
