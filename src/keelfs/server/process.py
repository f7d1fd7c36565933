"""The life of a serving process: it opens its socket, says so, serves, and stops in good order.

Told to stop, it takes no new connections, ends its streams, gives requests that are under way their
time to finish, and only then closes the store.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from functools import partial
from types import FrameType
from typing import Any, Final

import uvicorn
from msgspec import Struct
from msgspec.structs import replace

from keelfs.aio import Crew
from keelfs.assembly import Store
from keelfs.grant import Grant, Role
from keelfs.identity import REDEEM, Authority
from keelfs.server import log, welcome
from keelfs.server.app import Server, Told
from keelfs.server.metrics import Metrics
from keelfs.server.protocol import HEAD_S, Protocol
from keelfs.server.upkeep import EVERY_S, Upkeep
from keelfs.surfaces.rest.bounds import Bounds

#: The tenant of whoever starts a server on an empty store.
FIRST_TENANT: Final = "default"
#: For so long the link is good that a new store is announced with.
LINK_S: Final = 3600


class Settings(Struct, frozen=True, kw_only=True):
    """How a process serves."""

    host: str = "127.0.0.1"
    port: int = 8420
    bounds: Bounds = Bounds()
    #: To whom `/metrics` tells anything.
    metrics: Told = "local"
    #: Whether each request is a line of the log.
    log_requests: bool = True
    #: Requests that are under way when the process is told to stop are given so many seconds.
    stop_s: int = 20
    #: Seconds between two sweeps of the store; 0 is never.
    sweep_s: float = EVERY_S
    #: Seconds that the head of a request may take.
    head_s: float = HEAD_S
    #: Threads that do the work of requests.
    workers: int = 16


class Process:
    """One serving process."""

    def __init__(self, store: Store, settings: Settings) -> None:
        self._store, self._settings = store, settings

    def run(self) -> None:
        """Serves until the process is told to stop."""
        self._log = log.set_up()
        settings, crew, metrics = self._settings, Crew(self._settings.workers), Metrics()
        server = Server(
            self._store, crew, settings.bounds, metrics=metrics, told=settings.metrics,
            log=self._log if settings.log_requests else None,
        )  # fmt: skip
        protocol: Any = partial(Protocol, head_s=settings.head_s)
        config = uvicorn.Config(
            server, host=settings.host, port=settings.port, lifespan="off", http=protocol,
            ws="none", access_log=False, log_config=None, server_header=False,
            proxy_headers=False, timeout_graceful_shutdown=settings.stop_s,
            timeout_keep_alive=30, backlog=2048,
        )  # fmt: skip
        upkeep = Upkeep(self._store, crew, metrics, settings.sweep_s)
        try:
            _Listening(config, server, upkeep, self._announce, self._say_that_it_stops).run()
        finally:
            crew.close()
            self._log.write("info", "stopped")
            self._log.close()

    def _announce(self, port: int) -> None:
        name = f"[{self._settings.host}]" if ":" in self._settings.host else self._settings.host
        url = f"http://{name}:{port}"
        say(f"Keelfs serves at {url}")
        if not any(self._store.tenants()):
            grant = Grant(role=Role.OPERATOR, name="operator")
            authority = Authority(self._store)
            text = authority.issue(FIRST_TENANT, grant, "the first token")
            link = replace(
                grant, verbs=frozenset({REDEEM}), expires_ns=time.time_ns() + LINK_S * 10**9
            )
            code = authority.issue(FIRST_TENANT, link, "the first link")
            say(f"Open this once, within an hour: {url}{welcome.PATH}?code={code}")
            say(f"The store is new. A token of its operator, shown only now:\n{text}")
        self._log.write("info", "started", port=port)

    def _say_that_it_stops(self) -> None:
        self._log.write("info", "stopping")


def say(text: str) -> None:
    """To whoever has started the process."""
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


class _Listening(uvicorn.Server):
    """Says when it listens and where; stops streams and upkeep when it is told to stop."""

    def __init__(
        self, config: uvicorn.Config, server: Server, upkeep: Upkeep,
        announce: Callable[[int], None], stopping: Callable[[], None],
    ) -> None:  # fmt: skip
        super().__init__(config)
        self._server, self._upkeep = server, upkeep
        self._announce, self._stopping = announce, stopping

    async def startup(self, sockets: Any = None) -> None:
        await super().startup(sockets)
        self._upkeep.begin()
        self._announce(self.servers[0].sockets[0].getsockname()[1])

    async def shutdown(self, sockets: Any = None) -> None:
        self._stopping()
        self._server.stop()
        await self._upkeep.close()
        await super().shutdown(sockets)
        await self._server.close()

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        super().handle_exit(sig, frame)
        # It is heeded here; raised once more, it would end the process before the store is closed.
        self._captured_signals.clear()
