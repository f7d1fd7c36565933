"""The verbs of the trash.

Always true: a trashed thing keeps its nodes, revisions and history, and is charged to the trash;
what has expired reads as not there, also before it is swept.
"""

from __future__ import annotations

from itertools import islice

from msgspec.structs import replace

from keelfs.errors import AlreadyExists, NotFound
from keelfs.memory.entries import Entries
from keelfs.memory.state import TRASH
from keelfs.memory.tree import check_page, metered
from keelfs.model import ChangeKind, Expect, Page, Stat, Trashed
from keelfs.path import VPath

#: When what never expires does.
NEVER_NS = 2**63 - 1


class Bin(Entries):
    """Trashing and what follows."""

    def trash(self, path: VPath, expect: Expect) -> Trashed:
        found, node = self.removable(path, expect)
        state, turn = self._state, self._turn
        trash_id = turn.ids(turn.now).hex()
        size, nodes = state.weight(node.id)
        self.leave(found.above[-1], found.path[-1])
        state.bind(TRASH, trash_id, node.id)
        thing = Trashed(
            id=trash_id, path=self._base + found.path, kind=node.kind, bytes=size, nodes=nodes,
            by=str(turn.principal), at_ns=turn.now, expires_ns=self._expiry(),
        )  # fmt: skip
        state.put(state.trash, trash_id, thing)
        self.record(ChangeKind.TRASH, found.path, node=node, detail=trash_id)
        return self._seen(thing)

    def _expiry(self) -> int:
        limits, agent = self._turn.limits, self._turn.principal.kind == "agent"
        seconds = limits.trash_agent_s if agent else limits.trash_user_s
        return NEVER_NS if seconds is None else min(NEVER_NS, self._turn.now + seconds * 10**9)

    def _visible(self, thing: Trashed) -> bool:
        return thing.expires_ns > self._turn.now and VPath(thing.path).is_within(VPath(self._base))

    def _seen(self, thing: Trashed) -> Trashed:
        """A trashed thing as seen from the base, with the sizes that it has now."""
        node = self._state.children[TRASH][thing.id]
        size, nodes = self._state.weight(node)
        return replace(thing, path=thing.path[len(self._base) :], bytes=size, nodes=nodes)

    def trashed(self, after: str | None, limit: int) -> Page[Trashed]:
        check_page(limit)
        # Ids are made in the order of time, so that the order of ids is the order of age.
        later = (key for key in sorted(self._state.trash) if after is None or key > after)
        things = (self._state.trash[key] for key in later)
        chosen = list(islice(filter(self._visible, things), limit + 1))
        page = [self._seen(thing) for thing in chosen[:limit]]
        return Page(page, page[-1].id if len(chosen) > limit else None)

    def thing(self, trash_id: str) -> Trashed:
        """What lies in the trash under an id."""
        thing = self._state.trash.get(trash_id)
        if thing is None or not self._visible(thing):
            raise NotFound("nothing of this id is in the trash")
        return thing

    @metered
    def untrash(self, trash_id: str, to: VPath | None, parents: bool) -> Stat:
        thing, state = self.thing(trash_id), self._state
        place = self.locate(VPath(thing.path[len(self._base) :]) if to is None else to, False)
        if place.node is not None:
            raise AlreadyExists
        directory = self.make_way(place, parents)
        node = state.unbind(TRASH, trash_id)
        state.drop(state.trash, trash_id)
        self.enter(directory, place.path, node)
        self.stamp(node)
        self.record(ChangeKind.UNTRASH, place.path, node=state.nodes[node], detail=trash_id)
        return self.answer(node)

    def purge(self, trash_id: str) -> None:
        self.discard(self.thing(trash_id))

    def discard(self, thing: Trashed) -> None:
        """Forgets a trashed thing; the journal is of the tree and does not hear of it."""
        self._state.drop(self._state.trash, thing.id)
        self._state.release(self._state.unbind(TRASH, thing.id))

    def sweep_trash(self) -> int:
        """Forgets everything that has expired; how many things that was."""
        expired = [each for each in self._state.trash.values() if each.expires_ns <= self._turn.now]
        for thing in expired:
            self.discard(thing)
        return len(expired)
