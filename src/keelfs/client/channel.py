"""Requests to one server: sent, answered, and sent again where that cannot do harm.

A request is repeated by itself only if it changes nothing, or carries a key under which the server
does it once; or if the server has said that it did not begin. Otherwise a broken connection is
`InDoubt`, and the caller decides. The one module that knows the library for HTTP.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

import urllib3
import urllib3.connection
from msgspec import Struct
from urllib3.exceptions import (
    ConnectTimeoutError,
    HTTPError,
    LocationParseError,
    NewConnectionError,
)
from urllib3.util import parse_url
from urllib3.util.wait import wait_for_read

from keelfs.client.refusal import error_of
from keelfs.errors import InDoubt, InvalidArgument, RateLimited, Unavailable
from keelfs.model import Data

#: Seconds before each further try.
_PAUSES: Final = (0.1, 0.4, 1.6)
#: No server is waited for longer than this because it says so.
_LONGEST: Final = 10.0
_CONNECT_S: Final = 10.0
_CONNECTIONS: Final = 32


class Call(Struct, frozen=True, kw_only=True):
    """One request."""

    method: str
    path: str
    body: Data | None = None
    headers: Mapping[str, str] = {}
    #: Whether it may be done twice without harm.
    safe: bool = False
    #: Seconds that the server may take besides the usual.
    patience_s: float = 0.0


class Channel:
    """A server, as somebody who bears a token reaches it. Threads may share it."""

    def __init__(self, url: str, token: str | None, timeout_s: float) -> None:
        self._base, self._timeout_s = _checked(url), timeout_s
        self._headers = {"accept": "application/json, application/problem+json"}
        if token is not None:
            self._headers["authorization"] = f"Bearer {token}"
        self._pool = urllib3.PoolManager(maxsize=_CONNECTIONS)
        heeding: dict[str, Any] = {"http": _Pool, "https": urllib3.HTTPSConnectionPool}
        self._pool.pool_classes_by_scheme = heeding

    def ask(self, call: Call) -> bytes:
        """The body of the answer; what it refuses is raised."""
        pauses = iter(_PAUSES)
        while True:
            try:
                return self._read(self.begin(call), call)
            except Unavailable as error:
                pause = next(pauses, None)
                if pause is None or not _may_repeat(call, error):
                    raise
                wanted = error.after_s if isinstance(error, RateLimited) else 0.0
                time.sleep(min(_LONGEST, max(pause, wanted)))

    def begin(self, call: Call) -> urllib3.BaseHTTPResponse:
        """The answer before its body is read, if it is no refusal."""
        outgoing = None if call.body is None or isinstance(call.body, bytes) else _Blocks(call.body)
        timeout = urllib3.Timeout(_CONNECT_S, self._timeout_s + call.patience_s)
        try:
            response = self._pool.request(
                call.method, self._base + call.path, body=outgoing or call.body,  # type: ignore[arg-type]  # pyright: ignore
                headers={**self._headers, **call.headers}, retries=False, redirect=False,
                timeout=timeout, preload_content=False,
            )  # fmt: skip
        except (NewConnectionError, ConnectTimeoutError) as error:
            raise _Unreached("the server cannot be reached") from error
        except (HTTPError, OSError) as error:
            if outgoing is not None and outgoing.error is not None:
                raise outgoing.error from None
            raise _broken(call) from error
        if response.status < 300:
            return response
        body = self._read(response, call)
        raise error_of(response.status, body, response.headers.get("retry-after"))

    def _read(self, response: urllib3.BaseHTTPResponse, call: Call) -> bytes:
        try:
            return response.data
        except (HTTPError, OSError) as error:
            raise _broken(call) from error

    def close(self) -> None:
        """Ends the connections."""
        self._pool.clear()


class _Heeding(urllib3.connection.HTTPConnection):
    """Stops sending a body once the answer is there: what is refused early is not sent to its end.

    Only without TLS, under which something to read may be no answer.
    """

    _in_body = _cut = False

    def endheaders(self, message_body: Any = None, *, encode_chunked: bool = False) -> None:
        super().endheaders(message_body, encode_chunked=encode_chunked)
        self._in_body = True

    def send(self, data: Any) -> None:
        if self._in_body and self.sock is not None and wait_for_read(self.sock, 0):
            self._cut = True
            # As if the server had stopped to listen; the library goes on with the answer.
            raise BrokenPipeError
        super().send(data)

    def getresponse(self) -> Any:
        self._in_body = False
        return super().getresponse()

    @property
    def is_connected(self) -> bool:
        # After half of a body nothing else can be sent.
        return super().is_connected and not self._cut

    def close(self) -> None:
        self._in_body = self._cut = False
        super().close()


class _Pool(urllib3.HTTPConnectionPool):
    ConnectionCls: Any = _Heeding


class _Unreached(Unavailable):
    """Nothing has been sent."""


class _Blocks:
    """Data that is sent as it arrives; its own errors are told apart from those of the way."""

    def __init__(self, data: Data) -> None:
        assert not isinstance(data, bytes)
        self._blocks: Iterable[bytes] = data.blocks()
        self.error: BaseException | None = None

    def __iter__(self) -> Iterator[bytes]:
        try:
            yield from self._blocks
        except BaseException as error:
            self.error = error
            raise


def _checked(url: str) -> str:
    try:
        parsed = parse_url(url)
    except (LocationParseError, AttributeError, TypeError):
        parsed = None
    if parsed is None or parsed.scheme not in {"http", "https"} or not parsed.host or parsed.query:
        raise InvalidArgument("the url of a server is like http://127.0.0.1:8420")
    return url.rstrip("/")


def _broken(call: Call) -> Unavailable:
    if call.safe or call.method == "GET":
        return Unavailable("the connection broke before the answer had come")
    return InDoubt("the connection broke before the answer had come; it may or may not be done")


def _may_repeat(call: Call, error: Unavailable) -> bool:
    if not (call.body is None or isinstance(call.body, bytes)):
        # What has been read of a stream is gone.
        return False
    return call.safe or call.method == "GET" or isinstance(error, RateLimited | _Unreached)
