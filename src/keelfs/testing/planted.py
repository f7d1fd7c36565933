"""Volumes with one defect each, that a model check has to find.

Each is a handler around a sound one and breaks a single promise, in the way in which published
stores have broken it. Who calls: tests of the tests.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, TypeVar, cast
from unicodedata import normalize

from msgspec.structs import replace

from keelfs.errors import DanglingLink, KeelError, NotFound
from keelfs.model import ANY, Page, Usage
from keelfs.ops import (
    Append,
    Batch,
    Changes,
    Checksum,
    Copy,
    GetStat,
    GetUsage,
    History,
    List,
    Mkdir,
    Move,
    Op,
    Patch,
    Read,
    Readlink,
    Remove,
    Restore,
    SetAttrs,
    Symlink,
    Trash,
    Truncate,
    Untrash,
    Write,
)
from keelfs.path import VPath, parse
from keelfs.ports import Handler

T = TypeVar("T")


class Planted:
    """A sound volume behind a defect."""

    def __init__(self, sound: Handler) -> None:
        self.sound = sound

    def perform(self, op: Op[T], /) -> T:
        return cast(T, self.broken(op))

    def broken(self, op: Op[Any]) -> Any:
        """The answer, not quite as it should be."""
        raise NotImplementedError

    def names(self, path: Any) -> list[str]:
        return [entry.name for entry in self.sound.perform(List(path, None, 1000)).items]


class LikeRemoval(Planted):
    """`_` and `%` in a removed name match other names, as in an unescaped LIKE."""

    def broken(self, op: Op[Any]) -> Any:
        answer = self.sound.perform(op)
        if isinstance(op, Remove):
            path = parse(op.path)
            for name in self.names(path.parent):
                if _like(name, path.name):
                    self.sound.perform(Remove(path.parent.child(name), recursive=True))
        return answer


def _like(name: str, pattern: str) -> bool:
    if pattern.endswith("%"):
        return name.startswith(pattern[:-1])
    return len(name) == len(pattern) and all(
        mine in (theirs, "_") for mine, theirs in zip(pattern, name, strict=True)
    )


class CaseBlind(Planted):
    """What is missing is found under a name that differs in case."""

    def broken(self, op: Op[Any]) -> Any:
        try:
            return self.sound.perform(op)
        except NotFound:
            if not isinstance(op, GetStat | Read):
                raise
            path = parse(op.path)
            for name in self.names(path.parent):
                if name.casefold() == path.name.casefold():
                    twin = cast(Op[Any], replace(op, path=path.parent.child(name)))
                    return self.sound.perform(twin)
            raise


class AppendDropped(Planted):
    """An append to a file that was appended to before gets lost."""

    def broken(self, op: Op[Any]) -> Any:
        if isinstance(op, Append):
            try:
                if self.sound.perform(GetStat(op.path)).revision == 2:
                    return self.sound.perform(GetStat(op.path))
            except KeelError:
                pass
        return self.sound.perform(op)


class ExpectIgnored(Planted):
    """What the caller expects is not looked at."""

    def broken(self, op: Op[Any]) -> Any:
        return self.sound.perform(replace(op, expect=ANY) if hasattr(op, "expect") else op)


class MoveLeavesAChild(Planted):
    """A moved directory leaves one of its children behind."""

    def broken(self, op: Op[Any]) -> Any:
        answer = self.sound.perform(op)
        if isinstance(op, Move) and answer.is_directory:
            children = self.names(op.to)
            if children and parse(op.path) != parse(op.to):
                self.sound.perform(Mkdir(op.path))
                child = parse(op.path).child(children[-1])
                self.sound.perform(Move(parse(op.to).child(children[-1]), child))
        return answer


class QuotaOffByOne(Planted):
    """One byte more than is allowed is let in: to be opened with a limit one byte wider."""

    def broken(self, op: Op[Any]) -> Any:
        answer = self.sound.perform(op)
        if isinstance(answer, Usage) and answer.limits.bytes is not None:
            limits = replace(answer.limits, bytes=answer.limits.bytes - 1)
            return replace(answer, limits=limits)
        return answer


class HistorySkipped(Planted):
    """The revision before the current one is not in the history."""

    def broken(self, op: Op[Any]) -> Any:
        answer = self.sound.perform(op)
        return [*answer[:1], *answer[2:]] if isinstance(op, History) else answer


class ListedByLocale(Planted):
    """Listings come in the order of a dictionary instead of the order of bytes."""

    def broken(self, op: Op[Any]) -> Any:
        answer = self.sound.perform(op)
        if isinstance(op, List):
            return Page(sorted(answer.items, key=lambda entry: entry.name.casefold()), answer.next)
        return answer


class LinkEscapes(Planted):
    """A target that begins with `/` starts somewhere else than at the root of the volume."""

    def broken(self, op: Op[Any]) -> Any:
        if isinstance(op, Symlink) and op.target.startswith("/"):
            stat = self.sound.perform(replace(op, target=f"elsewhere{op.target}"))
            return replace(stat, target=op.target, size=len(op.target.encode()))
        return self.sound.perform(op)


class CopyForgetsMode(Planted):
    """A copy has the mode of a new file."""

    def broken(self, op: Op[Any]) -> Any:
        answer = self.sound.perform(op)
        if isinstance(op, Copy) and answer.is_file and answer.revision == 1:
            from keelfs.model import Attrs

            return self.sound.perform(SetAttrs(op.to, Attrs(mode=0o644), follow=False))
        return answer


class TrashUncharged(Planted):
    """What lies in the trash is not counted."""

    def broken(self, op: Op[Any]) -> Any:
        answer = self.sound.perform(op)
        if isinstance(op, GetUsage):
            return replace(answer, trash_bytes=0, trash_nodes=0)
        return answer


class ParentsUntold(Planted):
    """Directories made on the way are not in the journal."""

    def broken(self, op: Op[Any]) -> Any:
        answer = self.sound.perform(op)
        if isinstance(op, Changes):
            told = [change for change in answer.items if change.node != "directory"]
            return Page(told, answer.next)
        return answer


class BatchInPieces(Planted):
    """A batch is performed one by one, and what came before a refusal stays."""

    def broken(self, op: Op[Any]) -> Any:
        if isinstance(op, Batch):
            return [self.sound.perform(each) for each in op.ops]
        return self.sound.perform(op)


class UntrashMakesAnew(Planted):
    """What comes back from the trash is a copy of what it was."""

    def broken(self, op: Op[Any]) -> Any:
        answer = self.sound.perform(op)
        if isinstance(op, Untrash) and answer.is_file and answer.revision > 1:
            return replace(answer, revision=1)
        return answer


class TruncateKeepsTheTail(Planted):
    """What was cut off shows again when the file grows."""

    def broken(self, op: Op[Any]) -> Any:
        if isinstance(op, Truncate):
            try:
                before = self.sound.perform(Read(op.path))
            except KeelError:
                before = b""
            answer = self.sound.perform(op)
            if op.size > len(before):
                filled = (before + b"old tail" * op.size)[: op.size]
                return self.sound.perform(Write(op.path, filled))
            return answer
        return self.sound.perform(op)


class RestoreInPlace(Planted):
    """A restored revision overwrites the current one without counting."""

    def broken(self, op: Op[Any]) -> Any:
        answer = self.sound.perform(op)
        return replace(answer, revision=op.revision) if isinstance(op, Restore) else answer


class TrashKeepsACopy(Planted):
    """The trashed entry stays in the tree."""

    def broken(self, op: Op[Any]) -> Any:
        if not isinstance(op, Trash):
            return self.sound.perform(op)
        path = parse(op.path)
        before = None
        with suppress(KeelError):
            before = self.sound.perform(Read(path))
        answer = self.sound.perform(op)
        if before is not None:
            self.sound.perform(Write(path, before))
        return answer


class PrefixRemoval(Planted):
    """What is removed takes along every name beside it that begins in the same way."""

    def broken(self, op: Op[Any]) -> Any:
        answer = self.sound.perform(op)
        if isinstance(op, Remove):
            path = parse(op.path)
            for name in self.names(path.parent):
                if name.startswith(path.name):
                    self.sound.perform(Remove(path.parent.child(name), recursive=True))
        return answer


class NamesComposed(Planted):
    """Names are brought into one normal form, so that two of them become one."""

    def broken(self, op: Op[Any]) -> Any:
        return self.sound.perform(op.rerooted(_composed))


def _composed(path: VPath) -> VPath:
    return VPath(tuple(normalize("NFC", name) for name in path.parts))


class DanglingFollowed(Planted):
    """Writing through a link that leads nowhere makes what it names."""

    def broken(self, op: Op[Any]) -> Any:
        try:
            return self.sound.perform(op)
        except DanglingLink:
            if not isinstance(op, Write):
                raise
            target = self.sound.perform(Readlink(op.path))
            beside = "" if target.startswith("/") else f"{parse(op.path).parent}/"
            return self.sound.perform(replace(op, path=beside + target))


class CopyTearsItsSource(Planted):
    """What is appended to a copy is appended to the file it was made from as well."""

    def __init__(self, sound: Handler) -> None:
        super().__init__(sound)
        self.sources: dict[VPath, VPath] = {}

    def broken(self, op: Op[Any]) -> Any:
        answer = self.sound.perform(op)
        if isinstance(op, Copy) and answer.is_file:
            self.sources[parse(op.to)] = parse(op.path)
        elif isinstance(op, Append) and parse(op.path) in self.sources:
            with suppress(KeelError):
                self.sound.perform(Append(self.sources[parse(op.path)], op.data))
        return answer


class ChecksumStale(Planted):
    """A checksum once computed is given again, whatever was changed in place since."""

    def __init__(self, sound: Handler) -> None:
        super().__init__(sound)
        self.known: dict[VPath, str] = {}

    def broken(self, op: Op[Any]) -> Any:
        answer = self.sound.perform(op)
        if isinstance(op, Checksum):
            return self.known.setdefault(parse(op.path), answer)
        if op.mutates and not isinstance(op, Append | Patch | Truncate):
            for path in op.paths():
                self.known.pop(path, None)
        return answer


class PageDropsItsLast(Planted):
    """The last name of a page is on neither that page nor the next one."""

    def broken(self, op: Op[Any]) -> Any:
        answer = self.sound.perform(op)
        if isinstance(op, List) and answer.next is not None:
            return Page(answer.items[:-1], answer.next)
        return answer


class PatchCutsTheRest(Planted):
    """A patch ends the file where it ends."""

    def broken(self, op: Op[Any]) -> Any:
        answer = self.sound.perform(op)
        if isinstance(op, Patch):
            self.sound.perform(Truncate(op.path, op.offset + len(cast(bytes, op.data))))
        return answer


class ReplaceUnasked(Planted):
    """A move replaces what is there, as `rename` does, whether it was told to or not."""

    def broken(self, op: Op[Any]) -> Any:
        return self.sound.perform(replace(op, replace=True) if isinstance(op, Move) else op)


#: Every planted bug by name.
BUGS: Mapping[str, Callable[[Handler], Planted]] = {
    bug.__name__: bug for bug in Planted.__subclasses__()
}
