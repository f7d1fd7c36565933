"""The verbs of an overlay, on the merged tree and inside one transaction of the upper volume.

Expectations are judged here, on what `stat` of the merged tree tells; the upper volume is then
asked without any, since nothing can come between. Where a path leads and how things are brought up
is `merge`'s business. Only the overlay makes this.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice

import xxhash
from msgspec.structs import replace

from keelfs.errors import (
    AlreadyExists,
    Busy,
    Conflict,
    InvalidArgument,
    IsADirectory,
    NotADirectory,
    NotALink,
    NotEmpty,
    ReadOnly,
    RevisionNotFound,
)
from keelfs.model import (
    ABSENT,
    ANY,
    MAX_PAGE,
    Attrs,
    Content,
    Data,
    Entry,
    Expect,
    Kind,
    Page,
    Stat,
    Usage,
)
from keelfs.path import ROOT, VPath
from keelfs.ports import Volume
from keelfs.volumes.marks import ORIGIN, OWN, shift, shown
from keelfs.volumes.merge import Layers, LowerSource, Merge, Spot, a_file
from keelfs.volumes.unversioned import Unversioned


class OverlayVolume(Unversioned):
    """The verbs on the merged tree, inside one transaction of the upper volume."""

    def __init__(self, tree: Merge, upper: Volume, base: tuple[str, ...] = ()) -> None:
        self._tree, self._upper, self._base = tree, upper, base

    def rooted(self, base: VPath) -> OverlayVolume:
        if base.is_root:
            return self
        names = self._base + base.parts
        return OverlayVolume(self._tree.rooted(names), self._upper, names)

    # Looking

    def stat(self, path: VPath, follow: bool) -> Stat:
        return self._tree.locate(path, follow).there().stat

    def list(self, path: VPath, after: str | None, limit: int) -> Page[Entry]:
        if not 1 <= limit <= MAX_PAGE:
            raise InvalidArgument(f"the limit of a page lies between 1 and {MAX_PAGE}")
        found = list(islice(self._tree.children(self._directory(path), after), limit + 1))
        entries = [Entry(node.names[-1], node.stat) for node in found[:limit]]
        return Page(entries, entries[-1].name if len(found) > limit else None)

    def _directory(self, path: VPath) -> Layers:
        node = self._tree.locate(path, True).there()
        if not node.is_directory:
            raise NotADirectory
        return node

    def read(self, path: VPath, offset: int, length: int | None, revision: int | None) -> bytes:
        node = self._tree.locate(path, True).file()
        if node.upper is None:
            return self._tree.read_lower(node, offset, length, revision)
        revision = _revision_above(node.upper, revision)
        return self._upper.read(VPath(node.names), offset, length, revision)

    def open(self, path: VPath, revision: int | None) -> Content:
        node = self._tree.locate(path, True).file()
        if node.upper is None:
            return self._tree.lower_content(node, revision)
        above = _revision_above(node.upper, revision)
        return _Shown(self._upper.open(VPath(node.names), above))

    def readlink(self, path: VPath) -> str:
        target = self._tree.locate(path, False).there().raw.target
        if target is None:
            raise NotALink
        return target

    def checksum(self, path: VPath) -> str:
        node = self._tree.locate(path, True).file()
        if node.upper is None:
            return self._tree.lower_checksum(node)
        return self._upper.checksum(VPath(node.names))

    def usage(self, path: VPath) -> Usage:
        size, nodes = self._tree.weigh(self._tree.locate(path, True).there())
        usage = Usage(bytes=size, nodes=nodes)
        if not path.is_root:
            return usage
        return replace(usage, limits=self._upper.usage(ROOT).limits)

    def touched(self) -> Sequence[tuple[str, ...]]:
        return self._tree.touched()

    def recall(self, key: str, fingerprint: bytes) -> bytes | None:
        return self._upper.recall(self._key(key), fingerprint)

    def remember(self, key: str, fingerprint: bytes, answer: bytes) -> None:
        self._upper.remember(self._key(key), fingerprint, answer)

    def _key(self, key: str) -> str:
        """Apart for each base, which the upper tree need not have a directory for."""
        if not self._base:
            return key
        return xxhash.xxh3_128_hexdigest(b"\0".join(n.encode() for n in (*self._base, "", key)))

    # Changing contents

    def write(
        self, path: VPath, data: Data, expect: Expect, parents: bool, mode: int | None,
        mime: str | None,
    ) -> Stat:  # fmt: skip
        spot = self._tree.locate(path, True)
        node = _writable(spot, expect)
        if node is None:
            to = self._tree.make_way(spot, parents)
            return shown(self._upper.write(to, data, ANY, False, mode, mime))
        if node.upper is None:
            return self._cover_by(spot, node.raw, data, mime)
        self._tree.change(node.names)
        return shown(self._upper.write(VPath(node.names), data, ANY, False, mode, mime))

    def _cover_by(self, spot: Spot, stat: Stat, data: Data, mime: str | None) -> Stat:
        """Replaces all bytes of a lower file, which therefore need not be brought up."""
        self._tree.carry(spot.above[-1])
        to = VPath(spot.names)
        kept = stat.mime if mime is None else mime
        self._upper.write(to, data, ANY, False, stat.mode, kept)
        self._tree.adopt(to, stat, stat.revision + 1)
        return shown(self._upper.stat(to, False))

    def append(self, path: VPath, data: Data, expect: Expect, parents: bool) -> Stat:
        spot = self._tree.locate(path, True)
        node = _writable(spot, expect)
        if node is None:
            to = self._tree.make_way(spot, parents)
            return shown(self._upper.append(to, data, ANY, False))
        if data == b"":
            return node.stat
        return shown(self._upper.append(self._carried(node), data, ANY, False))

    def patch(self, path: VPath, offset: int, data: Data, expect: Expect) -> Stat:
        if offset < 0:
            raise InvalidArgument("an offset cannot be negative")
        node = self._present(path, expect)
        if data == b"":
            return node.stat
        return shown(self._upper.patch(self._carried(node), offset, data, ANY))

    def truncate(self, path: VPath, size: int, expect: Expect) -> Stat:
        if size < 0:
            raise InvalidArgument("a size cannot be negative")
        node = self._present(path, expect)
        if size == node.raw.size:
            return node.stat
        return shown(self._upper.truncate(self._carried(node), size, ANY))

    def _present(self, path: VPath, expect: Expect) -> Layers:
        spot = self._tree.locate(path, True)
        spot.there()
        _writable(spot, expect)
        return spot.there()

    def _carried(self, node: Layers) -> VPath:
        """The path above of a file whose bytes are about to change."""
        path = self._tree.carry(node)
        self._tree.change(node.names)
        return path

    def set_attrs(self, path: VPath, attrs: Attrs, follow: bool, expect: Expect) -> Stat:
        if any(name.startswith(OWN) for name in attrs.xattrs or {}):
            raise InvalidArgument(f"attributes that begin with {OWN!r} belong to the overlay")
        node = self._tree.locate(path, follow).there()
        _judge(node, expect)
        return shown(self._upper.set_attrs(self._tree.carry(node), attrs, False, ANY))

    # Changing names

    def mkdir(self, path: VPath, parents: bool, exist_ok: bool, mode: int) -> Stat:
        spot = self._tree.locate(path, False)
        if spot.node is not None:
            found = self._tree.locate(path, True).node if exist_ok else None
            if found is None or not found.is_directory:
                raise AlreadyExists
            return found.stat
        return self._upper.mkdir(self._tree.make_way(spot, parents), False, False, mode)

    def mknod(self, path: VPath, kind: Kind, mode: int, rdev: int) -> Stat:
        return self._upper.mknod(self._tree.make_way(self._free(path), False), kind, mode, rdev)

    def symlink(self, target: str, path: VPath, parents: bool) -> Stat:
        return self._upper.symlink(target, self._tree.make_way(self._free(path), parents), False)

    def link(self, path: VPath, to: VPath, parents: bool) -> Stat:
        node = self._tree.locate(path, False).there()
        if node.is_directory:
            raise IsADirectory("a directory has one name only")
        place = self._tree.make_way(self._free(to), parents)
        return shown(self._upper.link(self._tree.carry(node), place, False))

    def _free(self, path: VPath) -> Spot:
        spot = self._tree.locate(path, False)
        if spot.node is not None:
            raise AlreadyExists
        return spot

    def remove(self, path: VPath, recursive: bool, expect: Expect) -> None:
        spot = self._removable(path, expect)
        node = spot.there()
        if node.is_directory and not recursive and any(self._tree.children(node)):
            raise NotEmpty
        self._discard(spot, node)

    def _removable(self, path: VPath, expect: Expect) -> Spot:
        spot = self._tree.locate(path, False)
        node = spot.there()
        if spot.is_root:
            raise Busy("the root stays where it is")
        _judge(node, expect)
        return spot

    def _discard(self, spot: Spot, node: Layers) -> None:
        if node.upper is not None:
            self._upper.remove(VPath(node.names), True, ANY)
        self._tree.cover(spot.above[-1], node.names[-1])

    def move(self, path: VPath, to: VPath, replace: bool, parents: bool, expect: Expect) -> Stat:
        if to.is_root:
            raise Busy("the root cannot be replaced")
        source = self._removable(path, expect)
        node, place = source.there(), self._place(to)
        if place.node is not None and _same(place.node, node):
            return place.node.stat
        _not_into_itself(node, place)
        if node.lower is not None:
            self._tree.refuse_many(node)
        self._clear(place, node, replace)
        target = VPath(place.names)
        if place.node is None:
            self._tree.make_way(place, parents)
        else:
            self._tree.carry(place.above[-1])
        moved = self._upper.move(self._tree.carry_tree(node), target, False, False, ANY)
        self._tree.cover(source.above[-1], node.names[-1])
        return shown(moved)

    def _place(self, to: VPath) -> Spot:
        place = self._tree.locate(to, False)
        if place.is_root:
            raise Busy("the root cannot be replaced")
        return place

    def _clear(self, place: Spot, node: Layers, replace: bool) -> None:
        """Takes away what may be replaced by `node`, and refuses the rest."""
        there = place.node
        if there is None:
            return
        if not replace:
            raise AlreadyExists
        if there.is_directory and not node.is_directory:
            raise IsADirectory
        if node.is_directory and not there.is_directory:
            raise NotADirectory
        if there.is_directory and any(self._tree.children(there)):
            raise NotEmpty
        if there.kind is Kind.FILE and there.raw.readonly:
            raise ReadOnly("the file is read-only")
        self._discard(place, there)

    def copy(
        self, path: VPath, to: VPath, replace: bool, recursive: bool, parents: bool, expect: Expect
    ) -> Stat:
        node = self._tree.locate(path, True).there()
        if node.is_directory and not recursive:
            raise IsADirectory("this is a directory; pass recursive=True to copy what it holds")
        place = self._place(to)
        there = place.node
        _judge(there, expect)
        if there is not None and _same(there, node):
            return there.stat
        _not_into_itself(node, place)
        if there is not None and replace and there.kind is node.kind is Kind.FILE:
            return self._copy_onto(node, place)
        self._tree.refuse_many(node)
        self._clear(place, node, replace)
        target = VPath(place.names)
        if there is None:
            self._tree.make_way(place, parents)
        else:
            self._tree.carry(place.above[-1])
        self._tree.duplicate(node, target)
        return shown(self._upper.stat(target, False))

    def _copy_onto(self, node: Layers, place: Spot) -> Stat:
        """A file copied onto a file becomes its next revision."""
        there = place.file()
        if there.raw.readonly:
            raise ReadOnly("the file is read-only")
        if node.upper is not None:
            to = self._carried(there)
            path = VPath(node.names)
            origin = self._upper.stat(to, False).xattrs.get(ORIGIN)
            copied = self._upper.copy(path, to, True, False, False, ANY)
            if copied.xattrs.get(ORIGIN) != origin:
                own = Attrs(xattrs={ORIGIN: origin})
                copied = self._upper.set_attrs(to, own, False, ANY)
            return shown(copied)
        data = LowerSource(self._tree.lower_content(node))
        if there.upper is None:
            return self._cover_by(place, there.raw, data, None)
        return shown(self._upper.write(self._carried(there), data, ANY, False, None, None))


class _Shown:
    """A content of the upper volume, with its stat as the merged tree tells it."""

    def __init__(self, content: Content) -> None:
        self._content = content
        self.stat = shown(content.stat)

    def read(self, offset: int, length: int) -> bytes:
        return self._content.read(offset, length)


def _revision_above(upper: Stat, revision: int | None) -> int | None:
    """The number under which the upper volume keeps a revision."""
    if revision is None:
        return None
    above = revision - shift(upper)
    if above < 1:
        raise RevisionNotFound("what was below before the file was changed is not kept")
    return above


def _writable(spot: Spot, expect: Expect) -> Layers | None:
    """What is there, if its bytes may be replaced."""
    node = spot.node
    if node is not None:
        a_file(node)
    _judge(node, expect)
    if node is not None and node.raw.readonly:
        raise ReadOnly("the file is read-only")
    return node


def _judge(node: Layers | None, expect: Expect) -> None:
    """Compares what a caller expects with what `stat` tells."""
    if expect is ANY:
        return
    stat = None if node is None else node.stat
    actual = None if stat is None else stat.revision
    if expect is ABSENT:
        held, wanted = stat is None, "absent"
    elif isinstance(expect, Stat):
        held = stat is not None and (stat.id, actual) == (expect.id, expect.revision)
        wanted = str(expect.revision)
    else:
        held, wanted = stat is not None and actual == expect, str(expect)
    if not held:
        raise Conflict(expected=wanted, actual=actual)


def _same(one: Layers, other: Layers) -> bool:
    """Whether two places hold the same node."""
    if one.is_directory or other.is_directory:
        return one.names == other.names
    return one.stat.id == other.stat.id


def _not_into_itself(node: Layers, place: Spot) -> None:
    inside = len(place.names) > len(node.names)
    if node.is_directory and inside and place.names[: len(node.names)] == node.names:
        raise InvalidArgument("a directory cannot be put into itself")
