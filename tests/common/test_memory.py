"""Memory: what is in it at a time, how much there is, and refusals before the work begins."""

import os
import subprocess
import sys
import tracemalloc
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import cbq
from cbq.common import memory
from cbq.estimators.conditional.stage_two import NodeEstimates, ThetaPosterior, nearest_nodes
from cbq.gp import Calibration, quadrature
from cbq.gp.heteroscedastic import GPPrior, ThetaCoordinates
from cbq.kernels import RBF, Matern
from cbq.linalg import Jitter, factor
from cbq.linalg.engines import NumpyEngine
from cbq.measures import Gaussian

GIB = 2**30


def samples(T=12, N=8, C=None):
    theta = np.linspace(1.0, 2.0, T)[:, None]
    x = theta[:, None] + np.random.default_rng(0).normal(size=(T, N, 1))
    f = np.sin(3 * x[..., 0])
    f = f if C is None else np.stack([f + c * np.cos(x[..., 0]) for c in range(C)], axis=-1)
    return cbq.Samples(theta, x, f, Gaussian(theta, np.ones((T, 1))), depends_on_theta=False)


def everywhere(T=12, N=8, C=None):
    """The same samples with a family."""
    given = samples(T, N, C)
    return cbq.Samples(given.theta, given.x, given.f, lambda t: Gaussian(t, 1.0), depends_on_theta=False)


def traced(call):
    """The peak of NumPy's memory in a call, in bytes."""
    tracemalloc.start()
    try:
        call()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.fixture
def leave(monkeypatch):
    """A function that sets the memory that seems to be available, in bytes."""
    monkeypatch.setattr(memory, "CERTAIN", 0)
    return lambda size: monkeypatch.setattr(memory, "available_memory", lambda: float(size))


class Idle(NumpyEngine):
    """An engine that does no work."""

    def factor(self, *args, **options):
        raise AssertionError("the work has begun")

    factor_gram = eigh = resident_gram = factor


@pytest.fixture
def no_linear_algebra():
    with cbq.engine(Idle()):
        yield


# What is in memory at a time


def nodes(T):
    theta, rng = np.linspace(0.0, 1.0, T)[:, None], np.random.default_rng(1)
    return NodeEstimates(theta, np.sin(5 * theta[:, 0]), rng.uniform(1e-4, 2e-4, T), np.zeros(T), np.full(T, 1e-4))


def priors():
    identity = ThetaCoordinates.identity(1)
    return [GPPrior(identity, kernel, 1.0, 1e-6, 0, -0.1 * k) for k, kernel in enumerate([Matern(1.5, 0.3), RBF(0.2)])]


@pytest.mark.parametrize(("iid", "matrices"), [(False, 2.5), (True, 3.5)])
def test_stage_two_has_few_matrices_of_all_thetas_in_memory_at_a_time(iid, matrices):
    T = 1500
    peak = traced(lambda: ThetaPosterior(priors(), nodes(T), iid=iid, calibration=Calibration()))
    assert peak < matrices * 8 * T**2  # with neighbours, in blocks; iid points have a second curve


def test_a_fitted_posterior_keeps_one_matrix_of_all_thetas():
    T = 700
    tracemalloc.start()
    posterior = ThetaPosterior(priors(), nodes(T), iid=True, calibration=Calibration())
    kept = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert posterior.second is None
    assert kept < 1.2 * 8 * T**2


def test_neighbours_are_found_in_blocks():
    z = np.random.default_rng(2).integers(0, 5, size=(60, 2)).astype(float)  # with ties
    expected = nearest_nodes(z)
    assert_array_equal(nearest_nodes(z, most=7 * z.size), expected)
    T = 900
    assert traced(lambda: nearest_nodes(np.linspace(0.0, 1.0, T)[:, None], most=2**14)) < 8 * T**2 / 4


def test_the_diagonal_of_a_large_inverse_needs_no_copy():
    n = 1100
    gram = Matern(1.5, 0.1)(np.linspace(0.0, 1.0, n))
    found = factor(gram, nugget=0.01)
    assert_allclose(found.inverse_diagonal(), np.diagonal(found.inverse()), rtol=1e-11)
    assert traced(found.inverse_diagonal) < 8 * n**2 / 2


