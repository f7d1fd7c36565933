"""The contract of saying no: what a subject cannot do, it refuses."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from keelfs.errors import (
    AlreadyExists,
    Refused,
)
from keelfs.model import Attrs, Kind
from keelfs.ops import (
    Changes,
    GetStat,
    History,
    Link,
    List,
    Mkdir,
    Mknod,
    Op,
    SetAttrs,
    Symlink,
    TakeSnapshot,
    Trash,
    Write,
)
from keelfs.testing.conformance.frame import Frame, refused
from keelfs.testing.conformance.joining import once
from keelfs.testing.conformance.subjects import Subject
from keelfs.testing.portrait import Perform, portrait

#: An operation that must be refused by whoever says that it cannot.
REFUSALS: dict[str, Callable[[], Op[Any]]] = {
    "symlinks": lambda: Symlink("x", "/refused"),
    "hard_links": lambda: Link("/a", "/refused"),
    "special_nodes": lambda: Mknod("/refused", Kind.FIFO),
    "devices": lambda: Mknod("/refused", Kind.CHAR_DEVICE),
    "xattrs": lambda: SetAttrs("/a", Attrs(xattrs={"user.k": b"v"})),
    "history": lambda: History("/a"),
    "trash": lambda: Trash("/a"),
    "snapshots": lambda: TakeSnapshot("s"),
    "journal": lambda: Changes(),
    "requests": lambda: once(Write("/refused", "x"), "k"),
}


class Honesty(Frame):
    """What a subject says it cannot do, it refuses."""

    @pytest.mark.parametrize("ability", sorted(REFUSALS))
    def test_what_it_cannot_do_is_refused(
        self, fs: Perform, subject: Subject, ability: str
    ) -> None:
        """A verb that is not offered raises a typed error and leaves nothing behind."""
        fs(Write("/a", "x"))
        if ability not in subject.cannot:
            assert portrait(fs)
            return
        with refused(fs, Refused):
            fs(REFUSALS[ability]())

    def test_a_taken_name_stays_taken(self, fs: Perform) -> None:
        """Ten creators of one directory: one makes it, the others are told."""
        made = 0
        for _ in range(10):
            try:
                fs(Mkdir("/d"))
                made += 1
            except AlreadyExists:
                continue
        assert (made, [entry.name for entry in fs(List("/")).items]) == (1, ["d"])
        assert fs(GetStat("/d")).is_directory
