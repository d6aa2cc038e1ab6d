"""Checkpoints that are cut short or hostile: read as they were written, or refused, in little time and memory."""

from __future__ import annotations

import json
import os
import random
import shutil
import sqlite3
import struct
import subprocess
import sys

import numpy as np
import pytest

import cbq
from cbq.checkpoint import CheckpointError
from cbq.checkpoint.database import checksum
from cbq.checkpoint.tables import STEPS_PER_BYTE
from cbq.measures import Gaussian, Uniform
from tests.checkpoint.test_checkpoint import same

PAGE = 4096
T, N = 4, 2000
SCRIPT = """
import json, resource, sys
import numpy as np
import cbq

def f(x, theta):
    return np.sin(x[:, 0])

problem = cbq.Problem(f, lambda theta: cbq.measures.Gaussian(theta, 1.0), cbq.measures.Uniform(0.0, 1.0), name="curve")
for path in sys.argv[1:]:
    doors = {
        "read": lambda: cbq.Samples.from_checkpoint(path),
        "collect": lambda: problem.collect(4, 2000, rng=0, checkpoint=path, progress=False),
    }
    for door, enter in doors.items():
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        try:
            found = f"read {enter().n_evaluations}"
        except Exception as error:
            found = f"{type(error).__name__}: {error}"
        grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
        print(json.dumps([path, door, found[:400], grown // 1024]), flush=True)
"""


def f(x, theta):
    return np.sin(x[:, 0])


def problem(integrand=f):
    return cbq.Problem(integrand, lambda theta: Gaussian(theta, 1.0), Uniform(0.0, 1.0), name="curve")


def collected(path, **options):
    return problem().collect(T, N, rng=0, checkpoint=path, progress=False, **options)


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """The bytes of a finished checkpoint, and its samples."""
    path = tmp_path_factory.mktemp("whole") / "run.sqlite"
    samples = collected(path)
    return path.read_bytes(), samples


# hostile files


def replace_by_view(table, select):
    def damage(connection):
        connection.execute(f"ALTER TABLE {table} RENAME TO other")
        connection.execute(f"CREATE VIEW {table} AS {select}")

    return damage


ENDLESS = "WITH RECURSIVE r(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM r)"
BATCHES = f"{ENDLESS} SELECT i AS id, 0 t, 0 start, 1 stop, x'' x, x'' f, '' failures, 0 checksum FROM r WHERE i < 0"
META = "SELECT CAST(zeroblob(900000000) AS TEXT) AS json, 1 AS checksum"


def statement(sql):
    return lambda connection: connection.execute(sql)


def header(**changes):
    """Change entries of the header, those of the settings where it has no such entry."""

    def damage(connection):
        record = json.loads(connection.execute("SELECT json FROM meta").fetchone()[0])
        for name, value in changes.items():
            (record if name in record else record["identity"])[name] = value
        text = json.dumps(record)
        connection.execute("UPDATE meta SET json = ?, checksum = ?", (text, checksum(text)))

    return damage


def batch(t, start, stop, x, f, failures=""):
    row = (t, start, stop, x, f, failures)

    def damage(connection):
        connection.execute("INSERT INTO batches VALUES (NULL, ?, ?, ?, ?, ?, ?, ?)", (*row, checksum(*row)))

    return damage


def both(*damages):
    return lambda connection: [damage(connection) for damage in damages]


def measure(text, numbers=b""):
    def damage(connection):
        for (k,) in connection.execute("SELECT id FROM measures").fetchall():
            row = (text, numbers, checksum(k, text, numbers), k)
            connection.execute("UPDATE measures SET json = ?, numbers = ?, checksum = ? WHERE id = ?", row)

    return damage


def nested_header(connection):
    text = "[" * 100_000
    connection.execute("UPDATE meta SET json = ?, checksum = ?", (text, checksum(text)))


def number(value):
    return struct.pack("<d", value)


