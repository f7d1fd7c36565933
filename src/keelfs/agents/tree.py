"""The workspace that one agent works in, and what a model is told about it.

All verbs are those of any workspace; what stands behind them is composed in
`keelfs.agents.composing`. Who calls: `Tenant.agent_tree`, which makes these.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from keelfs import ops
from keelfs.agents import fragments
from keelfs.agents.composing import (
    SKILLS,
    Record,
    composed,
    guarded,
    homes_of,
    registry_of,
    skill_mounts,
)
from keelfs.agents.primer import MEMORY
from keelfs.agents.spaces import Room
from keelfs.gates.policy import Decide
from keelfs.model import Limits, Principal, Usage
from keelfs.ports import Clock, Handler
from keelfs.validators import Validator
from keelfs.workspace import Workspace

if TYPE_CHECKING:
    from keelfs.agents.shell import Shell, ShellLimits


class AgentTree(Workspace):
    """A session, its agent, its user, its artifacts and its skills in one tree."""

    def __init__(
        self,
        rooms: list[Room],
        homes: list[Handler],
        *,
        principal: Principal,
        clock: Clock,
        skills: Mapping[str, str | Path] | None = None,
        validators: Mapping[str, Validator] | None = None,
        policy: Decide | None = None,
        audit: Record | None = None,
    ) -> None:
        mounted = skill_mounts(skills or {}, principal, clock)
        self._homes = homes_of(rooms, homes)
        tree = composed(self._homes, mounted, registry_of(validators))
        super().__init__(guarded(tree, principal, clock, policy, audit))
        self.principal = principal
        self._rooms, self._skills = rooms, sorted(skills or {})

    def shell(
        self,
        limits: ShellLimits | None = None,
        *,
        cwd: str = "/",
        env: Mapping[str, str] | None = None,
    ) -> Shell:
        """A bash that sees this tree and nothing else; it needs `keelfs[shell]`."""
        from keelfs.agents.shell import Shell

        return Shell(self, limits, cwd=cwd, env=env)

    def describe(self) -> str:
        """A short text for a system prompt: what is mounted, what lasts, what may be used."""
        lines = [
            "You have files: one tree of POSIX paths, all absolute. Nothing outside of it exists"
            " for you.",
            "",
        ]
        lines += [f"- {room.at}: {room.about}. {self._used(room)}" for room in self._rooms]
        lines += [
            f"- {SKILLS.child(name)}: the skill {name!r}; what you change in it is lost with this"
            " process."
            for name in self._skills
        ]
        lines += [
            "",
            f"Begin with {MEMORY}; it says what to keep there. {fragments.PATH} takes one JSON"
            " object a line, of known types only.",
            "A write is there whole or not at all. Former contents are kept, trashed things can be"
            " brought back for a while. A move into another of these places is a transfer.",
        ]
        return "\n".join(lines)

    def _used(self, room: Room) -> str:
        return used(self._homes[room.at].perform(ops.GetUsage()))


def used(usage: Usage) -> str:
    """What is used and what may be, in words."""
    limits: Limits = usage.limits
    room = f"{size(usage.bytes)} in {usage.nodes} files and directories"
    if limits.bytes is not None:
        room += f", of {size(limits.bytes)} at most, trash included"
    if limits.file_bytes is not None:
        room += f"; one file has at most {size(limits.file_bytes)}"
    return f"{room}."


def size(count: int) -> str:
    """A number of bytes, for people."""
    value, units = float(count), ["B", "KiB", "MiB", "GiB", "TiB"]
    while value >= 1024 and len(units) > 1:
        value /= 1024
        units.pop(0)
    return f"{value:.1f}".removesuffix(".0") + f" {units[0]}"
