"""Random operations on a subject and on a model, compared answer by answer and tree by tree.

Operands are drawn from what exists, its neighbours and hostile names, so that operations meet. An
answer is compared without what belongs to one volume alone: identities, moments, trash ids.

Who calls: tests, as `machine(...)`; `planted` holds the bugs that it must find.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, cast

from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)
from msgspec import Struct
from msgspec.structs import asdict, replace

from keelfs.errors import KeelError
from keelfs.model import (
    ABSENT,
    ANY,
    Attrs,
    Change,
    ChangeKind,
    Entry,
    Expect,
    Kind,
    Page,
    Snapshot,
    Stat,
    Trashed,
    Usage,
)
from keelfs.ops import (
    Append,
    Batch,
    Changes,
    Checksum,
    Copy,
    DropSnapshot,
    GetStat,
    GetUsage,
    History,
    Link,
    List,
    ListSnapshots,
    ListTrash,
    Mkdir,
    Move,
    Op,
    Patch,
    Purge,
    Read,
    Readlink,
    Remove,
    Restore,
    Rollback,
    SetAttrs,
    Symlink,
    TakeSnapshot,
    Trash,
    Truncate,
    Undo,
    Untrash,
    Write,
)
from keelfs.ports import Handler
from keelfs.testing.portrait import OWN_FIELDS, portrait, without

#: Names that are taken for one another by careless stores, few enough to meet often.
NAMES = ("a", "A", "ab", "a_", "a%", "é", "e\u0301", "😀", "\\", "b c", "'", "x" * 255)
#: Where links point: into the tree, out of it, nowhere and at themselves.
TARGETS = ("a", "/a", "..", "../a", "/", "a/ab", "/../ab", "A", "nowhere", ".")

#: Chooses an operand: which of the things that exist, in which way, with which new name.
Choice = tuple[int, int, str]
_choices = st.tuples(st.integers(0, 40), st.integers(0, 5), st.sampled_from(NAMES))
_some_bytes = st.binary(max_size=12)
_expects = st.sampled_from(["any", "any", "any", "absent", "present", "stale", "stat"])


class Outcome(Struct, frozen=True):
    """What became of an operation: an answer, or the class of an error."""

    error: str | None
    answer: Any = None
    raw: Any = None


def outcome(handler: Handler, op: Op[Any]) -> Outcome:
    """Performs an operation and keeps what can be compared."""
    try:
        answer = handler.perform(op)
    except KeelError as error:
        return Outcome(type(error).__name__)
    return Outcome(None, comparable(answer), answer)


def comparable(answer: Any) -> Any:
    """An answer without what belongs to one volume alone."""
    match answer:
        case Stat():
            return without(answer, *OWN_FIELDS)
        case Entry():
            return answer.name, comparable(answer.stat)
        case Page():
            items = cast(list[object], answer.items)  # pyright: ignore[reportUnknownMemberType]
            # A cursor of the trash is an id, which each volume makes for itself.
            ours = any(isinstance(item, Trashed) for item in items)
            return [comparable(each) for each in items], None if ours else answer.next
        case Change():
            own = answer.kind in (ChangeKind.TRASH, ChangeKind.UNTRASH)
            detail = None if own or answer.kind is ChangeKind.ATTRS else answer.detail
            return asdict(replace(answer, at_ns=0, detail=detail))
        case Trashed():
            return asdict(replace(answer, id="", at_ns=0, expires_ns=0))
        case Snapshot():
            return asdict(replace(answer, at_ns=0))
        case Usage():
            return asdict(answer)
        case list() | tuple() | range():
            return [comparable(each) for each in cast(Sequence[Any], answer)]
        case Struct():
            return {
                name: value for name, value in asdict(answer).items()
                if name not in ("at_ns", "sha256")
            }  # fmt: skip
        case _:
            return answer


class ModelMachine(RuleBasedStateMachine):
    """Does the same to both and compares. Use `machine` to bind what is compared."""

    cannot: frozenset[str] = frozenset()

    @staticmethod
    def open_subject() -> Handler:
        raise NotImplementedError

    @staticmethod
    def open_model() -> Handler:
        raise NotImplementedError

    def __init__(self) -> None:
        super().__init__()
        self.subject: Handler = self.open_subject()
        self.model: Handler = self.open_model()
        self.paths: list[str] = ["/"]
        #: What was trashed, by its id here and there.
        self.trash_ids: list[tuple[str, str]] = []
        self.snapshots: list[str] = []
        self.written = 0

    # -- comparing

    def same(self, op: Op[Any], twin: Op[Any] | None = None) -> tuple[Outcome, Outcome]:
        """Performs an operation on both; `twin` where the model needs other operands."""
        theirs, ours = outcome(self.subject, op), outcome(self.model, twin or op)
        assert (theirs.error, theirs.answer) == (ours.error, ours.answer), (
            f"{op!r}\n  subject: {theirs}\n  model:   {ours}"
        )
        if op.mutates:
            self.paths = ["/", *_walk(self.model)]
        return theirs, ours

    def teardown(self) -> None:
        mine, other = portrait(self.subject.perform), portrait(self.model.perform)
        assert {path: (comparable(stat), data) for path, (stat, data) in mine.items()} == {
            path: (comparable(stat), data) for path, (stat, data) in other.items()
        }
        for path, (stat, data) in mine.items():
            assert stat.kind is not Kind.FILE or stat.size == len(data), path
            if stat.kind is Kind.FILE and "history" not in self.cannot:
                self.same(History(path))
        _check_identities(mine, other)
        self.same(GetUsage())
        if "journal" not in self.cannot:
            self.same(Changes("/", 0, 10_000))
        if "trash" not in self.cannot:
            self.same(ListTrash())
        if "snapshots" not in self.cannot:
            self.same(ListSnapshots())

    @invariant()
    def root_lists_alike(self) -> None:
        self.same(List("/"))

    # -- operands

    def place(self, choice: Choice) -> str:
        """A path that exists, or lies beside or below one that does."""
        index, way, name = choice
        known = self.paths[index % len(self.paths)]
        if way < 3:
            return known
        if way == 3:
            return f"{known}/{name}"
        if way == 4:
            return f"{known.rpartition('/')[0]}/{name}"
        return f"/{name}"

    def expectation(self, wanted: str, path: str) -> tuple[Expect, Expect]:
        """What to expect of the subject and of the model."""
        theirs, ours = (outcome(each, GetStat(path)).raw for each in (self.subject, self.model))
        if wanted == "absent":
            return ABSENT, ABSENT
        if ours is None or wanted == "any":
            return ANY, ANY
        if wanted == "stat":
            return theirs, ours
        revision = ours.revision - (wanted == "stale")
        return revision, revision

    def fresh(self, data: bytes) -> bytes:
        """Bytes that were never written before: two revisions are never alike by chance."""
        self.written += 1
        return data + b"#%d" % self.written

    # -- operations

    @initialize(names=st.lists(st.sampled_from(NAMES), min_size=2, max_size=4, unique=True))
    def plant(self, names: list[str]) -> None:
        """Starts from a tree in which there is something to meet: names side by side, in
        directories side by side, and files that were written before.
        """
        for name in names:
            for path in (f"/{name}", f"/a_/{name}", f"/a_/ab/{name}", f"/ab/{name}"):
                self.same(Write(path, self.fresh(b"1")))
                self.same(Write(path, self.fresh(b"2")))

    @rule(where=_choices, beyond=st.integers(-1, 1))
    def fill(self, where: Choice, beyond: int) -> None:
        """Writes what just fits, and what just does not."""
        path = self.place(where)
        usage = self.model.perform(GetUsage())
        limit = usage.limits.bytes
        if limit is not None:
            former = outcome(self.model, GetStat(path)).raw
            held = former.size if former is not None and former.is_file else 0
            room = limit - usage.bytes - usage.trash_bytes + held + beyond
            self.same(Write(path, b"f" * max(0, room)))

    @rule(where=_choices, data=_some_bytes, expect=_expects, parents=st.booleans())
    def write(self, where: Choice, data: bytes, expect: str, parents: bool) -> None:
        path = self.place(where)
        theirs, ours = self.expectation(expect, path)
        data = self.fresh(data)
        self.same(Write(path, data, theirs, parents), Write(path, data, ours, parents))

    @rule(where=_choices, data=_some_bytes, expect=_expects)
    def append(self, where: Choice, data: bytes, expect: str) -> None:
        path = self.place(where)
        theirs, ours = self.expectation(expect, path)
        data = self.fresh(data)
        self.same(Append(path, data, theirs), Append(path, data, ours))
        self.same(Checksum(path))

    @rule(where=_choices, offset=st.integers(0, 20), data=_some_bytes)
    def patch(self, where: Choice, offset: int, data: bytes) -> None:
        path = self.place(where)
        self.same(Patch(path, offset, self.fresh(data)))
        self.same(Checksum(path))

    @rule(where=_choices, size=st.integers(0, 20))
    def truncate(self, where: Choice, size: int) -> None:
        path = self.place(where)
        self.same(Truncate(path, size))
        self.same(Checksum(path))

    @rule(where=_choices, parents=st.booleans(), exist_ok=st.booleans())
    def mkdir(self, where: Choice, parents: bool, exist_ok: bool) -> None:
        self.same(Mkdir(self.place(where), parents, exist_ok))

    @rule(where=_choices, recursive=st.booleans(), expect=_expects)
    def remove(self, where: Choice, recursive: bool, expect: str) -> None:
        path = self.place(where)
        theirs, ours = self.expectation(expect, path)
        self.same(Remove(path, recursive, theirs), Remove(path, recursive, ours))

    @rule(where=_choices, to=_choices, replace=st.booleans(), parents=st.booleans())
    def move(self, where: Choice, to: Choice, replace: bool, parents: bool) -> None:
        self.same(Move(self.place(where), self.place(to), replace, parents))

    @rule(where=_choices, to=_choices, replace=st.booleans(), recursive=st.booleans())
    def copy(self, where: Choice, to: Choice, replace: bool, recursive: bool) -> None:
        self.same(Copy(self.place(where), self.place(to), replace, recursive, parents=True))

    @precondition(lambda self: "owners" not in self.cannot)
    @rule(where=_choices, mode=st.integers(0, 0o7777), follow=st.booleans())
    def set_mode(self, where: Choice, mode: int, follow: bool) -> None:
        self.same(SetAttrs(self.place(where), Attrs(mode=mode), follow))

    @precondition(lambda self: "xattrs" not in self.cannot and "readonly" not in self.cannot)
    @rule(where=_choices, readonly=st.booleans(), value=st.none() | _some_bytes)
    def set_more(self, where: Choice, readonly: bool, value: bytes | None) -> None:
        self.same(SetAttrs(self.place(where), Attrs(readonly=readonly, xattrs={"user.k": value})))

    @precondition(lambda self: "symlinks" not in self.cannot)
    @rule(where=_choices, leads_to=st.sampled_from(TARGETS))
    def symlink(self, where: Choice, leads_to: str) -> None:
        path = self.place(where)
        self.same(Symlink(leads_to, path))
        self.same(Read(path))

    @precondition(lambda self: "hard_links" not in self.cannot)
    @rule(where=_choices, to=_choices)
    def link(self, where: Choice, to: Choice) -> None:
        self.same(Link(self.place(where), self.place(to)))

    @rule(where=_choices, after=st.none() | st.sampled_from(NAMES), limit=st.integers(1, 4))
    def look(self, where: Choice, after: str | None, limit: int) -> None:
        path = self.place(where)
        for op in (
            GetStat(path), GetStat(path, follow=False), List(path, after, limit), Read(path),
            Read(path, 2, limit), Readlink(path), GetUsage(path), Checksum(path),
        ):  # fmt: skip
            self.same(op)

    @precondition(lambda self: "history" not in self.cannot)
    @rule(where=_choices, back=st.integers(0, 3), restore=st.booleans())
    def history(self, where: Choice, back: int, restore: bool) -> None:
        path = self.place(where)
        self.same(History(path))
        stat = outcome(self.model, GetStat(path)).raw
        if stat is not None:
            revision = stat.revision - back
            self.same(Read(path, 0, None, revision))
            if restore:
                self.same(Restore(path, revision))

    @precondition(lambda self: "trash" not in self.cannot)
    @rule(where=_choices)
    def trash(self, where: Choice) -> None:
        theirs, ours = self.same(Trash(self.place(where)))
        if ours.error is None:
            self.trash_ids.append((theirs.raw.id, ours.raw.id))

    @precondition(lambda self: bool(self.trash_ids))
    @rule(index=st.integers(0, 9), to=st.none() | _choices, keep=st.booleans())
    def untrash_or_purge(self, index: int, to: Choice | None, keep: bool) -> None:
        theirs, ours = self.trash_ids[index % len(self.trash_ids)]
        place = None if to is None else self.place(to)
        if keep:
            self.same(Untrash(theirs, place), Untrash(ours, place))
        else:
            self.same(Purge(theirs), Purge(ours))

    @precondition(lambda self: "snapshots" not in self.cannot)
    @rule(name=st.sampled_from(NAMES))
    def snapshot(self, name: str) -> None:
        self.same(TakeSnapshot(name))
        self.snapshots.append(name)

    @precondition(lambda self: bool(self.snapshots))
    @rule(index=st.integers(0, 9), drop=st.booleans())
    def rollback_or_drop(self, index: int, drop: bool) -> None:
        name = self.snapshots[index % len(self.snapshots)]
        self.same(DropSnapshot(name) if drop else Rollback(name))

    @precondition(lambda self: "journal" not in self.cannot)
    @rule(back=st.integers(0, 4), where=_choices)
    def undo(self, back: int, where: Choice) -> None:
        page = outcome(self.model, Changes("/", 0, 10_000)).raw
        self.same(Changes(self.place(where), len(page.items) // 2))
        if page.items:
            self.same(Undo(page.items[-1 - back % len(page.items)].seq))
            self.relearn_trash()

    @precondition(lambda self: "batch" not in self.cannot)
    @rule(first=_choices, second=_choices, third=_choices)
    def batch(self, first: Choice, second: Choice, third: Choice) -> None:
        a, b, c = self.place(first), self.place(second), self.place(third)
        self.same(Batch((Write(a, self.fresh(b"")), Move(a, b, parents=True), Remove(c))))

    def relearn_trash(self) -> None:
        """An undo may have trashed something: ids are paired by their order again."""
        if "trash" in self.cannot:
            return
        pages = (self.subject.perform(ListTrash()), self.model.perform(ListTrash()))
        theirs, ours = ([thing.id for thing in page.items] for page in pages)
        self.trash_ids = list(zip(theirs, ours, strict=True))


def _walk(handler: Handler) -> Sequence[str]:
    """Every path of a tree, in an order that both volumes agree on."""
    return sorted(path for path in portrait(handler.perform) if path != "/")


def _check_identities(mine: dict[str, Any], other: dict[str, Any]) -> None:
    """Two names share a node in the one exactly where they share one in the other."""

    def groups(found: dict[str, Any]) -> set[frozenset[str]]:
        by_id: dict[bytes, set[str]] = {}
        for path, (stat, _) in found.items():
            by_id.setdefault(stat.id, set()).add(path)
        return {frozenset(paths) for paths in by_id.values()}

    assert groups(mine) == groups(other)


def machine(
    subject: Callable[[], Handler], model: Callable[[], Handler],
    cannot: frozenset[str] = frozenset(),
) -> type[ModelMachine]:  # fmt: skip
    """A state machine that compares what `subject` opens with what `model` opens.

    `cannot` names abilities of the conformance suite that are left out.
    """
    fields = {"open_subject": staticmethod(subject), "open_model": staticmethod(model)}
    return type("Machine", (ModelMachine,), {**fields, "cannot": cannot})
