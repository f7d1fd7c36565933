"""A serving process of its own, and a client that sends exactly what it is told to."""

from __future__ import annotations

import contextlib
import http.client
import itertools
import os
import selectors
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from typing import Any

import msgspec

from keelfs import assembly
from keelfs.grant import Grant, Role
from keelfs.identity import Authority

_numbers = itertools.count(1)
JSON = {"content-type": "application/json"}
OCTETS = {"content-type": "application/octet-stream"}


class Reply:
    """One answer, taken in as a whole."""

    def __init__(self, response: http.client.HTTPResponse) -> None:
        self.status = response.status
        self.headers = {name.lower(): value for name, value in response.getheaders()}
        self.body = response.read()

    @property
    def json(self) -> Any:
        return msgspec.json.decode(self.body)

    def __repr__(self) -> str:
        return f"{self.status} {self.body[:300]!r}"


class Client:
    """One connection, with one token."""

    def __init__(self, port: int, token: str | None = None) -> None:
        self.port, self.token = port, token
        self._connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)

    def call(
        self, method: str, path: str, body: Any = None, headers: dict[str, str] | None = None
    ) -> Reply:
        """`body` is sent as it is if it is bytes or an iterable of them, as JSON otherwise."""
        sent = dict(headers or {})
        if self.token is not None:
            sent.setdefault("authorization", f"Bearer {self.token}")
        if body is not None and not isinstance(body, bytes | Iterator):
            body, sent = msgspec.json.encode(body), {**JSON, **sent}
        self._connection.request(
            method, path, body, sent, encode_chunked=not isinstance(body, bytes | None)
        )
        return Reply(self._connection.getresponse())

    def get(self, path: str, **headers: str) -> Reply:
        return self.call("GET", path, headers=_named(headers))

    def post(self, path: str, body: Any, **headers: str) -> Reply:
        return self.call("POST", path, body, _named(headers))

    def put(self, path: str, body: Any, **headers: str) -> Reply:
        return self.call("PUT", path, body, _named(headers))

    def patch(self, path: str, body: Any, **headers: str) -> Reply:
        return self.call("PATCH", path, body, _named(headers))

    def delete(self, path: str, **headers: str) -> Reply:
        return self.call("DELETE", path, headers=_named(headers))

    def close(self) -> None:
        self._connection.close()


def _named(headers: dict[str, str]) -> dict[str, str]:
    return {name.replace("_", "-"): value for name, value in headers.items()}


class Served:
    """A server process, and the store that it serves opened in this process as well."""

    def __init__(self, url: str, *options: str) -> None:
        self.url = url
        # A file, because nobody reads a pipe while the tests run.
        self._log = tempfile.TemporaryFile("w+")  # noqa: SIM115
        self.process = subprocess.Popen(
            [sys.executable, "-m", "keelfs", "serve", "--store", url, "--port", "0", *options],
            stdout=subprocess.PIPE, stderr=self._log, text=True,
            env={**os.environ, "PYTHONUNBUFFERED": "1"},
        )  # fmt: skip
        self.first_line = self._line()
        self.port = int(self.first_line.rpartition(":")[2])
        self.store = assembly.open(url)
        self._clients: list[Client] = []

    def _line(self) -> str:
        assert self.process.stdout is not None
        with selectors.DefaultSelector() as ready:
            ready.register(self.process.stdout, selectors.EVENT_READ)
            if ready.select(60):
                line = self.process.stdout.readline().strip()
                if line:
                    return line
        self.process.kill()
        self.process.wait()
        raise AssertionError(f"the server did not start: {self._said()}")

    def _said(self) -> str:
        self._log.seek(0)
        with self._log:
            return self._log.read()

    def token(self, tenant: str, **fields: Any) -> str:
        """The text of a token, an operator's unless it is said otherwise."""
        grant = Grant(**{"role": Role.OPERATOR, "name": "operator", **fields})
        return Authority(self.store).issue(tenant, grant)

    def client(self, token: str | None = None) -> Client:
        client = Client(self.port, token)
        self._clients.append(client)
        return client

    def tenant(self) -> str:
        """The name of a tenant that nobody has used."""
        return f"tenant-{next(_numbers)}-{os.getpid()}"

    def session(self, client: Client | None = None) -> tuple[Client, str]:
        """An operator of a new tenant, and the URL of a new session's files."""
        client = client or self.client(self.token(self.tenant()))
        agent = client.post("/v1/agents", {"name": "coder"}).json["id"]
        session = client.post(f"/v1/agents/{agent}/sessions", {}).json["id"]
        return client, f"/v1/agents/{agent}/sessions/{session}/fs"

    def stop(self) -> str:
        """Stops the process in good order; what it said on its error stream."""
        for client in self._clients:
            client.close()
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.communicate(timeout=60)
        except subprocess.TimeoutExpired:
            self.process.kill()
            raise
        return self._said()


@contextlib.contextmanager
def serving(url: str, *options: str) -> Iterator[Served]:
    """A server that is stopped in the end, on a store that is sound in the end."""
    served = Served(url, *options)
    try:
        yield served
        report = served.store.check()
        assert report.ok, report.findings[:5]
    finally:
        said = served.stop()
        served.store.close()
    assert served.process.returncode == 0, said
    assert "Traceback" not in said, said


def wait_until(true: Any, seconds: float = 30.0) -> None:
    """Returns as soon as `true()` is, and fails if it does not become so."""
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline, "what was waited for did not happen"
        time.sleep(0.005)
