"""A whole tree as one value, read through operations, for comparing what was with what is.

Who calls: the conformance suite, to see that a refusal left nothing behind; the model checker, to
see that two volumes hold the same. For small trees: everything is read into memory.
"""

from __future__ import annotations

from typing import Any, Protocol, TypeVar

from keelfs.model import Entry, Kind, Stat
from keelfs.ops import GetStat, List, Op, Read
from keelfs.path import ROOT, VPath

T = TypeVar("T")

#: Each path with its stat and, for a file, its bytes.
Portrait = dict[str, tuple[Stat, bytes]]
ASK = 500


class Perform(Protocol):
    """What performs an operation: the method of a handler."""

    def __call__(self, op: Op[T], /) -> T: ...


def entries(perform: Perform, path: VPath | str) -> list[Entry]:
    """All entries of a directory, page by page."""
    found: list[Entry] = []
    after: str | None = None
    while True:
        page = perform(List(path, after, ASK))
        found += page.items
        if page.next is None:
            return found
        after = page.next


def portrait(perform: Perform) -> Portrait:
    """Everything that is in a tree."""
    found: Portrait = {"/": (perform(GetStat(ROOT)), b"")}
    pending = [ROOT]
    while pending:
        directory = pending.pop()
        for entry in entries(perform, directory):
            path = directory.child(entry.name)
            data = perform(Read(path)) if entry.stat.kind is Kind.FILE else b""
            found[str(path)] = (entry.stat, data)
            if entry.stat.kind is Kind.DIRECTORY:
                pending.append(path)
    return found


def without(stat: Stat, *fields: str) -> dict[str, Any]:
    """A stat without the fields that two equal volumes may differ in."""
    return {name: getattr(stat, name) for name in Stat.__struct_fields__ if name not in fields}


#: What belongs to one volume alone: identity, and moments in time.
OWN_FIELDS = ("id", "atime_ns", "mtime_ns", "ctime_ns", "created_ns", "sha256")
