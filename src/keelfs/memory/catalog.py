"""A whole store in dictionaries: tenants and spaces that live as long as the process.

A tenant's `bytes` and `nodes` are refused here, since no space knows of another; whoever needs a
sum to be bounded needs a database.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Any, NoReturn, TypeVar

from keelfs.errors import AlreadyExists, InvalidArgument, NotFound, Unsupported
from keelfs.memory.space import MemorySpace
from keelfs.model import UNLIMITED, Limits, Principal, Report, Swept, Usage
from keelfs.ops import Op
from keelfs.ports import Clock, Volume
from keelfs.spelling import check_id, check_kind

T = TypeVar("T")
Key = tuple[str, str]
#: The kinds of spaces whose key is the id of a session, and which go with it.
SESSION_KINDS = {"session", "artifacts", "overlay"}


class _Tenant:
    def __init__(self, store: Limits) -> None:
        """`store` bounds every space."""
        self.store = store
        self.limits = UNLIMITED
        self.spaces: dict[Key, MemorySpace] = {}
        #: What each space was limited to by itself.
        self.own: dict[Key, Limits] = {}

    def limits_of(self, key: Key) -> Limits:
        """The limits in force in a space."""
        limits = self.store.narrowed(self.limits).narrowed(self.own.get(key, UNLIMITED))
        return limits.for_kind(key[0])

    def delete(self, key: Key) -> bool:
        self.own.pop(key, None)
        return self.spaces.pop(key, None) is not None


class MemoryHome:
    """A space of a tenant, with what can be done to it as a whole."""

    local_reads = True

    def __init__(self, tenant: _Tenant, key: Key, space: MemorySpace) -> None:
        self._tenant, self._key, self._space = tenant, key, space

    def perform(self, op: Op[T], /) -> T:
        if self._key not in self._tenant.spaces:
            raise NotFound("this space has been deleted")
        return self._space.perform(op)

    def readied(self, op: Op[T], /) -> AbstractContextManager[Op[T]]:
        return self._space.readied(op)

    @property
    def store(self) -> object:
        return id(self._tenant)

    def together(self, others: Sequence[MemoryHome], work: Callable[[Sequence[Volume]], T], /) -> T:
        """Runs work on several spaces of the tenant in one transaction."""
        for home in (self, *others):
            if home._key not in home._tenant.spaces:
                raise NotFound("this space has been deleted")
        return self._space.together([home._space for home in others], work)

    def fork(self, kind: str, key: str, at: str | None) -> MemoryHome:
        check_kind(kind)
        check_id("key of a space", key)
        if (kind, key) in self._tenant.spaces:
            raise AlreadyExists("there is already a space of this name")
        forked = self._space.fork(at)
        forked.limits = self._tenant.limits_of((kind, key))
        self._tenant.spaces[kind, key] = forked
        return MemoryHome(self._tenant, (kind, key), forked)

    def set_limits(self, limits: Limits) -> None:
        self._tenant.own[self._key] = limits
        self._space.limits = self._tenant.limits_of(self._key)

    def delete(self) -> None:
        if not self._tenant.delete(self._key):
            raise NotFound("this space has been deleted")

    def waiter(self) -> None:
        return None


class MemoryCatalog:
    """See the module."""

    def __init__(self, clock: Clock, limits: Limits) -> None:
        self._clock = clock
        self._limits = limits
        self._tenants: dict[str, _Tenant] = {}
        self._lock = threading.Lock()

    def registry(self) -> NoReturn:
        raise Unsupported("a store in memory keeps no tokens; serve one in SQLite or PostgreSQL")

    def shelf(self, tenant: _Tenant) -> NoReturn:  # noqa: ARG002
        raise Unsupported(
            "a store in memory numbers no artifacts; open one in SQLite or PostgreSQL"
        )

    def open_tenant(self, name: str, create: bool) -> _Tenant:
        check_id("name of a tenant", name)
        with self._lock:
            if create:
                return self._tenants.setdefault(name, _Tenant(self._limits))
            if name not in self._tenants:
                raise NotFound("there is no tenant of this name")
            return self._tenants[name]

    def tenants(self) -> Iterator[str]:
        return iter(sorted(self._tenants, key=str.encode))

    def open_space(
        self, tenant: _Tenant, kind: str, key: str, principal: Principal, create: bool
    ) -> MemoryHome:
        check_kind(kind)
        check_id("key of a space", key)
        with self._lock:
            space = tenant.spaces.get((kind, key))
            if space is None:
                if not create:
                    raise NotFound("there is no such space")
                limits = tenant.limits_of((kind, key))
                space = MemorySpace(principal, limits, self._clock)
                tenant.spaces[kind, key] = space
            return MemoryHome(tenant, (kind, key), space.acting_as(principal))

    def open_spaces(
        self, tenant: _Tenant, wanted: Sequence[Key], principal: Principal, create: bool
    ) -> list[MemoryHome]:
        return [self.open_space(tenant, kind, key, principal, create) for kind, key in wanted]

    def delete_session(self, tenant: _Tenant, session: str) -> None:
        with self._lock:
            kinds = {kind for kind, key in tenant.spaces if key == session} & SESSION_KINDS
            if not kinds:
                raise NotFound("there is no such session")
            for kind in kinds:
                tenant.delete((kind, session))

    def spaces(self, tenant: _Tenant) -> Iterator[Key]:
        return iter(sorted(tenant.spaces))

    def usage(self, tenant: _Tenant) -> Usage:
        counts = [space.recount() for space in tenant.spaces.values()]
        totals = {name: sum(count[name] for count in counts) for name in (counts or [{}])[0]}
        return Usage(**totals, limits=tenant.limits)

    def set_limits(self, tenant: _Tenant, limits: Limits) -> None:
        if limits.bytes is not None or limits.nodes is not None:
            raise Unsupported("a store in memory bounds each space, not the sum of a tenant")
        tenant.limits = limits
        for key, space in tenant.spaces.items():
            space.limits = tenant.limits_of(key)

    def delete_tenant(self, tenant: _Tenant) -> None:
        with self._lock:
            for name, other in list(self._tenants.items()):
                if other is tenant:
                    del self._tenants[name]
            tenant.spaces.clear()

    def check(self, repair: bool) -> Report:
        """Dictionaries have nothing to be damaged by; the ledger is counted by the tests."""
        del repair
        spaces = [space for tenant in self._tenants.values() for space in tenant.spaces.values()]
        nodes = sum(len(space.tree()) for space in spaces)
        return Report(findings=[], spaces=len(spaces), nodes=nodes, contents=0)

    def sweep(self, steps: int | None) -> Swept:
        del steps
        swept = [space.sweep() for tenant in self._tenants.values()
                 for space in tenant.spaces.values()]  # fmt: skip
        return Swept(
            expired_trash=sum(each.expired_trash for each in swept),
            expired_revisions=sum(each.expired_revisions for each in swept),
            expired_changes=sum(each.expired_changes for each in swept),
        )

    def stats(self) -> dict[str, Any]:
        spaces = sum(len(tenant.spaces) for tenant in self._tenants.values())
        return {"tenants": len(self._tenants), "spaces": spaces}

    def backup(self, path: str) -> None:  # noqa: ARG002
        raise InvalidArgument("a store in memory has no backup; export its spaces instead")

    def close(self) -> None:
        self._tenants.clear()
