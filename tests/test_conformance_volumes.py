"""Overlays and a folder of the host keep the contract, but for what each is said not to do.

One overlay stands over nothing, in memory. The other is as lasting as the SQLite file that holds
its upper space, and stands over a tree of which everything was removed: the names that tests use
lie hidden below it.
"""

from __future__ import annotations

import itertools
import tempfile
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from keelfs import ops
from keelfs.clock import SystemClock
from keelfs.memory import MemorySpace
from keelfs.model import UNLIMITED
from keelfs.ports import Handler
from keelfs.store.catalog import SqlCatalog
from keelfs.store.sqlite import SqliteDatabase
from keelfs.testing.conformance import ConformanceSuite, Setting, Subject, register
from keelfs.volumes.host import HostFolder
from keelfs.volumes.overlay import Overlay

_numbers = itertools.count(1)
_databases: list[SqliteDatabase] = []

#: A tree under names that tests use.
HIDDEN = (
    ops.Write("/a", "old"), ops.Write("/d/a", "old"), ops.Write("/d/e/f", "old"),
    ops.Write("/f/x", "old"), ops.Mkdir("/n"), ops.Symlink("d/a", "/l"), ops.Link("/a", "/b"),
)  # fmt: skip


def in_memory(setting: Setting) -> Handler:
    return Overlay(MemorySpace(), MemorySpace(setting.principal, setting.limits, setting.clock))


def lasting(setting: Setting) -> Handler:
    """An overlay in a tenant of its own, from whose view everything below was removed."""
    lower = MemorySpace()
    for op in HIDDEN:
        lower.perform(op)
    catalog = SqlCatalog(_databases[-1], setting.clock or SystemClock(), UNLIMITED, 3600.0)
    tenant = catalog.open_tenant(f"tenant {next(_numbers)}", True)
    upper = catalog.open_space(tenant, "session", "s", setting.principal, True)
    overlay = Overlay(lower, upper)
    for entry in overlay.perform(ops.List("/")).items:
        overlay.perform(ops.Remove(f"/{entry.name}", recursive=True))
    upper.set_limits(setting.limits)
    return overlay


@contextmanager
def folder(_: Setting) -> Generator[Handler]:
    with (
        tempfile.TemporaryDirectory() as place,
        HostFolder(place, writable=True, links=True) as opened,
    ):
        yield opened


UNVERSIONED = {
    "history": "former contents are not kept",
    "trash": "it keeps none; `remove` is final",
    "snapshots": "it keeps nothing but the present tree",
    "journal": "it keeps nothing but the present tree",
}
MEMORY = register(Subject("overlay", in_memory, UNVERSIONED))
SQLITE = register(Subject("overlay that lasts", lasting, UNVERSIONED))
HOST = register(
    Subject(
        "host folder",
        folder,
        {
            **UNVERSIONED,
            "batch": "the host has no transactions: one change, and only as the last operation",
            "judges": "the host has no transactions: what was done cannot be taken back",
            "requests": "there is no place for answers beside the files",
            "limits": "the host's own quotas hold",
            "revisions": "the host counts none; a number is derived from inode, time and size",
            "identity": "contents are replaced whole, so each has an inode of its own",
            "shared_bytes": "contents are replaced whole, which parts a file from its other names",
            "devices": "a device would open the machine to whoever reads it",
            "owners": "set-id bits are refused, and only a privileged process gives files away",
            "times": "the host sets them, also when something is read, or written in vain",
            "known_checksum": "the host keeps none; it is computed whenever it is asked for",
            "clock": "the host's clock is asked",
            "principal": "the host knows users of its own only",
        },
    )
)


class TestOverlay(ConformanceSuite):
    @pytest.fixture
    def subject(self) -> Subject:
        return MEMORY


class TestLastingOverlay(ConformanceSuite):
    @pytest.fixture(scope="class", autouse=True)
    @classmethod
    def database(cls) -> Iterator[None]:
        with tempfile.TemporaryDirectory() as place:
            database = SqliteDatabase(str(Path(place) / "store.db"), durability="relaxed")
            database.migrate()
            _databases.append(database)
            yield
            database.close()

    @pytest.fixture
    def subject(self) -> Subject:
        return SQLITE


class TestHost(ConformanceSuite):
    @pytest.fixture
    def subject(self) -> Subject:
        return HOST
