"""A fit behind a UM-Bridge server gives its own numbers to every client, and refuses bad requests in words."""

import http.client
import json
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from urllib.parse import urlsplit

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import cbq
from cbq.integrands import FitServer, UMBridge
from cbq.measures import Gaussian, Uniform
from quiet import silent

THETA = np.array([[0.4, 0.7], [0.5, 0.2], [0.9, 0.9]])


def family(theta):
    return Gaussian(theta[0], cov=0.5)


def fitted(outputs):
    problem = cbq.Problem(
        lambda x, theta: np.column_stack([np.sin(x[:, 0]) * theta[1], x[:, 0] + theta[1]])[:, :outputs],
        family,
        Uniform([0.0, 0.0], [1.0, 1.0]),
    )
    return cbq.CBQ().fit(problem.collect(24, 8, rng=0, design="sobol"))


@pytest.fixture(scope="module")
def fit():
    return fitted(2)


@pytest.fixture(scope="module")
def server(fit):
    with FitServer(fit, port=0) as server:
        yield server


def asked(server, what, body=None, method="POST"):
    """The status and the JSON of an answer."""
    connection = http.client.HTTPConnection(urlsplit(server.url).netloc, timeout=10)
    data = body if isinstance(body, bytes | None) else json.dumps(body).encode()
    with closing(connection):
        connection.request(method, f"/{what}", data)
        reply = connection.getresponse()
        return reply.status, json.loads(reply.read())


def one_by_one(answer):
    """The answers at each theta alone, as a server gives them, side by side."""
    return np.concatenate([np.atleast_2d(answer(theta[None])) for theta in THETA])


def test_our_client_gets_the_numbers_of_the_fit(fit, server):
    nothing, at_80 = np.empty(0), {"level": 0.8}
    assert_array_equal(UMBridge(server.url)(THETA, nothing), one_by_one(fit.predict))
    assert_array_equal(UMBridge(server.url, "std")(THETA, nothing), one_by_one(lambda t: fit.predict(t, True)[1]))
    ends = one_by_one(lambda theta: np.column_stack(fit.interval(theta, 0.8)))
    assert_array_equal(UMBridge(server.url, "interval", config=at_80)(THETA, nothing), ends)
    assert_allclose(UMBridge(server.url)(THETA, nothing), fit.predict(THETA), rtol=1e-6)
    assert UMBridge(server.url, "interval").sizes() == ((2,), (2, 2))
    far = np.array([[0.5, 0.5], [5.0, 5.0]])
    assert_array_equal(UMBridge(server.url, "beyond")(far, nothing), [0, 1])


def test_the_client_of_the_package_gets_them_with_derivatives(fit, server):
    umbridge = pytest.importorskip("umbridge")
    assert umbridge.supported_models(server.url) == ["forward", "std", "interval", "beyond"]
    model = umbridge.HTTPModel(server.url, "forward")
    assert (model.get_input_sizes(), model.get_output_sizes()) == ([2], [2])
    assert model.supports_evaluate()
    assert model.supports_gradient()
    assert not model.supports_apply_hessian()
    theta, jacobian = THETA[0].tolist(), fit.gradient(THETA[:1])[0].T  # (C, p)
    assert_array_equal(model([theta])[0], fit.predict(THETA[:1])[0])
    sens, vec = [2.0, -1.0], [0.5, 3.0]
    assert_allclose(model.gradient(0, 0, [theta], sens), np.array(sens) @ jacobian, rtol=1e-12)
    assert_allclose(model.apply_jacobian(0, 0, [theta], vec), jacobian @ vec, rtol=1e-12)
    step = 1e-4 * np.array(vec)
    difference = (np.array(model([(THETA[0] + step).tolist()])[0]) - model([(THETA[0] - step).tolist()])[0]) / 2e-4
    assert_allclose(model.apply_jacobian(0, 0, [theta], vec), difference, rtol=1e-4)
    assert not umbridge.HTTPModel(server.url, "std").supports_gradient()


def test_one_output_and_many_clients_at_once():
    fit = fitted(1)
    with FitServer(fit, port=0) as server, ThreadPoolExecutor(4) as threads:
        found = list(threads.map(lambda theta: UMBridge(server.url)(theta[None], np.empty(0))[0], THETA.repeat(5, 0)))
    assert_array_equal(found, one_by_one(fit.predict).repeat(5))


