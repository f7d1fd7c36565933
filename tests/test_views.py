"""The SQL views show the tree in the documented shape to whoever opens the database.

Each file is written by another path through the store: small, empty, large, streamed, appended,
patched, cut and with holes; the views must show the bytes that the verbs read.
"""

from __future__ import annotations

import datetime
import random
import uuid
from collections.abc import Iterator
from typing import Any

import pytest

from databases import ENGINES, Opened
from keelfs.model import Attrs
from keelfs.ops import (
    Append,
    Batch,
    Copy,
    GetStat,
    Link,
    Mkdir,
    Patch,
    Read,
    Remove,
    SetAttrs,
    Symlink,
    TakeSnapshot,
    Trash,
    Truncate,
    Write,
)
from keelfs.ports import Handler
from keelfs.testing.exercises import Stream

BYTES = random.Random(1).randbytes(300_000)
TOP = "/acme/session/chat abc"
FILES: dict[str, tuple[Any, ...]] = {
    "/empty": (Write("/empty", b""),),
    "/small": (Write("/small", b"hello\0\xff"),),
    "/sized": (Write("/sized", bytes(65_536)),),
    "/large": (Write("/large", BYTES),),
    "/streamed": (Write("/streamed", Stream(3)),),
    "/grown": (Write("/grown", BYTES[:2000]), Append("/grown", BYTES), Append("/grown", b"end")),
    "/patched": (
        Write("/patched", BYTES), Patch("/patched", 1000, b"x" * 270_000),
        Patch("/patched", 5, "y"), Patch("/patched", 262_143, "zz"),
    ),
    "/sparse": (
        Write("/sparse", "s"), Truncate("/sparse", 700_000), Patch("/sparse", 900_000, "end"),
        Truncate("/sparse", 1_000_000), Patch("/sparse", 100_000, "middle"),
    ),
    "/cut": (Write("/cut", BYTES), Truncate("/cut", 262_145)),
    "/over": (Write("/over", BYTES), Write("/over", "short"), Append("/over", "er")),
    "/d/e_%'\\é": (Write("/d/e_%'\\é", "named"),),
}  # fmt: skip


@pytest.fixture(params=ENGINES)
def opened(request: pytest.FixtureRequest) -> Iterator[Opened]:
    opened = Opened(request.param, request.getfixturevalue(f"{request.param}_url"))
    yield opened
    opened.close()


@pytest.fixture
def space(opened: Opened) -> Handler:
    """A space that holds everything, beside others that hold the same names."""
    tenant = opened.tenant("acme")
    home = opened.space(tenant, "chat abc")
    for ops in FILES.values():
        for op in ops:
            home.perform(op)
    for op in (
        Copy("/patched", "/copied"), Link("/large", "/linked"), Symlink("/d/é", "/link"),
        Mkdir("/empty dir"), Write("/gone", "x"), Remove("/gone"), Write("/thrown", "x"),
        Trash("/thrown"), SetAttrs("/small", Attrs(mode=0o640, readonly=True)),
        TakeSnapshot("a snapshot shows nothing"),
    ):  # fmt: skip
        home.perform(op)
    opened.space(tenant, "chat abcd").perform(Write("/other", "x"))
    opened.space(tenant, "agent", "agent").perform(Write("/agent file", "x"))
    opened.space(tenant, "deleted").delete()
    return home


def pieces(opened: Opened, path: str) -> list[tuple[int, bytes | None]]:
    mark = "?" if opened.engine == "sqlite" else "%s"
    rows = opened.execute(
        f"SELECT chunk_index, data FROM fs_chunks WHERE path = {mark} ORDER BY chunk_index",
        (TOP + path,),
    )
    return [(index, None if data is None else bytes(data)) for index, data in rows]


def test_chunks_are_the_bytes_of_the_file(opened: Opened, space: Handler) -> None:
    """S0-3, S0-6, S0-9: dense from 0, and together what is read and as long as is said."""
    for path in (*FILES, "/copied", "/linked"):
        found = pieces(opened, path)
        assert [index for index, _data in found] == list(range(len(found))), path
        data = b"".join(data or b"" for _index, data in found)
        assert data == space.perform(Read(path)), path
    assert pieces(opened, "/empty") == []


