"""A gate that composes several trees into one, each mounted at a path of its own.

An operation goes to the deepest mount that holds its paths, re-rooted there; one that would need
two volumes is refused. Mount points, and the directories above them, always exist and cannot be
removed or replaced. A link resolves inside the volume that holds it, so none leads from one mount
into another. What has no path (the trash, snapshots, undo) is asked of the root volume.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from typing import Any, Final, TypeVar, cast

from msgspec.structs import replace as with_fields

from keelfs import ops
from keelfs.errors import (
    AlreadyExists,
    Busy,
    CrossDevice,
    InvalidArgument,
    IsADirectory,
    KeelError,
    Missing,
    NotALink,
    WrongKind,
)
from keelfs.gates.subtree import Subtree
from keelfs.model import MAX_PAGE, Entry, Kind, Page, Stat, Trashed, Usage
from keelfs.ops import Op
from keelfs.path import ROOT, VPath, parse, sort_key
from keelfs.ports import Handler

T = TypeVar("T")

#: What an operation meets that names a mount point, or a directory above one, in this field.
_MET: Final[dict[tuple[type[Op[Any]], str], type[KeelError]]] = {
    (ops.Remove, "path"): Busy,
    (ops.Trash, "path"): Busy,
    (ops.Move, "path"): Busy,
    (ops.Move, "to"): Busy,
    (ops.Copy, "to"): Busy,
    (ops.Untrash, "to"): AlreadyExists,
    (ops.Link, "path"): IsADirectory,
    (ops.Link, "to"): AlreadyExists,
    (ops.Symlink, "path"): AlreadyExists,
    (ops.Mknod, "path"): AlreadyExists,
    (ops.Readlink, "path"): NotALink,
    **{
        (verb, "path"): IsADirectory
        for verb in (
            ops.Read, ops.Open, ops.Write, ops.Add, ops.Append, ops.Patch, ops.Truncate,
            ops.Checksum, ops.History, ops.Restore,
        )
    },
}  # fmt: skip


class Mounts:
    """`root`, with each of the other trees in the place of the directory it is mounted at."""

    def __init__(self, root: Handler, mounts: Mapping[VPath, Handler]) -> None:
        if ROOT in mounts:
            raise InvalidArgument("nothing can be mounted at the root; it is the root tree's")
        self._trees = {ROOT: root, **mounts}
        #: For each directory above a mount point, the names in it that lead to one.
        self._above: dict[VPath, set[str]] = {}
        for mount in mounts:
            for depth in range(len(mount.parts)):
                above = VPath(mount.parts[:depth])
                self._above.setdefault(above, set()).add(mount.parts[depth])
        #: Directories that exist for the sake of a mount, whatever the volume knows of them.
        self._implied = self._above.keys() - self._trees.keys()

    def perform(self, op: Op[T], /) -> T:
        return cast(T, self._perform(op))

    def _perform(self, op: Op[Any]) -> object:
        match op:
            case ops.Within():
                return self._view(op.base).perform(op.op)
            case ops.GetStat() if parse(op.path) in self._above:
                return self._stat(parse(op.path))
            case ops.List() if parse(op.path) in self._above:
                return self._list(parse(op.path), op.after, op.limit)
            case ops.GetUsage() if parse(op.path) in self._implied:
                return self._usage(parse(op.path))
            case _:
                mount = self._mount_of(op)
                return _from_outside(op, self._passed_down(op, mount), mount)

    def _passed_down(self, op: Op[Any], mount: VPath) -> object:
        """The answer of one volume. A directory that only a mount implies becomes a real one
        before something is put into it; nobody can see the difference.
        """
        tree = self._trees[mount]
        implied = {path for each in ops.unwrapped(op) for path in self._implied_by(each)}
        for path in sorted(implied, key=lambda path: path.parts):
            tree.perform(ops.Mkdir(path.below(mount), parents=True, exist_ok=True))
        return tree.perform(op.seen_from(mount))

    def _implied_by(self, op: Op[Any]) -> set[VPath]:
        if not op.mutates or getattr(op, "parents", False) or not op.paths():
            return set()
        place = op.paths()[-1]
        return {place, place.parent} & self._implied

    def _owner(self, path: VPath) -> VPath:
        """The deepest mount point that `path` lies at or below."""
        for depth in range(len(path.parts), 0, -1):
            mount = VPath(path.parts[:depth])
            if mount in self._trees:
                return mount
        return ROOT

    def _mount_of(self, op: Op[Any]) -> VPath:
        """The one mount that can perform it; refuses what needs several."""
        match op:
            case ops.Batch():
                owners = {self._mount_of(each) for each in op.ops}
            case ops.Within():
                owners = {self._owner(op.base)}
                if op.base in self._above:
                    raise CrossDevice("the sub-tree holds mount points")
            case ops.Judged() | ops.Once():
                return self._mount_of(op.op)
            case _:
                self._check_places(op)
                owners = {self._owner(path) for path in op.paths()}
        if len(owners) > 1:
            raise CrossDevice
        return owners.pop() if owners else ROOT

    def _check_places(self, op: Op[Any]) -> None:
        for field in op.places:
            place = getattr(op, field)
            if place is None:
                continue
            path = parse(place)
            if path in self._above and isinstance(op, ops.GetStat | ops.List | ops.Copy):
                raise CrossDevice("what lies here belongs to several volumes")
            if path.is_root or (path not in self._trees and path not in self._above):
                continue
            met = _MET.get((type(op), field))
            if isinstance(op, ops.Mkdir) and not op.exist_ok:
                met = AlreadyExists
            if met is not None:
                raise met

    def _view(self, base: VPath) -> Handler:
        """The composed tree below `base`."""
        mount = self._owner(base)
        tree = self._trees[mount]
        root = tree if base == mount else Subtree(tree, base.below(mount))
        inner = {
            path.below(base): tree
            for path, tree in self._trees.items()
            if path != base and path.is_within(base)
        }
        return Mounts(root, inner) if inner else root

    def _stat(self, path: VPath) -> Stat:
        mount = self._owner(path)
        try:
            stat = self._trees[mount].perform(ops.GetStat(path.below(mount), follow=False))
        except (Missing, WrongKind):
            return _implied_directory(path)
        return stat if stat.is_directory else _implied_directory(path)

    def _usage(self, path: VPath) -> Usage:
        mount = self._owner(path)
        try:
            return self._trees[mount].perform(ops.GetUsage(path.below(mount)))
        except (Missing, WrongKind):
            return Usage()

    def _list(self, path: VPath, after: str | None, limit: int) -> Page[Entry]:
        """A page of the directory, with the names that lead to mounts merged in their places."""
        page = self._list_below(path, after, limit)
        entries = {entry.name: entry for entry in page.items}
        for name in self._above[path]:
            if after is not None and sort_key(name) <= sort_key(after):
                continue
            if page.next is not None and sort_key(name) > sort_key(page.next):
                continue
            stat = self._stat_of_mounted(path.child(name), entries.pop(name, None))
            if stat is not None:
                entries[name] = Entry(name, stat)
        merged = sorted(entries.values(), key=lambda entry: sort_key(entry.name))
        if len(merged) > limit:
            return Page(merged[:limit], merged[limit - 1].name)
        return Page(merged, page.next)

    def _list_below(self, path: VPath, after: str | None, limit: int) -> Page[Entry]:
        if not 1 <= limit <= MAX_PAGE:
            raise InvalidArgument(f"a page has 1 to {MAX_PAGE} entries")
        mount = self._owner(path)
        try:
            return self._trees[mount].perform(ops.List(path.below(mount), after, limit))
        except (Missing, WrongKind):
            return Page([])

    def _stat_of_mounted(self, path: VPath, known: Entry | None) -> Stat | None:
        if path in self._trees:
            try:
                return self._trees[path].perform(ops.GetStat(ROOT))
            except Missing:
                # What is mounted here is gone, so nothing else may be seen in its place.
                return None
        if known is not None and known.stat.is_directory:
            return known.stat
        return _implied_directory(path)


def _implied_directory(path: VPath) -> Stat:
    """A directory that no volume holds; its identity is made from where it is."""
    identity = uuid.uuid5(uuid.NAMESPACE_URL, f"mount:{path}").bytes
    return Stat(kind=Kind.DIRECTORY, id=identity, size=0, revision=1, mode=0o755, synthetic=True)


def _from_outside(op: Op[Any], answer: object, mount: VPath) -> object:
    """The answer, where it names a path of the volume itself, as seen from the composed tree."""
    if mount.is_root:
        return answer
    match op:
        case ops.Batch():
            answers = zip(op.ops, cast(list[Any], answer), strict=True)
            return [_from_outside(each, inner, mount) for each, inner in answers]
        case ops.Judged():
            return _from_outside(op.op, answer, mount)
        case ops.Trash():
            trashed = cast(Trashed, answer)
            return with_fields(trashed, path=mount.parts + trashed.path)
        case _:
            return answer