def test_large_matrices_of_several_kernels_go_one_by_one():
    x = np.linspace(-3.0, 3.0, 1100).reshape(1, 1100, 1)
    data = quadrature.GPData(x, np.sin(x), Gaussian(0.0, 1.0))
    ells = np.array([0.5, 1.0, 2.0]).reshape(3, 1, 1)
    found = []
    peak = traced(lambda: found.append(quadrature.integrate(Matern(1.5, ells), data, 0.0, Jitter())))
    assert peak < 1.6 * 8 * 1100**2
    for k in range(3):
        alone = quadrature.integrate(Matern(1.5, ells[k]), data, 0.0, Jitter())
        for name in ("mean", "error2", "weights", "evidence", "residuals"):
            assert_array_equal(getattr(found[0], name)[k], getattr(alone, name)[0])


# How much there is


def write(root, files):
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


@pytest.fixture
def available(tmp_path):
    """A function that adds files of proc and of control groups to a system, and returns its available memory."""

    def read(files):
        write(tmp_path, files)
        return memory.available_memory(tmp_path / "proc", tmp_path / "cgroup")

    return read


MEMINFO = {"proc/meminfo": "MemTotal: 4096 kB\nMemFree: 1 kB\nMemAvailable: 2048 kB\nSwapFree: 100 kB\n"}
SOME = 10**6


def test_the_memory_of_a_machine_is_what_is_available_and_swap(available):
    assert available(MEMINFO) == 1024 * 2148


def test_a_container_of_version_2_has_what_its_groups_leave(available):
    limits = {"cgroup/a/b/memory.max": "max", "cgroup/a/memory.max": "5000000"}
    available({"proc/meminfo": "MemAvailable: 99999999 kB\n", "proc/self/cgroup": "0::/a/b\n"} | limits)
    stat = "anon 1\ninactive_file 300\nactive_file 20\n"
    assert available({"cgroup/a/memory.current": "4000000", "cgroup/a/memory.stat": stat}) == SOME + 320
    assert available({"cgroup/a/b/memory.max": "200", "cgroup/a/b/memory.current": "500"}) == 0.0


def test_a_container_of_version_1_has_what_its_groups_leave(available):
    groups = "7:cpu:/x\n4:memory:/docker/abc\n0::/\n"
    available(MEMINFO | {"proc/self/cgroup": groups, "cgroup/memory/memory.limit_in_bytes": "3000000"})
    stat = "inactive_file 5\ntotal_inactive_file 7\ntotal_active_file 3\n"
    left = available({"cgroup/memory/memory.usage_in_bytes": "2500000", "cgroup/memory/memory.stat": stat})
    assert left == 500_000 + 1024 * 100 + 10  # what is in the page cache gives way


def test_a_system_that_says_nothing_has_the_memory_it_has_or_no_bound(available, monkeypatch):
    pages = {"SC_PHYS_PAGES": 1000, "SC_PAGE_SIZE": 4096}
    monkeypatch.setattr(os, "sysconf_names", pages)
    monkeypatch.setattr(os, "sysconf", pages.get)
    assert available({}) == 4_096_000
    monkeypatch.setattr(os, "sysconf_names", {})
    assert available({}) == np.inf
    memory.require_memory(10**400, "anything", "no way out", lambda: np.inf)


