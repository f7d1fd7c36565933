"""The page behind a one-time link: it asks, exchanges the link for a token, and shows that.

A GET changes nothing, because mail programs and browsers open links by themselves. The page runs no
script and sends its address to nobody.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from html import escape
from typing import Any, Final
from urllib.parse import parse_qs

from keelfs.aio import Crew
from keelfs.errors import KeelError
from keelfs.identity import Authority

PATH: Final = "/welcome"
#: A code and its name; nothing else is sent by the page.
_MOST: Final = 1024
_PATIENCE_S: Final = 10
_HEADERS: Final = [
    (b"content-type", b"text/html; charset=utf-8"),
    (b"cache-control", b"no-store"),
    (b"content-security-policy", b"default-src 'none'; form-action 'self'; frame-ancestors 'none'"),
    (b"referrer-policy", b"no-referrer"),
    (b"x-content-type-options", b"nosniff"),
]
_PAGE: Final = (
    "<!doctype html><html lang=en><meta charset=utf-8><title>Keelfs</title><h1>Keelfs</h1>{}"
)
_ASK: Final = (
    "<form method=post><input type=hidden name=code value='{}'>"
    "<button>Show the token of the operator</button></form>"
)

Scope = Mapping[str, Any]
Receive = Callable[[], Awaitable[Mapping[str, Any]]]
Send = Callable[[Mapping[str, Any]], Awaitable[None]]


async def answer(
    authority: Authority, crew: Crew, scope: Scope, receive: Receive, send: Send
) -> None:
    """Asks, or exchanges."""
    status, text = 200, ""
    if scope["method"] != "POST":
        code = _code(scope["query_string"])
        text = _ASK.format(escape(code, quote=True))
    else:
        code = _code(await _form(receive))
        try:
            token = await crew.run(lambda: authority.context(code).redeem())
            text = f"<p>Keep this token; it is shown only now:</p><pre>{escape(token)}</pre>"
        except KeelError:
            status, text = 403, "<p>This link has been used, or its time is over.</p>"
    body = _PAGE.format(text).encode()
    headers = [*_HEADERS, (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body, "more_body": False})


async def _form(receive: Receive) -> bytes:
    body, more = b"", True
    with suppress(TimeoutError):
        async with asyncio.timeout(_PATIENCE_S):
            while more and len(body) <= _MOST:
                message = await receive()
                body += message.get("body", b"")
                more = message.get("more_body", False)
    return body[:_MOST]


def _code(form: bytes) -> str:
    return parse_qs(form[:_MOST].decode("latin-1")).get("code", [""])[0]
