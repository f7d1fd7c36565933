"""The host folder: what it answers, what it refuses, and that nothing leads out of it."""

from __future__ import annotations

import os
import socket
import stat
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from keelfs import errors, ops
from keelfs.model import ABSENT, ANY, Attrs, Kind
from keelfs.path import VPath, parse
from keelfs.volumes import descent, staging
from keelfs.volumes.host import HostFolder
from keelfs.volumes.hostnode import translated

SECRET = b"outside"


class Stream:
    """A source of blocks that may break off."""

    def __init__(self, *parts: bytes, fails: bool = False) -> None:
        self.parts, self.fails = parts, fails

    def blocks(self) -> Iterator[bytes]:
        yield from self.parts
        if self.fails:
            raise ConnectionAbortedError("the sender went away")


@pytest.fixture
def base(tmp_path: Path) -> Path:
    inside = tmp_path / "inside"
    inside.mkdir()
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "secret").write_bytes(SECRET)
    return inside


@pytest.fixture
def folder(base: Path) -> Iterator[HostFolder]:
    with HostFolder(base, writable=True, links=True) as opened:
        yield opened


def names(folder: HostFolder, path: str = "/") -> list[str]:
    return [entry.name for entry in folder.perform(ops.List(path)).items]


def refused(folder: HostFolder, op: ops.Op[Any]) -> type[errors.KeelError]:
    with pytest.raises(errors.KeelError) as caught:
        folder.perform(op)
    assert caught.value.path is None
    assert "inside" not in str(caught.value)
    return type(caught.value)


def no_leftovers(base: Path) -> bool:
    return not [name for name in base.rglob("*") if name.name.startswith(descent.UNFINISHED)]


# Confinement


@pytest.mark.parametrize(
    "target",
    [
        "../outside",
        "/../outside",
        "../../../../outside",
        "/outside",
        "x/../../outside",
        "../inside",
    ],
)
def test_a_link_that_points_out_is_resolved_inside(
    base: Path, folder: HostFolder, target: str
) -> None:
    (base / "x").mkdir()
    (base / "exit").symlink_to(target)
    assert refused(folder, ops.Read("/exit/secret")) is errors.NotFound
    assert refused(folder, ops.List("/exit")) is errors.NotFound
    assert refused(folder, ops.Write("/exit/secret", b"!")) is errors.DanglingLink
    assert refused(folder, ops.Write("/exit", b"!")) is errors.DanglingLink
    assert (base.parent / "outside" / "secret").read_bytes() == SECRET
    assert sorted(os.listdir(base.parent / "outside")) == ["secret"]


def test_a_link_to_a_host_path_is_resolved_from_the_root_of_the_volume(
    base: Path, folder: HostFolder
) -> None:
    (base / "exit").symlink_to(base.parent / "outside" / "secret")
    assert refused(folder, ops.Read("/exit")) is errors.NotFound
    inner = base.joinpath(*base.parent.parts[1:], "outside")
    inner.mkdir(parents=True)
    (inner / "secret").write_bytes(b"inside")
    assert folder.perform(ops.Read("/exit")) == b"inside"


def test_links_inside_are_followed_component_by_component(base: Path, folder: HostFolder) -> None:
    (base / "a/b").mkdir(parents=True)
    (base / "a/b/f").write_bytes(b"1")
    (base / "a/back").symlink_to("..")
    (base / "l").symlink_to("a/b")
    (base / "m").symlink_to("/l/../back/l/f")
    assert folder.perform(ops.Read("/l/f")) == b"1"
    assert folder.perform(ops.Read("/m")) == b"1"
    assert folder.perform(ops.GetStat("/m")).kind is Kind.FILE
    assert folder.perform(ops.GetStat("/m", follow=False)).target == "/l/../back/l/f"
    assert names(folder, "/a/back") == ["a", "l", "m"]
    assert folder.perform(ops.GetStat("/l/..")) == folder.perform(ops.GetStat("/"))


def test_a_long_way_back_is_walked_with_few_descriptors(base: Path, folder: HostFolder) -> None:
    deep = "/".join(["d"] * 40)
    (base / deep).mkdir(parents=True)
    (base / "f").write_bytes(b"1")
    (base / deep / "up").symlink_to("../" * 40 + "f")
    (base / deep / "zigzag").symlink_to("../d/" * 200 + "up")
    assert folder.perform(ops.Read(f"/{deep}/up")) == b"1"
    assert folder.perform(ops.Read(f"/{deep}/zigzag")) == b"1"


