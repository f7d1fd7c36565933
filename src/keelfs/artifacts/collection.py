"""The artifacts of one conversation: what people call."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property, partial
from typing import Final, TypeVar

from keelfs.artifacts.rule import Reader, check_read
from keelfs.errors import InvalidArgument, KeelError, NotFound
from keelfs.filing import Artifact, Citation, MemoryEntry, Put, Room, checked_mime
from keelfs.model import Page, Principal
from keelfs.store import memories
from keelfs.store.database import Tx
from keelfs.store.home import SpaceHome
from keelfs.store.shelf import Check, Shelf

T = TypeVar("T")

MAX_PAGE: Final = 200


class Artifacts:
    """Files that are known by a number and a path, and belong to one conversation."""

    def __init__(self, shelf: Shelf, conversation: str, principal: Principal) -> None:
        self._shelf = shelf
        self.conversation = conversation
        self.principal = principal
        self._reader = Reader(principal, conversation)

    @cached_property
    def _home(self) -> SpaceHome:
        return self._shelf.home(self.conversation, self.principal, create=True)

    def acting_as(self, principal: Principal) -> Artifacts:
        """The same on behalf of somebody else."""
        return Artifacts(self._shelf, self.conversation, principal)

    def put(self, path: str, data: bytes | str, *, mime: str | None = None) -> Put:
        """Makes an artifact, or gives the one at this path new bytes under the same number."""
        if mime is not None:
            checked_mime(mime)
        raw = data.encode() if isinstance(data, str) else bytes(data)
        return self._shelf.put(self._home, path, raw, mime)

    def get(self, id_: int, *, via: int | None = None) -> Artifact:
        """What is known of an artifact; `via` is the memory entry that is cited for it."""
        return self._judged(via, lambda check: self._shelf.find(id_, check))

    def find(self, id_: int) -> Artifact:
        """What is known of an artifact of this conversation, and of no other."""

        def check(_tx: Tx, found: Artifact) -> None:
            if found.conversation != self.conversation:
                raise NotFound("there is no such artifact")

        return self._shelf.find(id_, check)

    def at(self, path: str) -> Artifact:
        """The artifact of this conversation at a path."""
        return self._shelf.at(self._home.space, path)

    def read(self, what: int | str, *, via: int | None = None) -> bytes:
        """The bytes of an artifact, by its number or by its path in this conversation."""
        return self.fetch(what, via=via)[1]

    def fetch(self, what: int | str, *, via: int | None = None) -> tuple[Artifact, bytes]:
        """An artifact together with its bytes, of one moment."""
        id_ = self.at(what).id if isinstance(what, str) else what
        who = self.principal
        return self._judged(via, lambda check: self._shelf.read(id_, who, check))

    def list(self, *, cursor: str | None = None, limit: int = MAX_PAGE) -> Page[Artifact]:
        """A page of this conversation's artifacts, what changed last first."""
        return self._shelf.of_space(self._home.space, cursor, checked_page(limit))

    def delete(self, id_: int) -> None:
        """Removes an artifact of this conversation for good; links to it expire."""

        def check(_tx: Tx, found: Artifact) -> None:
            if found.conversation != self.conversation:
                raise NotFound("there is no such artifact")

        self._shelf.delete(id_, self.principal, check)

    def usage(self) -> Room:
        """How much the conversation and its tenant keep, and may."""
        return self._shelf.room(self._home.space)

    def citations(self, *, after: str = "", limit: int = MAX_PAGE) -> Sequence[Citation]:
        """Who has asked for artifacts of other conversations, the oldest first."""
        page = checked_page(limit)
        return self._shelf.database.read(
            self._shelf.tenant, lambda tx: memories.citations(tx, after, page)
        )

    def _judged(self, via: int | None, ask: Callable[[Check], T]) -> T:
        """Asks, with the rule in the same snapshot; keeps what came of it across conversations."""
        asked: dict[int, Artifact] = {}

        def check(tx: Tx, found: Artifact) -> None:
            asked[0] = found
            check_read(self._reader, found, via, _visible(tx, via))

        try:
            answer = ask(check)
        except KeelError as error:
            self._keep([*asked.values()], via, str(error))
            raise
        self._keep([*asked.values()], via, "granted")
        return answer

    def _keep(self, asked: Sequence[Artifact], via: int | None, outcome: str) -> None:
        if not self._reader.must_cite:
            return
        shelf, who = self._shelf, str(self.principal)
        for found in asked:
            if found.conversation != self.conversation:
                asked_for = (who, self.conversation, found.id, via, outcome)
                shelf.database.write(
                    shelf.tenant, partial(memories.cite, shelf.clock.now_ns(), *asked_for)
                )


def _visible(tx: Tx, via: int | None) -> MemoryEntry | None:
    if via is None:
        return None
    try:
        return memories.get(tx, via)
    except NotFound:
        return None


def checked_page(limit: int) -> int:
    if not 1 <= limit <= MAX_PAGE:
        raise InvalidArgument(f"the limit of a page lies between 1 and {MAX_PAGE}")
    return limit
