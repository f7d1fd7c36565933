"""The tree of one agent, awaitable. Who calls: `Tenant.agent_tree` of `keelfs.aio`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from keelfs.aio.hop import Crew
from keelfs.aio.shell import Shell
from keelfs.aio.workspace import Workspace

if TYPE_CHECKING:
    from keelfs import agents
    from keelfs.agents.shell import ShellLimits


class AgentTree(Workspace):
    """A session, its agent, its user, its artifacts and its skills in one tree."""

    def __init__(self, sync: agents.AgentTree, crew: Crew | None = None) -> None:
        super().__init__(sync, crew)
        self._tree = sync

    async def shell(
        self,
        limits: ShellLimits | None = None,
        *,
        cwd: str = "/",
        env: Mapping[str, str] | None = None,
    ) -> Shell:
        """A bash that sees this tree and nothing else; it needs `keelfs[shell]`."""
        return Shell(await self._hop(self._tree.shell, limits, cwd=cwd, env=env), self._crew)

    async def describe(self) -> str:
        """A short text for a system prompt."""
        return await self._hop(self._tree.describe)
