"""The life of a serving process: it opens its socket, says so, serves, and stops in good order."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Generator
from typing import Final

import uvicorn

from keelfs.aio import Crew
from keelfs.assembly import Store
from keelfs.grant import Grant, Role
from keelfs.identity import Authority
from keelfs.server.app import Server
from keelfs.surfaces.rest.bounds import Bounds

#: The tenant of whoever starts a server on an empty store.
FIRST_TENANT: Final = "default"
#: Requests and streams that are under way when the process is told to stop are given so long.
STOP_S: Final = 20


class Process:
    """One serving process."""

    def __init__(self, store: Store, bounds: Bounds, host: str, port: int) -> None:
        self._store, self._bounds, self._host, self._port = store, bounds, host, port

    def run(self) -> None:
        """Serves until the process is told to stop."""
        crew = Crew()
        config = uvicorn.Config(
            Server(self._store, crew, self._bounds),
            host=self._host,
            port=self._port,
            lifespan="off",
            http="httptools",
            ws="none",
            access_log=False,
            log_config=None,
            server_header=False,
            proxy_headers=False,
            timeout_graceful_shutdown=STOP_S,
        )
        try:
            _Listening(config, self._announce).run()
        finally:
            crew.close()

    def _announce(self, port: int) -> None:
        say(f"Keelfs serves at http://{self._host}:{port}")
        if not any(self._store.tenants()):
            grant = Grant(role=Role.OPERATOR, name="operator")
            text = Authority(self._store).issue(FIRST_TENANT, grant, "the first token")
            say(f"The store is new. A token of its operator, shown only now:\n{text}")


def say(text: str) -> None:
    """To whoever has started the process."""
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


class _Listening(uvicorn.Server):
    """Says when it listens, and where."""

    def __init__(self, config: uvicorn.Config, announce: object) -> None:
        super().__init__(config)
        self._announce = announce

    async def startup(self, sockets: object = None) -> None:
        await super().startup(sockets)  # type: ignore[arg-type]
        port = self.servers[0].sockets[0].getsockname()[1]
        self._announce(port)  # type: ignore[operator]

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None]:
        """As its parent does, but a signal that was heeded is not raised once more."""
        with super().capture_signals():
            yield
            self._captured_signals.clear()
