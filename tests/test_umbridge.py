"""A model behind a UM-Bridge server is an integrand as any other, and its failures are told in words."""

from __future__ import annotations

import pickle
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import numpy as np
import pytest

import cbq
from cbq.integrands import UMBridge
from cbq.measures import Gaussian, Uniform
from refusals import refusals

SERVER = """
import sys
import umbridge


class Forward(umbridge.Model):
    def __init__(self):
        super().__init__("forward")

    def get_input_sizes(self, config):
        return [2]

    def get_output_sizes(self, config):
        return [1]

    def __call__(self, parameters, config):
        x, theta = parameters[0]
        if x > config.get("limit", 1e9):
            raise ValueError("the solver diverged")
        return [[config.get("scale", 1.0) * (x * x + theta)]]

    def supports_evaluate(self):
        return True


class Blocks(Forward):
    def __init__(self):
        umbridge.Model.__init__(self, "blocks")

    def get_input_sizes(self, config):
        return [1, 2]

    def get_output_sizes(self, config):
        return [2, 1]

    def __call__(self, parameters, config):
        (a,), (b, c) = parameters
        return [[a, b], [c]]


print("serving", flush=True)
umbridge.serve_models([Forward(), Blocks()], int(sys.argv[1]))
"""


@pytest.fixture(scope="module")
def url(tmp_path_factory):
    pytest.importorskip("umbridge", reason="the server of the package umbridge is not installed")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    script = tmp_path_factory.mktemp("umbridge") / "server.py"
    script.write_text(SERVER)
    log = (script.parent / "log").open("w")
    server = subprocess.Popen([sys.executable, script, str(port)], stdout=log, stderr=log)
    address = f"http://127.0.0.1:{port}"
    try:
        while not _answers(address):
            with suppress(subprocess.TimeoutExpired):
                server.wait(0.1)
            assert server.poll() is None, (script.parent / "log").read_text()
        yield address
    finally:
        server.terminate()
        server.wait()
        log.close()


def _answers(address):
    try:
        urllib.request.urlopen(f"{address}/Info", timeout=0.2).close()
    except (urllib.error.URLError, OSError):
        return False
    return True


X, THETA = np.array([[1.0], [2.0], [3.0]]), np.array([0.5])


def problem(integrand):
    return cbq.Problem(integrand, lambda theta: Gaussian(theta, std=1.0), Uniform(0.0, 1.0))


def test_x_and_theta_are_one_vector_by_default(url):
    np.testing.assert_array_equal(UMBridge(url)(X, THETA), X[:, 0] ** 2 + 0.5)
    np.testing.assert_array_equal(UMBridge(url, config={"scale": 3.0})(X, THETA), 3 * (X[:, 0] ** 2 + 0.5))
    np.testing.assert_array_equal(UMBridge(url)(np.array([[2.0, 7.0]]), THETA), [11.0])  # x alone has the model's size


def test_inputs_and_outputs_of_several_vectors(url):
    model = UMBridge(url, "blocks")
    assert model.sizes() == ((1, 2), (2, 1))
    np.testing.assert_array_equal(model(np.array([[1.0, 2.0]]), np.array([3.0])), [[1.0, 2.0, 3.0]])
    turned = UMBridge(url, "blocks", inputs=lambda x, theta: [theta, [x[0], -x[0]]], outputs=2)
    np.testing.assert_array_equal(turned(X, THETA), [-1.0, -2.0, -3.0])
    chosen = UMBridge(url, "blocks", inputs=lambda x, theta: [theta, [x[0], -x[0]]], outputs=[2, 0])
    np.testing.assert_array_equal(chosen(X, THETA), [[-1.0, 0.5], [-2.0, 0.5], [-3.0, 0.5]])


def test_a_run_is_that_of_the_same_function_here(url):
    here = problem(lambda x, theta: x[:, 0] ** 2 + theta[0]).collect(5, 8, rng=0, design="sobol")
    there = problem(UMBridge(url)).collect(5, 8, rng=0, design="sobol")
    np.testing.assert_array_equal(there.f, here.f)
    with ThreadPoolExecutor(3) as threads:
        np.testing.assert_array_equal(
            problem(UMBridge(url)).collect(5, 8, rng=0, design="sobol", executor=threads).f, here.f
        )
    with cbq.fit.findings.silent():
        found = cbq.CBQ().fit(there).predict([0.5])
    assert found[0] == pytest.approx(0.25 + 1.0 + 0.5, abs=0.02)


def test_processes_connect_by_themselves(url):
    model = pickle.loads(pickle.dumps(UMBridge(url)))
    here = problem(lambda x, theta: x[:, 0] ** 2 + theta[0]).collect(3, 4, rng=0)
    simple = cbq.Problem(model, _family, Uniform(0.0, 1.0))
    np.testing.assert_array_equal(simple.collect(3, 4, rng=0, executor=2).f, here.f)


def _family(theta):
    return Gaussian(theta, std=1.0)


def test_a_point_that_the_model_refuses_is_a_failure(url):
    failing = problem(UMBridge(url, config={"limit": 1.0}))
    with pytest.raises(cbq.IntegrandError, match="refused Evaluate"):
        failing.collect(4, 10, rng=0)
    with pytest.warns(cbq.CollectWarning, match="RuntimeError: the UM-Bridge server at .* refused Evaluate"):
        samples = failing.collect(4, 10, rng=0, on_error="skip")
    assert np.all(samples.all_points <= 1.0)
    assert samples.failures is not None
    assert samples.n_evaluations + sum(map(len, samples.failures.x)) == 40


def test_what_does_not_fit_is_told_in_words(url):
    for model, x, says in (
        (UMBridge(url, "backward"), X, "has no model 'backward', but 'forward', 'blocks'"),
        (UMBridge(url), np.ones((1, 5)), "takes 2 numbers, but x has 5 and theta 1: pass inputs"),
        (UMBridge(url, outputs=3), X, "outputs = 3, but the model 'forward' returns 1 numbers"),
        (UMBridge(url, inputs=lambda x, theta: x), X, r"lengths \[1\], but the model 'forward' takes \[2\]"),
    ):
        with pytest.raises(ValueError, match=says):
            model(x, THETA)


def test_no_server_is_told_in_words():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with pytest.raises(ConnectionError, match=f"no UM-Bridge server answers at http://127.0.0.1:{port} .*: start"):
        UMBridge(f"http://127.0.0.1:{port}")(X, THETA)


REFUSED = {
    "url": (lambda: UMBridge("localhost:4242"), "url must be an address"),
    "name": (lambda: UMBridge("http://a", ""), "name must be the name"),
    "config": (lambda: UMBridge("http://a", config=[1]), "config must be a dictionary"),
    "json": (lambda: UMBridge("http://a", config={"a": np.ones(2)}), "what JSON has"),
    "inputs": (lambda: UMBridge("http://a", inputs=3), "inputs must be a function"),
    "outputs": (lambda: UMBridge("http://a", outputs=[]), "outputs must be a number from 0"),
    "timeout": (lambda: UMBridge("http://a", timeout=-1), "timeout must be a positive number"),
}
test_refused = refusals(REFUSED, (TypeError, ValueError))