def test_entries_are_the_tree(opened: Opened, space: Handler) -> None:
    """S0-2, S0-8: one row for each path, with type, mode, size, time and target."""
    rows = opened.execute("SELECT path, type, mode, size, mtime, symlink_target FROM fs_entries")
    assert len({row[0] for row in rows}) == len(rows)
    mine = {row[0]: row[1:] for row in rows if f"{row[0]}/".startswith(f"{TOP}/")}
    below = (*FILES, "/copied", "/linked", "/link", "/d", "/empty dir")
    assert set(mine) == {TOP, *(TOP + path for path in below)}
    for path in below:
        stat = space.perform(GetStat(path, follow=False))
        wanted = (stat.kind.value, stat.mode, stat.size, stat.mtime_ns // 10**6, stat.target)
        assert mine[TOP + path] == wanted
    assert {row[0] for row in rows} - set(mine) == {
        "/acme/session/chat abcd", "/acme/session/chat abcd/other", "/acme/agent/agent",
        "/acme/agent/agent/agent file",
    }  # fmt: skip


def test_the_columns_are_those_that_are_documented(opened: Opened) -> None:
    """S0-2, S0-3, S1-3: by these names; what ours have more comes behind."""

    def columns(view: str) -> list[str]:
        text = (
            f"SELECT name FROM pragma_table_info('{view}') ORDER BY cid"
            if opened.engine == "sqlite"
            else f"SELECT attname::text FROM pg_attribute WHERE attrelid = '{view}'::regclass"
            " AND attnum > 0 ORDER BY attnum"
        )
        return [row[0] for row in opened.execute(text)]

    assert columns("fs_entries")[:6] == ["path", "type", "mode", "size", "mtime", "symlink_target"]
    assert columns("fs_chunks") == ["path", "chunk_index", "data"]
    assert columns("session_files") == [
        "id", "session_id", "path", "content", "is_directory", "is_readonly", "size_bytes",
        "created_at", "updated_at",
    ]  # fmt: skip


def test_session_files_hold_whole_contents(opened: Opened, space: Handler) -> None:
    """S1-3: of sessions alone, with paths as the session knows them."""
    rows = opened.execute(
        "SELECT session_id, path, content, is_directory, is_readonly, size_bytes FROM session_files"
    )
    assert {row[0] for row in rows} == {"chat abc", "chat abcd"}
    mine = {row[1]: row[2:] for row in rows if row[0] == "chat abc"}
    assert set(mine) == {*FILES, "/copied", "/linked", "/link", "/d", "/empty dir"}
    for path in (*FILES, "/copied", "/linked"):
        content, directory, readonly, size = mine[path]
        assert bytes(content) == space.perform(Read(path)), path
        assert (bool(directory), bool(readonly), size) == (False, path == "/small", len(content))
    assert mine["/d"][:2] in {(None, True), (None, 1)}


def test_ids_and_times_of_session_files_can_be_read(opened: Opened, space: Handler) -> None:
    """S1-3: an id is a UUID, a time a moment with its zone."""
    stat = space.perform(GetStat("/small"))
    ((id_, created, updated),) = opened.execute(
        "SELECT id, created_at, updated_at FROM session_files WHERE path = '/small'"
    )
    assert uuid.UUID(str(id_)) == stat.uuid
    for moment, told in ((stat.created_ns, created), (stat.mtime_ns, updated)):
        if isinstance(told, str):
            assert told.endswith("Z")
            told = datetime.datetime.fromisoformat(told)
        assert abs(told.timestamp() - moment / 1e9) < 0.002


def test_a_hole_that_is_too_long_to_show_spoils_nothing(opened: Opened, space: Handler) -> None:
    """Whoever reads the views is not stopped by one file of a million gigabytes."""
    space.perform(Batch((Write("/huge", "x"), Truncate("/huge", 2**50 - 2**30))))
    assert pieces(opened, "/huge") == [(0, b"x"), (1, None)]
    rows = opened.execute("SELECT path, content FROM session_files WHERE path IN ('/huge', '/cut')")
    assert {path: content is None for path, content in rows} == {"/huge": True, "/cut": False}