def test_a_limit_on_the_address_space_counts():
    pytest.importorskip("resource")
    script = (
        "import resource, numpy as np, cbq\n"
        "samples = cbq.Samples(np.arange(9.0), np.ones((9, 3)), np.eye(9)[:, :3], cbq.measures.Gaussian(0, 1))\n"
        "fit = cbq.LSMC().fit(samples)\n"
        "used = int(open('/proc/self/statm').read().split()[0]) * resource.getpagesize()\n"
        "resource.setrlimit(resource.RLIMIT_AS, (used + 2**30, resource.RLIM_INFINITY))\n"
        "fit.predict(np.linspace(0.0, 8.0, 8000), return_cov=True)\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    last = done.stderr.strip().splitlines()[-1]
    assert last.startswith(
        "MemoryError: the covariance of I at theta, 8000 of them takes at least 1.43 GiB of memory, but "
    )
    assert "GiB are available: pass return_std=True" in last


# Refusals


def fitted(estimator, C=None):
    return estimator.fit(everywhere(C=C))


ESTIMATORS = {
    "CBQ": cbq.CBQ(),
    "CBQ, not calibrated": cbq.CBQ(calibrate=False),
    "MOBQ": cbq.MOBQ(),
    "LSMC": cbq.LSMC(),
    "KLSMC": cbq.KLSMC(),
    "importance sampling": cbq.ImportanceSampling(),
}


def two_dimensional():
    x = np.random.default_rng(0).normal(size=(100, 10, 2))
    f = np.concatenate([x, x[..., :1] * x[..., 1:]], axis=-1)
    return cbq.Samples(np.arange(100.0), x, f, Gaussian([0, 0], [1, 1]), depends_on_theta=False)


REFUSED = {
    "CBQ": (cbq.CBQ(), (2000, 2), r"stage 2 with 2000 thetas takes at least 0.0298 GiB .* 0.0186 .*samples\.select"),
    "paper": (cbq.CBQ.paper(), (2000, 2), r"stage 2 with 2000 thetas .* GiB .*samples\.select"),
    "Auto": (cbq.Auto(), (2000, 2), r"stage 2 with 2000 thetas .* GiB .*samples\.select"),
    "KLSMC": (cbq.KLSMC(), (2000, 2), r"ridge regression on 2000 thetas .* GiB .*samples\.select.*cbq\.LSMC"),
    "MOBQ": (cbq.MOBQ(), (2000, 2), r"an exact fit to 4000 points .* GiB .*nystrom='auto'"),
    "CBQ, points": (cbq.CBQ(), (2, 3000), r"stage 1 with 3000 points at one theta .* GiB .*samples\.thinned"),
    "paper, points": (cbq.CBQ.paper(), (2, 3000), r"stage 1 with 3000 points at one theta .* GiB .*samples\.thinned"),
    "CBQ, outputs": (cbq.CBQ(), (1000, 2, 3), r"with 1000 thetas and 3 outputs .* GiB .*samples\.output\(0\)"),
    "MOBQ, outputs": (cbq.MOBQ(), two_dimensional, r"an exact fit to 1000 points with 3 processes .* GiB"),
    "landmarks": (
        cbq.MOBQ(kernel_x=Matern(0.5, 0.1), nystrom=2000),
        (1000, 3),
        r"a fit to 3000 points through 2000 landmarks takes .*nystrom='auto'",
    ),
}


@pytest.mark.parametrize("case", REFUSED.values(), ids=REFUSED)
def test_fits_that_do_not_fit_into_memory_are_refused_before_they_begin(case, leave, no_linear_algebra):
    estimator, size, says = case
    given = size() if callable(size) else samples(*size)
    leave(20e6)
    with pytest.raises(MemoryError, match=says):
        estimator.fit(given)


def test_weights_and_saved_fits_that_do_not_fit_are_refused(leave, tmp_path):
    fit = fitted(cbq.CBQ())
    fit.save(tmp_path / "fit.cbq")
    leave(1e5)
    with pytest.raises(MemoryError, match=r"an array of 9600 weights takes .* GiB .*fewer thetas"):
        fit.weights(np.linspace(1.0, 2.0, 100))
    leave(1000)
    with pytest.raises(MemoryError, match="stage 2 with 12 thetas"):
        cbq.load(tmp_path / "fit.cbq")


@pytest.mark.parametrize("name", ESTIMATORS)
def test_joint_distributions_that_do_not_fit_are_refused_before_they_are_made(name, leave):
    fit, theta = fitted(ESTIMATORS[name]), np.linspace(1.0, 2.0, 20_000)
    leave(8 * GIB)
    with pytest.raises(
        MemoryError, match=r"covariance of I at theta, 20000 of them takes at least 8.94 GiB .*return_std"
    ):
        fit.predict(theta, return_cov=True)
    with pytest.raises(
        MemoryError, match=r"sampling size = 2 functions at theta, 20000 of them takes at least 1\d.* GiB .*fewer"
    ):
        fit.sample(theta, 2, 0)
    with pytest.raises(
        MemoryError, match=r"sampling size = 100000000000 functions at theta, 5 of them takes .* GiB .*fewer draws"
    ):
        fit.sample(theta[:5], 10**11, 0)


def test_comparisons_and_auto_go_on_without_what_does_not_fit(leave):
    leave(3e6)
    chosen = cbq.Auto().fit(everywhere(30, 20))
    assert "MOBQ could not be fitted: an exact fit to 600 points takes at least" in chosen.summary()
    leave(8 * 3000)
    table = cbq.compare(everywhere(60, 4), {"CBQ": cbq.CBQ(), "LSMC": cbq.LSMC()}, truth=np.sin)
    notes = {row.method: row.note for row in table.rows}
    assert "stage 2 with 60 thetas takes at least" in notes["CBQ"]
    assert not notes["LSMC"]


WORK = {
    "CBQ.fit": lambda: partial(cbq.CBQ(RBF(1.0), RBF(0.3)).fit, samples(1200, 2)),
    "CBQ.fit, 2 outputs": lambda: partial(cbq.CBQ(RBF(1.0), RBF(0.3)).fit, samples(900, 2, C=2)),
    "CBQ.fit, many points": lambda: partial(cbq.CBQ(RBF(1.0)).fit, samples(2, 1200)),
    "KLSMC.fit": lambda: partial(cbq.KLSMC(RBF(0.3), 0.1).fit, samples(1500, 2)),
    "MOBQ.fit": lambda: partial(cbq.MOBQ(RBF(1.0)).fit, everywhere(60, 25)),
    "CBQ.weights": lambda: partial(fitted(cbq.CBQ()).weights, np.linspace(1.0, 2.0, 10_000)),
} | {
    f"covariance, {name}, C = {C}": lambda each=each, C=C: partial(
        fitted(each, C).predict, np.linspace(1.0, 2.0, 500), return_cov=True
    )
    for name, each in ESTIMATORS.items()
    for C in (None, 3)
}


@pytest.mark.filterwarnings("ignore:few (thetas|points):cbq.FitWarning")
@pytest.mark.slow
@pytest.mark.parametrize("name", WORK)
def test_what_memory_is_enough_for_is_not_refused_and_a_sixth_of_it_is(name, leave):
    work = WORK[name]()
    enough = traced(work)
    leave(enough)
    work()
    leave(enough / 6)
    with pytest.raises(MemoryError):
        work()


DRAWS = """
from pathlib import Path
import numpy as np
import cbq
from cbq.common import memory

def peak():
    return 1024 * memory._table(Path("/proc/self/status"))["VmHWM:"]

C, theta = {C}, np.linspace(1.0, 2.0, 12)
x = theta[:, None] + np.random.default_rng(0).normal(size=(12, 8))
f = np.sin(x) if C is None else np.stack([np.sin((c + 1) * x) for c in range(C)], axis=-1)
samples = cbq.Samples(theta, x, f, lambda t: cbq.measures.Gaussian(t, 1.0), depends_on_theta=False)
fit = {estimator}.fit(samples)
fit.sample(theta, 10, 0)
before, thetas = peak(), np.resize(theta, {M})
fit.sample(thetas, {size}, 0, antithetic={antithetic})
enough = peak() - before
memory.available_memory = lambda: enough
fit.sample(thetas, {size}, 0, antithetic={antithetic})
"""


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="the peak of a process is read from /proc")
@pytest.mark.parametrize("estimator", ["CBQ()", "CBQ(calibrate=False)", "MOBQ()", "LSMC()", "MonteCarlo()"])
@pytest.mark.parametrize(("M", "size"), [(2000, 5), (50, 300_000), (1500, 1500)])
@pytest.mark.parametrize("C", [None, 3])
def test_memory_that_is_enough_for_draws_is_not_refused(estimator, M, size, C):
    # The peak is that of a process of its own, because what LAPACK works with is not traced. It is not ru_maxrss, which
    # a process takes over from the one that starts it.
    for antithetic in (False, True):
        script = DRAWS.format(estimator=f"cbq.{estimator}", M=M, size=size, C=C, antithetic=antithetic)
        done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
