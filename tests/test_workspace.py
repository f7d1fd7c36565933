"""The verbs as people call them, over a space in memory."""

from __future__ import annotations

import io
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest

from keelfs import errors, ops
from keelfs.memory import MemorySpace
from keelfs.model import ABSENT, ANY, ChangeKind, Kind, Limits
from keelfs.path import VPath
from keelfs.workspace import Space, Workspace


@pytest.fixture
def ws() -> Workspace:
    return Workspace(MemorySpace())


class Endless:
    """A source that counts how much is taken out of it."""

    def __init__(self) -> None:
        self.taken = 0

    def __iter__(self) -> Any:
        while True:
            self.taken += 1
            yield b"x" * 1024


# -- bytes and names -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "data",
    [
        b"abc",
        "abc",
        bytearray(b"abc"),
        memoryview(b"abc"),
        [b"a", b"bc"],
        iter([b"a", b"", bytearray(b"b"), memoryview(b"c")]),
        (part for part in (b"a", b"bc")),
        io.BytesIO(b"abc"),
        io.BufferedReader(io.BytesIO(b"abc")),
    ],
)
def test_data_of_every_shape_is_written(ws: Workspace, data: Any) -> None:
    assert ws.write("/deep/er/a", data).size == 3
    assert ws.read("/deep/er/a") == b"abc"


def test_a_second_reading_of_a_stream_is_refused(ws: Workspace) -> None:
    from keelfs.arguments import carried

    source = carried([b"a"])
    ws.write("/a", source)
    with pytest.raises(errors.InvalidArgument, match="anew"):
        ws.write("/b", source)
    assert not ws.exists("/b")


def test_each_verb_does_what_it_says(ws: Workspace) -> None:
    first = ws.write("/a", "hello", expect=ABSENT, mode=0o600, mime="text/plain")
    assert (first.mode, first.mime, first.revision) == (0o600, "text/plain", 1)
    assert ws.append("/a", " world").size == 11
    assert ws.patch("/a", 0, "J").revision == 3
    assert ws.truncate("/a", 5).size == 5
    assert ws.read_text("/a") == "Jello"
    assert ws.read("/a", 1, 3) == b"ell"
    assert ws.read("/a", revision=1) == b"hello"
    assert ws.mkdir("/d").kind is Kind.DIRECTORY
    assert ws.mknod("/d/pipe", Kind.FIFO).kind is Kind.FIFO
    assert ws.symlink("../a", "/d/s").target == "../a"
    assert ws.readlink("/d/s") == "../a"
    assert ws.link("/a", "/d/second").nlink == 2
    assert ws.copy("/a", "/d/copy").size == 5
    assert ws.move("/d/copy", "/e/moved", parents=True).size == 5
    assert [entry.name for entry in ws.list("/d").items] == ["pipe", "s", "second"]
    assert ws.stat("/d/s", follow=False).kind is Kind.SYMLINK
    assert ws.stat("/d/s").kind is Kind.FILE
    assert ws.checksum("/a") == ws.checksum("/d/second")
    ws.remove("/d", recursive=True)
    assert not ws.exists("/d")
    assert [each.revision for each in ws.history("/a", limit=2)] == [4, 3]
    assert ws.restore("/a", 1).revision == 5
    trashed = ws.trash("/a")
    assert [each.id for each in ws.trashed().items] == [trashed.id]
    ws.untrash(trashed.id, "/b")
    ws.purge(ws.trash("/b").id)
    assert ws.trashed().items == []
    assert ws.usage("/e").nodes == 1
    assert ws.perform(ops.GetStat("/e/moved")).size == 5


def test_attributes_are_set_one_by_one(ws: Workspace) -> None:
    ws.write("/a", "x")
    ws.symlink("a", "/s")
    stat = ws.set_attrs(
        "/s", mode=0o640, uid=1, gid=2, times=(5, None), readonly=True, mime="text/x",
        xattrs={"user.k": b"v"},
    )  # fmt: skip
    assert (stat.mode, stat.uid, stat.gid, stat.atime_ns) == (0o640, 1, 2, 5)
    assert (stat.readonly, stat.mime, stat.xattrs) == (True, "text/x", {"user.k": b"v"})
    assert ws.stat("/a").mtime_ns == stat.mtime_ns != 5
    with pytest.raises(errors.ReadOnly) as caught:
        ws.write("/a", "y")
    assert caught.value.path == "/a"
    assert ws.set_attrs("/s", mode=0o700, follow=False).kind is Kind.SYMLINK


