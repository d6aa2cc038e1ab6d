"""Fingerprints of functions: what they see, what they leave alone, and that all processes agree."""

from __future__ import annotations

import dataclasses
import functools
import importlib
import json
import os
import subprocess
import sys
import threading
import types
from collections import deque
from pathlib import Path

import numpy as np
import pytest

import cbq
from cbq.common.checks import shown
from cbq.runs import fingerprint as module
from cbq.runs.fingerprint import fingerprint

FACTOR = 2.0


def f(x, theta):
    return FACTOR * x[:, 0]


def changed(one, other):
    """The parts that differ between the fingerprints of two functions."""
    a, b = fingerprint(one), fingerprint(other)
    assert a
    assert b
    return {part for part in {**a, **b} if a.get(part) != b.get(part)}


def made(text, name="f", **names):
    """A function by its source, which no file has."""
    scope = {"np": np, **names}
    exec(text, scope)
    return scope[name]


# what is seen


def test_two_lambdas_in_one_line_differ():
    one, other = (lambda x: x, lambda x: 2 * x)
    assert changed(one, other) == {"test_two_lambdas_in_one_line_differ.<lambda>"}


def test_functions_of_exec_and_of_cells_are_seen():
    assert changed(made("def f(x): return x"), made("def f(x): return 2 * x")) == {"f"}
    assert not changed(made("def f(x): return x"), made("def f(x):\n    'A docstring.'\n    return x  # a comment"))
    assert not changed(made("def f(x): return x"), made("def f(y):\n    return y".replace("y", "x")))


def test_globals_are_followed_into_helpers_that_call_each_other():
    text = """
def f(n): return n if n < 1 else g(n - 1)
def g(n): return {} * f(n - 1)
"""
    assert changed(made(text.format("k", k=1), k=1), made(text.format("k"), k=2)) == {"the global k"}
    assert changed(made(text.format(1)), made(text.format(2))) == {"g"}


def test_names_of_attributes_are_no_globals():
    text = "def f(x): return x.mean()"
    assert not changed(made(text, mean=1), made(text, mean=2))


def test_wrappers_show_the_function_inside():
    def wrapper(g):
        @functools.wraps(g)
        def wrapped(*args):
            return g(*args)

        return wrapped

    one, other = made("def f(x, theta): return x"), made("def f(x, theta): return 2 * x")
    for wrap in (np.vectorize, functools.lru_cache, wrapper, functools.partial, staticmethod):
        assert "f" in changed(wrap(one), wrap(other))
    jitted = [types.new_class("Dispatcher")() for _ in range(2)]  # as numba makes them
    for each, inner in zip(jitted, (one, other), strict=True):
        type(each).__module__ = "numpy"
        each.py_func = inner
    assert changed(*jitted) == {"f"}


def test_a_cache_is_not_seen():
    cached = functools.lru_cache(f)
    before = fingerprint(cached)
    cached.__wrapped__(np.ones((2, 1)), None)
    functools.lru_cache(f)
    assert fingerprint(cached) == before


@dataclasses.dataclass
class Pars:
    gain: float = 1.0
    log: list = dataclasses.field(default_factory=list, compare=False)


class Slotted:
    __slots__ = ("gain", "missing")

    def __init__(self, gain):
        self.gain = gain


class Model:
    def __init__(self, **state):
        self.__dict__.update(state)

    def __call__(self, x, theta):
        return x * self.scale

    @property
    def scale(self):
        return self.k

    @functools.cached_property
    def table(self):
        return object()