def test_loops_and_long_chains_are_typed(base: Path, folder: HostFolder) -> None:
    (base / "a").symlink_to("b")
    (base / "b").symlink_to("a")
    assert refused(folder, ops.Read("/a")) is errors.LinkLoop
    assert refused(folder, ops.Read("/a/x")) is errors.LinkLoop
    (base / "c0").write_bytes(b"1")
    for i in range(41):
        (base / f"c{i + 1}").symlink_to(f"c{i}")
    assert folder.perform(ops.Read("/c40")) == b"1"
    assert refused(folder, ops.Read("/c41")) is errors.LinkLoop


def test_special_files_are_listed_and_never_opened(base: Path, folder: HostFolder) -> None:
    os.mkfifo(base / "pipe")
    with socket.socket(socket.AF_UNIX) as listening:
        here = os.getcwd()
        os.chdir(base)
        try:
            listening.bind("socket")
        finally:
            os.chdir(here)
    kinds = {e.name: e.stat.kind for e in folder.perform(ops.List("/")).items}
    assert kinds == {"pipe": Kind.FIFO, "socket": Kind.SOCKET}
    for path in ("/pipe", "/socket"):
        assert refused(folder, ops.Read(path)) is errors.NotAFile
        assert refused(folder, ops.Open(path)) is errors.NotAFile
        assert refused(folder, ops.Write(path, b"x")) is errors.NotAFile
        assert refused(folder, ops.Append(path, b"x")) is errors.NotAFile
        assert refused(folder, ops.Checksum(path)) is errors.NotAFile
    assert folder.perform(ops.Copy("/pipe", "/pipe2")).kind is Kind.FIFO


def test_no_devices_and_no_set_id_bits(folder: HostFolder) -> None:
    folder.perform(ops.Write("/f", b""))
    assert refused(folder, ops.Mknod("/dev", Kind.CHAR_DEVICE, rdev=259)) is errors.Unsupported
    assert refused(folder, ops.Mknod("/dev", Kind.FILE)) is errors.InvalidArgument
    for op in (
        ops.Write("/x", b"", mode=0o4755),
        ops.Mkdir("/x", mode=0o2755),
        ops.SetAttrs("/f", Attrs(mode=0o4755)),
    ):
        assert refused(folder, op) is errors.PermissionDenied
    assert names(folder) == ["f"]


def _swap(base: Path, rounds: int, enough: threading.Event, done: threading.Event) -> None:
    door, away, exit_ = base / "door", base / "away", base.parent / "outside"
    try:
        for _ in range(rounds):
            if enough.is_set():
                return
            os.rename(door, away)
            os.symlink(exit_, door)
            os.unlink(door)
            os.rename(away, door)
    finally:
        done.set()


class PathJoining:
    """The bug on purpose: looks for links first, then hands the whole path to the kernel."""

    def __init__(self, base: Path) -> None:
        self.base = base

    def perform(self, op: Any) -> Any:
        host = self.base.joinpath(*parse(op.path).parts)
        with translated():
            if any(part.is_symlink() for part in (host, *host.parents)):
                raise errors.PermissionDenied
            if isinstance(op, ops.Read):
                return host.read_bytes()
            if isinstance(op, ops.List):
                return os.listdir(host)
            return host.write_bytes(op.data)


def _escapes(volume: Any, base: Path, rounds: int) -> int:
    """How often something outside was seen or changed while a directory became a link and back."""
    outside = base.parent / "outside"
    (outside / "victim").write_bytes(b"")
    (base / "door").mkdir()
    (base / "door" / "inner").write_bytes(b"inner")
    enough, done, seen = threading.Event(), threading.Event(), 0
    swapper = threading.Thread(target=_swap, args=(base, rounds, enough, done))
    swapper.start()
    try:
        while not done.is_set():
            with suppress(errors.KeelError):
                seen += volume.perform(ops.Read("/door/secret")) == SECRET
            with suppress(errors.KeelError):
                listed = volume.perform(ops.List("/door"))
                seen += "secret" in [
                    getattr(e, "name", e) for e in getattr(listed, "items", listed)
                ]
            with suppress(errors.KeelError):
                volume.perform(ops.Write("/door/victim", b"written", parents=False))
            for op in (ops.Remove("/door/victim"), ops.Copy("/door/secret", "/got")):
                if isinstance(volume, HostFolder):
                    with suppress(errors.KeelError):
                        volume.perform(op)
            if seen:
                enough.set()
    finally:
        swapper.join()
    seen += (outside / "victim").read_bytes() != b"" if (outside / "victim").exists() else 1
    return seen + (base / "got").exists() + (sorted(os.listdir(outside)) != ["secret", "victim"])


