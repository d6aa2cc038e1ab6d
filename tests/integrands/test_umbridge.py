"""A model behind a UM-Bridge server is an integrand as any other, and its failures are told in words."""

from __future__ import annotations

import json
import pickle
import socket
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import ClassVar

import numpy as np
import pytest

import cbq
from cbq.integrands import UMBridge
from cbq.measures import Gaussian, Uniform
from quiet import silent
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
    with silent():
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


# servers that answer wrongly, slowly or without an end


class Scripted(BaseHTTPRequestHandler):
    """A model of one number, x, whose answers a test may replace: `answers` by path, functions of the handler."""

    answers: ClassVar = {}

    def log_message(self, *args):
        pass

    def do_GET(self):
        self.do_POST()

    def do_POST(self):
        data = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        usual = {
            "/Info": {"models": ["forward"]},
            "/InputSizes": {"inputSizes": [1]},
            "/OutputSizes": {"outputSizes": [1]},
            "/elsewhere": {"output": [[42.0]]},
            "/Evaluate": {"output": json.loads(data)["input"]} if data and self.path == "/Evaluate" else None,
        }[self.path]
        with suppress(OSError):
            self.answers[self.path](self) if self.path in self.answers else self.send(json.dumps(usual).encode())

    def send(self, body, status=200, length=None, **headers):
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("Content-Length", str(len(body) if length is None else length))
        self.end_headers()
        self.wfile.write(body)


@pytest.fixture
def scripted():
    """A function that starts a server with these answers, and returns its model."""
    servers = []

    def start(answers, **options):
        handler = type("Handler", (Scripted,), {"answers": answers})
        servers.append(ThreadingHTTPServer(("127.0.0.1", 0), handler))
        servers[-1].daemon_threads = True
        threading.Thread(target=servers[-1].serve_forever, args=(0.01,), daemon=True).start()
        return UMBridge(f"http://127.0.0.1:{servers[-1].server_address[1]}", **options)

    yield start
    for server in servers:
        server.shutdown()
        server.server_close()


def text(body, **options):
    return lambda handler: handler.send(body if isinstance(body, bytes) else json.dumps(body).encode(), **options)


def redirect(status):
    return text(b"", status=status, Location="/elsewhere")


def dripping(head):
    """Send the rest of a good answer byte by byte, for two seconds in all."""

    def answer(handler):
        body, pause = b'{"output": [[1.5]]}', threading.Event()
        status = b"HTTP/1.1 200 OK\r\n"
        rest = b"Content-Length: %d\r\n\r\n%s" % (len(body), body)
        whole = status + rest
        handler.wfile.write(whole[:head])
        for byte in whole[head:]:
            pause.wait(2 / (len(whole) - head))
            handler.wfile.write(bytes([byte]))

    return answer


def without_end(handler):
    """Send chunks of blanks, which are a part of JSON, as long as somebody reads them; 256 MiB at the most."""
    handler.wfile.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
    for _ in range(256):
        handler.wfile.write(b"100000\r\n" + b" " * 2**20 + b"\r\n")


EVALUATE = {
    "more numbers": (text({"output": [[1.0, 2.0]]}), "lengths [2], but it declares [1]"),
    "more vectors": (text({"output": [[1.0], [2.0]]}), "lengths [1, 1], but it declares [1]"),
    "no vector": (text({"output": []}), "lengths [], but it declares [1]"),
    "nested": (text({"output": [[[1.0]]]}), "without vectors of numbers"),
    "a text": (text({"output": [["1.5"]]}), "without vectors of numbers"),
    "a truth": (text({"output": [[True]]}), "without vectors of numbers"),
    "a mapping": (text({"output": {"1": 2}}), "without vectors of numbers"),
    "a number": (text({"output": 1.5}), "without vectors of numbers"),
    "beyond floats": (text(b'{"output": [[1%s]]}' % (b"0" * 400)), "without vectors of numbers"),
    "too many digits": (text(b'{"output": [[1%s]]}' % (b"0" * 5000)), "did not answer Evaluate with JSON"),
    "a list": (text([[1.0]]), "refused Evaluate"),
    "deep": (text(b"[" * 100_000), "did not answer Evaluate with JSON"),
    "no UTF-8": (text(b'{"output": [[1.0]], "\xff": 1}'), "did not answer Evaluate with JSON"),
    "gzip": (text(b"\x1f\x8b\x08" + bytes(100), Content_Encoding="gzip"), "did not answer Evaluate with JSON"),
    "cut short": (text(b'{"output": [[1.0', length=100), "did not answer Evaluate with JSON"),
    "a length too small": (text(b'{"output": [[1.0]]}', length=10), "did not answer Evaluate with JSON"),
    "too long": (text(b" " * 2**21), "answered Evaluate with more than 1048640 bytes"),
    "without an end": (without_end, "answered Evaluate with more than 1048640 bytes"),
    "moved": (redirect(302), "elsewhere', which is not followed: pass the address of the model as url"),
    "see other": (redirect(303), "which is not followed"),
    "moved for good": (redirect(308), "which is not followed"),
    "an error without an end": (text(b" " * 2**24, status=500), "HTTP status 500"),
    "a deep error": (text(b"[" * 100_000, status=500), "HTTP status 500"),
}


