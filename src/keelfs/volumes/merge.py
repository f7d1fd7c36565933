"""Two trees seen as one: where a path leads, and what is brought up before it is changed.

An entry of the upper tree covers the lower one of the same name; two directories merge. A name
that is hidden from the lower tree (a whiteout) is written into an attribute of the upper's
directory, where no name of a user can meet it, and stays hidden whatever takes its place. What is
brought up keeps the identity it had below, and its revisions go on from there, by another such
attribute. Both are invisible from outside.

The upper volume is inside one transaction here; the lower tree is only read, and should answer
quickly. The verbs stand on this, in `overlay`.
"""

from __future__ import annotations

import heapq
import json
from collections.abc import Iterator
from typing import Final

from msgspec import Struct

from keelfs import ops
from keelfs.errors import (
    DanglingLink,
    IsADirectory,
    LinkLoop,
    NotADirectory,
    NotAFile,
    NotFound,
    TooLarge,
)
from keelfs.model import ANY, Attrs, Content, Entry, Kind, Page, Stat
from keelfs.path import ROOT, VPath, sort_key
from keelfs.ports import Handler, Volume
from keelfs.volumes.marks import ORIGIN, WHITEOUTS, own_xattrs, shown, whiteouts

MAX_HOPS: Final = 40
_PAGE: Final = 1000
_BLOCK: Final = 1 << 18

Names = tuple[str, ...]


class Layers(Struct, frozen=True):
    """One node of the merged tree: what the upper tree holds of it, and what the lower does."""

    names: Names
    #: As the upper volume tells it.
    upper: Stat | None
    #: Only where it can be seen: alone, or as a directory under one of the upper tree.
    lower: Stat | None

    @property
    def raw(self) -> Stat:
        found = self.upper or self.lower
        if found is None:
            raise NotFound
        return found

    @property
    def kind(self) -> Kind:
        return self.raw.kind

    @property
    def is_directory(self) -> bool:
        return self.kind is Kind.DIRECTORY

    @property
    def stat(self) -> Stat:
        """As the merged tree tells it."""
        return shown(self.upper) if self.upper is not None else self.raw


class Spot(Struct, frozen=True):
    """Where a path leads."""

    #: The directories above, the root first; the last one is to hold what is missing.
    above: tuple[Layers, ...]
    node: Layers | None
    missing: Names = ()
    #: The first missing name stood in a link; in `dangling`, all of them did.
    in_link: bool = False
    dangling: bool = False

    @property
    def names(self) -> Names:
        return self.node.names if self.node else (*self.above[-1].names, *self.missing)

    @property
    def is_root(self) -> bool:
        return self.node is not None and not self.above

    def there(self) -> Layers:
        if self.node is None:
            raise NotFound
        return self.node

    def file(self) -> Layers:
        node = self.there()
        a_file(node)
        return node


class LowerSource(Struct, frozen=True):
    """The bytes of a file of the lower tree, in blocks."""

    content: Content

    def blocks(self) -> Iterator[bytes]:
        offset = 0
        while block := self.content.read(offset, _BLOCK):
            yield block
            offset += len(block)


