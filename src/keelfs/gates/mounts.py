"""A gate that composes several trees into one, each mounted at a path of its own.

An operation goes to the deepest mount that holds its paths, re-rooted there. One that needs several
is done in one transaction where all of them are in one store, and otherwise refused
(`CrossDevice`), unless it is a transfer. Mount points, and the directories above them, always exist
and cannot be removed or replaced. A link resolves inside the volume that holds it, so none leads
from one mount into another. Snapshots are the root's; keys belong to the volume that did the work.

What is found by looking through several mounts is put together in `keelfs.gates.looking`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import ExitStack
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
    NotALink,
    Unsupported,
)
from keelfs.gates.carrying import carried
from keelfs.gates.joint import Inside, Joint, joinable
from keelfs.gates.looking import Looking
from keelfs.gates.subtree import Subtree
from keelfs.model import Stat, Transferred, Trashed
from keelfs.ops import Op
from keelfs.path import ROOT, VPath, parse
from keelfs.ports import Handler, Joinable

T = TypeVar("T")

#: What an operation meets that names a mount point, or a directory above one, in this field.
_MET: Final[dict[tuple[type[Op[Any]], str], type[KeelError]]] = {
    (ops.Remove, "path"): Busy,
    (ops.Trash, "path"): Busy,
    (ops.Move, "path"): Busy,
    (ops.Move, "to"): Busy,
    (ops.Transfer, "path"): Busy,
    (ops.Transfer, "to"): Busy,
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
#: Operations that ask about more than the volume they name, if mounts lie below their path.
_LOOKING: Final = (ops.GetStat, ops.List, ops.GetUsage, ops.Changes)


class Mounts:
    """`root`, with each of the other trees in the place of the directory it is mounted at."""

    def __init__(self, root: Handler, mounts: Mapping[VPath, Handler]) -> None:
        if ROOT in mounts:
            raise InvalidArgument("nothing can be mounted at the root; it is the root tree's")
        #: The root first, the others in the order of their paths.
        self._trees = {ROOT: root, **{path: mounts[path] for path in sorted(mounts, key=_parts)}}
        self._first_names = {mount.parts[0] for mount in mounts}
        #: For each directory above a mount point, the names in it that lead to one.
        self._above: dict[VPath, set[str]] = {}
        for mount in mounts:
            for depth in range(len(mount.parts)):
                above = VPath(mount.parts[:depth])
                self._above.setdefault(above, set()).add(mount.parts[depth])
        #: Directories that exist for the sake of a mount, whatever the volume knows of them.
        self._implied = self._above.keys() - self._trees.keys()
        self._looking = Looking(self._trees, self._above, self.owner)

    def perform(self, op: Op[T], /) -> T:
        return cast(T, self._perform(op))

    def _perform(self, op: Op[Any]) -> object:
        if isinstance(op, ops.ListTrash) or self._looks_through(op):
            return self._looking.answer(op)
        owners = self._owners(op)
        if len(owners) == 1:
            (mount,) = owners
            return self._passed_down(op, mount)
        return self._together(op, owners) if op.mutates else self._one_by_one(op)

    def owner(self, path: VPath) -> VPath:
        """The deepest mount point that `path` lies at or below."""
        parts = path.parts
        if not parts or parts[0] not in self._first_names:
            return ROOT
        for depth in range(len(parts), 0, -1):
            mount = VPath(parts[:depth])
            if mount in self._trees:
                return mount
        return ROOT

    def view(self, base: VPath) -> Handler:
        """The composed tree below `base`."""
        mount = self.owner(base)
        tree = self._trees[mount]
        root = tree if base == mount else Subtree(tree, base.below(mount))
        inner = {
            path.below(base): tree
            for path, tree in self._trees.items()
            if path != base and path.is_within(base)
        }
        return Mounts(root, inner) if inner else root

    def _looks_through(self, op: Op[Any]) -> bool:
        return isinstance(op, _LOOKING) and parse(op.path) in self._above

    # -- who does it

    def _owners(self, op: Op[Any]) -> set[VPath]:
        """The mounts that it needs; refuses what no composition could do."""
        match op:
            case ops.Batch():
                return set[VPath]().union(*(self._owners(each) for each in op.ops)) or {ROOT}
            case ops.Judged() | ops.Once():
                return self._owners(op.op)
            case ops.Within():
                inner = self.view(op.base) if op.base in self._above else None
                if not isinstance(inner, Mounts):
                    return {self.owner(op.base)}
                return {self.owner(op.base.join(each)) for each in inner._owners(op.op)}
            case _:
                return self._owners_of_plain(op)

    def _owners_of_plain(self, op: Op[Any]) -> set[VPath]:
        if isinstance(op, ops.ListTrash):
            return set(self._trees)
        if self._looks_through(op):
            path = parse(cast(ops.List, op).path)
            return {self.owner(path), *(each for each in self._trees if each.is_within(path))}
        numbered = self._looking.owner_of(op)
        if numbered is not None:
            return {numbered}
        self._check_places(op)
        owners = {self.owner(path) for path in op.paths()} or {ROOT}
        if len(owners) > 1 and not isinstance(op, ops.Transfer):
            raise CrossDevice
        return owners

    def _check_places(self, op: Op[Any]) -> None:
        for field in op.places:
            place = getattr(op, field)
            if place is None:
                continue
            path = parse(place)
            if path.parts and path.parts[0] not in self._first_names:
                continue
            if field == "path" and path in self._above and isinstance(op, ops.Copy):
                if parse(op.to).is_within(path):
                    raise InvalidArgument("a directory cannot be copied into itself")
                raise CrossDevice("what lies here belongs to several volumes")
            if path.is_root or (path not in self._trees and path not in self._above):
                continue
            met = _MET.get((type(op), field))
            if isinstance(op, ops.Mkdir) and not op.exist_ok:
                met = AlreadyExists
            if met is not None:
                raise met

    # -- done by one

    def _passed_down(self, op: Op[Any], mount: VPath) -> object:
        """The answer of one volume. A directory that only a mount implies becomes a real one
        before something is put into it; nobody can see the difference.
        """
        tree = self._trees[mount]
        if self._implied and op.mutates:
            for path in self._implied_for(op):
                if self.owner(path) != mount:
                    continue
                tree.perform(ops.Mkdir(path.below(mount), parents=True, exist_ok=True))
        if mount.is_root and not self._looking.numbers(_layers(op)[-1]):
            return tree.perform(op)
        answer = tree.perform(self._placed(op, mount))
        return answer if mount.is_root else self._from_outside(op, answer, mount)

    def _implied_for(self, op: Op[Any]) -> list[VPath]:
        last = _layers(op)[-1]
        if getattr(last, "parents", False) and not isinstance(last, ops.Batch):
            return []
        implied = {path for each in ops.unwrapped(op) for path in self._implied_by(each)}
        return sorted(implied, key=_parts)

    def _implied_by(self, op: Op[Any]) -> set[VPath]:
        if not op.mutates or getattr(op, "parents", False) or not op.paths():
            return set()
        place = op.paths()[-1]
        return {place, place.parent} & self._implied

    def _placed(self, op: Op[Any], mount: VPath) -> Op[Any]:
        """The operation as the volume sees it that is mounted there."""
        match op:
            case ops.Judged():
                return with_fields(op, op=self._placed(op.op, mount), at=op.at.join(mount))
            case ops.Once():
                return with_fields(op, op=self._placed(op.op, mount))
            case ops.Batch():
                return with_fields(op, ops=tuple(self._placed(each, mount) for each in op.ops))
            case ops.Within() if not op.base.is_within(mount):
                inner = cast(Mounts, self.view(op.base))
                return inner._placed(op.op, mount.below(op.base))
            case _:
                local = self._looking.as_local(op, mount)
                return local if mount.is_root else local.seen_from(mount)

    def _from_outside(self, op: Op[Any], answer: object, mount: VPath) -> object:
        """The answer, where it names something of the volume itself, as the composed tree does."""
        match op:
            case ops.Batch():
                answers = zip(op.ops, cast(list[Any], answer), strict=True)
                return [self._from_outside(each, inner, mount) for each, inner in answers]
            case ops.Judged() | ops.Once():
                return self._from_outside(op.op, answer, mount)
            case ops.Trash():
                return self._looking.trashed(cast(Trashed, answer), mount)
            case ops.Changes() | ops.Undo():
                return self._looking.numbered(op, answer, mount)
            case _:
                return answer

    # -- done by several

    def _one_by_one(self, op: Op[Any]) -> object:
        """Questions to several volumes: no transaction makes their answers belong together."""
        if isinstance(op, ops.Within):
            return self.view(op.base).perform(op.op)
        assert isinstance(op, ops.Batch)
        answers: list[object] = []
        for each in op.ops:
            try:
                answers.append(self._perform(each))
            except KeelError as error:
                error.operation = len(answers)
                raise
        return answers

    def _together(self, op: Op[Any], owners: set[VPath]) -> object:
        asked = {mount: self._trees[mount] for mount in self._trees if mount in owners}
        partners = joinable(list(asked.values()))
        if partners is not None:
            return self._in_one_transaction(op, dict(zip(asked, partners, strict=True)))
        if any(isinstance(each, ops.Batch) for each in _layers(op)):
            raise CrossDevice(
                "these operations need volumes of different stores, which no transaction spans; "
                "perform them one by one"
            )
        return self._carried(op)

    def _in_one_transaction(self, op: Op[Any], partners: dict[VPath, Joinable]) -> object:
        with ExitStack() as stack:
            ready = self._readied(op, partners, stack)

            def work(volumes: Any) -> object:
                joined = dict(zip(partners, volumes, strict=True))
                inside = {**self._trees, **{at: Inside(joined[at]) for at in joined}}
                root = inside.pop(ROOT)
                return ready.run(Joint(Mounts(root, inside), joined))

            first, *others = partners.values()
            return first.together(others, work)

    def _readied(self, op: Op[Any], partners: dict[VPath, Joinable], stack: ExitStack) -> Op[Any]:
        """The operation with each part made ready by the volume that will do it."""
        parts: dict[VPath, list[Op[Any]]] = {mount: [] for mount in partners}

        def told_apart(each: Op[Any], mount: VPath) -> Op[Any]:
            if mount in parts:
                parts[mount].append(each)
            return each

        self._over_plain(op, told_apart, ROOT)
        ready = {mount: iter(_made_ready(partners[mount], each, stack))
                 for mount, each in parts.items()}  # fmt: skip
        return self._over_plain(
            op, lambda each, mount: next(ready[mount]) if mount in ready else each, ROOT
        )

    def _over_plain(
        self, op: Op[Any], change: Callable[[Op[Any], VPath], Op[Any]], base: VPath
    ) -> Op[Any]:
        """The operation with the plain ones inside changed, each along with its mount."""
        match op:
            case ops.Batch():
                each = tuple(self._over_plain(inner, change, base) for inner in op.ops)
                return with_fields(op, ops=each)
            case ops.Judged() | ops.Once():
                return with_fields(op, op=self._over_plain(op.op, change, base))
            case ops.Within():
                return with_fields(op, op=self._over_plain(op.op, change, base.join(op.base)))
            case _:
                place = base.join(op.paths()[-1]) if op.paths() else base
                return change(op, self.owner(place))

    def _carried(self, op: Op[Any]) -> object:
        """A transfer between stores; what is around it is put around each of its steps."""
        layers = list(_layers(op))
        transfer = layers[-1]
        if not isinstance(transfer, ops.Transfer):
            raise CrossDevice
        if any(isinstance(each, ops.Once) for each in layers):
            raise Unsupported("a transfer between stores is no single transaction; it takes no key")

        def perform(step: Op[Any]) -> Any:
            for layer in reversed(layers[:-1]):
                step = with_fields(cast(Any, layer), op=step)
            return self._perform(step)

        stat: Stat = carried(perform, transfer)
        return Transferred(stat=stat, atomic=False)


def _made_ready(partner: Joinable, parts: list[Op[Any]], stack: ExitStack) -> tuple[Op[Any], ...]:
    ready = stack.enter_context(partner.readied(ops.Batch(tuple(parts))))
    return cast(ops.Batch, ready).ops


def _layers(op: Op[Any]) -> list[Op[Any]]:
    """What is wrapped around an operation, and last the operation itself."""
    found = [op]
    while isinstance(found[-1], ops.Judged | ops.Once | ops.Within):
        found.append(found[-1].op)
    return found


def _parts(path: VPath) -> tuple[str, ...]:
    return path.parts