def test_a_directory_that_becomes_a_link_20000_times_leads_nowhere(
    base: Path, folder: HostFolder
) -> None:
    assert _escapes(folder, base, 20_000) == 0


def test_the_race_finds_a_volume_that_joins_paths(base: Path) -> None:
    assert _escapes(PathJoining(base), base, 20_000) > 0


# Reading


def test_listing_is_sorted_by_bytes_and_paged(base: Path, folder: HostFolder) -> None:
    made = ["a", "B", "é", "z", "\U0001f600", "\uff5e", "a%", "a_"]
    for name in made:
        (base / name).write_bytes(b"")
    (base / os.fsdecode(b"bad\xff")).write_bytes(b"")
    (base / "staged").mkdir()
    (base / (descent.UNFINISHED + "1")).write_bytes(b"")
    expected = sorted([*made, "staged"], key=str.encode)
    assert names(folder) == expected
    seen: list[str] = []
    after = None
    while True:
        page = folder.perform(ops.List("/", after=after, limit=2))
        seen += [entry.name for entry in page.items]
        after = page.next
        if after is None:
            break
    assert seen == expected
    assert refused(folder, ops.List("/", limit=0)) is errors.InvalidArgument
    assert refused(folder, ops.List("/a")) is errors.NotADirectory
    assert refused(folder, ops.Read("/" + descent.UNFINISHED + "1")) is errors.InvalidPath
    assert refused(folder, ops.Write(f"/n/{descent.UNFINISHED}1", b"")) is errors.InvalidPath


def test_reads_are_ranged_and_an_opened_content_stays(base: Path, folder: HostFolder) -> None:
    folder.perform(ops.Write("/f", b"0123456789"))
    assert folder.perform(ops.Read("/f", offset=8, length=5)) == b"89"
    assert folder.perform(ops.Read("/f", offset=20)) == b""
    assert refused(folder, ops.Read("/f", offset=-1)) is errors.InvalidArgument
    content = folder.perform(ops.Open("/f"))
    folder.perform(ops.Write("/f", b"other"))
    assert content.read(0, 100) == b"0123456789"
    content = folder.perform(ops.Open("/f"))
    (base / "f").write_bytes(b"in place")
    with pytest.raises(errors.Conflict):
        content.read(0, 100)


def test_a_revision_that_is_gone_is_not_found(folder: HostFolder) -> None:
    first = folder.perform(ops.Write("/f", b"1")).revision
    assert folder.perform(ops.Read("/f", revision=first)) == b"1"
    folder.perform(ops.Write("/f", b"2"))
    assert refused(folder, ops.Read("/f", revision=first)) is errors.RevisionNotFound


# Writing


@pytest.mark.parametrize(
    "make",
    [
        lambda data: ops.Write("/new/sub/f", data),
        lambda data: ops.Append("/new/sub/f", data),
        lambda data: ops.Write("/old", data),
        lambda data: ops.Append("/old", data),
        lambda data: ops.Patch("/old", 1, data),
    ],
)
def test_a_stream_that_breaks_off_leaves_nothing(
    base: Path, folder: HostFolder, make: Callable[[Any], ops.Op[Any]]
) -> None:
    folder.perform(ops.Write("/old", b"old"))
    assert refused(folder, make(Stream(b"x" * 100_000, fails=True))) is errors.StoreFailed
    assert names(folder) == ["old"]
    assert folder.perform(ops.Read("/old")) == b"old"
    assert no_leftovers(base)


