"""For scale: other ways to keep an agent's files, in the same run.

Neither keeps what a store keeps: `agentfs-sdk` returns before its data is durable, plain files have
no transaction, no history and no limits.
"""

from __future__ import annotations

import asyncio
import importlib
import os
import shutil
import time
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any

from bench.row import SQLITE, Absent, Measured, at_least, row
from bench.site import Site
from bench.small import DEPTH_4, FILES, SMALL, VARIED
from bench.timing import Timed, block, by_turns, faster
from keelfs import Workspace

CALLS = 40
#: A call of an asynchronous file system, without waiting for it.
Call = Callable[[Any, int], Coroutine[Any, Any, object]]


def _agentfs() -> Any:
    try:
        return importlib.import_module("agentfs_sdk")
    except ImportError:
        raise Absent("agentfs-sdk is not installed: pip install 'keelfs[bench]'") from None


@contextmanager
def _opened(site: Site) -> Iterator[Callable[[Call], Timed]]:
    """Times blocks of calls, awaited one after the other in one loop."""
    sdk = _agentfs()
    with asyncio.Runner() as runner:
        options = sdk.AgentFSOptions(path=str(site.new_file()))
        agent = runner.run(sdk.AgentFS.open(options))

        async def fill() -> None:
            for at in range(FILES):
                await agent.fs.write_file(_kept(at), SMALL)

        runner.run(fill())

        def timing(call: Call) -> Timed:
            numbers = count()

            async def some() -> float:
                started = time.perf_counter()
                for _ in range(CALLS):
                    await call(agent.fs, next(numbers))
                return (time.perf_counter() - started) / CALLS

            return lambda: runner.run(some())

        yield timing
        runner.run(agent.close())


def _kept(at: int) -> str:
    return f"{DEPTH_4}/kept{at % FILES}"


def _new(at: int) -> str:
    return f"{DEPTH_4}/new{at}"


def _against_agentfs(
    site: Site, ours: Callable[[Workspace, int], object], theirs: Call
) -> Measured:
    with _opened(site) as timing, site.workspace(SQLITE) as space:
        for at in range(FILES):
            space.write(_kept(at), SMALL)
        mine = block(CALLS, lambda at: ours(space, at))
        return faster(by_turns(mine, timing(theirs), site.pick(11, 2), "µs"))


@row("agentfs-create", "create 4 KiB, FULL", "agentfs-sdk, not durable", at_least(10),
     on=(SQLITE,))  # fmt: skip
def agentfs_create(site: Site, database: str) -> Measured:
    return _against_agentfs(
        site,
        lambda space, at: space.write(_new(at), SMALL),
        lambda fs, at: fs.write_file(_new(at), SMALL),
    )


@row("agentfs-overwrite", "overwrite 4 KiB, FULL", "agentfs-sdk, not durable", at_least(10),
     on=(SQLITE,))  # fmt: skip
def agentfs_overwrite(site: Site, database: str) -> Measured:
    return _against_agentfs(
        site,
        lambda space, at: space.write(_kept(at), VARIED[at % 7]),
        lambda fs, at: fs.write_file(_kept(at), VARIED[at % 7]),
    )


@row("agentfs-read", "read 4 KiB", "agentfs-sdk", at_least(10), on=(SQLITE,))
def agentfs_read(site: Site, database: str) -> Measured:
    return _against_agentfs(
        site,
        lambda space, at: space.read(_kept(at)),
        lambda fs, at: fs.read_file(_kept(at), None),
    )


@row("agentfs-stat", "stat", "agentfs-sdk", at_least(10), on=(SQLITE,))
def agentfs_stat(site: Site, database: str) -> Measured:
    return _against_agentfs(
        site,
        lambda space, at: space.stat(_kept(at)),
        lambda fs, at: fs.stat(_kept(at)),
    )


@row("agentfs-list", "list 100 entries with their stats", "agentfs-sdk, names only", at_least(10),
     on=(SQLITE,))  # fmt: skip
def agentfs_list(site: Site, database: str) -> Measured:
    return _against_agentfs(
        site,
        lambda space, _: space.list(DEPTH_4),
        lambda fs, _: fs.readdir(DEPTH_4),
    )


@row("agentfs-rename", "rename a file, FULL", "agentfs-sdk, not durable", at_least(10),
     on=(SQLITE,))  # fmt: skip
def agentfs_rename(site: Site, database: str) -> Measured:
    def name(at: int) -> str:
        return _kept(0) if at == 0 else f"{DEPTH_4}/renamed{at}"

    return _against_agentfs(
        site,
        lambda space, at: space.move(name(at), name(at + 1)),
        lambda fs, at: fs.rename(name(at), name(at + 1)),
    )


class _Folder:
    """Plain files; with `synced`, a create is as durable as a store's."""

    def __init__(self, site: Site, *, synced: bool) -> None:
        self.top = Path(f"{site.new_file()}.d{DEPTH_4}")
        self.top.mkdir(parents=True)
        self.synced = synced

    def write(self, name: str) -> None:
        with (self.top / name).open("wb", buffering=0) as file:
            file.write(SMALL)
            if self.synced:
                os.fsync(file.fileno())
        if self.synced:
            folder = os.open(self.top, os.O_RDONLY)
            try:
                os.fsync(folder)
            finally:
                os.close(folder)

    def read(self, name: str) -> bytes:
        return (self.top / name).read_bytes()


def _against_files(
    site: Site,
    ours: Callable[[Workspace, int], object],
    theirs: Callable[[_Folder, int], object],
    *,
    synced: bool = False,
) -> Measured:
    folder = _Folder(site, synced=synced)
    try:
        with site.workspace(SQLITE) as space:
            for at in range(FILES):
                space.write(f"{DEPTH_4}/kept{at}", SMALL)
                folder.write(f"kept{at}")
            mine = block(CALLS, lambda at: ours(space, at))
            other = block(CALLS, lambda at: theirs(folder, at))
            return faster(by_turns(mine, other, site.pick(11, 2), "µs"))
    finally:
        shutil.rmtree(folder.top)


@row("files-create", "create 4 KiB, FULL", "plain file, fsync of file and folder", None,
     on=(SQLITE,))  # fmt: skip
def files_create(site: Site, database: str) -> Measured:
    return _against_files(
        site,
        lambda space, at: space.write(_new(at), SMALL),
        lambda folder, at: folder.write(f"new{at}"),
        synced=True,
    )


@row("files-read", "read 4 KiB", "plain file", None, on=(SQLITE,))
def files_read(site: Site, database: str) -> Measured:
    return _against_files(
        site,
        lambda space, at: space.read(_kept(at)),
        lambda folder, at: folder.read(f"kept{at % FILES}"),
    )
