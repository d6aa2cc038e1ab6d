"""One request by HTTP for JSON. It ends by a deadline, reads an answer of bounded size, and follows no redirect."""

from __future__ import annotations

import io
import json
import time
from collections.abc import Callable
from functools import cache
from http.client import HTTPConnection, HTTPResponse, HTTPSConnection
from typing import IO, Any
from urllib.error import HTTPError
from urllib.request import HTTPHandler, HTTPRedirectHandler, HTTPSHandler, OpenerDirector, Request, build_opener

BLOCK = 2**16  # bytes that are read at a time


class AnswerTooLong(Exception):
    """An answer has more bytes than the question can have."""


def ask_json(url: str, question: Any, timeout: float | None, most: int) -> Any:
    """The answer to a question, which is posted as JSON, or to a GET if it is None.

    timeout: seconds for all of it, from connecting to the last byte, None for no limit; then a TimeoutError.
    most: bytes of the answer; then an AnswerTooLong.

    Other errors are those of urllib. A redirect is an HTTPError, since a POST that is redirected becomes a GET, whose
    answer belongs to another question.
    """
    data = None if question is None else json.dumps(question).encode()
    message = Request(url, data=data, headers={"Content-Type": "application/json"})
    with _opener().open(message, timeout=timeout) as reply:
        return json.loads(_read(reply, most))


def _read(reply: IO[bytes], most: int) -> bytes:
    blocks, size = [], 0
    while block := reply.read(BLOCK):
        blocks.append(block)
        size += len(block)
        if size > most:
            raise AnswerTooLong(f"more than {most} bytes")
    return b"".join(blocks)


@cache
def _opener() -> OpenerDirector:
    return build_opener(_TimedHandler, _TimedTLSHandler, _NoRedirects)


class _NoRedirects(HTTPRedirectHandler):
    def redirect_request(
        self, req: Request, fp: IO[bytes], code: int, msg: str, headers: Any, newurl: str
    ) -> Request | None:
        raise HTTPError(req.full_url, code, f"a redirect to {newurl}", headers, fp)


class _TimedHandler(HTTPHandler):
    def http_open(self, req: Request) -> HTTPResponse:
        return self.do_open(_TimedConnection, req)


class _TimedTLSHandler(HTTPSHandler):
    def https_open(self, req: Request) -> HTTPResponse:
        return self.do_open(_TimedTLSConnection, req)


class _TimedConnection(HTTPConnection):
    def connect(self) -> None:
        _connect(self, super().connect)


class _TimedTLSConnection(HTTPSConnection):
    def connect(self) -> None:
        _connect(self, super().connect)


def _connect(connection: HTTPConnection, connect: Callable[[], None]) -> None:
    """Connect, and let all that follows end by the timeout of the connection, counted from here."""
    begin, timeout = time.monotonic(), connection.timeout
    connect()
    if timeout is not None:
        connection.sock = _TimedSocket(connection.sock, begin + timeout)


class _TimedSocket:
    """A socket, as far as http.client uses it, whose calls all end by one deadline.

    The timeout of a socket is for each call alone, so that a server that sends a byte now and then never exceeds it.
    """

    def __init__(self, sock: Any, deadline: float) -> None:
        self._sock, self._deadline = sock, deadline

    def limit(self) -> None:
        """Let the next call of the socket end by the deadline."""
        left = self._deadline - time.monotonic()
        if left <= 0:
            raise TimeoutError("timed out")
        self._sock.settimeout(left)

    def sendall(self, data: Any) -> None:
        self.limit()
        self._sock.sendall(data)

    def makefile(self, mode: str) -> io.BufferedReader:
        return io.BufferedReader(_TimedReader(self, self._sock.makefile(mode, buffering=0)))

    def close(self) -> None:
        self._sock.close()  # which lasts as long as its files


class _TimedReader(io.RawIOBase):
    """What arrives at a socket."""

    def __init__(self, sock: _TimedSocket, raw: io.RawIOBase) -> None:
        self._sock, self._raw = sock, raw

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int | None:
        self._sock.limit()
        return self._raw.readinto(buffer)

    def close(self) -> None:
        self._raw.close()
        super().close()
