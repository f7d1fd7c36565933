"""One HTTP request as handlers see it: decoded, checked, and without any way to the store.

Nothing is repaired on its way in. What is not valid UTF-8, comes twice where once is meant, or
claims two lengths is refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import unquote_to_bytes

from keelfs.arguments import Given
from keelfs.errors import Invalid, InvalidArgument

Header = tuple[bytes, bytes]

#: More headers, or longer ones, than any client has reason to send.
MAX_HEADERS: Final = 100
MAX_HEADER_BYTES: Final = 32 * 1024
MAX_QUERY_BYTES: Final = 16 * 1024
#: Headers of which two contradict each other.
_SINGLE: Final = frozenset({
    b"authorization", b"content-length", b"content-type", b"host", b"idempotency-key", b"if-match",
    b"last-event-id", b"origin", b"range", b"content-encoding", b"transfer-encoding",
})  # fmt: skip


class HttpRefusal(Invalid):
    """A request that HTTP itself has a status for."""

    code = "http"
    status = 400
    remedy = "Correct the request."

    def __init__(self, status: int, message: str, headers: tuple[Header, ...] = ()) -> None:
        super().__init__(message)
        self.status = status
        self.headers = headers


class Request:
    """See the module. `body` is what the route's model makes of it, `source` its bytes."""

    __slots__ = (
        "body", "headers", "id", "method", "now_ns", "params", "query", "segments", "source",
        "until_ns", "who",
    )  # fmt: skip

    def __init__(self, scope: Mapping[str, Any], id_: str) -> None:
        self.id = id_
        self.method: str = scope["method"]
        self.headers = _headers(scope["headers"])
        self.segments = segments_of(scope["raw_path"])
        self.params: dict[str, str] = {}
        self.query: Any = None
        self.body: Any = None
        self.source: Given = b""
        #: Tenant and principal, once the token is known, for the log and the bounds.
        self.who = ""
        self.now_ns = 0
        #: When nothing is to be begun any more on behalf of this request.
        self.until_ns = 0

    def header(self, name: bytes) -> str | None:
        value = self.headers.get(name)
        return None if value is None else value.decode("latin-1")

    @property
    def token(self) -> str | None:
        scheme, _, token = (self.header(b"authorization") or "").partition(" ")
        return token.strip() if scheme.lower() == "bearer" else None

    @property
    def key(self) -> str | None:
        """The idempotency key."""
        return self.header(b"idempotency-key")

    def accepts(self, media: str) -> bool:
        """Whether the client asked for this media type by its name."""
        accepted = self.headers.get(b"accept")
        if accepted is None:
            return False
        names = (each.partition(b";")[0].strip() for each in accepted.lower().split(b","))
        return media.encode() in names


def _headers(given: list[Header]) -> dict[bytes, bytes]:
    if len(given) > MAX_HEADERS or sum(len(k) + len(v) for k, v in given) > MAX_HEADER_BYTES:
        raise HttpRefusal(431, "there are too many headers, or they are too long")
    headers: dict[bytes, bytes] = {}
    for name, value in given:
        if name not in headers:
            headers[name] = value
        elif name in _SINGLE:
            raise InvalidArgument(f"the header {name.decode('latin-1')} may come only once")
        else:
            headers[name] += b", " + value
    if b"transfer-encoding" in headers and b"content-length" in headers:
        raise InvalidArgument("a request has one length: content-length or transfer-encoding")
    if headers.get(b"content-encoding", b"identity").strip().lower() != b"identity":
        # What unfolds to more than was sent is not worth the risk.
        raise HttpRefusal(415, "bodies are sent as they are, without a content-encoding")
    return headers


def segments_of(raw_path: bytes) -> tuple[str, ...]:
    """The names between the slashes of a URL's path, decoded."""
    return tuple(_text(each) for each in raw_path.split(b"/")[1:])


def parsed_query(raw: bytes) -> dict[str, str]:
    """The parameters behind the question mark."""
    if len(raw) > MAX_QUERY_BYTES:
        raise HttpRefusal(414, "the query is too long")
    found: dict[str, str] = {}
    for pair in raw.split(b"&") if raw else ():
        name, _, value = pair.replace(b"+", b" ").partition(b"=")
        text = _text(name)
        if text in found:
            raise InvalidArgument("a parameter of the query may come only once")
        found[text] = _text(value)
    return found


def _text(raw: bytes) -> str:
    try:
        return (unquote_to_bytes(raw) if b"%" in raw else raw).decode()
    except UnicodeDecodeError:
        raise InvalidArgument("the URL is not valid UTF-8") from None