def test_what_exists_and_what_only_has_an_entry(ws: Workspace) -> None:
    ws.write("/a", "x")
    ws.symlink("nowhere", "/dangling")
    ws.symlink("loop", "/loop")
    there = {path: (ws.exists(path), ws.lexists(path)) for path in ("/a", "/dangling", "/loop")}
    assert there == {"/a": (True, True), "/dangling": (False, True), "/loop": (False, True)}
    assert (ws.exists("/a/below"), ws.lexists("/b"), ws.exists("/")) == (False, False, True)
    with pytest.raises(errors.InvalidPath):
        ws.exists("/\0")


def test_entries_go_over_all_pages(ws: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("keelfs.workspace.MAX_PAGE", 3)
    names = [f"{number:02}" for number in range(10)]
    ws.batch([ops.Write(f"/d/{name}", b"") for name in names])
    assert [entry.name for entry in ws.entries("d")] == names
    page = ws.list("d", limit=4)
    assert ws.list("d", after=page.next).items[0].name == "04"


def test_text_in_another_encoding_is_told_apart(ws: Workspace) -> None:
    ws.write("/a", "grüße".encode("latin-1"))
    assert ws.read_text("/a", "latin-1") == "grüße"
    assert ws.read_text("/a", errors="replace") == "gr\ufffd\ufffde"
    for arguments in ({}, {"encoding": "martian"}, {"encoding": 3}):
        with pytest.raises(errors.InvalidArgument) as caught:
            ws.read_text("/a", **arguments)  # type: ignore[arg-type]
        assert caught.value.path == "/a"
    ws.write("/b", "one")
    ws.write("/b", "two")
    assert ws.read_text("/b", revision=1) == "one"


def test_a_stream_shows_one_revision_whatever_is_written(ws: Workspace) -> None:
    old, new = b"old " * 1000, b"new " * 2000
    ws.write("/a", old)
    stream = ws.stream("/a", block=256)
    assert next(stream) == old[:256]
    ws.write("/a", new)
    ws.remove("/a")
    assert b"".join(stream) == old[256:]


def test_a_stream_begins_when_it_is_asked_for(ws: Workspace) -> None:
    ws.write("/a", b"old")
    stream = ws.stream("/a")
    ws.write("/a", b"new")
    assert list(stream) == [b"old"]
    with pytest.raises(errors.NotFound):
        ws.stream("/missing")


def test_a_stream_of_a_part(ws: Workspace) -> None:
    ws.write("/a", b"0123456789")
    assert list(ws.stream("/a", block=4, offset=1)) == [b"1234", b"5678", b"9"]
    assert list(ws.stream("/a", block=4, offset=1, length=5)) == [b"1234", b"5"]
    assert list(ws.stream("/a", offset=10)) == list(ws.stream("/a", length=0)) == []
    for wrong in ({"block": 0}, {"offset": -1}, {"length": "all"}, {"block": 1.5}):
        with pytest.raises(errors.InvalidArgument):
            ws.stream("/a", **wrong)  # type: ignore[arg-type]


def test_errors_in_the_middle_of_a_stream_name_the_file() -> None:
    class Rotten:
        stat = Workspace(MemorySpace()).stat("/")

        def read(self, offset: int, length: int) -> bytes:
            raise errors.Corrupt

    class Handler:
        def perform(self, op: Any, /) -> Any:
            return Rotten()

    with pytest.raises(errors.Corrupt) as caught:
        list(Workspace(Handler()).stream("the file"))
    assert caught.value.path == "the file"


def test_a_stream_is_stopped_at_the_limit() -> None:
    ws = Workspace(MemorySpace(limits=Limits(file_bytes=10_000)))
    endless = Endless()
    with pytest.raises(errors.TooLarge) as caught:
        ws.write("/big", endless)
    assert (caught.value.path, ws.exists("/big")) == ("/big", False)
    assert endless.taken < 20


def test_a_stream_that_breaks_leaves_nothing(ws: Workspace) -> None:
    def breaks() -> Any:
        yield b"some"
        raise OSError("the line is down")

    with pytest.raises(OSError, match="the line"):
        ws.write("/deep/a", breaks())
    assert not ws.exists("/deep")


# -- errors in the caller's words ----------------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "path", "to"),
    [
        (lambda ws: ws.read("no/../missing"), "no/../missing", None),
        (lambda ws: ws.stat(VPath(("missing",))), "/missing", None),
        (lambda ws: ws.list("missing"), "missing", None),
        (lambda ws: ws.stream("missing"), "missing", None),
        (lambda ws: ws.open("missing"), "missing", None),
        (lambda ws: ws.open("/", "w"), "/", None),
        (lambda ws: ws.pin("./missing"), "./missing", None),
        (lambda ws: ws.append("d", b"x"), "d", None),
        (lambda ws: ws.move("missing", "elsewhere"), "missing", "elsewhere"),
        (lambda ws: ws.copy("d", "e"), "d", "e"),
        (lambda ws: ws.link("missing", "/x"), "missing", "/x"),
        (lambda ws: ws.remove("/"), "/", None),
        (lambda ws: ws.set_attrs("missing", mode=1), "missing", None),
        (lambda ws: ws.set_attrs("d", times=5), "d", None),
        (lambda ws: ws.untrash("nothing", "/to"), "/to", None),
        (lambda ws: ws.untrash("nothing"), None, None),
        (lambda ws: ws.rollback("nothing"), None, None),
        (lambda ws: ws.write("/a", 5), "/a", None),
        (lambda ws: ws.write("/a", b"", key="k", expect=7), "/a", None),
        (lambda ws: ws.read("a\0b"), "a\0b", None),
        (lambda ws: ws.read("x" * 300), "x" * 300, None),
        (lambda ws: list(ws.entries("missing")), "missing", None),
        (lambda ws: list(ws.walk("missing")), "missing", None),
        (lambda ws: list(ws.glob("*", "missing")), "missing", None),
        (lambda ws: list(ws.grep("x", "missing")), "missing", None),
        (lambda ws: ws.grep("(", "d"), "d", None),
        (lambda ws: ws.glob("[", "d"), "d", None),
        (lambda ws: ws.subtree("d").read("missing"), "missing", None),
        (lambda ws: ws.subtree("d").write("../../x/y/..", b""), "../../x/y/..", None),
        (lambda ws: ws.readonly().write("./new", b""), "./new", None),
    ],
)
def test_errors_carry_the_callers_spelling(
    ws: Workspace, call: Callable[[Any], Any], path: str | None, to: str | None
) -> None:
    ws.mkdir("/d")
    ws.mkdir("/d/x")
    with pytest.raises(errors.KeelError) as caught:
        call(ws)
    assert (caught.value.path, caught.value.to) == (path, to)
    shown = [repr(each) for each in (path, to) if each is not None]
    assert str(caught.value).endswith(" -> ".join(shown))
    assert not (shown and ".: " in str(caught.value))