ROWS = {
    "a view without an end": (replace_by_view("batches", BATCHES), "does not belong to it", "does not belong to it"),
    "a view of 900 MB": (replace_by_view("meta", META), "is not a checkpoint", "is not a checkpoint"),
    "a trigger": (
        statement("CREATE TRIGGER a AFTER INSERT ON batches BEGIN DELETE FROM batches; END"),
        "it has a trigger a, which does not belong to it",
        "it has a trigger a, which does not belong to it",
    ),
    "an index of an expression": (
        statement("CREATE INDEX a ON batches (length(hex(x)))"),
        "it has a index a, which does not belong",
        "does not belong",
    ),
    "a batch far beyond": (
        batch(0, 2 * 10**8, 2 * 10**8 + 1, number(0.5), number(0.5)),
        f"read {T * N + 1}",
        f"read {T * N}",
    ),
    "a batch at the end of integers": (
        batch(0, 2**63 - 2, 2**63 - 1, number(0.5), number(0.5)),
        f"read {T * N + 1}",
        "read",
    ),
    "a batch before the beginning": (batch(0, -1, 0, number(0.5), number(0.5)), "is damaged", "is damaged"),
    "a batch of less than nothing": (batch(0, 5, 4, b"", b""), "is damaged", "is damaged"),
    "a batch of another theta": (batch(T, 0, 1, number(0.5), number(0.5)), "is damaged", "read"),  # T thetas of it
    "points without coordinates": (
        both(header(d=0, outputs=[0]), batch(0, 0, 2**40, b"", b"")),
        "its header has the dimensions [1, 0, 0]",
        "",
    ),
    "values without outputs": (
        both(header(outputs=[0]), batch(0, 0, 2**40, b"", b"")),
        "its header has the dimensions [1, 1, 0]",
        "its header has the dimensions",
    ),
    "outputs of any number": (header(outputs=[-1]), "its header has the dimensions", "its header has the dimensions"),
    "a truth for a dimension": (header(p=True), "its header has the dimensions", "its header has the dimensions"),
    "a text for a dimension": (header(d="1"), "its header has the dimensions", "its header has the dimensions"),
    "nested JSON": (nested_header, "RecursionError", "RecursionError"),
    "a nested measure": (measure('{"type": "Product", "measures": [' * 50_000), "is damaged", "is damaged"),
    "a measure of many numbers": (
        measure('{"type": "Gamma", "shape": [1000000000000], "rate": [1000000000000]}', number(1.0)),
        "is damaged",
        "another run",
    ),
    "nested failures": (batch(0, 0, 1, number(0.5), number(np.nan), "[" * 100_000), "RecursionError", "RecursionError"),
}


def cyclic_pages(data):
    """A list of tables whose pages contain each other: 30 levels of 500 pages each, the last of which is valid."""
    leaf = bytearray(data[:PAGE])
    leaf[:8] = leaf[100:108]
    cells = struct.unpack(">H", leaf[3:5])[0]
    leaf[8 : 8 + 2 * cells] = leaf[108 : 108 + 2 * cells]  # offsets count from the beginning of a page
    pages, first = [data[PAGE:], bytes(leaf)], len(data) // PAGE + 1

    def interior(child, at):
        page = bytearray(PAGE)
        cells = [PAGE - 5 * (i + 1) for i in range(500)]
        page[at : at + 12] = struct.pack(">BHHHBI", 5, 0, len(cells), cells[-1], 0, child)
        page[at + 12 : at + 12 + 2 * len(cells)] = struct.pack(f">{len(cells)}H", *cells)
        for cell in cells:
            page[cell : cell + 5] = struct.pack(">IB", child, 1)
        return page

    pages += [bytes(interior(child, 0)) for child in range(first, first + 30)]
    top = interior(first + 30, 100)
    top[:100] = data[:100]
    top[28:32] = struct.pack(">I", first + 30)
    return bytes(top) + b"".join(pages)


