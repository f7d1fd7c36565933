"""The application of a process: the surfaces that are served under one address."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from keelfs.aio import Crew
from keelfs.assembly import Store
from keelfs.identity import Authority
from keelfs.surfaces.rest.application import Application
from keelfs.surfaces.rest.bounds import Bounds

Scope = Mapping[str, Any]
Receive = Callable[[], Awaitable[Mapping[str, Any]]]
Send = Callable[[Mapping[str, Any]], Awaitable[None]]


class Server:
    """ASGI: hands each request to the surface that it is for."""

    def __init__(self, store: Store, crew: Crew, bounds: Bounds) -> None:
        self._rest = Application(Authority(store), crew, bounds)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            await self._rest(scope, receive, send)