def test_a_batch_says_which_operation_failed(ws: Workspace) -> None:
    ws.write("/here", "x")
    for second in (ops.Remove("not/here"), ops.Read("not/here", -1), ops.Write("not/here", 3)):  # type: ignore[arg-type]
        with pytest.raises(errors.KeelError) as caught:
            ws.batch([ops.Write("/new", "x"), second])
        assert (caught.value.operation, caught.value.path) == (1, "not/here")
        assert str(caught.value).startswith("operation 1: ")
        assert not ws.exists("/new")


def test_a_batch_answers_in_order(ws: Workspace) -> None:
    operations = (op for op in [ops.Write("a", "x" * 3), ops.Read("/a"), ops.Remove("/a")])
    written, read, removed = ws.batch(operations)
    assert (written.size, read, removed) == (3, b"xxx", None)
    assert ws.batch([ops.Write("/s", [b"str", b"eam"])])[0].size == 6  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "call",
    [
        lambda ws: ws.read("/a", offset=-1),
        lambda ws: ws.read("/a", offset="0"),
        lambda ws: ws.read("/a", offset=True),
        lambda ws: ws.read("/a", length=-1),
        lambda ws: ws.read("/a", length=2**63),
        lambda ws: ws.read("/a", revision=1.0),
        lambda ws: ws.read(5),
        lambda ws: ws.read(b"/a"),
        lambda ws: ws.write("/b", None),
        lambda ws: ws.write("/b", 5),
        lambda ws: ws.write("/b", ["text"]),
        lambda ws: ws.write("/b", [1, 2]),
        lambda ws: ws.write("/b", {"a": 1}),
        lambda ws: ws.write("/b", io.StringIO("text")),
        lambda ws: ws.write("/b", "\ud800"),
        lambda ws: ws.write("/b", b"", expect="absent"),
        lambda ws: ws.write("/b", b"", expect=True),
        lambda ws: ws.write("/b", b"", expect=-1),
        lambda ws: ws.write("/b", b"", parents=1),
        lambda ws: ws.write("/b", b"", mode="644"),
        lambda ws: ws.write("/b", b"", mime="\0"),
        lambda ws: ws.write("/b", b"", key=5),
        lambda ws: ws.write("/b", b"", key=""),
        lambda ws: ws.patch("/a", None, b""),
        lambda ws: ws.truncate("/a", -1),
        lambda ws: ws.truncate("/a", None),
        lambda ws: ws.list("/", limit=0),
        lambda ws: ws.list("/", limit=10_001),
        lambda ws: ws.list("/", after="\ud800"),
        lambda ws: ws.changes(after="0"),
        lambda ws: ws.history("/a", before="x"),
        lambda ws: ws.mknod("/b", "fifo"),
        lambda ws: ws.mknod("/b", Kind.FILE),
        lambda ws: ws.symlink(5, "/b"),
        lambda ws: ws.set_attrs("/a", mode="x"),
        lambda ws: ws.set_attrs("/a", times=(1, 2, 3)),
        lambda ws: ws.set_attrs("/a", times=(1, "x")),
        lambda ws: ws.set_attrs("/a", xattrs=["x"]),
        lambda ws: ws.set_attrs("/a", xattrs={"k": "text"}),
        lambda ws: ws.perform(ops.SetAttrs("/a", {"mode": 1})),
        lambda ws: ws.perform("stat"),
        lambda ws: ws.batch(ops.Read("/a")),
        lambda ws: ws.batch(["read"]),
        lambda ws: ws.batch(5),
        lambda ws: ws.undo("3"),
        lambda ws: ws.perform(ops.Open("/a"), key="k"),
        lambda ws: ws.snapshot(5),
        lambda ws: ws.open("/a", "q"),
        lambda ws: ws.open("/a", "rw"),
        lambda ws: ws.open("/a", "rbt"),
        lambda ws: ws.open("/a", "a+"),
        lambda ws: ws.open("/a", "rr"),
        lambda ws: ws.open("/a", None),
        lambda ws: ws.open("/a", "r", encoding="martian"),
        lambda ws: ws.watch(timeout="1"),
        lambda ws: ws.watch(timeout=-1),
        lambda ws: ws.watch(timeout=float("nan")),
        lambda ws: ws.watch(after=-1),
        lambda ws: ws.watch(kinds={"explosion"}),
        lambda ws: ws.watch(kinds=5),
        lambda ws: ws.watch(recursive="no"),
        lambda ws: ws.watch(pattern=5),
        lambda ws: ws.glob(5),
        lambda ws: ws.grep(5),
        lambda ws: ws.grep("x", glob=5),
        lambda ws: ws.grep("x", limit=-1),
    ],
)
def test_a_mistake_is_answered_with_what_to_pass(ws: Workspace, call: Callable[[Any], Any]) -> None:
    ws.write("/a", "x")
    before = ws.changes().next
    with pytest.raises(errors.Invalid) as caught:
        call(ws)
    assert len(caught.value.message) > 15
    assert ws.changes().next == before


