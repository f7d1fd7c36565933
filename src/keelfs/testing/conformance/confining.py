"""The contract of sub-trees out of which nothing leads."""

from __future__ import annotations

from typing import Any

import pytest

from keelfs.errors import (
    Busy,
    KeelError,
    NotADirectory,
    NotFound,
    PermissionDenied,
)
from keelfs.ops import (
    Append,
    Batch,
    Changes,
    GetUsage,
    Judged,
    ListSnapshots,
    ListTrash,
    Mkdir,
    Move,
    Op,
    Purge,
    Read,
    Remove,
    Rollback,
    Symlink,
    TakeSnapshot,
    Trash,
    Undo,
    Untrash,
    Within,
    Write,
)
from keelfs.path import parse
from keelfs.testing.conformance.frame import Frame, each, needs, refused
from keelfs.testing.conformance.joining import once
from keelfs.testing.portrait import Perform


def inside(op: Op[Any], base: str = "/base") -> Within[Any]:
    return Within(op, parse(base))


def prepare(fs: Perform) -> None:
    """A file outside of the base and one inside."""
    fs(Write("/outside", "secret"))
    fs(Write("/base/a", "x"))


@needs("within")
class Confined(Frame):
    """A sub-tree out of which nothing leads."""

    def test_the_root_is_the_base(self, fs: Perform) -> None:
        """Paths start at the base; `..` stops there."""
        prepare(fs)
        assert fs(inside(Read("/../../a"))) == b"x"
        fs(inside(Write("/d/n", "y")))
        assert fs(Read("/base/d/n")) == b"y"
        with refused(fs, NotFound):
            fs(inside(Read("/outside")))

    @needs("symlinks")
    @pytest.mark.parametrize("target", ["../outside", "/outside", "../../outside", "/../outside"])
    def test_links_do_not_lead_out(self, fs: Perform, target: str) -> None:
        """Links resolve inside the base, absolute targets from it: read, write and list."""
        prepare(fs)
        fs(Symlink(target, "/base/l"))
        with pytest.raises(NotFound):
            fs(inside(Read("/l")))
        with refused(fs, KeelError):
            fs(inside(Write("/l", "x")))
        fs(inside(Write("/outside", "inside")))
        assert fs(inside(Read("/l"))) == b"inside"
        assert fs(Read("/outside")) == b"secret"

    @needs("symlinks")
    def test_no_link_in_the_base(self, fs: Perform) -> None:
        """A base that is a link, or leads through one, is refused."""
        prepare(fs)
        fs(Symlink("base", "/l"))
        with pytest.raises(NotADirectory):
            fs(inside(Read("/a"), "/l"))
        with pytest.raises(NotFound):
            fs(inside(Read("/a"), "/nothing"))

    def test_the_base_is_a_root(self, fs: Perform) -> None:
        """The base cannot be removed from inside."""
        prepare(fs)
        with refused(fs, Busy):
            fs(inside(Remove("/", recursive=True)))

    @needs("usage")
    def test_usage_of_the_base(self, fs: Perform) -> None:
        """The usage of the base is what lies below it."""
        prepare(fs)
        usage = fs(inside(GetUsage()))
        assert (usage.bytes, usage.nodes) == (1, 1)

    @needs("journal")
    def test_changes_below_the_base(self, fs: Perform) -> None:
        """The journal tells what happened below the base, relative to it."""
        prepare(fs)
        fs(inside(Move("/a", "/b")))
        fs(Move("/outside", "/base/c"))
        told = [(change.path, change.to) for change in fs(inside(Changes())).items]
        assert told == [((), None), (("a",), None), (("a",), ("b",)), (None, ("c",))]
        assert [change.path for change in fs(Changes()).items][-2] == ("base", "a")

    @needs("trash")
    def test_the_trash_of_the_base(self, fs: Perform) -> None:
        """Only what was taken from below the base is seen, put back or purged."""
        prepare(fs)
        foreign, own = fs(Trash("/outside")), fs(inside(Trash("/a")))
        assert [(thing.id, thing.path) for thing in fs(inside(ListTrash())).items] == [
            (own.id, ("a",))
        ]
        for op in each(Untrash(foreign.id), Purge(foreign.id)):
            with refused(fs, NotFound):
                fs(inside(op))
        fs(inside(Untrash(own.id)))
        assert fs(Read("/base/a")) == b"x"

    @needs("snapshots", "journal")
    @pytest.mark.parametrize("op", [TakeSnapshot("s"), ListSnapshots(), Rollback("s"), Undo(1)])
    def test_the_whole_space_is_out_of_reach(self, fs: Perform, op: Op[Any]) -> None:
        """Verbs of a whole space are refused."""
        prepare(fs)
        with refused(fs, PermissionDenied):
            fs(inside(op))

    @needs("requests")
    def test_keys_of_the_base(self, fs: Perform) -> None:
        """Nobody is given the answer to what was done elsewhere."""
        prepare(fs)
        fs(Mkdir("/other"))
        append = Append("/log", "x")
        for base in ("/base", "/other", "/"):
            fs(inside(once(append, "k"), base))
        assert [fs(Read(f"{base}/log")) for base in ("/base", "/other", "")] == [b"x"] * 3

    @needs("judges")
    def test_touched_below_the_base(self, fs: Perform) -> None:
        """A judge inside is told paths relative to the base, and nothing from outside."""
        prepare(fs)
        seen: list[tuple[str, ...]] = []
        judged = Judged(Append("/a", "y"), lambda _, touched: seen.extend(touched))
        fs(Batch((Append("/outside", "y"), inside(judged))))
        assert seen == [("a",)]
