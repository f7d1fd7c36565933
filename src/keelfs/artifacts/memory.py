"""The memory entries of a tenant: what people call."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final

from msgspec import UNSET, UnsetType

from keelfs.artifacts.collection import MAX_PAGE, checked_page
from keelfs.artifacts.rule import Reader, check_link
from keelfs.errors import InvalidArgument
from keelfs.filing import Artifact, MemoryEntry, checked_entry
from keelfs.model import Page, Principal
from keelfs.store import memories
from keelfs.store.shelf import Shelf

#: What `update` can set.
_FIELDS: Final = ("type", "title", "content", "source", "tags", "artifact")


class Memory:
    """Entries that every conversation of a tenant sees; one may link to an artifact."""

    def __init__(
        self,
        shelf: Shelf,
        conversation: str,
        principal: Principal,
        linkable: Callable[[Artifact], bool] = lambda _artifact: True,
    ) -> None:
        """`linkable` says further which artifacts this principal may know of."""
        self._shelf = shelf
        self.conversation = conversation
        self.principal = principal
        self._reader = Reader(principal, conversation)
        self._linkable = linkable

    def acting_as(self, principal: Principal) -> Memory:
        """The same on behalf of somebody else."""
        return Memory(self._shelf, self.conversation, principal, self._linkable)

    def add(
        self,
        type_: str,
        title: str,
        content: str,
        *,
        source: str = "",
        tags: Iterable[str] = (),
        artifact: int | None = None,
    ) -> MemoryEntry:
        """A new entry. What it links to must be there, and readable by whoever links it."""
        entry = MemoryEntry(
            id=0, type=type_, title=title, content=content, source=source, tags=tuple(tags),
            conversation=self.conversation or None, author=str(self.principal),
            created_ns=self._shelf.clock.now_ns(),
        )  # fmt: skip
        _check(entry)
        return self._shelf.database.write(
            self._shelf.tenant, lambda tx: memories.add(tx, entry, artifact, self._may_link)
        )

    def get(self, id_: int) -> MemoryEntry:
        """An entry that is valid, with what it links to."""
        return self._shelf.database.snapshot(self._shelf.tenant, lambda tx: memories.get(tx, id_))

    def list(
        self,
        *,
        type_: str = "",
        tag: str = "",
        q: str = "",
        as_of_ns: int | None = None,
        since_ns: int = 0,
        cursor: str | None = None,
        limit: int = MAX_PAGE,
    ) -> Page[MemoryEntry]:
        """The newest first: of a type, with a tag, with `q` in title, content or tags; those that
        were valid at `as_of_ns`; those that have changed since `since_ns`.
        """
        size = checked_page(limit)
        return self._shelf.database.snapshot(
            self._shelf.tenant,
            lambda tx: memories.page(
                tx, before=cursor, limit=size, type_=type_, tag=tag, q=q, as_of_ns=as_of_ns,
                since_ns=since_ns,
            ),
        )  # fmt: skip

    def update(
        self,
        id_: int,
        *,
        type_: str | UnsetType = UNSET,
        title: str | UnsetType = UNSET,
        content: str | UnsetType = UNSET,
        source: str | UnsetType = UNSET,
        tags: Iterable[str] | UnsetType = UNSET,
        artifact: int | UnsetType | None = UNSET,
    ) -> MemoryEntry:
        """Sets what is given. `artifact=None` clears the link."""
        kept = UNSET if isinstance(tags, UnsetType) else tuple(tags)
        given: dict[str, Any] = dict(
            zip(_FIELDS, (type_, title, content, source, kept, artifact), strict=True)
        )
        changes = {name: value for name, value in given.items() if value is not UNSET}
        now = self._shelf.clock.now_ns()
        return self._shelf.database.write(
            self._shelf.tenant,
            lambda tx: memories.change(tx, id_, changes, self._may_link, now, _check),
        )

    def invalidate(self, id_: int) -> None:
        """From now on nobody sees the entry, and it grants nothing; it is kept."""
        now = self._shelf.clock.now_ns()
        self._shelf.database.write(self._shelf.tenant, lambda tx: memories.invalidate(tx, id_, now))

    def delete(self, id_: int) -> None:
        """Removes the entry; it grants nothing any more."""
        self._shelf.database.write(self._shelf.tenant, lambda tx: memories.delete(tx, id_))

    def _may_link(self, artifact: Artifact | None) -> None:
        if artifact is not None and not self._linkable(artifact):
            artifact = None
        check_link(self._reader, artifact)


def _check(entry: MemoryEntry) -> None:
    if not all(isinstance(tag, str) for tag in entry.tags):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise InvalidArgument("tags are texts")
    checked_entry(entry.type, entry.title, entry.content, entry.source, entry.tags)