def test_asynchronous_data_is_sent_to_the_right_door(ws: Workspace) -> None:
    async def blocks() -> Any:
        yield b"x"

    with pytest.raises(errors.InvalidArgument, match=r"keelfs\.aio"):
        ws.write("/a", blocks())  # type: ignore[arg-type]


# -- at most once --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "call",
    [
        lambda ws, key: ws.write("/new", "x", key=key),
        lambda ws, key: ws.append("/a", "x", key=key),
        lambda ws, key: ws.patch("/a", 0, "x", key=key),
        lambda ws, key: ws.truncate("/a", 9, key=key),
        lambda ws, key: ws.mkdir("/new", key=key),
        lambda ws, key: ws.mknod("/new", Kind.FIFO, key=key),
        lambda ws, key: ws.symlink("a", "/new", key=key),
        lambda ws, key: ws.link("/a", "/new", key=key),
        lambda ws, key: ws.remove("/a", key=key),
        lambda ws, key: ws.move("/a", "/new", key=key),
        lambda ws, key: ws.copy("/a", "/new", key=key),
        lambda ws, key: ws.set_attrs("/a", xattrs={"k": b"v"}, key=key),
        lambda ws, key: ws.restore("/a", 1, key=key),
        lambda ws, key: ws.trash("/a", key=key),
        lambda ws, key: ws.untrash(ws.trashed().items[0].id if ws.trashed().items else "", key=key),
        lambda ws, key: ws.snapshot("new", key=key),
        lambda ws, key: ws.drop_snapshot("kept", key=key),
        lambda ws, key: ws.rollback("kept", key=key),
        lambda ws, key: list(ws.undo(1, key=key)),
        lambda ws, key: ws.batch([ops.Append("/a", "x"), ops.Read("/a"), ops.List("/")], key=key),
    ],
)  # fmt: skip
def test_a_retry_is_given_the_first_answer(
    ws: Workspace, call: Callable[[Workspace, str | None], Any]
) -> None:
    ws.write("/b", "1")
    ws.write("/a", "1")
    ws.snapshot("kept")
    ws.write("/a", "2")
    if "untrash" in str(call.__code__.co_names):
        gone = ws.trash("/b").id
        call = lambda ws, key: ws.untrash(gone, key=key)  # noqa: E731
    if "undo" in str(call.__code__.co_names):
        seq = ws.changes().items[-1].seq
        call = lambda ws, key: list(ws.undo(seq, key=key))  # noqa: E731
    first = call(ws, "the key")
    end = ws.changes().next
    assert call(ws, "the key") == first
    assert ws.changes().next == end


