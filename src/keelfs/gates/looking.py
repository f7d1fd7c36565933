"""What is seen of several mounts at once: directories, sums, journals and the trash.

The journals of several volumes are read as one. A number of that journal has a digit for each of
them, which says how far it has been read, and above the digits which of them a change is of. So a
number alone is a cursor that misses nothing, and tells `undo` what it means; the root's digit comes
first, so that numbers of the root's own changes are what the root calls them. Digits are given to
the mounts in the order of their paths, leaving out those that keep no journal.

Changes are told in the order of each volume, those of different ones by their time. The id of a
trashed thing names the mount it was taken from. Only `Mounts` makes this.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, cast

from msgspec.structs import replace as with_fields

from keelfs import ops
from keelfs.errors import InvalidArgument, Missing, NotFound, Unsupported, WrongKind
from keelfs.model import (
    END_OF_JOURNAL,
    MAX_PAGE,
    Change,
    Entry,
    Kind,
    Page,
    Stat,
    Trashed,
    Usage,
)
from keelfs.ops import Op
from keelfs.path import ROOT, VPath, parse, sort_key
from keelfs.ports import Handler

#: Bits of one digit: a thousand changes a second for nine thousand years.
DIGIT: Final = 48
_MASK: Final = (1 << DIGIT) - 1
#: Between the id that a volume gave to a trashed thing and the path of its mount.
_FROM: Final = ":"
_COUNTERS: Final = tuple(name for name in Usage.__struct_fields__ if name != "limits")


class Looking:
    """Answers the questions that concern several mounts."""

    def __init__(
        self, trees: Mapping[VPath, Handler], above: Mapping[VPath, set[str]],
        owner: Callable[[VPath], VPath],
    ) -> None:  # fmt: skip
        self._trees, self._above, self._owner = trees, above, owner
        #: The mounts that keep a journal, in the order of their digits; asked for once.
        self._known: list[VPath] | None = None

    def answer(self, op: Op[Any]) -> object:
        match op:
            case ops.GetStat():
                return self._stat(parse(op.path))
            case ops.List():
                return self._list(parse(op.path), op.after, op.limit)
            case ops.GetUsage():
                return self._usage(parse(op.path))
            case ops.Changes():
                return self._changes(parse(op.path), op.after, op.limit)
            case ops.ListTrash():
                return self._trash(op.after, op.limit)
            case _:
                raise AssertionError("only these concern several mounts")

    # -- directories

    def _stat(self, path: VPath) -> Stat:
        mount = self._owner(path)
        try:
            stat = self._trees[mount].perform(ops.GetStat(path.below(mount), follow=False))
        except (Missing, WrongKind):
            return _implied_directory(path)
        return stat if stat.is_directory else _implied_directory(path)

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
        _check_page(limit)
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

    # -- sums

    def _usage(self, path: VPath) -> Usage:
        """What lies below, in all volumes; the limits are those that hold at the path itself."""
        found = [self._usage_of(self._owner(path), path)]
        found += [self._usage_of(each, each) for each in self._trees
                  if each.is_within(path) and each != self._owner(path)]  # fmt: skip
        sums = {name: sum(getattr(usage, name) for usage in found) for name in _COUNTERS}
        return Usage(**sums, limits=found[0].limits)

    def _usage_of(self, mount: VPath, path: VPath) -> Usage:
        try:
            return self._trees[mount].perform(ops.GetUsage(path.below(mount)))
        except (Missing, WrongKind):
            return Usage()

    # -- the journal

    def _journals(self) -> list[VPath]:
        if self._known is None:
            self._known = [mount for mount, tree in self._trees.items() if _keeps_journal(tree)]
        return self._known

    def _changes(self, path: VPath, after: int, limit: int) -> Page[Change]:
        _check_page(limit)
        above = self._owner(path)
        asked = {above: path.below(above)}
        asked |= {each: ROOT for each in self._trees if each.is_within(path)}
        digits = {mount: self._digit(after, mount) for mount in self._journals()}
        pages = {
            mount: self._trees[mount].perform(ops.Changes(below, digits[mount], limit))
            for mount, below in asked.items()
            if mount in digits
        }
        if not pages:
            raise Unsupported("nothing that is mounted here keeps a journal")
        # A cursor beyond the end of a journal stays at its end.
        digits |= {mount: min(digits[mount], int(page.next or 0)) for mount, page in pages.items()}
        left = {mount: len(page.items) for mount, page in pages.items()}
        taken: list[Change] = []
        for mount, change in _by_time(pages)[:limit]:
            digits[mount] = change.seq
            left[mount] -= 1
            taken.append(self._shown(change, mount, path, digits))
        # Of a volume that is told to the end of its page, what was passed over is read as well.
        digits |= {mount: int(pages[mount].next or 0) for mount in pages if not left[mount]}
        return Page(taken, str(self._number(digits)))

    def _shown(
        self, change: Change, mount: VPath, path: VPath, digits: Mapping[VPath, int]
    ) -> Change:
        """A change as the composed tree tells it."""
        prefix = mount.below(path).parts if mount.is_within(path) and mount != path else ()
        first = {**dict.fromkeys(digits, 0), mount: change.batch}
        return with_fields(
            change,
            seq=self._number(digits, mount),
            batch=self._number(first, mount),
            path=None if change.path is None else prefix + change.path,
            to=None if change.to is None else prefix + change.to,
        )

    def _number(self, digits: Mapping[VPath, int], of: VPath = ROOT) -> int:
        journals = self._journals()
        number = journals.index(of) << DIGIT * len(journals) if of in journals else 0
        for place, mount in enumerate(journals):
            number |= digits.get(mount, 0) << DIGIT * place
        return number

    def _digit(self, number: int, mount: VPath) -> int:
        if number == END_OF_JOURNAL:
            return END_OF_JOURNAL
        if mount.is_root and number <= _MASK:
            return number
        journals = self._journals()
        return number >> DIGIT * journals.index(mount) & _MASK if mount in journals else 0

    # -- the trash

    def _trash(self, after: str | None, limit: int) -> Page[Trashed]:
        _check_page(limit)
        cursor = None if after is None else after.partition(_FROM)[0]
        found: list[Trashed] = []
        more = False
        for mount in self._journals():
            page = self._trees[mount].perform(ops.ListTrash(cursor, limit))
            found += [self.trashed(each, mount) for each in page.items]
            more = more or page.next is not None
        if not self._journals():
            raise Unsupported("nothing that is mounted here keeps a trash")
        found.sort(key=lambda each: each.id)
        page_full = len(found) > limit or more
        return Page(found[:limit], found[:limit][-1].id if page_full and found else None)

    def trashed(self, thing: Trashed, mount: VPath) -> Trashed:
        """A trashed thing as the composed tree tells it."""
        if mount.is_root:
            return thing
        return with_fields(thing, id=f"{thing.id}{_FROM}{mount}", path=mount.parts + thing.path)

    # -- numbers and ids that come back

    def owner_of(self, op: Op[Any]) -> VPath | None:
        """The mount that an operation without a path is about; None for others."""
        match op:
            case ops.Undo():
                return self._journal_of(op.seq)
            case ops.Purge() | ops.Untrash(to=None):
                mount = parse(op.trash_id.partition(_FROM)[2])
                if mount not in self._trees:
                    raise NotFound("there is no such thing in the trash")
                return mount
            case _:
                return None

    @staticmethod
    def numbers(op: Op[Any]) -> bool:
        """Whether numbers or ids of the composed tree may be in it."""
        return isinstance(op, ops.Changes | ops.Undo | ops.Untrash | ops.Purge | ops.Batch)

    def _journal_of(self, number: int) -> VPath:
        if number <= _MASK:
            return ROOT
        journals = self._journals()
        index = number >> DIGIT * len(journals)
        if index >= len(journals):
            raise NotFound("no change of this number is in the journal")
        return journals[index]

    def as_local(self, op: Op[Any], mount: VPath) -> Op[Any]:
        """The operation with numbers and ids as the volume itself gave them."""
        match op:
            case ops.Changes():
                return with_fields(op, after=self._digit(op.after, mount))
            case ops.Undo():
                return with_fields(op, seq=self._digit(op.seq, mount))
            case ops.Untrash() | ops.Purge():
                return with_fields(op, trash_id=op.trash_id.partition(_FROM)[0])
            case _:
                return op

    def numbered(self, op: Op[Any], answer: Any, mount: VPath) -> object:
        """The answer of one volume with the numbers of the composed tree."""
        if isinstance(op, ops.Undo):
            return [self._number({mount: seq}, mount) for seq in cast(Sequence[int], answer)]
        page = cast(Page[Change], answer)
        items = [
            with_fields(
                change,
                seq=self._number({mount: change.seq}, mount),
                batch=self._number({mount: change.batch}, mount),
            )
            for change in page.items
        ]
        return Page(items, str(self._number({mount: int(page.next or 0)})))


def _by_time(pages: Mapping[VPath, Page[Change]]) -> list[tuple[VPath, Change]]:
    """All changes of the pages; each volume's in its own order, by time otherwise."""
    found: list[tuple[int, int, VPath, Change]] = []
    for order, (mount, page) in enumerate(pages.items()):
        at_ns = 0
        for change in page.items:
            at_ns = max(at_ns, change.at_ns)
            found.append((at_ns, order, mount, change))
    found.sort(key=lambda each: each[:2])
    return [(mount, change) for _, _, mount, change in found]


def _keeps_journal(tree: Handler) -> bool:
    try:
        tree.perform(ops.Changes(ROOT, END_OF_JOURNAL, 1))
    except Unsupported:
        return False
    return True


def _check_page(limit: int) -> None:
    if not 1 <= limit <= MAX_PAGE:
        raise InvalidArgument(f"a page has 1 to {MAX_PAGE} entries")


def _implied_directory(path: VPath) -> Stat:
    """A directory that no volume holds; its identity is made from where it is."""
    identity = uuid.uuid5(uuid.NAMESPACE_URL, f"mount:{path}").bytes
    return Stat(kind=Kind.DIRECTORY, id=identity, size=0, revision=1, mode=0o755, synthetic=True)