@pytest.mark.parametrize(("answer", "says"), EVALUATE.values(), ids=EVALUATE)
def test_a_wrong_answer_is_no_value(scripted, answer, says):
    model = scripted({"/Evaluate": answer}, timeout=60.0)
    with pytest.raises(RuntimeError) as caught:
        model(X, THETA)
    assert says in str(caught.value)
    assert len(str(caught.value)) < 1000


@pytest.mark.parametrize("head", [0, 5, 25, 45])
def test_a_server_that_drips_is_late(scripted, head):
    """Each byte arrives in time, but not all of them: within the status line, the headers and the body."""
    with pytest.raises(TimeoutError, match=r"did not finish its answer to Evaluate within 0.5 s: pass a longer"):
        scripted({"/Evaluate": dripping(head)}, timeout=0.5)(X[:1], THETA)


def test_a_slow_server_has_the_time_it_is_given(scripted):
    assert scripted({"/Evaluate": dripping(25)}, timeout=60.0)(X[:1], THETA) == [1.5]
    assert scripted({"/Evaluate": dripping(25)})(X[:1], THETA) == [1.5]


def test_no_value_is_nan_which_is_a_failure_of_f(scripted):
    """Servers in Python write NaN, those in C++ null."""
    for body in (b'{"output": [[NaN]]}', b'{"output": [[null]]}', b'{"output": [[1e999]]}'):
        assert not np.any(np.isfinite(scripted({"/Evaluate": text(body)})(X, THETA)))
    with pytest.raises(cbq.IntegrandError, match="returned nan"):
        problem(scripted({"/Evaluate": text(b'{"output": [[NaN]]}')})).collect(2, 3, rng=0)


SIZES = {
    "negative": ([-1], RuntimeError, "does not say the sizes"),
    "a fraction": ([1.5], RuntimeError, "does not say the sizes"),
    "a text": (["1"], RuntimeError, "does not say the sizes"),
    "nothing": (None, RuntimeError, "does not say the sizes"),
    "huge": ([2**50], MemoryError, "which the model 'forward' declares, takes at least"),
}


@pytest.mark.parametrize(("sizes", "error", "says"), SIZES.values(), ids=SIZES)
def test_sizes_must_be_lengths_that_fit_into_memory(scripted, sizes, error, says):
    with pytest.raises(error, match=says):
        scripted({"/OutputSizes": text({"outputSizes": sizes})})(X, THETA)


@pytest.mark.parametrize("models", [None, "forward", 3, {"forward": 1}], ids=str)
def test_models_must_be_a_list(scripted, models):
    with pytest.raises(ValueError, match="has no model 'forward', but no model"):
        scripted({"/Info": text({"models": models})})(X, THETA)


def test_many_outputs_may_be_written_at_length(scripted):
    n = 50_000
    spaced = json.dumps({"output": [[1 / 3] * n]}, indent=16).encode()
    answers = {"/OutputSizes": text({"outputSizes": [n]}), "/Evaluate": text(spaced)}
    np.testing.assert_array_equal(scripted(answers)(X[:1], THETA), np.full((1, n), 1 / 3))


def test_a_server_that_is_started_again_with_another_model_is_asked_again(scripted):
    answers = {}
    model = scripted(answers)
    np.testing.assert_array_equal(model(X, THETA), X[:, 0])
    answers |= {"/OutputSizes": text({"outputSizes": [2]}), "/Evaluate": text({"output": [[1.0, 2.0]]})}
    with pytest.raises(RuntimeError, match=r"lengths \[2\], but it declares \[1\]"):
        model(X, THETA)
    np.testing.assert_array_equal(model(X[:1], THETA), [[1.0, 2.0]])


REFUSED = {
    "url": (lambda: UMBridge("localhost:4242"), "url must be an address"),
    "name": (lambda: UMBridge("http://a", ""), "name must be the name"),
    "config": (lambda: UMBridge("http://a", config=[1]), "config must be a dictionary"),
    "json": (lambda: UMBridge("http://a", config={"a": np.ones(2)}), "config must be writable as JSON"),
    "inputs": (lambda: UMBridge("http://a", inputs=3), "inputs must be a function"),
    "outputs": (lambda: UMBridge("http://a", outputs=[]), "outputs must be a number from 0"),
    "timeout": (lambda: UMBridge("http://a", timeout=-1), "timeout must be a positive number"),
}
test_refused = refusals(REFUSED, (TypeError, ValueError))