class Other(Model):
    @property
    def scale(self):
        return 2 * self.k


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (1, 2),
        (1, 1.0),
        (0.0, -0.0),
        ("a", b"a"),
        ([1, 2], [2, 1]),
        (deque([1, 2]), deque([1, 3])),
        ((1, 2), [1, 2]),
        ({1: 2}, {1: 3}),
        ({1, 2}, {1, 3}),
        (np.arange(3.0), np.arange(3)),
        (np.arange(4.0).reshape(2, 2), np.arange(4.0).reshape(2, 2).T),
        (np.array([1, "a"], dtype=object), np.array([2, "a"], dtype=object)),
        (np.float64(1), np.float64(2)),
        (bytearray(b"a"), bytearray(b"b")),
        (Path("a"), Path("b")),
        (range(3), range(4)),
        (Pars(1.0), Pars(2.0)),
        (Slotted(1.0), Slotted(2.0)),
        (Model(k=1), Model(k=2)),
        (Model(k=1), Model(k=1, j=1)),
        (types.SimpleNamespace(k=1), types.SimpleNamespace(k=2)),
        (cbq.measures.Gaussian(0.0, std=1.0), cbq.measures.Gaussian(0.0, std=2.0)),
        (functools.partial(f, 1), functools.partial(f, 2)),
        (f, changed),
        (np.sin, np.cos),
        (Model(k=1).__call__, Model(k=2).__call__),
    ],
    ids=shown,  # without addresses, which differ between processes
)
def test_values_that_differ_are_told_apart(one, other):
    assert changed(Model(k=one), Model(k=other)) >= {"the attribute k of Model"}
    assert changed(functools.partial(f, theta=one), functools.partial(f, theta=other))


def test_equal_values_are_equal_however_they_were_made():
    pairs = [
        ({"a": 1, "b": 2}, {"b": 2, "a": 1}),
        (Pars(1.0, [1]), Pars(1.0, [2])),
        (np.arange(6.0)[::2], np.array([0.0, 2.0, 4.0])),
        (open, open),
    ]
    for one, other in pairs:
        assert not changed(Model(k=one), Model(k=other))
    used = Model(k=1)
    assert used.table is not None
    assert not changed(used, Model(k=1))


def test_tables_of_other_packages_are_seen():
    pandas = pytest.importorskip("pandas")
    one, other = (pandas.DataFrame({"a": [1.0, k], "b": ["x", "y"]}) for k in (1.0, 2.0))
    assert changed(Model(k=one), Model(k=other)) == {"the attribute k of Model"}
    assert not changed(Model(k=one), Model(k=one.copy()))


def test_a_class_is_seen_with_the_classes_that_it_derives_from():
    assert changed(Model(k=1), Other(k=1)) >= {"Other.scale"}
    assert fingerprint(Other(k=1)).keys() >= {"Model.__call__", "Other.scale", "Model.table"}


def test_an_installed_package_counts_by_its_version(monkeypatch):
    before = fingerprint(np.sin)
    monkeypatch.setattr(np, "__version__", "0")
    assert {part for part, digest in fingerprint(np.sin).items() if before[part] != digest} == {"the version of numpy"}
    assert not any(part.startswith("the version") for part in fingerprint(f))


@pytest.fixture
def project(tmp_path, monkeypatch):
    """A package of the user: `project(text)` writes its module `inner`, and imports f, which imports it when called."""
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    (tmp_path / "package").mkdir()
    (tmp_path / "package" / "outer.py").write_text(
        "def f(x):\n    from package import inner\n    return inner.g(x)\n"
        "def relative(x):\n    from .inner import g\n    return g(x)\n"
    )

    def write(text):
        (tmp_path / "package" / "inner.py").write_text(text)
        importlib.invalidate_caches()
        return importlib.import_module("package.outer")

    yield write
    for name in [name for name in sys.modules if name.partition(".")[0] == "package"]:
        del sys.modules[name]


def test_modules_that_f_imports_when_it_is_called_are_seen_before(project):
    outer = project("def g(x): return x")
    before = [fingerprint(outer.f), fingerprint(outer.relative)]
    assert all("the module package.inner" in each for each in before)
    assert "package.inner" not in sys.modules  # nothing is imported
    outer.f(1)
    assert [fingerprint(outer.f), fingerprint(outer.relative)] == before
    project("def g(x):  # faster\n    return x")
    assert [fingerprint(outer.f), fingerprint(outer.relative)] == before
    project("def g(x): return 2 * x")
    for each, old in zip((outer.f, outer.relative), before, strict=True):
        assert {part for part in old if fingerprint(each)[part] != old[part]} == {"the module package.inner"}


