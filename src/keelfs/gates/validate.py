"""A gate behind which content at certain paths is always valid.

It does not look at what an operation carries: it has the final bytes judged inside the transaction
that commits them, by every name that was touched. So it makes no difference whether they came by
write, append, patch, copy, move, restore, rollback, from the trash or under another name of the
same file. Links are refused wherever they could make unjudged bytes appear at a validated path.

Whoever composes a tree fills the registry. Content that is there already is not judged.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeVar, cast

from keelfs.errors import KeelError, Missing, ValidationFailed, WrongKind
from keelfs.glob import GlobPattern
from keelfs.model import Content, Entry, Kind, Page, Stat
from keelfs.ops import Judged, Op
from keelfs.path import VPath
from keelfs.ports import Handler

T = TypeVar("T")

#: Raises `ValidationFailed` with a message that says what to correct.
Validator = Callable[[Content], None]


class View(Protocol):
    """What a judge sees of a tree."""

    def stat(self, path: VPath, follow: bool) -> Stat: ...
    def list(self, path: VPath, after: str | None, limit: int) -> Page[Entry]: ...
    def open(self, path: VPath, revision: int | None) -> Content: ...


class ValidatorRegistry:
    """Which validator judges which paths, from the root of the tree behind the gate."""

    def __init__(self) -> None:
        self._validators: list[tuple[GlobPattern, Validator]] = []

    def register(self, glob: str, validator: Validator) -> None:
        """Several validators may match one path; all of them must pass."""
        self._validators.append((GlobPattern(glob), validator))

    def judge(self, volume: object, touched: list[tuple[str, ...]]) -> None:
        """Judges what lies at the touched paths, and below them; raises to refuse."""
        view = cast(View, volume)
        # Directories that were judged with all they hold: what was touched in them is not again,
        # or a deep tree that is made at once would be judged once for each of its levels.
        done: set[tuple[str, ...]] = set()
        for parts in sorted(touched):
            if not any(pattern.concerns(parts) for pattern, _ in self._validators):
                continue
            if any(parts[:depth] in done for depth in range(len(parts))):
                continue
            try:
                stat = view.stat(VPath(parts), False)
            except (Missing, WrongKind):
                continue
            self._judge(view, VPath(parts), stat)
            if stat.is_directory:
                done.add(parts)

    def _judge(self, view: View, path: VPath, stat: Stat) -> None:
        waiting = [(path, stat)]
        while waiting:
            path, stat = waiting.pop()
            self._judge_node(view, path, stat)
            if stat.kind is not Kind.DIRECTORY or not self._may_match_below(path):
                continue
            after: str | None = None
            while True:
                page = view.list(path, after, 1000)
                for entry in page.items:
                    below = path.child(entry.name)
                    if entry.stat.kind is Kind.DIRECTORY:
                        waiting.append((below, entry.stat))
                    else:
                        self._judge_node(view, below, entry.stat)
                if page.next is None:
                    break
                after = page.next

    def _judge_node(self, view: View, path: VPath, stat: Stat) -> None:
        if stat.kind is Kind.DIRECTORY:
            return
        if stat.kind is Kind.SYMLINK:
            if any(pattern.pins(path.parts) for pattern, _ in self._validators):
                raise ValidationFailed("a link cannot stand where content is validated")
            return
        for pattern, validator in self._validators:
            if not pattern.matches(path.parts):
                continue
            if stat.kind is not Kind.FILE:
                raise ValidationFailed("only a file can stand where content is validated")
            _apply(validator, view.open(path, None))

    def _may_match_below(self, path: VPath) -> bool:
        return any(pattern.may_match_below(path.parts) for pattern, _ in self._validators)


def _apply(validator: Validator, content: Content) -> None:
    try:
        validator(content)
    except KeelError:
        raise
    except Exception as error:
        # A validator that fails has not found the content valid, so nothing may be written.
        raise ValidationFailed("the validator of this path could not read the content") from error


class Validate:
    """Performs operations only if what they leave behind passes the registered validators."""

    def __init__(self, below: Handler, registry: ValidatorRegistry) -> None:
        self.below = below
        self.registry = registry

    def perform(self, op: Op[T], /) -> T:
        if not op.mutates:
            return self.below.perform(op)
        return self.below.perform(Judged(op, self.registry.judge))
