"""Races for room: limits that hold to the byte, and can be reached to the byte.

Who calls: the concurrency tests, through `keelfs.testing.crowd`, beside the races of
`keelfs.testing.races`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress

import keelfs
from keelfs.errors import AlreadyExists, NotFound, QuotaExceeded
from keelfs.model import Limits, Usage
from keelfs.testing.careless import QuotaOutside
from keelfs.testing.crowd import Member, Race


class Room(Race, frozen=True, kw_only=True):
    """Everybody wants more room than there is, in one space or in many of one tenant."""

    #: Spaces among which the members are spread; with one, the limit is that of the space itself.
    spaces: int = 1
    bytes: int = QuotaOutside.limit
    nodes: int = 400
    #: Whether the store knows the limits; they are looked at in any case.
    enforced: bool = True

    def prepare(self, store: keelfs.Store) -> None:
        for number in range(self.spaces):
            self._space(store, number)
        if not self.enforced:
            return
        if self.spaces == 1:
            self._space(store, 0).set_limits(self._limits)
        else:
            store.tenant("crowd").set_limits(self._limits)

    @property
    def _limits(self) -> Limits:
        return Limits(bytes=self.bytes, nodes=self.nodes)

    def _space(self, store: keelfs.Store, number: int) -> keelfs.Space:
        return store.tenant("crowd").space("session", f"room {number % self.spaces}")

    def _ws(self, member: Member) -> keelfs.Workspace:
        return member.space(f"room {member.number % self.spaces}")

    def _look(self, store: keelfs.Store) -> Usage:
        """What is used; passing the limit is an error wherever it is seen."""
        usage = store.tenant("crowd").usage()
        used = usage.bytes + usage.trash_bytes, usage.nodes + usage.trash_nodes
        within = used[0] <= self.bytes and used[1] <= self.nodes
        assert within, f"{used} of {self.bytes, self.nodes} bytes and nodes are used"
        return usage


class Churning(Room, frozen=True, kw_only=True):
    """Writes, overwrites, appends, streams, copies, removals and the trash, near the limit."""

    turns: int = 12

    def run(self, member: Member) -> int:
        """How often there was no room."""
        ws, refused = self._ws(member), 0
        for turn in range(self.turns):
            if self.spaces > 1 and turn % 3 == 0:
                # A space that comes while others settle what they hold must not be overlooked.
                ws = member.space(f"new {member.number}-{turn}")
            if self.spaces > 1 and member.rng.random() < 0.02:
                member.store.tenant("crowd").set_limits(self._limits)
            try:
                with suppress(NotFound, AlreadyExists):
                    self._turn(ws, member)
            except QuotaExceeded:
                refused += 1
            self._look(member.store)
        return refused

    def _turn(self, ws: keelfs.Workspace, member: Member) -> object:
        rng = member.rng
        path = f"/{member.number}/{rng.randrange(3)}"
        data = bytes(rng.choice((1, 500, 4_000, self.bytes // 30)))
        match rng.randrange(8):
            case 0 | 1 | 2:
                return ws.write(path, data)
            case 3:
                return ws.append(path, data)
            case 4:
                return ws.write(path, iter((data, data)))
            case 5:
                return ws.copy(f"/{member.number}", f"/{member.number} copied", recursive=True)
            case 6:
                return ws.trash(path)
            case _:
                ws.remove(f"/{member.number} copied", recursive=True)
                return None

    def violations(
        self,
        store: keelfs.Store,  # noqa: ARG002
        answers: Sequence[int],
    ) -> Iterator[str]:
        if not sum(answers):
            yield "nobody was ever refused, so nothing is proved"


class Filling(Room, frozen=True, kw_only=True):
    """Everybody takes what there is, in smaller and smaller pieces, until not one byte is left."""

    def run(self, member: Member) -> None:
        ws, path = self._ws(member), f"/{member.number}"
        _halving(self.bytes // 20, lambda size: ws.append(f"{path} filled", bytes(size)))
        _halving(8, lambda count: ws.batch(
            [keelfs.ops.Mkdir(f"{path} {member.rng.random()}") for _ in range(count)]
        ))  # fmt: skip
        self._look(member.store)

    def violations(
        self,
        store: keelfs.Store,
        answers: Sequence[None],  # noqa: ARG002
    ) -> Iterator[str]:
        usage = self._look(store)
        used = usage.bytes + usage.trash_bytes, usage.nodes + usage.trash_nodes
        if used != (self.bytes, self.nodes):
            yield f"refused at {used} of {self.bytes, self.nodes} bytes and nodes"
        for number in range(self.spaces):
            with suppress(QuotaExceeded):
                self._space(store, number).append("/one more", b"!")
                yield "one byte more was let in"


def _halving(size: int, take: Callable[[int], object]) -> None:
    """Takes `size` at a time as long as there is room, then half of it, down to one."""
    while size:
        try:
            take(size)
        except QuotaExceeded:
            size //= 2
