"""The contract of attributes and of what a caller expects."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from keelfs.errors import Conflict, InvalidArgument, NotFound, TooLarge
from keelfs.model import ABSENT, ANY, Attrs, Expect, Limits
from keelfs.ops import (
    Append,
    Copy,
    GetStat,
    Mkdir,
    Move,
    Op,
    Patch,
    Read,
    Remove,
    Restore,
    SetAttrs,
    Trash,
    Truncate,
    Write,
)
from keelfs.testing.conformance.frame import FixedClock, Frame, Make, needs, refused
from keelfs.testing.portrait import Perform


class Attributes(Frame):
    """What can be set besides bytes."""

    @needs("owners")
    def test_modes_and_owners(self, fs: Perform) -> None:
        """Mode, uid and gid are set and kept; the others stay."""
        fs(Write("/a", "x"))
        fs(SetAttrs("/a", Attrs(mode=0o600, uid=1000, gid=2000)))
        stat = fs(SetAttrs("/a", Attrs(gid=4294967295)))
        assert (stat.mode, stat.uid, stat.gid) == (0o600, 1000, 4294967295)
        assert stat == fs(GetStat("/a"))

    @needs("owners")
    def test_modes_keep_twelve_bits(self, fs: Perform) -> None:
        """Bits of the kind in a mode do not count."""
        fs(Mkdir("/d"))
        assert fs(SetAttrs("/d", Attrs(mode=0o101777))).mode == 0o1777

    @needs("owners")
    def test_attributes_of_the_root(self, fs: Perform) -> None:
        """The root has attributes, too."""
        fs(SetAttrs("/", Attrs(mode=0o700)))
        assert fs(GetStat("/")).mode == 0o700

    @needs("owners")
    @pytest.mark.parametrize("attrs", [Attrs(uid=-1), Attrs(gid=-1), Attrs(uid=2**32)])
    def test_odd_owners(self, fs: Perform, attrs: Attrs) -> None:
        """An owner is a number of 32 bits."""
        fs(Write("/a", "x"))
        with refused(fs, InvalidArgument):
            fs(SetAttrs("/a", attrs))

    @needs("times")
    @pytest.mark.parametrize("time", [0, 1, -1, 1234567890_123456789, -(2**40)])
    def test_times(self, fs: Perform, time: int) -> None:
        """Times are kept to the nanosecond, before 1970 too."""
        fs(Write("/a", "x"))
        stat = fs(SetAttrs("/a", Attrs(atime_ns=time, mtime_ns=time + 1)))
        assert (stat.atime_ns, stat.mtime_ns) == (time, time + 1)

    @needs("times", "clock", "owners")
    def test_set_attrs_sets_ctime(self, make: Make, clock: FixedClock) -> None:
        """Setting attributes sets ctime and leaves mtime."""
        fs = make(clock=clock)
        before = fs(Write("/a", "x"))
        clock.advance(3)
        stat = fs(SetAttrs("/a", Attrs(mode=0o600)))
        assert (stat.mtime_ns, stat.ctime_ns) == (before.mtime_ns, clock.now)

    @needs("owners", "revisions")
    def test_the_revision_stays(self, fs: Perform) -> None:
        """Attributes are not content: the revision does not count them."""
        fs(Write("/a", "x"))
        assert fs(SetAttrs("/a", Attrs(mode=0o600))).revision == 1

    @needs("mime")
    def test_mime_is_cleared_by_nothing(self, fs: Perform) -> None:
        """An empty media type clears it."""
        fs(Write("/a", "x", mime="text/plain"))
        assert fs(SetAttrs("/a", Attrs(mime="image/png"))).mime == "image/png"
        assert fs(SetAttrs("/a", Attrs(mime=""))).mime is None

    @needs("xattrs")
    def test_xattrs(self, fs: Perform) -> None:
        """Xattrs are bytes by name; each is set, kept and removed alone."""
        fs(Write("/a", "x"))
        fs(SetAttrs("/a", Attrs(xattrs={"user.a": b"\0\xff", "user.b": b""})))
        stat = fs(SetAttrs("/a", Attrs(xattrs={"user.c": b"c", "user.b": None, "user.no": None})))
        assert stat.xattrs == {"user.a": b"\0\xff", "user.c": b"c"}
        assert fs(GetStat("/a")).xattrs == stat.xattrs

    @needs("xattrs", "limits")
    def test_xattr_limit(self, make: Make) -> None:
        """Names and values of all xattrs of a node count against `xattr_bytes`."""
        fs = make(limits=Limits(xattr_bytes=20))
        fs(Write("/a", "x"))
        fs(SetAttrs("/a", Attrs(xattrs={"user.a": b"x" * 14})))
        with refused(fs, TooLarge) as caught:
            fs(SetAttrs("/a", Attrs(xattrs={"u": b""})))
        assert (caught.value.limit, caught.value.size) == ("space.xattr_bytes", 20)

    @needs("owners")
    def test_attributes_of_nothing(self, fs: Perform) -> None:
        """Setting attributes makes nothing."""
        with refused(fs, NotFound):
            fs(SetAttrs("/a", Attrs(mode=0o600)))


def prepare(fs: Perform) -> None:
    """A file at revision 2 and one at revision 1."""
    fs(Write("/a", "1"))
    fs(Write("/a", "2"))
    fs(Write("/b", "1"))


MISSES: list[Expect] = [1, 3, 99, 0]


@needs("revisions")
class Expecting(Frame):
    """Exactly one writer wins per revision."""

    @pytest.mark.parametrize(
        "op",
        [
            Write("/a", "x", expect=2), Append("/a", "x", expect=2), Patch("/a", 0, "x", expect=2),
            Truncate("/a", 0, expect=2), SetAttrs("/a", Attrs(readonly=True), expect=2),
            Remove("/a", expect=2), Move("/a", "/c", expect=2),
            Copy("/b", "/a", replace=True, expect=2),
        ],
    )  # fmt: skip
    def test_a_hit_passes(self, fs: Perform, op: Op[Any]) -> None:
        """Every verb that changes something takes the revision that is there."""
        prepare(fs)
        fs(op)

    @pytest.mark.parametrize("expect", MISSES)
    @pytest.mark.parametrize(
        "op",
        [
            Write("/a", "x"), Append("/a", "x"), Patch("/a", 0, "x"), Truncate("/a", 0),
            SetAttrs("/a", Attrs(readonly=True)), Remove("/a"), Move("/a", "/c"),
            Copy("/b", "/a", replace=True),
        ],
    )  # fmt: skip
    def test_a_miss_is_a_conflict(self, fs: Perform, op: Op[Any], expect: Expect) -> None:
        """Any other revision raises Conflict, which says what is there; nothing is changed."""
        prepare(fs)
        with refused(fs, Conflict) as caught:
            fs(replace(op, expect=expect))
        assert caught.value.actual == 2

    @needs("history")
    def test_restore_expects(self, fs: Perform) -> None:
        """Restore judges the file that it changes."""
        prepare(fs)
        with refused(fs, Conflict):
            fs(Restore("/a", 1, expect=1))
        assert fs(Restore("/a", 1, expect=2)).revision == 3

    @needs("trash")
    def test_trash_expects(self, fs: Perform) -> None:
        """Trash judges the entry that it takes."""
        prepare(fs)
        with refused(fs, Conflict):
            fs(Trash("/a", expect=1))
        fs(Trash("/a", expect=2))

    @pytest.mark.parametrize(
        "op", [Write("/a", "x", ABSENT), Append("/a", "x", ABSENT),
               Copy("/b", "/a", replace=True, expect=ABSENT), Remove("/a", expect=ABSENT)],
    )  # fmt: skip
    def test_absent_on_what_is_there(self, fs: Perform, op: Op[Any]) -> None:
        """ABSENT where something is raises Conflict with the revision that is there."""
        prepare(fs)
        with refused(fs, Conflict) as caught:
            fs(op)
        assert caught.value.actual == 2

    @pytest.mark.parametrize(
        "op", [Write("/d/n", "x", ABSENT), Append("/d/n", "x", ABSENT),
               Copy("/b", "/n", expect=ABSENT)],
    )  # fmt: skip
    def test_absent_on_nothing(self, fs: Perform, op: Op[Any]) -> None:
        """ABSENT where nothing is makes the file."""
        prepare(fs)
        fs(op)

    @pytest.mark.parametrize(
        "op", [Write("/n", "x", 1), Append("/n", "x", 1), Copy("/b", "/n", expect=1),
               Write("/d/n", "x", 7)],
    )  # fmt: skip
    def test_a_revision_of_nothing(self, fs: Perform, op: Op[Any]) -> None:
        """Expecting a revision where nothing is raises Conflict; no file, no parents are made."""
        prepare(fs)
        with refused(fs, Conflict) as caught:
            fs(op)
        assert caught.value.actual is None

    def test_any_takes_everything(self, fs: Perform) -> None:
        """ANY makes and replaces."""
        for text in ("1", "2"):
            fs(Write("/a", text, expect=ANY))
        assert fs(Read("/a")) == b"2"

    def test_a_stat_pins_the_node(self, fs: Perform) -> None:
        """A file removed and made anew does not pass for the old one at the same revision."""
        old = fs(Write("/a", "1"))
        fs(Remove("/a"))
        new = fs(Write("/a", "1"))
        assert new.revision == old.revision
        with refused(fs, Conflict):
            fs(Write("/a", "x", expect=old))
        fs(Write("/a", "x", expect=new))
        with refused(fs, Conflict):
            fs(Write("/a", "x", expect=new))

    def test_directories_stay_at_revision_one(self, fs: Perform) -> None:
        """A directory is at revision 1, whatever happens in it."""
        fs(Write("/d/a", "x"))
        fs(Write("/d/b", "x"))
        assert fs(GetStat("/d")).revision == 1
        with refused(fs, Conflict):
            fs(Remove("/d", recursive=True, expect=2))
        fs(Remove("/d", recursive=True, expect=1))

    @needs("readonly")
    def test_a_conflict_comes_before_readonly(self, fs: Perform) -> None:
        """What is expected is judged before whether it may be changed."""
        prepare(fs)
        fs(SetAttrs("/a", Attrs(readonly=True)))
        with refused(fs, Conflict):
            fs(Write("/a", "x", expect=1))

    def test_only_one_of_many_wins(self, fs: Perform) -> None:
        """Of ten writers that saw the same revision, one wins."""
        stat = fs(Write("/a", "0"))
        won = 0
        for index in range(10):
            try:
                fs(Write("/a", str(index), expect=stat.revision))
                won += 1
            except Conflict:
                continue
        assert (won, fs(Read("/a"))) == (1, b"0")