class Merge:
    """The merged tree below `base`, inside one transaction of the upper volume."""

    def __init__(
        self, lower: Handler, upper: Volume, cap: int | None, base: Names = (),
        carried: set[Names] | None = None,
    ) -> None:  # fmt: skip
        self._lower, self._upper, self._cap, self._base = lower, upper, cap, base
        #: What was brought up without being changed; shared by all views of a transaction.
        self._carried = set[Names]() if carried is None else carried

    def rooted(self, base: Names) -> Merge:
        """The same trees in the same transaction, seen from a directory."""
        tree = Merge(self._lower, self._upper, self._cap, base, self._carried)
        tree._top()
        return tree

    # Looking

    def locate(self, path: VPath, follow: bool) -> Spot:
        """Follows a path inside the base; with `follow`, a link at its end too."""
        way, hops = [self._top()], 0
        pending = [(name, False) for name in reversed(path.parts)]
        while pending:
            name, in_link = pending.pop()
            if not way[-1].is_directory:
                raise NotADirectory
            if name == "..":
                way = way[:-1] or way
                continue
            node = self.child(way[-1], name)
            if node is None:
                rest = [(name, in_link), *reversed(pending)]
                missing = tuple(each for each, _ in rest)
                return Spot(tuple(way), None, missing, in_link, all(link for _, link in rest))
            if node.kind is not Kind.SYMLINK or not (pending or follow):
                way.append(node)
                continue
            hops += 1
            if hops > MAX_HOPS:
                raise LinkLoop
            target = node.raw.target or ""
            if target.startswith("/"):
                way = way[:1]
            steps = [(step, True) for step in target.split("/") if step not in {"", "."}]
            pending.extend(reversed(steps))
        return Spot(tuple(way[:-1]), way[-1])

    def _top(self) -> Layers:
        node = Layers((), self._above(()), self._below(()))
        for name in self._base:
            found = self.child(node, name)
            if found is None:
                raise NotFound
            if not found.is_directory:
                raise NotADirectory
            node = found
        return node

    def child(self, directory: Layers, name: str) -> Layers | None:
        """An entry of a directory."""
        names = (*directory.names, name)
        upper = self._above(names) if directory.upper is not None else None
        lower = None
        if directory.lower is not None and name not in whiteouts(directory.upper):
            lower = self._below(names)
        return merged(names, upper, lower)

    def _above(self, names: Names) -> Stat | None:
        try:
            return self._upper.stat(VPath(names), False)
        except NotFound:
            return None

    def _below(self, names: Names) -> Stat | None:
        try:
            return self._lower.perform(ops.GetStat(VPath(names), follow=False))
        except (NotFound, NotADirectory):
            return None

    def children(self, directory: Layers, after: str | None = None) -> Iterator[Layers]:
        """The entries behind a name, in order, a page of each tree at a time."""
        none = whiteouts(directory.upper)
        upper = self._pages(directory, True, after) if directory.upper else iter(())
        lower = self._pages(directory, False, after) if directory.lower else iter(())
        both = heapq.merge(
            ((sort_key(entry.name), 0, entry) for entry in upper),
            ((sort_key(entry.name), 1, entry) for entry in lower if entry.name not in none),
            key=lambda item: item[:2],
        )
        held: dict[int, Stat] = {}
        name: str | None = None
        for _, layer, entry in both:
            if name is not None and entry.name != name:
                yield self._pair(directory, name, held)
                held = {}
            name, held[layer] = entry.name, entry.stat
        if name is not None:
            yield self._pair(directory, name, held)

    def _pair(self, directory: Layers, name: str, held: dict[int, Stat]) -> Layers:
        names = (*directory.names, name)
        found = merged(names, held.get(0), held.get(1))
        assert found is not None
        return found

    def _pages(self, directory: Layers, upper: bool, after: str | None) -> Iterator[Entry]:
        path = VPath(directory.names)
        while True:
            page: Page[Entry] = (
                self._upper.list(path, after, _PAGE)
                if upper
                else self._lower.perform(ops.List(path, after, _PAGE))
            )
            yield from page.items
            after = page.next
            if after is None:
                return

    def lower_content(self, node: Layers, revision: int | None = None) -> Content:
        """The bytes of a file that only the lower tree holds, if it is not too large to read."""
        self.check_readable(node)
        return self._lower.perform(ops.Open(VPath(node.names), revision))

    def read_lower(
        self, node: Layers, offset: int, length: int | None, revision: int | None
    ) -> bytes:
        self.check_readable(node)
        return self._lower.perform(ops.Read(VPath(node.names), offset, length, revision))

    def lower_checksum(self, node: Layers) -> str:
        self.check_readable(node)
        return self._lower.perform(ops.Checksum(VPath(node.names)))

    def touched(self) -> list[Names]:
        """What the upper volume touched, without what was only brought up on the way."""
        base = VPath(self._base)
        paths = (VPath(names) for names in map(tuple, self._upper.touched()))
        return [
            path.below(base).parts
            for path in paths
            if path.is_within(base) and path.parts not in self._carried
        ]

    def weigh(self, node: Layers) -> tuple[int, int]:
        """The bytes and the names that lie at a node and below, without its own name."""
        if not node.is_directory:
            return (node.raw.size if node.kind is Kind.FILE else 0), 0
        size = nodes = 0
        for inner in self.children(node):
            below = self.weigh(inner)
            size, nodes = size + below[0], nodes + below[1] + 1
        return size, nodes

    def refuse_many(self, top: Layers) -> None:
        """One transaction brings up or copies no more than the upper space lets it touch."""
        if not top.is_directory:
            return
        limit = self._upper.usage(ROOT).limits.transaction_nodes
        nodes = self.weigh(top)[1] + 1
        if limit is not None and nodes > limit:
            raise TooLarge(
                f"one change may touch {limit} nodes, this one touches {nodes}",
                limit="space.transaction_nodes", size=limit, used=nodes,
            )  # fmt: skip

    def check_readable(self, node: Layers) -> None:
        size = node.raw.size
        if self._cap is not None and node.kind is Kind.FILE and size > self._cap:
            raise TooLarge(
                f"a file below may have {self._cap} bytes to be read, this one has {size}",
                limit="overlay.file_bytes", size=self._cap, used=size,
            )  # fmt: skip

    # Bringing up

    def make_way(self, spot: Spot, parents: bool) -> VPath:
        """The path in the upper tree for what is missing, its directories being made."""
        if spot.dangling or (spot.in_link and parents):
            raise DanglingLink
        if len(spot.missing) > 1 and not parents:
            raise NotFound("the parent directory does not exist; pass parents=True to make it")
        self.carry(spot.above[-1])
        names = spot.above[-1].names
        for name in spot.missing[:-1]:
            names = (*names, name)
            self._upper.mkdir(VPath(names), False, False, 0o755)
        return VPath(spot.names)

    def carry(self, node: Layers) -> VPath:
        """The path of a node in the upper tree, brought there if only the lower tree has it."""
        if node.upper is None:
            for depth in range(len(node.names)):
                names = node.names[:depth]
                if self._above(names) is None:
                    self._carry_one(Layers(names, None, self._below(names)))
            self._carry_one(node)
        return VPath(node.names)

    def carry_tree(self, top: Layers) -> VPath:
        """The same with all that lies below, a page at a time."""
        path = self.carry(top)
        if top.is_directory and top.lower is not None:
            for node in self.children(top):
                self.carry_tree(node)
        return path

    def _carry_one(self, node: Layers) -> None:
        if self._above(node.names) is None:
            self.bring(node, VPath(node.names), same=True)
            self._carried.add(node.names)

    def change(self, names: Names) -> None:
        """Notes that more than bringing it up happens to a node."""
        self._carried.discard(names)

    def duplicate(self, node: Layers, to: VPath) -> None:
        """Makes a copy in the upper tree, with all that lies below, a page at a time."""
        if node.kind is Kind.FILE and node.upper is not None:
            copied = self._upper.copy(VPath(node.names), to, False, False, False, ANY)
            if ORIGIN in copied.xattrs:
                self._upper.set_attrs(to, Attrs(xattrs={ORIGIN: None}), False, ANY)
            return
        self.bring(node, to, same=False)
        if node.is_directory:
            for inner in self.children(node):
                self.duplicate(inner, to.child(inner.names[-1]))

    def bring(self, node: Layers, to: VPath, same: bool) -> None:
        """Makes in the upper tree what the lower one holds: the `same` node, or a copy of it."""
        stat = node.raw
        match stat.kind:
            case Kind.FILE:
                data = LowerSource(self.lower_content(node))
                self._upper.write(to, data, ANY, False, stat.mode, stat.mime)
            case Kind.DIRECTORY:
                self._upper.mkdir(to, False, False, stat.mode)
            case Kind.SYMLINK:
                self._upper.symlink(stat.target or "", to, False)
            case _:
                self._upper.mknod(to, stat.kind, stat.mode, stat.rdev)
        self.adopt(to, stat, stat.revision if same else None)

    def adopt(self, path: VPath, stat: Stat, revision: int | None) -> None:
        """Gives a new node of the upper tree the attributes that one had below.

        With a revision it is that node, which is at this revision now.
        """
        attrs = Attrs(
            uid=stat.uid, gid=stat.gid, mode=stat.mode,
            readonly=stat.readonly or None,
            xattrs=own_xattrs(stat, revision),
            atime_ns=None if revision is None else stat.atime_ns,
            mtime_ns=None if revision != stat.revision else stat.mtime_ns,
        )  # fmt: skip
        self._upper.set_attrs(path, attrs, False, ANY)

    def cover(self, directory: Layers, name: str) -> None:
        """Hides what the lower tree holds of a name in a directory."""
        names = (*directory.names, name)
        if directory.lower is None or self._below(names) is None:
            return
        path = self.carry(directory)
        present = self._above(directory.names)
        listed = whiteouts(present)
        if name not in listed:
            value = json.dumps(sorted({*listed, name}), ensure_ascii=False).encode()
            self._upper.set_attrs(path, Attrs(xattrs={WHITEOUTS: value}), False, ANY)


def merged(names: Names, upper: Stat | None, lower: Stat | None) -> Layers | None:
    """What is seen of two entries of the same name."""
    if upper is None and lower is None:
        return None
    if upper is not None and lower is not None and not (upper.is_directory and lower.is_directory):
        lower = None
    return Layers(names, upper, lower)


def a_file(node: Layers) -> None:
    """Refuses what has no bytes."""
    if node.is_directory:
        raise IsADirectory
    if node.kind is not Kind.FILE:
        raise NotAFile
