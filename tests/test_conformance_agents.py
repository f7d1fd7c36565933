"""The tree of an agent keeps the contract of a volume, at its root and in its mounts.

At the root the suite is shown the tree without the names of the mounts, because it begins with an
empty one.
"""

from __future__ import annotations

import itertools
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypeVar, cast

import pytest

from keelfs import ops
from keelfs.assembly import Tenant
from keelfs.clock import SystemClock
from keelfs.errors import InvalidPath
from keelfs.gates.subtree import Subtree
from keelfs.memory.catalog import MemoryCatalog
from keelfs.model import MAX_PAGE, UNLIMITED, Entry, Limits, Page
from keelfs.path import parse
from keelfs.ports import Clock, Handler
from keelfs.store.catalog import SqlCatalog
from keelfs.store.database import Database
from keelfs.store.sqlite import SqliteDatabase
from keelfs.testing.cluster import PostgresCluster
from keelfs.testing.conformance import ConformanceSuite, Setting, Subject, register

T = TypeVar("T")

_numbers = itertools.count(1)
_databases: dict[str, Database] = {}
_MOUNTS = {".agent", ".user", "artifacts"}


class Shown:
    """A tree as the suite is shown it; it knows whose limits are changed."""

    def __init__(self, below: Handler, home: Any) -> None:
        self.below, self.home = below, home

    def perform(self, op: ops.Op[T], /) -> T:
        return self.below.perform(op)


class Bare(Shown):
    """The root of a tree, without the names of its mounts."""

    def perform(self, op: ops.Op[T], /) -> T:
        if not isinstance(op, ops.List) or not _is_root(op.path):
            return self.below.perform(op)
        if not 1 <= op.limit <= MAX_PAGE - len(_MOUNTS):
            return self._hidden(self.below.perform(op))
        page = self.below.perform(ops.List("/", op.after, op.limit + len(_MOUNTS)))
        own = [entry for entry in page.items if entry.name not in _MOUNTS]
        more = page.next is not None or len(own) > op.limit
        shown: Page[Entry] = Page(own[: op.limit], own[op.limit - 1].name if more else None)
        return cast(T, shown)

    def _hidden(self, page: Any) -> Any:
        return Page([entry for entry in page.items if entry.name not in _MOUNTS], page.next)


def _is_root(place: Any) -> bool:
    try:
        return parse(place).is_root
    except InvalidPath:
        return False


def catalog(engine: str, clock: Clock | None) -> Any:
    clock = clock or SystemClock()
    if engine == "memory":
        return MemoryCatalog(clock, UNLIMITED)
    return SqlCatalog(_databases[engine], clock, UNLIMITED, 3600.0)


def make(engine: str, place: str, setting: Setting) -> Handler:
    """A tree of a tenant of its own, from `place` on."""
    opened = catalog(engine, setting.clock)
    name = f"tenant {next(_numbers)}"
    tenant = Tenant(opened, opened.open_tenant(name, True), name)
    tree = tenant.agent_tree(session="s", agent="a", user="u", principal=setting.principal)
    kinds = {"/": ("session", "s"), "/.agent": ("agent", "a"), "/.user": ("user", '["u","a"]')}
    home = opened.open_space(tenant.key, *kinds[place], setting.principal, False)
    home.set_limits(setting.limits)
    # What a space may use is known to whoever opens it after that.
    tree = tenant.agent_tree(session="s", agent="a", user="u", principal=setting.principal)
    if place == "/":
        return Bare(tree.handler, home)
    return Shown(Subtree(tree.handler, parse(place)), home)


def relimit(handler: Handler, limits: Limits) -> None:
    assert isinstance(handler, Shown)
    handler.home.set_limits(limits)


ROOT = register(
    Subject("agent tree", lambda setting: make("sqlite", "/", setting), relimit=relimit)
)
AGENT = register(
    Subject("/.agent", lambda setting: make("memory", "/.agent", setting), relimit=relimit)
)
USER = register(
    Subject("/.user", lambda setting: make("postgres", "/.user", setting), relimit=relimit)
)


class TestRoot(ConformanceSuite):
    @pytest.fixture(scope="class", autouse=True)
    @classmethod
    def database(cls) -> Iterator[None]:
        with tempfile.TemporaryDirectory() as folder:
            database = SqliteDatabase(str(Path(folder) / "store.db"), durability="relaxed")
            database.migrate()
            _databases["sqlite"] = database
            yield
            database.close()

    @pytest.fixture
    def subject(self) -> Subject:
        return ROOT


class TestAgent(ConformanceSuite):
    @pytest.fixture
    def subject(self) -> Subject:
        return AGENT


class TestUser(ConformanceSuite):
    @pytest.fixture(scope="class", autouse=True)
    @classmethod
    def database(cls, postgres_cluster: PostgresCluster) -> Iterator[None]:
        from keelfs.store.postgres import PostgresDatabase

        database = PostgresDatabase(postgres_cluster.create_database("agents"))
        database.migrate()
        _databases["postgres"] = database
        yield
        database.close()

    @pytest.fixture
    def subject(self) -> Subject:
        return USER