def test_a_key_belongs_to_one_request(ws: Workspace) -> None:
    ws.append("/a", "x", key="k")
    with pytest.raises(errors.Conflict) as caught:
        ws.append("/a", "y", key="k")
    assert caught.value.path == "/a"
    assert ws.append("/a", "x", key="l").size == 2
    assert ws.read("/a") == b"xx"


# -- smaller views -------------------------------------------------------------------------------


def test_a_subtree_is_a_whole_tree(ws: Workspace) -> None:
    ws.write("/base/a", "inside")
    ws.write("/outside", "secret")
    ws.symlink("/outside", "/base/out")
    inner = ws.subtree("/base")
    assert inner.read("/../a") == b"inside"
    assert not inner.exists("/out")
    inner.write("/b/c", "x")
    assert ws.read("/base/b/c") == b"x"
    assert [path for path, _ in inner.walk()] == ["a", "b", "b/c", "out"]
    assert [change.path for change in inner.changes().items][-1] == ("b", "c")
    assert inner.subtree("b").read("c") == b"x"


def test_a_readonly_view_changes_nothing(ws: Workspace) -> None:
    ws.write("/a", "x")
    view = ws.readonly()
    assert view.read("/a") == b"x"
    with pytest.raises(errors.ReadOnly), view.open("/a", "w") as file:
        file.write("y")
    assert ws.read("/a") == b"x"


