"""How bodies come in: as a whole within a bound, or block by block, never slower than they may."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import Any

from keelfs.surfaces.rest.bounds import Bounds
from keelfs.surfaces.rest.request import HttpRefusal, Request

Receive = Callable[[], Awaitable[Mapping[str, Any]]]


class Gone(Exception):
    """The client has gone before its body had come; there is nobody to answer."""


async def blocks(receive: Receive, bounds: Bounds) -> AsyncIterator[bytes]:
    """The body as it arrives."""
    began, total, more = time.monotonic(), 0, True
    while more:
        try:
            async with asyncio.timeout(bounds.patience_s):
                message = await receive()
        except TimeoutError:
            raise _too_slow() from None
        if message["type"] != "http.request":
            raise Gone
        block: bytes = message["body"]
        more, total = message.get("more_body", False), total + len(block)
        seconds = time.monotonic() - began
        if seconds > bounds.patience_s and total < seconds * bounds.bytes_per_s:
            raise _too_slow()
        if block:
            yield block


async def whole(receive: Receive, request: Request, bounds: Bounds) -> bytes:
    """The body in one piece, if it is not larger than it may be."""
    length = request.headers.get(b"content-length", b"")
    if len(length) > 18 or (length and int(length) > bounds.body_bytes):
        raise _too_large(bounds)
    collected: list[bytes] = []
    size = 0
    async for block in blocks(receive, bounds):
        size += len(block)
        if size > bounds.body_bytes:
            raise _too_large(bounds)
        collected.append(block)
    return b"".join(collected)


def _too_slow() -> HttpRefusal:
    return HttpRefusal(408, "the body did not arrive in time", ((b"connection", b"close"),))


def _too_large(bounds: Bounds) -> HttpRefusal:
    return HttpRefusal(
        413,
        f"a JSON body may have {bounds.body_bytes} bytes; send larger files as they are, with "
        "Content-Type: application/octet-stream",
    )
