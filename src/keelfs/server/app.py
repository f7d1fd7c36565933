"""The application of a process: the surfaces that are served under one address, and its own health.

`/healthz` says that the process answers, `/readyz` that its store does and that it is not about to
stop; `/metrics` tells figures to whoever asks from this machine.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, Literal

from keelfs.aio import Crew
from keelfs.assembly import Store
from keelfs.identity import Authority
from keelfs.server import welcome
from keelfs.server.log import Log
from keelfs.server.metrics import TYPE, Metrics
from keelfs.surfaces.rest.application import Application
from keelfs.surfaces.rest.bounds import Bounds

Scope = Mapping[str, Any]
Receive = Callable[[], Awaitable[Mapping[str, Any]]]
Send = Callable[[Mapping[str, Any]], Awaitable[None]]

#: To whom figures are told: whoever asks from this machine and not through a proxy, all, or nobody.
Told = Literal["local", "all", "none"]
_LOCAL: Final = frozenset({"127.0.0.1", "::1"})
_PROXIED: Final = frozenset({b"forwarded", b"x-forwarded-for", b"via"})
_TEXT: Final = b"text/plain; charset=utf-8"


class Server:
    """ASGI: hands each request to the surface that it is for."""

    def __init__(
        self, store: Store, crew: Crew, bounds: Bounds, *, metrics: Metrics, told: Told = "local",
        log: Log | None,
    ) -> None:  # fmt: skip
        self._authority = Authority(store)
        self._crew, self._metrics, self._told, self._log = crew, metrics, told, log
        self._rest = Application(self._authority, crew, bounds, self._observe)
        self._stopping = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        match scope["path"]:
            case "/healthz":
                await _say(send, 200, b"ok\n")
            case "/readyz":
                await _say(send, *await self._ready())
            case "/metrics" if self._tells(scope):
                await _say(send, 200, self._metrics.text(), TYPE)
            case welcome.PATH:
                await welcome.answer(self._authority, self._crew, scope, receive, send)
            case _:
                await self._rest(scope, receive, send)

    def stop(self) -> None:
        """Nothing new is begun by whoever asks `/readyz` first; streams end."""
        self._stopping = True
        self._rest.stop()

    async def close(self) -> None:
        await self._rest.close()

    async def _ready(self) -> tuple[int, bytes]:
        if self._stopping:
            return 503, b"stopping\n"
        try:
            async with asyncio.timeout(5):
                await self._crew.run(self._authority.newest, [(0, 0)])
        except Exception:
            return 503, b"the store does not answer\n"
        return 200, b"ready\n"

    def _tells(self, scope: Scope) -> bool:
        if self._told != "local":
            return self._told == "all"
        client = scope.get("client")
        proxied = any(name in _PROXIED for name, _ in scope["headers"])
        return client is not None and client[0] in _LOCAL and not proxied

    def _observe(
        self, route: str, method: str, status: int, seconds: float, id_: str, who: str
    ) -> None:
        self._metrics.observe(route, method, status, seconds)
        if self._log is not None:
            self._log.request(route, method, status, seconds, id_, who)


async def _say(send: Send, status: int, body: bytes, kind: bytes = _TEXT) -> None:
    headers = [
        (b"content-type", kind), (b"content-length", str(len(body)).encode()),
        (b"x-content-type-options", b"nosniff"), (b"cache-control", b"no-store"),
    ]  # fmt: skip
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body, "more_body": False})
