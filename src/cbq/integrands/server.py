"""A fit as the models of a UM-Bridge server, so that a program in any language asks it; `umbridge.py` is the client.

https://um-bridge-benchmarks.readthedocs.io/en/docs/models/protocol.html
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Lock, Thread
from typing import Any, Self

import numpy as np

from cbq.common import Array, as_text, is_whole, shown, text
from cbq.fit import Fit

PROTOCOL = 1.0  # its version
MOST_BYTES = 2**20  # of a request
SECONDS = 60.0  # that a connection may be silent
VECTORS = {"forward": 1, "std": 1, "interval": 2, "beyond": 1}  # of the output of each model
CONFIGS = {"interval": ("level",)}  # what the configuration of a model may have

Request = dict[str, Any]


class Refused(Exception):
    """A request that is answered by an error of the protocol: its type and a message."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind


class FitServer:
    """A UM-Bridge server of a fit, for programs in any language: theta in, and I with its uncertainty out.

    Its models take one vector, theta (p,), and return vectors with a number for each output of f:

    - `forward`, the mean of I, which also has derivatives (Gradient and ApplyJacobian);
    - `std`, its standard deviation;
    - `interval`, the lower and the upper ends, with a configuration such as {"level": 0.9};
    - `beyond`, a single number: 1 where theta is beyond the observed ones, else 0.

    A number that is not finite is null. `serve_forever()` serves until it is interrupted; in a `with` statement,
    another thread serves; the command `cbq serve` serves a saved fit. As there is no password and no encryption, it
    serves this machine alone by default: name another host only on a network that you trust.

    Parameters
    ----------
    fit : any fit.
    host : the address to listen at; "0.0.0.0" for all networks of this machine.
    port : from 1 to 65535, or 0 for any free one.

    Examples
    --------
    >>> fit = cbq.CBQ().fit(cbq.problems.get("butterfly").collect(T=12, N=20, rng=0))
    >>> with cbq.integrands.FitServer(fit, port=0) as server:
    ...     found = cbq.integrands.UMBridge(server.url)(np.array([[100.0]]), np.empty(0))
    >>> bool(found[0] == fit.predict([100.0])[0])
    True
    """

    def __init__(self, fit: Fit, host: str = "127.0.0.1", port: int = 4242) -> None:
        if not isinstance(fit, Fit):
            raise TypeError(f"fit must be a fit, such as cbq.CBQ().fit(samples), but it is {shown(fit)}.")
        if not text(host, "host"):
            raise ValueError("host must be an address such as '127.0.0.1', but it is ''.")
        if not is_whole(port, 0, 65535):
            raise ValueError(f"port must be a whole number from 0 to 65535, but it is {shown(port)}.")
        self.fit, self._lock = fit, Lock()
        try:
            self._server = _Listener((host, int(port)), self)
        except (OSError, UnicodeError, TypeError) as error:  # such as a host with a NUL character
            raise OSError(f"cannot serve at host {shown(host)}, port {port} ({error}): pass others.") from error

    @property
    def url(self) -> str:
        """The address for clients."""
        host, port = self._server.server_address[:2]
        return f"http://{'127.0.0.1' if host == '0.0.0.0' else as_text(host)}:{port}"

    def serve_forever(self) -> None:
        """Serve until the process is interrupted."""
        try:
            self._server.serve_forever()
        finally:
            self._server.server_close()

    def __enter__(self) -> Self:
        self._thread = Thread(target=self.serve_forever, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._thread.join()

    def _answer(self, what: str, request: Request) -> Request:
        """The answer to a request of the protocol, such as "Evaluate"; or raise `Refused`."""
        if what not in ANSWERS:
            raise Refused("UnsupportedFeature", f"{what} is not supported.")
        if not isinstance(name := request.get("name"), str) or name not in VECTORS:
            raise Refused("ModelNotFound", f"There is no model {shown(name)}, but {', '.join(VECTORS)}.")
        try:
            with self._lock:  # a fit uses all cores for one answer
                return ANSWERS[what](self.fit, request)
        except (ValueError, TypeError, ArithmeticError) as error:
            raise Refused("InvalidInput", as_text(error)) from error


def _evaluate(fit: Fit, request: Request) -> Request:
    name, theta, config = request["name"], _theta(fit, request), request.get("config") or {}
    unknown = [key for key in config if key not in CONFIGS.get(name, ())] if isinstance(config, Mapping) else [config]
    if unknown:
        raise ValueError(f"config of {name} must not have {shown(unknown[0])}.")
    answers: dict[str, Callable[[], Sequence[Any]]] = {
        "forward": lambda: [fit.predict(theta)],
        "std": lambda: [fit.predict(theta, return_std=True)[1]],
        "interval": lambda: fit.interval(theta, **config),
        "beyond": lambda: [fit.beyond(theta)],
    }
    return {"output": [_numbers(each) for each in answers[name]()]}


def _gradient(fit: Fit, request: Request) -> Request:
    """The vector-Jacobian product sens' dI/dtheta: (p,)."""
    return {"output": _numbers(_vector(request, "sens", fit.C or 1) @ _jacobian(fit, request))}


def _apply_jacobian(fit: Fit, request: Request) -> Request:
    """The Jacobian-vector product dI/dtheta vec: (C,)."""
    return {"output": _numbers(_jacobian(fit, request) @ _vector(request, "vec", fit.p))}


def _jacobian(fit: Fit, request: Request) -> Array:
    """dI/dtheta: (C, p)."""
    if request["name"] != "forward":
        raise Refused("UnsupportedFeature", f"The model {request['name']} has no derivatives.")
    if request.get("inWrt", 0) != 0 or request.get("outWrt", 0) != 0:
        raise ValueError("inWrt and outWrt must be 0, for the one vector of the input and of the output.")
    return np.asarray(fit.gradient(_theta(fit, request))).reshape(fit.p, -1).T


def _sizes(fit: Fit, name: str) -> list[int]:
    return [1 if name == "beyond" else fit.C or 1] * VECTORS[name]


def _support(fit: Fit, name: str) -> dict[str, bool]:
    derivatives = name == "forward"
    return {"Evaluate": True, "Gradient": derivatives, "ApplyJacobian": derivatives, "ApplyHessian": False}


ANSWERS: dict[str, Callable[[Fit, Request], Request]] = {
    "InputSizes": lambda fit, request: {"inputSizes": [fit.p]},
    "OutputSizes": lambda fit, request: {"outputSizes": _sizes(fit, request["name"])},
    "ModelInfo": lambda fit, request: {"support": _support(fit, request["name"])},
    "Evaluate": _evaluate,
    "Gradient": _gradient,
    "ApplyJacobian": _apply_jacobian,
}


def _theta(fit: Fit, request: Request) -> Array:
    """The theta (1, p) of a request."""
    given = request.get("input")
    if not isinstance(given, list) or len(given) != 1:
        raise ValueError(f"input must be a list with one vector, theta, but it is {shown(given)}.")
    return _vector({"input": given[0]}, "input", fit.p)[None]


def _vector(request: Request, key: str, size: int) -> Array:
    given = request.get(key)
    if not isinstance(given, list) or len(given) != size or not all(type(each) in (int, float) for each in given):
        raise ValueError(f"{key} must be a vector of {size} number{'s' * (size > 1)}, but it is {shown(given)}.")
    return np.array(given, dtype=np.float64)


def _numbers(values: Any) -> list[float | None]:
    """The numbers of an answer; None, which is null in JSON, where one is not finite."""
    return [float(each) if math.isfinite(each) else None for each in np.ravel(values)]


class _Listener(ThreadingHTTPServer):
    """The HTTP server, with a thread for each connection."""

    daemon_threads = True

    def __init__(self, address: tuple[str, int], server: FitServer) -> None:
        self.asked = server
        super().__init__(address, _Handler)


class _Handler(BaseHTTPRequestHandler):
    """One connection: JSON in and out."""

    protocol_version = "HTTP/1.1"  # which keeps connections open between requests
    timeout = SECONDS
    wbufsize = -1  # so that an answer is one packet
    server: _Listener

    def do_GET(self) -> None:
        if self.path.strip("/") == "Info":
            self._send(200, {"protocolVersion": PROTOCOL, "models": list(VECTORS)})
        else:
            self._send_error(404, "UnsupportedFeature", f"{self.path} is not a request of the UM-Bridge protocol.")

    def do_POST(self) -> None:
        try:
            request = self._body()
            self._send(200, self.server.asked._answer(self.path.strip("/"), request))
        except Refused as error:
            self._send_error(400, error.kind, str(error))
        except Exception as error:  # the client gets it, and the server goes on
            self._send_error(500, type(error).__name__, as_text(error))

    def _body(self) -> Request:
        length = self.headers.get("Content-Length", "")
        if not length.isdigit() or int(length) > MOST_BYTES:
            self.close_connection = True
            raise Refused("InvalidInput", f"The request must have a Content-Length, of at most {MOST_BYTES} bytes.")
        try:
            request = json.loads(self.rfile.read(int(length)))
        except (ValueError, RecursionError) as error:
            raise Refused("InvalidInput", f"The request is not JSON ({error}).") from error
        if not isinstance(request, dict):
            raise Refused("InvalidInput", "The request must be a JSON object.")
        return request

    def _send_error(self, status: int, kind: str, message: str) -> None:
        self._send(status, {"error": {"type": kind, "message": message}})

    def _send(self, status: int, answer: Request) -> None:
        data = json.dumps(answer, allow_nan=False).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *arguments: Any) -> None:
        """Nothing: a sampler asks thousands of times."""