# what is left alone


class Hostile:
    """Whose methods must not be called."""

    def _fail(self, *args):
        pytest.fail("a method of the user was called")

    __getattribute__ = __getattr__ = __repr__ = __hash__ = __eq__ = __len__ = __iter__ = __bool__ = _fail
    __array__ = __reduce_ex__ = __getstate__ = __call__ = __index__ = __class_getitem__ = _fail


class HostileDict(dict):
    items = keys = __iter__ = __len__ = __getitem__ = __repr__ = Hostile._fail


def test_nothing_of_the_user_is_called():
    assert fingerprint(Hostile())
    assert fingerprint(Model(k=[Hostile(), HostileDict(a=1)]))


def handles():
    generator = np.random.default_rng()
    return {
        "lock": threading.RLock(),
        "generator": generator,
        "method": generator.normal,
        "iterator": iter([1]),
        "thread": threading.Thread(target=print),
        "context": threading.local(),
    }


def test_handles_are_unseen_and_everything_beside_them_is_seen(tmp_path):
    with open(tmp_path / "one", "w") as one, open(tmp_path / "two", "w") as two:
        assert not changed(Model(k=1, file=one, **handles()), Model(k=1, file=two, **handles()))
        assert changed(Model(k=1, file=one), Model(k=2, file=two)) == {"the attribute k of Model"}
    package = [types.new_class("Client")() for _ in range(2)]
    for each in package:
        type(each).__module__ = "numpy"
        each.lock, each.id = threading.Lock(), id(each)
    assert not changed(Model(k=package[0]), Model(k=package[1]))  # an object with a lock is a handle


def test_cycles_depth_and_size_are_bounded(monkeypatch):
    around = Model(k=1)
    around.me, around.all = around, [around]
    assert fingerprint(around)
    deep = []
    for _ in range(100_000):
        deep = [deep]
    assert fingerprint(Model(k=deep))
    long = Model(k=dict.fromkeys(range(module.MAX_VALUES)), gain=1.0)
    assert fingerprint(long).keys() >= {"Model.__call__", "the attribute gain of Model"}
    monkeypatch.setattr(module, "MAX_BYTES", 2**16)
    large = np.zeros(2**24, dtype=np.uint8)
    before = fingerprint(Model(k=large))
    assert fingerprint(Model(k=large.copy())) == before
    large[:] = 1
    assert fingerprint(Model(k=large)) != before


class Broken(type):
    def mro(cls):
        return [cls, object]

    def __getattribute__(cls, name):
        raise RuntimeError(name)


def test_a_fingerprint_never_raises():
    assert fingerprint(None) == {}
    assert isinstance(fingerprint(Broken("Broken", (), {"__call__": f})()), dict)
    for odd in (print, [].append, "a".join, int, type, object(), sys, iter, functools.reduce, np.random.default_rng()):
        assert isinstance(fingerprint(odd), dict)


# processes


SCRIPT = """
import json, logging, os, sys
import numpy as np
import cbq
from cbq.runs.fingerprint import fingerprint

LOG = logging.getLogger("x")
NAMES = {str(i) for i in range(100)}
RNG = np.random.default_rng()

class Model:
    def __init__(self): self.names, self.table, self.pid = NAMES, dict.fromkeys(NAMES, 1), object()
    def __call__(self, x, theta): LOG.info("x"); return x if x in {"a", "b", "c", "d"} else RNG.normal() + len(NAMES)

print(json.dumps(fingerprint(Model())))
"""


def test_processes_and_folders_agree(tmp_path):
    found = []
    for seed in (1, 2):
        folder = tmp_path / str(seed)
        folder.mkdir()
        (folder / f"script{seed}.py").write_text(SCRIPT)
        words = [sys.executable, str(folder / f"script{seed}.py")]
        environment = {**os.environ, "PYTHONHASHSEED": str(seed)}
        found.append(json.loads(subprocess.run(words, env=environment, check=True, capture_output=True).stdout))
    assert found[0] == found[1]
    assert found[0].keys() >= {"Model.__call__", "the attribute names of Model", "the global NAMES"}
