"""The verbs of the memory volume that make, move, copy and remove names.

Always true: what a name replaces is taken away before the new name is bound, and a node goes when
its last name has gone. Bytes are never copied; copies share them.
"""

from __future__ import annotations

from msgspec.structs import replace
from msgspec.structs import replace as replaced

from keelfs.errors import (
    AlreadyExists,
    Busy,
    CrossDevice,
    InvalidArgument,
    IsADirectory,
    NotADirectory,
    NotEmpty,
)
from keelfs.memory.files import Files, encoded
from keelfs.memory.records import Found, Node
from keelfs.memory.tree import LINK_MODE, judge, metered, writable
from keelfs.model import ANY, ChangeKind, Expect, Kind, Stat
from keelfs.path import VPath
from keelfs.ports import Volume

MAX_TARGET_BYTES = 4095
_PLAIN = frozenset({Kind.FILE, Kind.DIRECTORY, Kind.SYMLINK})


class Entries(Files):
    """Making, linking, removing, moving and copying."""

    @metered
    def mkdir(self, path: VPath, parents: bool, exist_ok: bool, mode: int) -> Stat:
        found = self.locate(path, follow=False)
        if found.node is not None:
            target = self.locate(path, follow=True).node if exist_ok else None
            if target is None or target.kind is not Kind.DIRECTORY:
                raise AlreadyExists
            return self.answer(target.id)
        return self._make(found, parents, Kind.DIRECTORY, mode)

    @metered
    def mknod(self, path: VPath, kind: Kind, mode: int, rdev: int) -> Stat:
        if kind in _PLAIN:
            raise InvalidArgument("mknod makes special kinds only; use write, mkdir or symlink")
        if not 0 <= rdev < 2**63:
            raise InvalidArgument("a device number cannot be negative")
        return self._make(self._free(path), False, kind, mode, rdev=rdev)

    @metered
    def symlink(self, target: str, path: VPath, parents: bool) -> Stat:
        if "\0" in target or not 1 <= len(encoded(target)) <= MAX_TARGET_BYTES:
            raise InvalidArgument(f"a target has 1 to {MAX_TARGET_BYTES} bytes and no NUL")
        return self._make(self._free(path), parents, Kind.SYMLINK, LINK_MODE, target=target)

    @metered
    def link(self, path: VPath, to: VPath, parents: bool) -> Stat:
        source, node = self.existing(path, follow=False)
        if node.kind is Kind.DIRECTORY:
            raise IsADirectory("a directory has one name only")
        found = self._free(to)
        self.enter(self.make_way(found, parents), found.path, node.id)
        self.stamp(node.id)
        self.record(ChangeKind.LINK, source.path, found.path, node)
        return self.answer(node.id)

    def _free(self, path: VPath) -> Found:
        """A place where nothing is, not even a link."""
        found = self.locate(path, follow=False)
        if found.node is not None:
            raise AlreadyExists
        return found

    def _make(self, found: Found, parents: bool, kind: Kind, mode: int, **fields: object) -> Stat:
        directory = self.make_way(found, parents)
        node = self.fresh(kind, mode, **fields)
        self.enter(directory, found.path, node.id)
        self.record(ChangeKind.CREATE, found.path, node=node)
        return self.answer(node.id)

    def remove(self, path: VPath, recursive: bool, expect: Expect) -> None:
        found, node = self.removable(path, expect)
        if not recursive and self._state.children.get(node.id):
            raise NotEmpty
        self._discard(found, node)

    def removable(self, path: VPath, expect: Expect) -> tuple[Found, Node]:
        """An entry that may be taken away."""
        found, node = self.existing(path, follow=False)
        if found.is_root:
            raise Busy("the root stays where it is")
        judge(expect, node)
        return found, node

    def _discard(self, found: Found, node: Node) -> None:
        self.leave(found.above[-1], found.path[-1])
        self._state.release(node.id)
        self.record(ChangeKind.REMOVE, found.path, node=node)

    @metered
    def move(self, path: VPath, to: VPath, replace: bool, parents: bool, expect: Expect) -> Stat:
        if to.is_root:
            raise Busy("the root cannot be replaced")
        source, node = self.removable(path, expect)
        place = self._place(to)
        if place.node is not None and place.node.id == node.id:
            return self.answer(node.id)
        if node.id in place.above:
            raise InvalidArgument("a directory cannot be moved into itself")
        directory = self._clear(place, node, replace, parents)
        self.leave(source.above[-1], source.path[-1])
        self.enter(directory, place.path, node.id)
        self.stamp(node.id)
        self.record(ChangeKind.MOVE, source.path, place.path, node)
        return self.answer(node.id)

    def _place(self, to: VPath) -> Found:
        place = self.locate(to, follow=False)
        if place.is_root:
            raise Busy("the root cannot be replaced")
        return place

    def _clear(self, place: Found, node: Node, replace: bool, parents: bool) -> bytes:
        """The directory that `node` may enter, whatever was in its place being gone."""
        there = place.node
        if there is None:
            return self.make_way(place, parents)
        if not replace:
            raise AlreadyExists
        if there.kind is Kind.DIRECTORY and node.kind is not Kind.DIRECTORY:
            raise IsADirectory
        if node.kind is Kind.DIRECTORY and there.kind is not Kind.DIRECTORY:
            raise NotADirectory
        if self._state.children.get(there.id):
            raise NotEmpty
        writable(there)
        self._discard(place, there)
        return place.above[-1]

    @metered
    def copy(
        self, path: VPath, to: VPath, replace: bool, recursive: bool, parents: bool, expect: Expect
    ) -> Stat:
        source, node = self.existing(path, follow=True)
        if node.kind is Kind.DIRECTORY and not recursive:
            raise IsADirectory("this is a directory; pass recursive=True to copy what it holds")
        place = self._place(to)
        judge(expect, place.node)
        if place.node is not None and place.node.id == node.id:
            return self.answer(node.id)
        if node.id in place.above:
            raise InvalidArgument("a directory cannot be copied into itself")
        if place.node is not None and replace and place.node.kind is node.kind is Kind.FILE:
            writable(place.node)
            return self.put_bytes(place, place.node, node.data, node.sha256)
        count = sum(1 for _ in self._state.walk(node.id))
        self.check_size("transaction_nodes", count, "the nodes of one copy")
        directory = self._clear(place, node, replace, parents)
        made = self._duplicate(node)
        self.enter(directory, place.path, made.id)
        self.record(ChangeKind.COPY, source.path, place.path, made)
        return self.answer(made.id)

    @metered
    def receive(self, source: Volume, path: VPath, to: VPath, replace: bool, parents: bool) -> Stat:
        if not isinstance(source, Entries):
            raise CrossDevice("the volumes are not in one transaction")
        _, node = source.removable(path, ANY)
        tree = list(source._state.walk(node.id))
        self.check_size("transaction_nodes", len(tree), "the nodes of one transfer")
        for _, each in tree:
            self.check_file_size(len(each.data))
            held = len(source._state.children.get(each.id, ()))
            self.check_size("directory_entries", held, "the entries of one directory")
        place = self._place(to)
        directory = self._clear(place, node, replace, parents)
        came = self._settled(tree)
        self.enter(directory, place.path, came.id)
        self.record(ChangeKind.COPY, None, place.path, came)
        return self.answer(came.id)

    def _settled(self, tree: list[tuple[tuple[str, ...], Node]]) -> Node:
        """The nodes of another space under identities of this one, without a name yet."""
        settled: dict[bytes, Node] = {}
        places: dict[tuple[str, ...], Node] = {}
        for path, node in tree:
            if node.id not in settled:
                settled[node.id] = replaced(node, id=self._turn.ids(self._turn.now))
                self._state.adopt(settled[node.id])
            places[path] = settled[node.id]
        for path in sorted(places, key=len, reverse=True):
            if path:
                self._state.bind(places[path[:-1]].id, path[-1], places[path].id)
        return places[()]

    def _duplicate(self, top: Node) -> Node:
        """A copy of a node and everything below it, without a name yet.

        Directories are filled before they are entered, so that the whole is charged once.
        """
        copies: dict[tuple[str, ...], Node] = {}
        for path, node in list(self._state.walk(top.id)):
            copies[path] = self._duplicate_one(node)
            if path:
                self._state.bind(copies[path[:-1]].id, path[-1], copies[path].id)
        return copies[()]

    def _duplicate_one(self, node: Node) -> Node:
        made = self.fresh(node.kind, node.mode, target=node.target, rdev=node.rdev)
        made = replace(
            made, data=node.data, sha256=node.sha256, uid=node.uid, gid=node.gid,
            mime=node.mime, readonly=node.readonly, xattrs=node.xattrs,
        )  # fmt: skip
        self._state.replace(made)
        return made
