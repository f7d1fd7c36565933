"""What a handler answers, before it is sent.

A body is either bytes at hand, or blocks that are read while they are sent, so that memory is
bounded whatever is sent. `Later` is the rest of the work of a handler that found, having begun on
the event loop, that it would take too long there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

import msgspec
from msgspec import Struct

Header = tuple[bytes, bytes]

_JSON: Final = (b"content-type", b"application/json")
_encode: Final = msgspec.json.Encoder().encode


class Answer(Struct):
    """A response."""

    status: int
    headers: list[Header]
    body: bytes = b""
    #: Read and sent one by one; `size` is their sum, None where nobody knows it yet.
    blocks: Iterator[bytes] | None = None
    size: int | None = None
    #: Whether to wait for a block may take long.
    slow: bool = False


class Later(Struct):
    """The rest of a handler's work, to be done in a thread."""

    work: Callable[[], Answer]


def json(value: Any, status: int = 200, *headers: Header) -> Answer:
    """A JSON body."""
    return Answer(status, [_JSON, *headers], _encode(value))


def nothing(status: int = 204, *headers: Header) -> Answer:
    return Answer(status, list(headers))
