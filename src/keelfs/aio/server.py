"""Trees that a server holds, awaitable: each verb is that of the blocking client, in a thread."""

from __future__ import annotations

from collections.abc import AsyncIterator
from types import TracebackType
from typing import TYPE_CHECKING

from keelfs.aio.hop import Crew
from keelfs.aio.workspace import Workspace
from keelfs.model import Limits

if TYPE_CHECKING:
    from keelfs import client
    from keelfs.client import Agent


class Session(Workspace):
    """The files of one session, with every verb of a workspace."""

    def __init__(self, sync: client.Session, crew: Crew) -> None:
        super().__init__(sync, crew)
        self._session = sync
        self.agent, self.id = sync.agent, sync.id

    async def fork(self, title: str | None = None, snapshot: str | None = None) -> Session:
        return Session(await self._hop(self._session.fork, title, snapshot), self._crew)

    async def limits(self) -> Limits:
        return await self._hop(self._session.limits)

    async def set_limits(self, limits: Limits) -> Limits:
        return await self._hop(self._session.set_limits, limits)

    async def delete(self) -> None:
        await self._hop(self._session.delete)


class Server:
    """A server, for the event loop. Leaving its `async with` block ends the connections."""

    def __init__(self, sync: client.Server) -> None:
        self._sync, self._crew = sync, Crew()

    def agents(self) -> AsyncIterator[Agent]:
        return self._crew.each(self._sync.agents)

    async def create_agent(self, name: str, description: str | None = None) -> Agent:
        return await self._crew.run(self._sync.create_agent, name, description)

    async def delete_agent(self, agent: str) -> None:
        await self._crew.run(self._sync.delete_agent, agent)

    async def sessions(self, agent: str) -> AsyncIterator[Session]:
        async for session in self._crew.each(lambda: self._sync.sessions(agent)):
            yield Session(session, self._crew)

    async def create_session(
        self, agent: str, title: str | None = None, user: str | None = None
    ) -> Session:
        made = await self._crew.run(self._sync.create_session, agent, title, user)
        return Session(made, self._crew)

    async def session(self, agent: str, id: str) -> Session:
        return Session(await self._crew.run(self._sync.session, agent, id), self._crew)

    async def close(self) -> None:
        await self._crew.run(self._sync.close)
        self._crew.close()

    async def __aenter__(self) -> Server:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:  # fmt: skip
        await self.close()


async def connect(url: str, *, token: str | None = None, timeout: float = 90.0) -> Server:
    """A server at an address such as `http://127.0.0.1:8420`; see `keelfs.connect`."""
    from keelfs import client

    return Server(client.connect(url, token=token, timeout=timeout))
