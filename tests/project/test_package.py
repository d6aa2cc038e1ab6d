"""The package as a whole: what importing it loads, and what its public names promise."""

from __future__ import annotations

import ast
import collections
import importlib
import inspect
import pickle
import re
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest

import cbq

PUBLIC = [
    "cbq",
    "cbq.comparison",
    "cbq.embeddings",
    "cbq.kernels",
    "cbq.linalg",
    "cbq.measures",
    "cbq.problems",
    "cbq.samples",
]
ALLOWED = {"cbq", "numpy", "scipy", "threadpoolctl"}
ALLOWED |= {"charset_normalizer"}  # which numpy.f2py imports where it is installed, as with Sphinx
SLOW = ["scipy.stats", "scipy.integrate", "scipy.optimize", "matplotlib", "pandas", "torch", "mpmath"]

LOADED = """
import sys
before = set(sys.modules)
import {name}
print(*sorted(set(sys.modules) - before))
"""


def python(*arguments):
    done = subprocess.run([sys.executable, *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done


@pytest.mark.parametrize("name", PUBLIC)
def test_importing_loads_only_what_is_needed(name):
    loaded = python("-c", LOADED.format(name=name)).stdout.split()
    assert "cbq" in loaded
    installed = set(metadata.packages_distributions())  # leaves out the helpers that extensions make for themselves
    assert {module.partition(".")[0] for module in loaded} & installed <= ALLOWED
    assert not set(loaded) & set(SLOW)


def test_a_name_is_imported_when_it_is_first_used():
    """`import cbq` is a few modules, and each door opens the rooms below it alone."""
    count = "import sys; print(sum(name.partition('.')[0] == 'cbq' for name in sys.modules))"
    loaded = {code: int(python("-c", f"{code}; {count}").stdout) for code in ("import cbq", "from cbq import kernels")}
    assert loaded["import cbq"] <= 2
    assert loaded["from cbq import kernels"] <= 60


def test_the_package_lists_its_names_before_they_are_imported():
    code = "import cbq; print(set(cbq.__all__) - set(dir(cbq)), hasattr(cbq, 'nothing'), cbq.fit.load is cbq.load)"
    assert python("-c", code).stdout == "set() False True\n"
    with pytest.raises(AttributeError, match="module 'cbq' has no attribute 'nothing'"):
        cbq.nothing  # type: ignore[attr-defined]  # noqa: B018


@pytest.mark.parametrize("read", ["cbq.fit.load(path)", "cbq.load(path)", "pickle.load(open(path, 'rb'))"])
def test_a_process_that_imported_nothing_else_reads_a_fit(read, tmp_path):
    fit = cbq.LSMC().fit(cbq.problems.get("butterfly").collect(T=8, N=8, rng=0))
    path = tmp_path / "fit"
    if "pickle" in read:
        path.write_bytes(pickle.dumps(fit))
    else:
        fit.save(path)
    done = python("-c", f"import cbq, pickle; path = {str(path)!r}; print(float({read}.predict([100.0])[0]))")
    assert float(done.stdout) == fit.predict([100.0])[0]


def test_importing_is_silent():
    done = python("-W", "error", "-c", "import cbq")
    assert done.stdout == done.stderr == ""


def ruffs_order(name):
    """Constants, then classes, then the rest, each in natural order (rule RUF022)."""
    kind = 0 if name.isupper() and len(name) > 1 else 1 if name[0].isupper() else 2
    return kind, [int(part) if part.isdigit() else part for part in re.split(r"(\d+)", name)]


@pytest.mark.parametrize("name", PUBLIC)
def test_public_names_exist_in_order_and_documented(name):
    module = importlib.import_module(name)
    assert module.__doc__
    assert module.__all__ == sorted(set(module.__all__), key=ruffs_order)
    for public in module.__all__:
        thing = getattr(module, public)
        if public == "__version__":
            continue
        assert inspect.getdoc(thing), f"{name}.{public} has no docstring"
        if inspect.isclass(thing):
            assert thing.__doc__, f"{name}.{public} has no docstring of its own"
            assert "__doc__" in vars(thing)


@pytest.mark.parametrize("name", PUBLIC[1:])
def test_public_methods_are_documented(name):
    module = importlib.import_module(name)
    for public in module.__all__:
        thing = getattr(module, public)
        if not inspect.isclass(thing):
            continue
        for attribute, member in inspect.getmembers(thing):
            if not attribute.startswith("_") and (inspect.isfunction(member) or isinstance(member, property)):
                assert inspect.getdoc(member) or _documented_above(thing, attribute), f"{name}.{public}.{attribute}"


def _documented_above(thing, attribute):
    return any(inspect.getdoc(vars(base)[attribute]) for base in thing.__mro__ if attribute in vars(base))


@pytest.mark.parametrize("name", PUBLIC)
def test_a_star_import_gives_the_public_names(name):
    module = importlib.import_module(name)
    names: dict[str, object] = {}
    exec(f"from {name} import *", names)
    assert set(names) - {"__builtins__"} == set(module.__all__)


def test_the_front_door():
    assert cbq.embed is cbq.embeddings.embed
    assert cbq.available_pairs is cbq.embeddings.available_pairs
    assert re.fullmatch(r"\d+\.\d+\.\d+(\.dev\d+|rc\d+)?", cbq.__version__)


def test_no_class_name_exists_twice():
    places = collections.defaultdict(list)
    for path in sorted(Path(cbq.__file__).parent.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ClassDef):
                places[node.name].append(path.name)
    assert {name: where for name, where in places.items() if len(where) > 1} == {}


def test_few_tests_patch_the_package():
    patches = []
    for path in sorted(Path(__file__).parents[1].rglob("test_*.py")):
        tree = ast.parse(path.read_text())
        imports = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and node.module]
        ours = {alias.asname or alias.name for node in imports if node.module.startswith("cbq") for alias in node.names}
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "setattr":
                target = ast.unparse(node.args[0])
                if target.startswith("'cbq.") or target.partition(".")[0] in ours:
                    patches.append(f"{path.name}:{node.lineno}")
    assert len(patches) <= 30, "pass arguments, fakes or real cases instead of patching cbq: " + ", ".join(patches)
