"""Ways to be careless about others at work, each of which a race has to convict.

The handlers do in two transactions what belongs into one, as clients do that look first and act
then. The stores lack what makes their transactions exclude each other. Alone, each of them is as
good as a sound one; only others at work bring it to light.

Who calls: `keelfs.testing.crowd`, on behalf of tests of the tests.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any, Final, cast
from unittest import mock

from msgspec import Struct
from msgspec.structs import replace

from keelfs.errors import Conflict, NotFound, QuotaExceeded
from keelfs.model import ANY, Content, Stat
from keelfs.ops import Append, Batch, GetStat, GetUsage, Mkdir, Op, Open, Read, Write
from keelfs.path import parse
from keelfs.ports import Handler
from keelfs.testing.planted import BatchInPieces, Planted

#: How long a careless one looks away between seeing and acting.
PAUSE_S: Final = 0.001


class ExpectOutside(Planted):
    """What is expected is looked at first, and written then."""

    def broken(self, op: Op[Any]) -> Any:
        expect = getattr(op, "expect", ANY)
        if expect is ANY:
            return self.sound.perform(op)
        try:
            stat: Stat | None = self.sound.perform(GetStat(cast(Any, op).path))
        except NotFound:
            stat = None
        wanted = expect.revision if isinstance(expect, Stat) else expect
        if wanted != (stat.revision if stat else 0) and (stat or isinstance(wanted, int)):
            raise Conflict
        time.sleep(PAUSE_S)
        return self.sound.perform(replace(cast(Any, op), expect=ANY))


class AppendOutside(Planted):
    """An append reads the file and writes it anew."""

    def broken(self, op: Op[Any]) -> Any:
        if not isinstance(op, Append):
            return self.sound.perform(op)
        try:
            before = self.sound.perform(Read(op.path))
        except NotFound:
            before = b""
        data = op.data if isinstance(op.data, bytes) else cast(str, op.data).encode()
        return self.sound.perform(Write(op.path, before + data, op.expect, op.parents))


class WrittenInPieces(Planted):
    """A file is overwritten in place, piece by piece."""

    def broken(self, op: Op[Any]) -> Any:
        if not isinstance(op, Write) or not isinstance(op.data, bytes) or len(op.data) < 2:
            return self.sound.perform(op)
        half = len(op.data) // 2
        self.sound.perform(replace(op, data=op.data[:half]))
        return self.sound.perform(Append(op.path, op.data[half:]))


class _Unpinned:
    """Reads whatever the file holds at the moment."""

    def __init__(self, perform: Callable[[Op[Any]], Any], op: Open, stat: Stat) -> None:
        self._perform, self._op, self.stat = perform, op, stat

    def read(self, offset: int, length: int) -> bytes:
        return cast(bytes, self._perform(Read(self._op.path, offset, length)))


class ReadUnpinned(Planted):
    """A stream reads on in whatever revision has come meanwhile."""

    def broken(self, op: Op[Any]) -> Any:
        answer = self.sound.perform(op)
        if isinstance(op, Open):
            return cast(Content, _Unpinned(self.sound.perform, op, answer.stat))
        return answer


class ReadStale(Planted):
    """What was opened once is remembered for a while, whoever has written since."""

    def __init__(self, sound: Handler) -> None:
        super().__init__(sound)
        self._kept: dict[str, tuple[int, Any]] = {}

    def broken(self, op: Op[Any]) -> Any:
        if not isinstance(op, Open):
            return self.sound.perform(op)
        left, content = self._kept.get(str(op.path), (0, None))
        if not left:
            left, content = 3, self.sound.perform(op)
        self._kept[str(op.path)] = (left - 1, content)
        return content


class ParentsOutside(Planted):
    """Directories are made first, and the file is written then."""

    def broken(self, op: Op[Any]) -> Any:
        if not isinstance(op, Write) or not op.parents:
            return self.sound.perform(op)
        self.sound.perform(Mkdir(parse(op.path).parent, parents=True, exist_ok=True))
        return self.sound.perform(replace(op, parents=False))


class QuotaOutside(Planted):
    """Whether there is room is looked at first; for a race that sets no limit itself."""

    #: What is never to be passed.
    limit = 300_000

    def broken(self, op: Op[Any]) -> Any:
        size = len(getattr(op, "data", b""))
        if size:
            used = self.sound.perform(GetUsage()).bytes
            if used + size > self.limit:
                raise QuotaExceeded(
                    "there is no room", limit="space.bytes", size=self.limit, used=used
                )
        return self.sound.perform(op)


class ReadInPieces(Planted):
    """A batch that only reads is answered one by one."""

    def broken(self, op: Op[Any]) -> Any:
        if isinstance(op, Batch) and not op.mutates:
            return [self.sound.perform(each) for each in op.ops]
        return self.sound.perform(op)


@contextmanager
def without_tenant_lock() -> Generator[None]:
    """PostgreSQL without the lock on the row of the tenant."""
    from keelfs.store import ledger
    from keelfs.store.database import Statement

    with mock.patch.object(ledger, "LOCK_TENANT", Statement(ledger.LOCK_TENANT.sqlite)):
        yield


@contextmanager
def without_patience() -> Generator[None]:
    """SQLite without the wait for the writers of other processes."""
    from keelfs.store import sqlite

    def give_up(_attempt: int) -> bool:
        return False

    with mock.patch.object(sqlite, "_fair_wait", return_value=give_up):
        yield


def _same(sound: Handler) -> Handler:
    return sound


class Careless(Struct, frozen=True):
    """What stands before each member's space, and what is missing in its process."""

    handler: Callable[[Handler], Handler] = _same
    store: Callable[[], AbstractContextManager[None]] = nullcontext


#: Every way by name; "not" is as a crowd should be.
CARELESS: Final[Mapping[str, Careless]] = {
    "not": Careless(),
    "expects outside": Careless(ExpectOutside),
    "appends outside": Careless(AppendOutside),
    "writes in pieces": Careless(WrittenInPieces),
    "reads unpinned": Careless(ReadUnpinned),
    "reads stale": Careless(ReadStale),
    "reads in pieces": Careless(ReadInPieces),
    "batches in pieces": Careless(BatchInPieces),
    "makes parents outside": Careless(ParentsOutside),
    "looks at limits outside": Careless(QuotaOutside),
    "grants unlocked": Careless(store=without_tenant_lock),
    "no patience": Careless(store=without_patience),
}
