"""Settings become a store, a store gives tenants, a tenant gives spaces.

The one place where databases, gates and workspaces are put together. Who calls: programs, which
begin with `keelfs.open(url)`, and every surface.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Protocol, Self

from keelfs.clock import Now, SystemClock
from keelfs.config import Settings, from_environment
from keelfs.errors import Corrupt, InvalidArgument
from keelfs.model import Limits, Principal, Report, Swept, Usage
from keelfs.ports import Clock
from keelfs.workspace import Space, SpaceHome

if TYPE_CHECKING:
    from keelfs.agents import AgentTree
    from keelfs.artifacts import Artifacts, Conversation, Memory
    from keelfs.gates.audit import Attempt
    from keelfs.gates.policy import Decide
    from keelfs.store.registry import Registry
    from keelfs.store.shelf import Shelf
    from keelfs.validators import Validator


class Catalog(Protocol):
    """What a kind of store offers; tenants are known to it by a value of its own."""

    def registry(self) -> Registry: ...

    def open_tenant(self, name: str, create: bool) -> Any: ...

    def tenants(self) -> Iterator[str]: ...

    def open_space(
        self, tenant: Any, kind: str, key: str, principal: Principal, create: bool
    ) -> SpaceHome: ...

    def open_spaces(
        self, tenant: Any, wanted: Sequence[tuple[str, str]], principal: Principal, create: bool
    ) -> Sequence[SpaceHome]: ...

    def delete_session(self, tenant: Any, session: str) -> None: ...

    def shelf(self, tenant: Any) -> Shelf: ...

    def spaces(self, tenant: Any) -> Iterator[tuple[str, str]]: ...

    def usage(self, tenant: Any) -> Usage: ...

    def set_limits(self, tenant: Any, limits: Limits) -> None: ...

    def delete_tenant(self, tenant: Any) -> None: ...

    def check(self, repair: bool) -> Report: ...

    def sweep(self, steps: int | None) -> Swept: ...

    def stats(self) -> dict[str, Any]: ...

    def backup(self, path: str) -> None: ...

    def close(self) -> None: ...


class Tenant:
    """One tenant of a store: the spaces of its agents, users and sessions."""

    def __init__(self, catalog: Catalog, key: Any, name: str) -> None:
        self._catalog = catalog
        #: What the store knows it by.
        self.key = key
        self.name = name

    def space(
        self, kind: str, key: str, *, principal: Principal | None = None, create: bool = True
    ) -> Space:
        """One isolated tree; made on first use unless `create=False`, which raises `NotFound`.

        `principal` is written into the journal and decides how long the trash keeps things.
        """
        home = self._catalog.open_space(self.key, kind, key, principal or Principal(), create)
        return Space(home)

    def spaces(self) -> Iterator[tuple[str, str]]:
        """Kind and key of every space, in order."""
        return self._catalog.spaces(self.key)

    def agent_tree(
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
        """All that one agent sees in one session with one user, as one tree.

        `/` is the session's space, `/artifacts` what it makes for the user, `/.agent` the agent's,
        `/.user` that of this user with this agent, `/skills/<name>` a folder of the host that is
        never changed. `validators` say by globs what may be written where, `policy` which verbs;
        `audit` is told of every attempt. `now` tells the time to what only this tree holds.
        """
        from keelfs.agents import AgentTree
        from keelfs.agents.spaces import rooms

        found = rooms(session, agent, user)
        who = principal or Principal("agent", agent)
        wanted = [(room.kind, room.key) for room in found]
        return AgentTree(
            found,
            list(self._catalog.open_spaces(self.key, wanted, who, create)),
            principal=who,
            clock=SystemClock() if now is None else Now(now),
            skills=skills,
            validators=validators,
            policy=policy,
            audit=audit,
        )

    def artifacts(self, conversation: str, *, principal: Principal | None = None) -> Artifacts:
        """What a conversation keeps for its user: the files below `/artifacts` of its tree.

        An agent sees those of another conversation only by a memory entry that links to them.
        """
        from keelfs.artifacts import Artifacts

        return Artifacts(self._catalog.shelf(self.key), conversation, principal or Principal())

    def memory(self, *, conversation: str = "", principal: Principal | None = None) -> Memory:
        """The memory entries of the tenant; an agent links what its `conversation` keeps."""
        from keelfs.artifacts import Memory

        return Memory(self._catalog.shelf(self.key), conversation, principal or Principal())

    def conversation(self, id_: str, *, agent: str) -> Conversation:
        """Carries out the slash commands in what an agent writes."""
        from keelfs.artifacts import Conversation

        who = Principal("agent", agent)
        return Conversation(
            self.artifacts(id_, principal=who), self.memory(conversation=id_, principal=who), agent
        )

    def delete_session(self, session: str) -> None:
        """Deletes what belongs to a session alone: its files and artifacts, trash, history, tokens.

        It is out of reach at once; the sweep gives the room back in steps. What belongs to its
        agent and its user stays.
        """
        self._catalog.delete_session(self.key, session)

    def usage(self) -> Usage:
        """The sums over all spaces, and the tenant's own limits."""
        return self._catalog.usage(self.key)

    def set_limits(self, limits: Limits) -> None:
        """`bytes` and `nodes` bound the sum over all spaces, the other fields each of them."""
        if not isinstance(limits, Limits):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise InvalidArgument("limits is a keelfs.Limits")
        self._catalog.set_limits(self.key, limits)

    def delete(self) -> None:
        """Deletes the tenant with everything in it; the sweep gives the room back in steps."""
        self._catalog.delete_tenant(self.key)


