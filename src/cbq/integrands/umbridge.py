"""Models that are served by UM-Bridge: the protocol is a few JSON requests by HTTP, and needs no package.

https://um-bridge-benchmarks.readthedocs.io/en/docs/models/protocol.html
"""

from __future__ import annotations

import json
import math
import socket
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from functools import lru_cache
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from itertools import pairwise
from threading import Timer
from types import NoneType
from typing import Any
from urllib.parse import urlsplit

import numpy as np

from cbq.common import Array, called, count, is_whole, real, require_memory, shown

Inputs = Callable[[Array, Array], Any]
MOST_BYTES = 2**20  # of an answer, besides its numbers
BYTES_PER_NUMBER = 64  # of an answer: digits, and blanks and commas around them
FLOATS_PER_NUMBER = 5  # in memory: its text, a float of Python, a place in a list, and float64
SHOWN_MODELS = 20
MOST_SHOWN = 400  # characters of an error of the server


@dataclass(frozen=True)
class UMBridge:
    """The model of a UM-Bridge server as an integrand: `Problem(UMBridge("http://localhost:4242"), family, prior)`.

    Every point is one request, sent directly to the server. Workers of an executor, threads or processes, connect by
    themselves, and serve as many requests at a time as there are workers. A request that the server refuses is a
    failure of f at that point. So is an answer that has other lengths than the model declares, is longer than these
    numbers can be, or redirects to elsewhere.

    Parameters
    ----------
    url : the address of the server.
    name : the name of the model there.
    config : the configuration that goes with every request, as the model defines it.
    inputs : a function of x (d,) and theta (p,) that returns the model's input, one vector or a list of vectors. By
        default it is x followed by theta if the model takes d + p numbers, or x alone if it takes d; the numbers are
        split into the model's vectors in this order.
    outputs : which of the model's output numbers are f, counted from 0 over all its vectors: one, or a list of them
        (default: all).
    timeout : seconds for a request, from connecting to the end of the answer (default: no limit).

    Examples
    --------
    >>> model = cbq.integrands.UMBridge("http://localhost:4242", "forward", config={"level": 2})
    >>> problem = cbq.Problem(model, lambda theta: cbq.measures.Normal(theta, std=1.0), cbq.measures.Uniform(0.0, 2.0))
    """

    url: str
    name: str = "forward"
    config: dict[str, Any] | None = None
    inputs: Inputs | None = None
    outputs: int | Sequence[int] | None = None
    timeout: float | None = field(default=None, compare=False)  # the same model, however long it takes

    def __post_init__(self) -> None:
        if not isinstance(self.url, str) or not self.url.startswith(("http://", "https://")):
            raise ValueError(f"url must be an address such as 'http://localhost:4242', but it is {shown(self.url)}.")
        if not isinstance(self.name, str) or not self.name:
            raise TypeError(f"name must be the name of a model, but it is {shown(self.name)}.")
        if self.config is not None and not isinstance(self.config, dict):
            raise TypeError(f"config must be a dictionary, but it is {shown(self.config)}.")
        try:
            json.dumps(self.config)
        except (TypeError, ValueError) as error:
            raise TypeError(f"config must be writable as JSON, but {error}: use numbers, text and lists.") from error
        if self.inputs is not None and not callable(self.inputs):
            raise TypeError(f"inputs must be a function of x and theta, but it is {shown(self.inputs)}.")
        chosen = self.outputs if isinstance(self.outputs, list | tuple) else [self.outputs]
        if self.outputs is not None and (not len(chosen) or not all(is_whole(each, 0) for each in chosen)):
            raise ValueError(f"outputs must be a number from 0 or a list of them, but it is {shown(self.outputs)}.")
        number = isinstance(self.timeout, int | float) and not isinstance(self.timeout, bool)
        if self.timeout is not None and not (number and 0 < self.timeout < math.inf):
            raise ValueError(f"timeout must be a positive number of seconds, but it is {shown(self.timeout)}.")

    def __call__(self, x: Array, theta: Array) -> Array:
        """f at points x (n, d) and theta (p,): (n,), or (n, C) for C outputs."""
        values = np.stack([self._at(point, theta) for point in x])
        return values[:, 0] if values.shape[1] == 1 and not isinstance(self.outputs, list | tuple) else values

    def sizes(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """The lengths of the vectors that the model takes and returns."""
        return _sizes(self.url.rstrip("/"), self.name, json.dumps(self.config or {}), self.timeout)

    def _at(self, x: Array, theta: Array) -> Array:
        request = {"name": self.name, "input": self._input(x, theta), "config": self.config or {}}
        declared = self.sizes()[1]
        most = MOST_BYTES + BYTES_PER_NUMBER * sum(declared)
        answer = _ask(self.url.rstrip("/"), "Evaluate", request, self.timeout, most)
        try:
            vectors = [_vector(each) for each in answer["output"]]
        except (KeyError, TypeError, ValueError, OverflowError) as error:
            said = shown(answer)
            raise RuntimeError(
                f"the model {self.name!r} answered without vectors of numbers in 'output': {said}"
            ) from error
        if tuple(map(len, vectors)) != declared:
            _sizes.cache_clear()  # the server may have been started again, with another model
            lengths = shown([len(each) for each in vectors])
            raise RuntimeError(
                f"the model {self.name!r} answered with vectors of lengths {lengths}, but it declares "
                f"{shown(list(declared))}: correct the model."
            )
        found = np.concatenate(vectors)
        if self.outputs is None:
            return found
        chosen = np.atleast_1d(np.asarray(self.outputs, dtype=np.intp))
        if np.max(chosen) >= len(found):
            raise ValueError(f"outputs = {self.outputs}, but the model {self.name!r} returns {len(found)} numbers.")
        return np.asarray(found[chosen])

    def _input(self, x: Array, theta: Array) -> list[list[float]]:
        """The model's input vectors for x (d,) and theta (p,)."""
        sizes = self.sizes()[0]
        if self.inputs is not None:
            given = called(self.inputs, "inputs", x, theta)
            parts = given if isinstance(given, list | tuple) and np.ndim(given[0]) else [given]
            found = [np.ravel(real(part, "the value of inputs")) for part in parts]
            if tuple(map(len, found)) != sizes:
                raise ValueError(
                    f"inputs returned vectors of lengths {[len(each) for each in found]}, but the model {self.name!r} "
                    f"takes {list(sizes)}."
                )
            return [each.tolist() for each in found]
        vectors = {len(x) + len(theta): np.concatenate([x, theta]), len(x): x}
        if sum(sizes) not in vectors:
            raise ValueError(
                f"the model {self.name!r} takes {sum(sizes)} numbers, but x has {len(x)} and theta {len(theta)}: pass "
                f"inputs=..., a function of x and theta that returns the model's input."
            )
        ends = np.cumsum([0, *sizes]).tolist()
        return [vectors[sum(sizes)][a:b].tolist() for a, b in pairwise(ends)]


@lru_cache(maxsize=64)
def _sizes(url: str, name: str, config: str, timeout: float | None) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The lengths of the input and the output vectors of a model, which is asked once in each process."""
    models = _ask(url, "Info", None, timeout).get("models")
    if not isinstance(models, list) or name not in models:
        known = ", ".join(map(shown, models[:SHOWN_MODELS])) if isinstance(models, list) else ""
        raise ValueError(f"the server at {url} has no model {name!r}, but {known or 'no model'}: pass name=...")
    request = {"name": name, "config": json.loads(config)}
    answers = _ask(url, "InputSizes", request, timeout), _ask(url, "OutputSizes", request, timeout)
    try:
        inputs, outputs = (
            [count(n) for n in a[key]] for a, key in zip(answers, ("inputSizes", "outputSizes"), strict=True)
        )
    except (KeyError, TypeError, ValueError) as error:
        said = shown(answers)
        raise RuntimeError(f"the server at {url} does not say the sizes of {name!r}: it answered {said}.") from error
    what = f"an answer of {shown(sum(outputs))} numbers, which the model {name!r} declares,"
    require_memory(FLOATS_PER_NUMBER * sum(outputs), what, "correct the model")
    return tuple(inputs), tuple(outputs)


def _vector(numbers: Any) -> Array:
    """A vector of an answer, (n,); NaN, a failure of f, where there is none, as servers write NaN as null."""
    if not isinstance(numbers, list) or not all(type(each) in (int, float, NoneType) for each in numbers):
        raise TypeError("a vector must be a list of numbers")
    return np.array(numbers, dtype=np.float64)


def _ask(
    url: str, what: str, request: dict[str, Any] | None, timeout: float | None, most: int = MOST_BYTES
) -> dict[str, Any]:
    """The answer of the server to one request; an error in words if there is none, or if it is an error."""
    server = f"the UM-Bridge server at {url}"
    try:
        status, reason, body = _exchange(f"{url}/{what}", request, timeout, most)
        if status >= 300:
            raise RuntimeError(f"{server} refused {what}: {_refusal(status, reason, body)}.")
        if len(body) > most:
            raise RuntimeError(
                f"{server} answered {what} with more than {most} bytes, which is too long for the sizes it declares."
            )
        answer = json.loads(body)
    except OSError as error:
        if isinstance(error, TimeoutError) and timeout is not None:
            late = f"{server} did not finish its answer to {what} within {timeout:g} s"
            raise TimeoutError(f"{late}: pass a longer timeout, or look at the work of the model.") from error
        hint = "start the model server, or correct the url"
        raise ConnectionError(f"no UM-Bridge server answers at {url} ({error}): {hint}.") from error
    except (ValueError, RecursionError, HTTPException) as error:
        raise RuntimeError(f"the server at {url} did not answer {what} with JSON: is it a UM-Bridge server?") from error
    if not isinstance(answer, dict) or "error" in answer:
        raise RuntimeError(f"{server} refused {what}: {shown(answer)}.")
    return answer


def _exchange(url: str, question: Any, timeout: float | None, most: int) -> tuple[int, str, bytes]:
    """The status of an answer, its reason or new address, and at most `most` + 1 of its bytes.

    The question is posted as JSON; without one, it is a GET. A redirect is not followed, since a POST that is
    redirected becomes a GET, whose answer belongs to another question.

    timeout: seconds for all of it, from connecting to the last byte, None for no limit; then a TimeoutError.
    """
    begin, parts = time.monotonic(), urlsplit(url)
    connection = (HTTPSConnection if parts.scheme == "https" else HTTPConnection)(parts.netloc, timeout=timeout)
    data = None if question is None else json.dumps(question).encode()
    with closing(connection):
        connection.connect()
        with _deadline(connection.sock, timeout, begin):
            kind = {"Content-Type": "application/json"}
            connection.request("GET" if data is None else "POST", parts.path, data, kind)
            with connection.getresponse() as reply:
                moved = f"a redirect to {reply.headers['Location']}" if 300 <= reply.status < 400 else reply.reason
                return reply.status, moved, reply.read(most + 1)


@contextmanager
def _deadline(sock: socket.socket, timeout: float | None, begin: float) -> Iterator[None]:
    """Shut a socket down `timeout` seconds after `begin`, and raise a TimeoutError.

    The timeout of a socket is for each call alone, so that a server that sends a byte now and then never exceeds it.
    """

    def shut_down() -> None:
        with suppress(OSError):  # it is closed already
            sock.shutdown(socket.SHUT_RDWR)

    if timeout is None:
        yield
        return
    timer = Timer(max(begin + timeout - time.monotonic(), 0.0), shut_down)
    timer.start()
    try:
        yield
    except (OSError, HTTPException, ValueError) as error:
        if time.monotonic() - begin < timeout:
            raise
        raise TimeoutError("timed out") from error
    finally:
        timer.cancel()
    if time.monotonic() - begin >= timeout:
        raise TimeoutError("timed out")


def _refusal(status: int, reason: str, body: bytes) -> str:
    """The reason of the server for a refused request."""
    if status < 400:
        return f"it answered with {shown(reason)}, which is not followed: pass the address of the model as url"
    try:
        found = json.loads(body)["error"]
        return f"{found['type']}, {found['message']}"[:MOST_SHOWN].rstrip(".!")
    except (ValueError, LookupError, TypeError, RecursionError):
        return f"HTTP status {status}, {reason}; its own output may have the reason"