GOOD = {"name": "forward", "input": [[0.5, 0.5]]}
BAD = {
    "another model": (GOOD | {"name": "backward"}, "ModelNotFound", "no model 'backward', but forward, std, interval"),
    "no name": ({"input": [[0.5, 0.5]]}, "ModelNotFound", "no model None"),
    "a list as name": (GOOD | {"name": []}, "ModelNotFound", r"no model \[\]"),
    "no input": ({"name": "forward"}, "InvalidInput", "input must be a list with one vector, theta, but it is None"),
    "two vectors": (GOOD | {"input": [[0.5], [0.5]]}, "InvalidInput", "a list with one vector"),
    "three numbers": (GOOD | {"input": [[0.5, 0.5, 0.5]]}, "InvalidInput", "input must be a vector of 2 numbers"),
    "words": (GOOD | {"input": [["a", 0.5]]}, "InvalidInput", "input must be a vector of 2 numbers"),
    "flags": (GOOD | {"input": [[True, 0.5]]}, "InvalidInput", "input must be a vector of 2 numbers"),
    "NaN": (GOOD | {"input": [[float("nan"), 0.5]]}, "InvalidInput", "theta must be finite"),
    "too large": (GOOD | {"input": [[10**400, 0.5]]}, "InvalidInput", "too large"),
    "a level": (GOOD | {"name": "interval", "config": {"level": 2}}, "InvalidInput", "level"),
    "an unknown option": (GOOD | {"config": {"level": 0.9}}, "InvalidInput", "config of forward must not have 'level'"),
    "a config that is none": (GOOD | {"config": [1]}, "InvalidInput", "config of forward must not have"),
    "no JSON": (b"theta = 1", "InvalidInput", "is not JSON"),
    "deep JSON": (b"[" * 100_000, "InvalidInput", "is not JSON"),
    "a list": (b"[]", "InvalidInput", "must be a JSON object"),
}


@pytest.mark.parametrize(("body", "kind", "says"), BAD.values(), ids=BAD)
def test_a_bad_request_is_an_error_of_the_protocol_and_the_server_goes_on(server, body, kind, says):
    status, answer = asked(server, "Evaluate", body)
    assert (status, answer["error"]["type"]) == (400, kind)
    with pytest.raises(ValueError, match=says):
        raise ValueError(answer["error"]["message"])
    assert asked(server, "Evaluate", GOOD)[0] == 200


@pytest.mark.parametrize("length", ["1048577", "-1", "x"])
def test_a_request_of_another_length_is_refused_before_it_is_read(server, length):
    connection = http.client.HTTPConnection(urlsplit(server.url).netloc, timeout=10)
    with closing(connection):
        connection.request("POST", "/Evaluate", headers={"Content-Length": length})
        answer = json.loads(connection.getresponse().read())
    assert answer["error"]["message"] == "The request must have a Content-Length, of at most 1048576 bytes."


def test_what_is_not_supported_is_refused(server):
    for what, body in (("ApplyHessian", GOOD), ("Gradient", GOOD | {"name": "std", "sens": [1, 1]})):
        status, answer = asked(server, what, body)
        assert (status, answer["error"]["type"]) == (400, "UnsupportedFeature")
    assert asked(server, "Gradient", GOOD | {"sens": [1.0]})[1]["error"]["message"].startswith(
        "sens must be a vector of 2"
    )
    assert asked(server, "Gradient", GOOD | {"sens": [1, 1], "inWrt": 1})[0] == 400
    assert asked(server, "passwords", method="GET")[0] == 404
    assert asked(server, "Info", method="GET") == (
        200,
        {"protocolVersion": 1.0, "models": ["forward", "std", "interval", "beyond"]},
    )


def test_numbers_that_are_not_finite_are_null():
    """A line through four averages leaves two degrees of freedom, and a Student-t with two has no finite variance."""
    with silent():
        fit = cbq.LSMC(degree=1, ridge=0.0).fit(
            cbq.Samples([0.0, 1.0, 2.0, 3.0], np.ones((4, 1)), [[0.0], [1], [3], [3]])
        )
    assert np.isinf(fit.predict([0.5], return_std=True)[1])
    with FitServer(fit, port=0) as server:
        assert asked(server, "Evaluate", {"name": "std", "input": [[0.5]]}) == (200, {"output": [[None]]})


def test_bad_arguments_are_refused(fit):
    with pytest.raises(TypeError, match="fit must be a fit, such as"):
        FitServer("fit.cbq")
    with pytest.raises(ValueError, match="port must be a whole number from 0 to 65535"):
        FitServer(fit, port=70000)
    with FitServer(fit, port=0) as server, pytest.raises(OSError, match=r"cannot serve at host '127\.0\.0\.1', port"):
        FitServer(fit, port=urlsplit(server.url).port)


def test_the_command_serves_until_it_is_interrupted(tmp_path):
    fit = cbq.LSMC().fit(cbq.problems.get("butterfly").collect(12, 20, rng=0))
    fit.save(tmp_path / "fit.cbq")
    command = [sys.executable, "-m", "cbq", "serve", str(tmp_path / "fit.cbq"), "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            url = process.stdout.readline().partition(" at ")[2].partition(" ")[0]
            found = UMBridge(url)(np.array([[95.0]]), np.empty(0))
            process.send_signal(signal.SIGINT)
            rest = process.communicate(timeout=20)
        finally:
            process.kill()
    assert found[0] == fit.predict([95.0])[0]
    assert (process.returncode, *rest) == (0, "", "")