class Store:
    """An opened store; close it, or use it in a `with` statement."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog

    @property
    def registry(self) -> Registry:
        """Agents, sessions and tokens of all tenants, for `keelfs.identity`."""
        return self._catalog.registry()

    def tenant(self, name: str, create: bool = True) -> Tenant:
        """A tenant; made on first use unless `create=False`, which raises `NotFound`."""
        return Tenant(self._catalog, self._catalog.open_tenant(name, create), name)

    def tenants(self) -> Iterator[str]:
        """The names of all tenants, in order."""
        return self._catalog.tenants()

    def check(self, repair: bool = False) -> Report:
        """Looks at every invariant of the store; with `repair`, mends what can be mended."""
        return self._catalog.check(repair)

    def sweep(self, steps: int | None = None) -> Swept:
        """Gives back the room of what was removed, has expired or was left behind by a crash.

        Works in short transactions, at most `steps` of them; call it now and then.
        """
        return self._catalog.sweep(steps)

    def stats(self) -> dict[str, Any]:
        """How much the store holds."""
        return self._catalog.stats()

    def backup(self, path: str | Path) -> None:
        """Writes a consistent copy of the whole store to a new file, while writers run."""
        self._catalog.backup(str(path))

    def close(self) -> None:
        self._catalog.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def open(url: str | None = None, *, clock: Clock | None = None, **settings: Any) -> Store:
    """Opens a store, making and migrating it if need be.

    The URL is `sqlite:///file.db`, `postgresql://...` or `memory:`; what is not given comes from
    the environment (`KEELFS_URL`, ...). `settings` are the fields of `keelfs.config.Settings`.
    """
    if url is not None:
        settings["url"] = url
    return Store(_catalog(from_environment(**settings), clock or SystemClock()))


def _catalog(settings: Settings, clock: Clock) -> Catalog:
    location = settings.location
    if location.engine == "memory":
        from keelfs.memory.catalog import MemoryCatalog

        return MemoryCatalog(clock, settings.limits)
    from keelfs.store.catalog import SqlCatalog

    if location.engine == "sqlite":
        from keelfs.store.sqlite import SqliteDatabase

        database: Any = SqliteDatabase(
            str(location.path),
            durability=settings.durability,
            busy_timeout_s=settings.busy_timeout_s,
            vfs=settings.vfs,
        )
    else:
        database = _postgres(settings, str(location.dsn))
    database.migrate()
    return SqlCatalog(database, clock, settings.limits, settings.grace_s)


def _postgres(settings: Settings, dsn: str) -> Any:
    try:
        from keelfs.store.postgres import PostgresDatabase
    except ImportError:
        raise InvalidArgument(
            "a store on PostgreSQL needs its driver: pip install 'keelfs[postgres]'"
        ) from None
    return PostgresDatabase(
        dsn,
        pool_size=settings.pool_size,
        busy_timeout_s=settings.busy_timeout_s,
        durability=settings.durability,
    )


def restore(backup: str | Path, path: str | Path) -> None:
    """Makes a new SQLite store out of a backup: checks it, then puts it into place at once.

    The file at `path` must not exist yet. A backup of PostgreSQL is restored by `pg_restore`.
    """
    from keelfs.store.sqlite import restore_file

    restore_file(Path(backup), Path(path))
    with open(f"sqlite:///{Path(path).absolute()}") as store:
        report = store.check()
    if not report.ok:
        raise Corrupt(f"the backup is damaged: {report.findings[0].message}")
