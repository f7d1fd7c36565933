"""How the tree of an agent is put together out of spaces, host folders and gates.

From the outside in: audit and policy see what was asked for, the primer shows what MEMORY.md is
for, the validators judge what is left behind, the mounts route it to the space that holds it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from keelfs.agents import fragments
from keelfs.agents.primer import Primer
from keelfs.agents.spaces import Room
from keelfs.errors import InvalidArgument, KeelError
from keelfs.gates.audit import Attempt, Audit
from keelfs.gates.mounts import Mounts
from keelfs.gates.policy import Decide, Policy
from keelfs.gates.validate import Validate, ValidatorRegistry
from keelfs.memory.space import MemorySpace
from keelfs.model import Limits, Principal
from keelfs.path import VPath, check_name
from keelfs.ports import Clock, Handler
from keelfs.validators import Validator
from keelfs.volumes.host import HostFolder
from keelfs.volumes.overlay import Overlay

#: What an agent may change of one skill; it lies in the memory of the process.
SKILL_LIMITS: Final = Limits(bytes=64 * 2**20, nodes=100_000)
SKILLS: Final = VPath(("skills",))

Record = Callable[[Attempt], None]


def skill_mounts(
    skills: Mapping[str, str | Path], principal: Principal, clock: Clock
) -> dict[VPath, Handler]:
    """Each folder below `/skills`, under changes that no other tree sees."""
    return {SKILLS.child(name): _skill(name, folder, principal, clock)
            for name, folder in skills.items()}  # fmt: skip


def _skill(name: str, folder: str | Path, principal: Principal, clock: Clock) -> Handler:
    check_name(name)
    try:
        lower = HostFolder(folder)
    except KeelError as error:
        raise InvalidArgument(f"the folder of skill {name!r} cannot be opened") from error
    return Overlay(lower, MemorySpace(principal, SKILL_LIMITS, clock))


def registry_of(validators: Mapping[str, Validator] | None) -> ValidatorRegistry:
    """The validators of a tree: those of every tree, and the given ones."""
    registry = ValidatorRegistry()
    registry.register(fragments.PATH, fragments.validate)
    for glob, validator in (validators or {}).items():
        if not callable(validator):
            raise InvalidArgument("a validator is called with a content; see keelfs.validators")
        registry.register(glob, validator)
    return registry


def composed(
    homes: Mapping[VPath, Handler], skills: Mapping[VPath, Handler], registry: ValidatorRegistry
) -> Handler:
    """One handler for the whole tree."""
    mounts = {path: home for path, home in homes.items() if not path.is_root}
    tree: Handler = Mounts(homes[VPath()], {**mounts, **skills})
    return Primer(Validate(tree, registry))


def guarded(
    tree: Handler, principal: Principal, clock: Clock, policy: Decide | None, audit: Record | None
) -> Handler:
    """The tree behind a rule about verbs, and a record of what was asked for."""
    if policy is not None:
        tree = Policy(tree, policy)
    if audit is not None:
        tree = Audit(tree, audit, principal=principal, clock=clock)
    return tree


def homes_of(rooms: list[Room], homes: list[Any]) -> dict[VPath, Any]:
    """Each opened space by the place where it is mounted."""
    return {room.at: home for room, home in zip(rooms, homes, strict=True)}