def test_what_is_found_is_relative_to_where_one_looked(ws: Workspace) -> None:
    ws.batch([ops.Write(path, "needle") for path in ("/d/a.py", "/d/e/b.py", "/c.py", "/d/f.md")])
    assert list(ws.glob("**/*.py")) == ["c.py", "d/a.py", "d/e/b.py"]
    assert list(ws.glob("*.py", "/d")) == ["a.py", "e/b.py"]
    assert [path for path, _ in ws.walk("d")] == ["a.py", "e", "e/b.py", "f.md"]
    found = list(ws.grep("ne+dle", "/d", glob="*.py"))
    assert [(match.path, match.line_number) for match in found] == [
        (("a.py",), 1), (("e", "b.py"), 1),
    ]  # fmt: skip
    assert len(list(ws.grep("NEEDLE", case_sensitive=False, limit=2))) == 2
    assert list(ws.grep("ne+dle", fixed=True)) == []


# -- spaces --------------------------------------------------------------------------------------


class Home:
    """A space of a store, as far as a workspace knows."""

    def __init__(self, told: list[Any]) -> None:
        self._space, self.told = MemorySpace(), told

    def perform(self, op: Any, /) -> Any:
        return self._space.perform(op)

    def fork(self, kind: str, key: str, at: str | None) -> Home:
        self.told.append((kind, key, at))
        return Home(self.told)

    def set_limits(self, limits: Limits) -> None:
        self.told.append(limits)

    def delete(self) -> None:
        self.told.append("deleted")

    def waiter(self) -> None:
        return None


def test_a_space_asks_its_home() -> None:
    from keelfs.gates.readonly import ReadOnlyGate

    told: list[Any] = []
    space = Space(Home(told), ReadOnlyGate)
    fork = space.fork("session", "other", at="before")
    space.set_limits(Limits(bytes=5))
    space.delete()
    assert told == [("session", "other", "before"), Limits(bytes=5), "deleted"]
    with pytest.raises(errors.ReadOnly):
        fork.write("/a", "x")
    for call in (
        lambda: space.fork("session", 5),  # type: ignore[arg-type]
        lambda: space.fork("session", "a\0"),
        lambda: space.set_limits({"bytes": 5}),  # type: ignore[arg-type]
    ):
        with pytest.raises(errors.InvalidArgument):
            call()
    assert Space(Home(told)).write("/a", "x").size == 1


def test_undo_and_rollback_read_well(ws: Workspace) -> None:
    ws.write("/a", "1")
    ws.snapshot("before")
    ws.write("/a", "2")
    change = ws.changes().items[-1]
    assert change.kind is ChangeKind.WRITE
    assert len(ws.undo(change.seq)) == 1
    assert ws.read("/a") == b"1"
    ws.remove("/a", expect=ANY)
    kept = ws.rollback("before")
    assert ws.read("/a") == b"1"
    assert {each.name for each in ws.snapshots()} == {"before", kept.name}
    ws.drop_snapshot("before")


def test_differences_are_told_as_text(ws: Workspace) -> None:
    ws.write("/a", "one\ntwo\n")
    ws.write("/a", "one\n2\n")
    ws.write("/b", "one\n")
    shown = ws.diff("/a", 1)
    assert shown.splitlines()[:2] == ["--- /a (revision 1)", "+++ /a (revision 2)"]
    assert shown.splitlines()[-2:] == ["-two", "+2"]
    assert ws.diff("/a", 2, 1).splitlines()[-2:] == ["-2", "+two"]
    assert ws.diff("/a", other="b").splitlines()[1:] == [
        "+++ b (revision 1)", "@@ -1,2 +1 @@", " one", "-2",
    ]  # fmt: skip
    assert "one" not in ws.diff("/a", 1, context=0)
    assert ws.diff("/a", 2) == ""
    for call, path in (
        (lambda: ws.diff("./a"), "./a"),
        (lambda: ws.diff("./a", 7), "./a"),
        (lambda: ws.diff("./a", other="./c"), "./c"),
        (lambda: ws.diff("./a", 1, context=-1), "./a"),
    ):
        with pytest.raises(errors.KeelError) as caught:
            call()
        assert caught.value.path == path


def test_the_package_is_quick_to_import() -> None:
    script = (
        "import sys, keelfs; print([name for name in "
        "('asyncio', 'tarfile', 'zipfile', 're2', 'difflib', 'tempfile', 'apsw', 'psycopg') "
        "if name in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"