def cyclic_blob(data):
    """A blob whose second page is followed by itself."""
    start = next(
        p for p in range(len(data) // PAGE) if data[p * PAGE] == 0 and data[p * PAGE + 4 : (p + 1) * PAGE].strip(b"\0")
    )
    return data[: start * PAGE] + struct.pack(">I", start + 1) + data[start * PAGE + 4 :]


PAGES = {"pages that contain each other": cyclic_pages, "a blob that contains itself": cyclic_blob}
HOSTILE = [*ROWS, *PAGES]


@pytest.fixture(scope="module")
def outcomes(whole, tmp_path_factory):
    """What happens at each hostile file, in another process, which may have to be ended."""
    folder = tmp_path_factory.mktemp("hostile")
    for number, name in enumerate(HOSTILE):
        path = folder / f"{number}.sqlite"
        path.write_bytes(PAGES[name](whole[0]) if name in PAGES else whole[0])
        if name in ROWS:
            connection = sqlite3.connect(path)
            ROWS[name][0](connection)
            connection.commit()
            connection.close()
    before = {path: path.read_bytes() for path in folder.iterdir()}
    words = [sys.executable, "-W", "ignore", "-c", SCRIPT, *(f"{folder}/{n}.sqlite" for n in range(len(HOSTILE)))]
    try:
        output = subprocess.run(words, capture_output=True, text=True, check=True, timeout=90).stdout
    except subprocess.TimeoutExpired as late:
        output = (late.stdout or b"").decode()
    assert {path: path.read_bytes() for path in folder.iterdir()} == before
    found = [json.loads(line) for line in output.splitlines()]
    return {(HOSTILE[int(os.path.basename(path).split(".")[0])], door): outcome for path, door, *outcome in found}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_file_is_refused_or_read_in_little_memory(outcomes, name):
    expected = (
        {"read": ROWS[name][1], "collect": ROWS[name][2]}
        if name in ROWS
        else dict.fromkeys(("read", "collect"), "is damaged")
    )
    for door, says in expected.items():
        outcome, grown = outcomes[name, door]
        assert says in outcome
        assert outcome.startswith(("CheckpointError: ", "read"))
        assert grown < 100  # MiB


@pytest.mark.parametrize("table", ["rounds", "notes"])
@pytest.mark.parametrize(
    "text", ["[" * 100_000, "[]", '{"runs": {}}', "7", "null"], ids=["nested", "list", "runs", "number", "null"]
)
def test_records_of_a_session_that_make_no_sense_are_damage(tmp_path, table, text):
    path = tmp_path / "run.sqlite"
    problem().session(rng=0, checkpoint=path).close()
    connection = sqlite3.connect(path)
    key = 0 if table == "rounds" else "seconds"
    connection.execute(f"INSERT INTO {table} VALUES (?, ?, ?)", (key, text, checksum(key, text)))
    connection.commit()
    connection.close()
    before = path.read_bytes()
    with pytest.raises(CheckpointError, match="is damaged"):
        problem().session(rng=0, checkpoint=path)
    assert path.read_bytes() == before


# files that are cut short


def cuts(size):
    """Lengths that a file of this size may be cut to."""
    pages = range(0, size, PAGE)
    near = {page + more for page in pages for more in (-1, 0, 1, 500, 2000, 4000)}
    return sorted({1, 2, 16, 99, 100, 511, 512, size - 1} | {n for n in near if 0 < n < size})


def test_a_file_that_is_cut_short_is_refused_and_left_unchanged(tmp_path):
    path, options = (
        tmp_path / "run.sqlite",
        {"rng": 1, "checkpoint": tmp_path / "run.sqlite", "batch": 10, "progress": False},
    )
    problem().collect(20, 40, **options)
    data = path.read_bytes()
    for size in cuts(len(data)):
        path.write_bytes(data[:size])
        for attempt in (lambda: problem().collect(20, 40, **options), lambda: cbq.Samples.from_checkpoint(path)):
            with pytest.raises(CheckpointError, match=r"is damaged|is not a checkpoint"):
                attempt()
        assert path.read_bytes() == data[:size]
    assert os.listdir(tmp_path) == ["run.sqlite"]


def test_a_ledger_that_is_cut_short_is_refused_and_left_unchanged(tmp_path):
    path = tmp_path / "run.sqlite"
    with problem().session(rng=0, checkpoint=path) as session:
        runs = session.ask(40)
        session.tell(runs.ids, f(runs.x, None))
    data = path.read_bytes()
    for size in cuts(len(data)):
        path.write_bytes(data[:size])
        with pytest.raises(CheckpointError, match=r"is damaged|is not a checkpoint"):
            problem().session(rng=0, checkpoint=path)
        assert path.read_bytes() == data[:size]


def test_bytes_at_the_end_are_damage(tmp_path, whole):
    path = tmp_path / "run.sqlite"
    path.write_bytes(whole[0] + b"more")
    with pytest.raises(CheckpointError, match=f"it has {len(whole[0]) + 4} bytes, but {len(whole[0])} were written"):
        collected(path)


@pytest.fixture(scope="module")
def killed(tmp_path_factory):
    """The file and the log of a run that is going on, as a kill leaves them."""
    folder = tmp_path_factory.mktemp("killed")
    path, copy = folder / "run.sqlite", folder / "copy"

    def take(done, total):
        if done >= total // 2 and not copy.exists():
            shutil.copytree(folder, copy)

    problem().collect(20, 40, rng=1, checkpoint=path, batch=10, in_flight=1, progress=take)
    return {each.name: each.read_bytes() for each in copy.iterdir()}


def test_a_killed_run_whose_log_is_cut_short_ends_with_the_same_samples(tmp_path, killed):
    """A kill can leave any part of the log. What is missing is evaluated again."""
    expected, first = problem().collect(20, 40, rng=1), set()
    for size in random.Random(0).sample(range(len(killed["run.sqlite-wal"])), 10):
        path = tmp_path / f"{size}.sqlite"
        path.write_bytes(killed["run.sqlite"])
        path.with_name(path.name + "-wal").write_bytes(killed["run.sqlite-wal"][:size])
        done = []
        options = {"rng": 1, "checkpoint": path, "batch": 10, "in_flight": 1}
        same(problem().collect(20, 40, **options, progress=lambda n, total, done=done: done.append(n)), expected)
        first.add(done[0])
    assert len(first) > 4


def test_a_log_with_other_bits_is_refused_or_ends_with_the_same_samples(tmp_path, killed):
    expected, rng = problem().collect(20, 40, rng=1), random.Random(1)
    for i in range(20):
        path, data = tmp_path / f"{i}.sqlite", bytearray(killed["run.sqlite-wal"])
        data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
        path.write_bytes(killed["run.sqlite"])
        path.with_name(path.name + "-wal").write_bytes(data)
        same(problem().collect(20, 40, rng=1, checkpoint=path, batch=10, progress=False), expected)


def test_a_checkpoint_is_checked_in_steps_in_proportion_to_its_size(tmp_path):
    """Rows are smallest with one point each: even then, no true file is near the limit."""
    path = tmp_path / "run.sqlite"
    problem().collect(1, 400, rng=0, checkpoint=path, batch=1, progress=False)
    connection, steps = sqlite3.connect(path), []
    connection.set_progress_handler(lambda: steps.append(1), 100)
    connection.execute("PRAGMA quick_check(1)").fetchall()
    connection.execute("SELECT type, name, sql FROM sqlite_master").fetchall()
    connection.close()
    assert 100 * len(steps) < STEPS_PER_BYTE * path.stat().st_size / 5
