"""Stores and tenants, awaitable: each verb is that of the blocking one, in a thread.

Who calls: programs with an event loop, which begin with `await keelfs.aio.open(url)`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

from keelfs.aio.agents import AgentTree
from keelfs.aio.artifacts import Artifacts, Conversation, Memory
from keelfs.aio.hop import Crew
from keelfs.aio.workspace import Space
from keelfs.config import from_environment
from keelfs.model import Limits, Principal, Report, Swept, Usage
from keelfs.ports import Clock

if TYPE_CHECKING:
    from keelfs import assembly
    from keelfs.gates.audit import Attempt
    from keelfs.gates.policy import Decide
    from keelfs.validators import Validator


class Tenant:
    """One tenant of a store, for the event loop."""

    def __init__(self, sync: assembly.Tenant, crew: Crew) -> None:
        self._sync, self._crew = sync, crew

    async def space(
        self, kind: str, key: str, *, principal: Principal | None = None, create: bool = True
    ) -> Space:
        """One isolated tree of this tenant, on behalf of a principal."""
        space = await self._crew.run(
            self._sync.space, kind, key, principal=principal, create=create
        )
        return Space(space, self._crew)

    async def agent_tree(
        self,
        *,
        session: str,
        agent: str,
        user: str,
        skills: Mapping[str, str | Path] | None = None,
        validators: Mapping[str, Validator] | None = None,
        policy: Decide | None = None,
        audit: Callable[[Attempt], None] | None = None,
        principal: Principal | None = None,
        now: Callable[[], int] | None = None,
        create: bool = True,
    ) -> AgentTree:
        """All that one agent sees in one session with one user, as one tree."""
        tree = await self._crew.run(
            self._sync.agent_tree,
            session=session,
            agent=agent,
            user=user,
            skills=skills,
            validators=validators,
            policy=policy,
            audit=audit,
            principal=principal,
            now=now,
            create=create,
        )
        return AgentTree(tree, self._crew)

    async def artifacts(
        self, conversation: str, *, principal: Principal | None = None
    ) -> Artifacts:
        """What a conversation keeps for its user."""
        kept = await self._crew.run(self._sync.artifacts, conversation, principal=principal)
        return Artifacts(kept, self._crew)

    async def memory(self, *, conversation: str = "", principal: Principal | None = None) -> Memory:
        """The memory entries of the tenant."""
        memory = await self._crew.run(
            self._sync.memory, conversation=conversation, principal=principal
        )
        return Memory(memory, self._crew)

    async def conversation(self, id_: str, *, agent: str) -> Conversation:
        """Carries out the slash commands in what an agent writes."""
        talk = await self._crew.run(self._sync.conversation, id_, agent=agent)
        return Conversation(talk, self._crew)

    async def delete_session(self, session: str) -> None:
        await self._crew.run(self._sync.delete_session, session)

    def spaces(self) -> AsyncIterator[tuple[str, str]]:
        return self._crew.each(self._sync.spaces)

    async def usage(self) -> Usage:
        return await self._crew.run(self._sync.usage)

    async def set_limits(self, limits: Limits) -> None:
        await self._crew.run(self._sync.set_limits, limits)

    async def delete(self) -> None:
        await self._crew.run(self._sync.delete)


class Store:
    """A store, for the event loop. Leaving its `async with` block closes it."""

    def __init__(self, sync: assembly.Store, crew: Crew | None = None) -> None:
        self._sync, self._crew = sync, crew or Crew()

    @property
    def sync(self) -> assembly.Store:
        """The same store for threads."""
        return self._sync

    async def tenant(self, name: str, create: bool = True) -> Tenant:
        return Tenant(await self._crew.run(self._sync.tenant, name, create), self._crew)

    def tenants(self) -> AsyncIterator[str]:
        return self._crew.each(self._sync.tenants)

    async def check(self, repair: bool = False) -> Report:
        return await self._crew.run_patient(self._sync.check, repair)

    async def sweep(self, steps: int | None = None) -> Swept:
        return await self._crew.run_patient(self._sync.sweep, steps)

    async def stats(self) -> dict[str, Any]:
        return await self._crew.run(self._sync.stats)

    async def backup(self, path: str | Path) -> None:
        await self._crew.run_patient(self._sync.backup, path)

    async def close(self) -> None:
        """Closes the store; what has begun is done first."""
        try:
            await self._crew.run_patient(self._sync.close)
        finally:
            self._crew.close()

    async def __aenter__(self) -> Store:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()


async def open(url: str | None = None, *, clock: Clock | None = None, **settings: Any) -> Store:
    """Opens a store, making and migrating it if need be; see `keelfs.open`.

    The setting `workers` says how many threads do its work.
    """
    from keelfs import assembly

    given = settings if url is None else {**settings, "url": url}
    crew = Crew(from_environment(None, **given).workers)
    try:
        return Store(await crew.run(assembly.open, clock=clock, **given), crew)
    except BaseException:
        crew.close()
        raise