def test_bytes_change_as_asked(folder: HostFolder) -> None:
    folder.perform(ops.Write("/f", Stream(b"ab", b"cd"), mode=0o640))
    folder.perform(ops.Append("/f", Stream(b"ef", b"")))
    folder.perform(ops.Append("/g", b"new"))
    folder.perform(ops.Patch("/f", 8, b"gh"))
    folder.perform(ops.Patch("/f", 0, Stream(b"A")))
    assert folder.perform(ops.Read("/f")) == b"Abcdef\0\0gh"
    folder.perform(ops.Truncate("/f", 3))
    assert folder.perform(ops.Truncate("/f", 5)).size == 5
    assert folder.perform(ops.Read("/f")) == b"Abc\0\0"
    same = folder.perform(ops.GetStat("/f"))
    assert same.mode == 0o640
    assert folder.perform(ops.Append("/f", b"")) == same
    assert folder.perform(ops.Patch("/f", 90, Stream())) == same
    assert folder.perform(ops.Truncate("/f", 5)) == same
    assert refused(folder, ops.Patch("/none", 0, b"")) is errors.NotFound


def test_expectations(folder: HostFolder) -> None:
    first = folder.perform(ops.Write("/f", b"1", expect=ABSENT))
    assert refused(folder, ops.Write("/f", b"2", expect=ABSENT)) is errors.Conflict
    second = folder.perform(ops.Write("/f", b"2", expect=first.revision))
    for op in (
        ops.Write("/f", b"x", expect=first.revision),
        ops.Append("/f", b"x", expect=first),
        ops.Patch("/f", 0, b"x", expect=first.revision),
        ops.Truncate("/f", 0, expect=first.revision),
        ops.SetAttrs("/f", Attrs(mode=0o600), expect=first.revision),
        ops.Move("/f", "/g", expect=first.revision),
        ops.Remove("/f", expect=first.revision),
        ops.Write("/new/f", b"x", expect=first.revision),
        ops.Copy("/f", "/g", expect=first.revision),
    ):
        assert refused(folder, op) is errors.Conflict
    assert names(folder) == ["f"]
    folder.perform(ops.Remove("/f", expect=second))


def test_of_many_writers_with_the_same_expectation_one_wins(base: Path) -> None:
    with HostFolder(base, writable=True) as one, HostFolder(base, writable=True) as other:
        stat = one.perform(ops.Write("/f", b"start"))
        for round_ in range(10):
            won: list[Any] = []
            barrier = threading.Barrier(4)

            def compete(folder: HostFolder, name: str, expect: int) -> None:
                barrier.wait()
                with suppress(errors.Conflict):
                    won.append(folder.perform(ops.Write("/f", name, expect=expect)))

            threads = [
                threading.Thread(target=compete, args=(folder, f"{round_}{i}", stat.revision))
                for i, folder in enumerate((one, one, other, other))
            ]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            assert len(won) == 1
            stat = won[0]


def test_appends_of_many_lose_nothing(base: Path) -> None:
    with HostFolder(base, writable=True) as one, HostFolder(base, writable=True) as other:

        def add(folder: HostFolder, line: bytes) -> None:
            for _ in range(10):
                folder.perform(ops.Append("/log", line))

        threads = [
            threading.Thread(target=add, args=(folder, b"%d\n" % i))
            for i, folder in enumerate((one, one, other, other))
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        lines = one.perform(ops.Read("/log")).split()
    assert sorted(lines) == sorted([b"0", b"1", b"2", b"3"] * 10)


def test_a_replaced_file_keeps_its_attributes(folder: HostFolder) -> None:
    folder.perform(ops.Write("/f", b"1", mode=0o600, mime="text/x-a"))
    folder.perform(ops.SetAttrs("/f", Attrs(xattrs={"user.a": b"1", "user.b": b"2"})))
    folder.perform(ops.SetAttrs("/f", Attrs(xattrs={"user.b": None, "user.c": None})))
    stat = folder.perform(ops.Append("/f", b"2"))
    assert (stat.mode, stat.mime, stat.xattrs) == (0o600, "text/x-a", {"user.a": b"1"})
    stat = folder.perform(ops.Copy("/f", "/g"))
    assert (stat.mode, stat.mime, stat.xattrs) == (0o600, "text/x-a", {"user.a": b"1"})
    assert folder.perform(ops.Write("/f", b"", mime="")).mime is None
    assert (
        refused(folder, ops.SetAttrs("/f", Attrs(xattrs={"trusted.a": b""}))) is errors.Unsupported
    )


def test_readonly_is_the_absence_of_write_permissions(base: Path, folder: HostFolder) -> None:
    folder.perform(ops.Write("/f", b"1"))
    assert folder.perform(ops.SetAttrs("/f", Attrs(readonly=True))).readonly
    assert stat.S_IMODE((base / "f").stat().st_mode) == 0o444
    folder.perform(ops.Write("/g", b"2"))
    for op in (
        ops.Write("/f", b"x"),
        ops.Append("/f", b"x"),
        ops.Patch("/f", 0, b"x"),
        ops.Truncate("/f", 0),
        ops.Copy("/g", "/f", replace=True),
        ops.Move("/g", "/f", replace=True),
    ):
        assert refused(folder, op) is errors.ReadOnly
    assert not folder.perform(ops.SetAttrs("/f", Attrs(readonly=False))).readonly
    folder.perform(ops.Write("/f", b"x"))


def test_attributes_of_a_link_are_its_own(base: Path, folder: HostFolder) -> None:
    folder.perform(ops.Write("/f", b"1"))
    before = folder.perform(ops.GetStat("/f"))
    folder.perform(ops.Symlink("f", "/l"))
    link = folder.perform(ops.SetAttrs("/l", Attrs(mtime_ns=5), follow=False))
    assert (link.kind, link.mtime_ns, link.size) == (Kind.SYMLINK, 5, 1)
    assert folder.perform(ops.GetStat("/f")) == before
    op = ops.SetAttrs("/l", Attrs(mode=0o600), follow=False)
    assert refused(folder, op) is errors.Unsupported
    assert folder.perform(ops.SetAttrs("/l", Attrs(mode=0o600, mtime_ns=7))).mtime_ns == 7


# Names


def test_directories_are_made_with_exact_modes(folder: HostFolder) -> None:
    assert folder.perform(ops.Mkdir("/a", mode=0o777)).mode == 0o777
    folder.perform(ops.Write("/p/q/f", b""))
    assert folder.perform(ops.GetStat("/p/q")).mode == 0o755
    assert refused(folder, ops.Mkdir("/a")) is errors.AlreadyExists
    assert refused(folder, ops.Mkdir("/x/y")) is errors.NotFound
    assert folder.perform(ops.Mkdir("/a", exist_ok=True)).is_directory
    folder.perform(ops.Symlink("a", "/l"))
    assert folder.perform(ops.Mkdir("/l", exist_ok=True)).is_directory
    assert refused(folder, ops.Mkdir("/p/q/f", exist_ok=True)) is errors.AlreadyExists
    assert refused(folder, ops.Mkdir("/p/q/f/x", parents=True)) is errors.NotADirectory
    assert folder.perform(ops.Mkdir("/", exist_ok=True)).is_directory


def test_hard_links_share_a_node_until_a_write_parts_them(folder: HostFolder) -> None:
    folder.perform(ops.Write("/f", b"1"))
    assert folder.perform(ops.Link("/f", "/d/g", parents=True)).nlink == 2
    assert folder.perform(ops.Move("/f", "/d/g", replace=True)).nlink == 2
    assert names(folder) == ["d", "f"]
    folder.perform(ops.Write("/f", b"2"))
    assert folder.perform(ops.Read("/d/g")) == b"1"
    assert refused(folder, ops.Link("/d", "/e")) is errors.IsADirectory
    assert refused(folder, ops.Link("/f", "/d/g")) is errors.AlreadyExists


def test_links_are_made_only_where_that_is_allowed(base: Path) -> None:
    with HostFolder(base, writable=True) as folder:
        assert refused(folder, ops.Symlink("x", "/l")) is errors.PermissionDenied
    assert not os.listdir(base)


def test_trees_of_any_depth_and_name_are_removed_at_once(base: Path, folder: HostFolder) -> None:
    deep = base / "t"
    for _ in range(200):
        deep.mkdir()
        (deep / "f").write_bytes(b"")
        deep = deep / "d"
    (base / "t" / os.fsdecode(b"\xff")).write_bytes(b"")
    (base / "t" / "out").symlink_to("../../outside")
    for i in range(600):
        (base / "t" / f"n{i}").write_bytes(b"")
    assert refused(folder, ops.Remove("/t")) is errors.NotEmpty
    folder.perform(ops.Remove("/t", recursive=True))
    assert os.listdir(base) == []
    assert (base.parent / "outside" / "secret").read_bytes() == SECRET
    assert refused(folder, ops.Remove("/", recursive=True)) is errors.Busy


def test_a_directory_with_leftovers_of_a_dead_process_is_empty(
    base: Path, folder: HostFolder
) -> None:
    for name in ("d", "e"):
        (base / name / (descent.UNFINISHED + "1")).mkdir(parents=True)
        (base / name / (descent.UNFINISHED + "1") / "x").write_bytes(b"")
    folder.perform(ops.Remove("/d"))
    folder.perform(ops.Mkdir("/f"))
    folder.perform(ops.Move("/f", "/e", replace=True))
    assert names(folder) == ["e"]
    assert no_leftovers(base)


def test_what_the_host_refuses_to_remove_is_put_back(
    base: Path, folder: HostFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    (base / "t/d").mkdir(parents=True)

    def refuse(fd: int, top: int, depth: int) -> None:
        raise PermissionError(1, "no")

    monkeypatch.setattr(staging, "_empty", refuse)
    assert refused(folder, ops.Remove("/t", recursive=True)) is errors.PermissionDenied
    assert names(folder, "/t") == ["d"]


def test_moves(base: Path, folder: HostFolder) -> None:
    folder.perform(ops.Write("/a/b/f", b"1"))
    folder.perform(ops.Write("/g", b"2"))
    folder.perform(ops.Mkdir("/empty"))
    folder.perform(ops.Symlink("a/b", "/l"))
    assert refused(folder, ops.Move("/a", "/a/b/c")) is errors.InvalidArgument
    assert refused(folder, ops.Move("/a", "/l/c")) is errors.InvalidArgument
    assert refused(folder, ops.Move("/a", "/g")) is errors.AlreadyExists
    assert refused(folder, ops.Move("/a", "/g", replace=True)) is errors.NotADirectory
    assert refused(folder, ops.Move("/g", "/a", replace=True)) is errors.IsADirectory
    assert refused(folder, ops.Move("/empty", "/a", replace=True)) is errors.NotEmpty
    assert refused(folder, ops.Move("/a", "/")) is errors.Busy
    assert refused(folder, ops.Move("/g", "/new/g")) is errors.NotFound
    folder.perform(ops.Move("/a/b/f", "/g", replace=True))
    folder.perform(ops.Move("/a", "/empty", replace=True))
    folder.perform(ops.Move("/g", "/new/g", parents=True))
    assert folder.perform(ops.Read("/new/g")) == b"1"
    assert names(folder) == ["empty", "l", "new"]
    assert folder.perform(ops.Move("/l", "/l2")).kind is Kind.SYMLINK
    assert names(folder, "/empty/b") == []


def test_copies(base: Path, folder: HostFolder) -> None:
    folder.perform(ops.Write("/a/b/f", b"1", mode=0o600))
    folder.perform(ops.Symlink("b/f", "/a/l"))
    (base / "a" / os.fsdecode(b"\xff")).write_bytes(b"raw")
    assert refused(folder, ops.Copy("/a", "/c")) is errors.IsADirectory
    assert refused(folder, ops.Copy("/a", "/a/b/c", recursive=True)) is errors.InvalidArgument
    assert refused(folder, ops.Copy("/", "/a/c", recursive=True)) is errors.InvalidArgument
    folder.perform(ops.Copy("/a", "/c", recursive=True))
    assert folder.perform(ops.Readlink("/c/l")) == "b/f"
    assert folder.perform(ops.GetStat("/c/l")).mode == 0o600
    assert (base / "c" / os.fsdecode(b"\xff")).read_bytes() == b"raw"
    folder.perform(ops.Copy("/c/l", "/file"))
    assert folder.perform(ops.GetStat("/file", follow=False)).kind is Kind.FILE
    same = folder.perform(ops.GetStat("/file"))
    assert folder.perform(ops.Copy("/file", "/file")) == same
    assert refused(folder, ops.Copy("/file", "/c/l")) is errors.AlreadyExists
    assert refused(folder, ops.Copy("/file", "/c", replace=True)) is errors.IsADirectory
    op = ops.Copy("/a", "/c", recursive=True, replace=True)
    assert refused(folder, op) is errors.NotEmpty
    assert no_leftovers(base)
    usage = folder.perform(ops.GetUsage("/"))
    assert (usage.bytes, usage.nodes) == (3, 9)


def test_a_tree_too_deep_to_copy_is_refused_whole(base: Path, folder: HostFolder) -> None:
    deep = base / "t"
    for _ in range(140):
        deep.mkdir()
        deep = deep / "d"
    assert refused(folder, ops.Copy("/t", "/n/c", recursive=True, parents=True)) is errors.TooLarge
    assert os.listdir(base) == ["t"]


# What is refused as a whole


def test_a_folder_that_is_not_writable_refuses_every_change(base: Path) -> None:
    (base / "f").write_bytes(b"1")
    with HostFolder(base) as folder:
        for op in (
            ops.Write("/f", b"x"), ops.Append("/f", b"x"), ops.Patch("/f", 0, b"x"),
            ops.Truncate("/f", 0), ops.Mkdir("/d"), ops.Mknod("/p", Kind.FIFO),
            ops.Symlink("f", "/l"), ops.Link("/f", "/g"), ops.Remove("/f"), ops.Move("/f", "/g"),
            ops.Copy("/f", "/g"), ops.SetAttrs("/f", Attrs(mode=0)),
            ops.Batch((ops.Within(ops.Remove("/f"), VPath()),)),
        ):  # fmt: skip
            assert refused(folder, op) is errors.ReadOnly
        assert folder.perform(ops.Checksum("/f")).startswith("6b86b273")
    assert os.listdir(base) == ["f"]
    assert (base / "f").read_bytes() == b"1"


def test_what_needs_a_transaction_is_refused_before_anything_happens(
    base: Path, folder: HostFolder
) -> None:
    write = ops.Write("/f", b"1")
    for op in (
        ops.Batch((write, ops.Write("/g", b"2"))),
        ops.Batch((write, ops.Read("/none"))),
        ops.Judged(write, lambda volume, touched: None),
        ops.Once(write, "key", b""),
        ops.Trash("/f"),
        ops.TakeSnapshot("s"),
        ops.History("/f"),
        ops.Changes(),
    ):
        assert refused(folder, op) is errors.Unsupported
    assert os.listdir(base) == []
    assert folder.perform(ops.Batch((ops.List("/"), write)))[1].size == 1


def test_within_a_directory_no_link_leads_out_of_it(base: Path, folder: HostFolder) -> None:
    folder.perform(ops.Write("/a/f", b"1"))
    folder.perform(ops.Write("/secret", b"2"))
    folder.perform(ops.Symlink("../secret", "/a/l"))
    folder.perform(ops.Symlink("a", "/b"))
    below = VPath(("a",))
    assert folder.perform(ops.Within(ops.Read("/f"), below)) == b"1"
    assert refused(folder, ops.Within(ops.Read("/l"), below)) is errors.NotFound
    folder.perform(ops.Within(ops.Append("/f", b"2"), below))
    assert (base / "a/f").read_bytes() == b"12"
    assert refused(folder, ops.Within(ops.Read("/f"), VPath(("b",)))) is errors.NotADirectory
    assert refused(folder, ops.Within(ops.Read("/f"), VPath(("n",)))) is errors.NotFound


def test_descriptors_return_to_where_they_were(base: Path, folder: HostFolder) -> None:
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(3):
        folder.perform(ops.Write("/a/b/f", b"1"))
        folder.perform(ops.Within(ops.Read("/b/f"), VPath(("a",))))
        folder.perform(ops.Open("/a/b/f")).read(0, 1)
        folder.perform(ops.Copy("/a", "/c", recursive=True))
        folder.perform(ops.Remove("/c", recursive=True))
        with suppress(errors.KeelError):
            folder.perform(ops.Read("/a/x/y"))
    assert len(os.listdir("/proc/self/fd")) == before


def test_a_closed_folder_says_so(base: Path) -> None:
    folder = HostFolder(base)
    folder.close()
    assert refused(folder, ops.List("/")) is errors.StoreClosed
    with pytest.raises(errors.NotFound):
        HostFolder(base / "none")
    assert ANY is not ABSENT
