"""A space of a store as a handler: each operation becomes one transaction.

Data is made ready before the transaction begins: bytes are hashed, streams are stored as chunks
that nothing holds yet, so that no transaction ever waits for a caller. A change that finds its
tenant's allowance used up is tried again after the unused parts of it were taken back.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

from keelfs.errors import InDoubt, TooLarge
from keelfs.model import Data, Limits, Principal
from keelfs.ops import (
    Append,
    Batch,
    Checksum,
    Judged,
    Once,
    Op,
    Patch,
    Truncate,
    Within,
    unwrapped,
)
from keelfs.ports import Clock, Volume
from keelfs.store.artifacts import settled_as
from keelfs.store.content import Staged, prepare
from keelfs.store.database import Database, Tx
from keelfs.store.ledger import Unsettled, give_back, settle, settle_exactly, settle_tenant
from keelfs.store.scope import PEEK, Scope, SpaceRow, decoded_limits
from keelfs.store.staging import Stager
from keelfs.store.tree import ask_ahead
from keelfs.store.view import View

T = TypeVar("T")


class SpaceVolume:
    """One space, opened for one principal."""

    def __init__(
        self,
        database: Database,
        tenant: int,
        space: int,
        principal: Principal,
        clock: Clock,
        limits: Limits,
        kind: str = "",
    ) -> None:
        """`kind` is that of the space."""
        self._database = database
        self.tenant = tenant
        self.space = space
        self.principal = principal
        self._clock = clock
        self._limits = limits
        self.kind = kind
        #: Whether a short read is worth no thread of its own.
        self.local_reads = database.local

    def perform(self, op: Op[T], /) -> T:
        """The operation's answer, wholly done and committed, or an error and nothing done."""
        if not op.mutates:
            look = self._database.snapshot if _is_batch(op) else self._database.read
            return look(self.tenant, lambda tx: op.run(self.reading(tx)))
        staged: list[Staged] = []
        try:
            return self._changed(self._made_ready(op, staged))
        except BaseException as error:
            self._let_go(staged, error)
            raise

    @contextmanager
    def readied(self, op: Op[T], /) -> Generator[Op[T]]:
        """The operation with its data hashed or stored; what was stored is dropped on failure."""
        staged: list[Staged] = []
        try:
            yield self._made_ready(op, staged)
        except BaseException as error:
            self._let_go(staged, error)
            raise

    def _made_ready(self, op: Op[T], staged: list[Staged]) -> Op[T]:
        self._check_batch(op)

        def ready(data: Data) -> Data:
            made = self._ready(data)
            if isinstance(made, Staged):
                staged.append(made)
            return made

        return op.staged(ready)

    def _let_go(self, staged: list[Staged], error: BaseException) -> None:
        """Drops what was stored for nothing; what may have been committed stays."""
        if not isinstance(error, InDoubt):
            for each in staged:
                Stager.drop(self, each)

    # -- one transaction with others

    @property
    def store(self) -> object:
        """Spaces of one tenant in one database can be in one transaction."""
        return (id(self._database), self.tenant)

    def together(
        self, others: Sequence[SpaceVolume], work: Callable[[Sequence[Volume]], T], /
    ) -> T:
        """Runs work on several spaces in one transaction, which locks them in the order of ids."""
        asked = [self, *others]
        volumes = {each.space: each for each in asked}

        def inside(tx: Tx) -> T:
            views = {space: volumes[space]._writing(tx, settle_exactly)
                     for space in sorted(volumes)}  # fmt: skip
            answer = work([views[each.space] for each in asked])
            scopes = [view.scope for view in views.values()]
            for scope in scopes:
                give_back(scope)
            Scope.flush_together(scopes)
            for space, view in views.items():
                volumes[space]._limits = view.scope.limits
            return answer

        return self.write(inside)

    def _check_batch(self, op: Op[Any]) -> None:
        limit = self._limits.batch_operations
        if limit is None:
            return
        # Wrapped or nested, a batch is as long as what it does.
        count = sum(1 for _ in unwrapped(op))
        if count > max(limit, 1):
            raise TooLarge(
                f"a batch may have {limit} operations, this one has {count}",
                limit="space.batch_operations",
                size=limit,
                used=count,
            )

    # -- reading

    def reading(self, tx: Tx) -> View:
        """A view that changes nothing; what it opens may be read after it."""
        scope = Scope(
            tx,
            self.space,
            self.principal,
            self._clock.now_ns(),
            limits=self._limits,
            opener=self._reread,
        )
        return View(scope)

    def _reread(self, work: Callable[[Tx], bytes], /) -> bytes:
        return self._database.read(self.tenant, work)

    # -- writing

    def _changed(self, op: Op[T]) -> T:
        def work(tx: Tx) -> T:
            view = self.writing(tx)
            if tx.pipelined:
                _ask_ahead(view, op)
            answer: T = op.run(view)
            view.scope.flush()
            self._limits = view.scope.limits
            return answer

        return self.write(work)

    def write(self, work: Callable[[Tx], T]) -> T:
        """Runs work that changes this space, finding room in the tenant's allowance if need be."""
        try:
            return self._database.write(self.tenant, work)
        except Unsettled:
            pass

        def settled(tx: Tx) -> T:
            # No space of the tenant can change meanwhile: what is refused now is refused rightly.
            settle_tenant(tx)
            return work(tx)

        try:
            return self._database.write(self.tenant, settled)
        except Unsettled as error:
            raise error.refusal from None

    def writing(self, tx: Tx) -> View:
        """A view that changes the space; whoever uses it calls `flush` of its scope last."""
        return self._writing(tx, settle)

    def _writing(self, tx: Tx, settle: Callable[[Scope], None]) -> View:
        scope = Scope(
            tx, self.space, self.principal, self._clock.now_ns(), limits=self._limits,
            settle=settled_as(self.kind, settle),
        )  # fmt: skip
        return View(scope)

    def _ready(self, data: Data) -> Data:
        if isinstance(data, bytes):
            return prepare(data)
        return Stager(self, data).staged()

    # -- what the stager needs

    def stage(self, work: Callable[[Scope], T]) -> T:
        """Stores chunks that nothing holds yet; they need not survive a power cut by themselves."""

        def inside(tx: Tx) -> T:
            scope = self.writing(tx).scope
            answer = work(scope)
            scope.flush()
            return answer

        return self._database.write(self.tenant, inside, durable=False)

    def room(self) -> tuple[int | None, str]:
        """How large a file may become at this moment, and the limit that says so."""
        rows = self._database.read(self.tenant, lambda tx: tx.all(PEEK, self.space))
        if not rows:
            return None, ""
        row = SpaceRow(*rows[0])
        limits = self._limits = decoded_limits(row.limits)
        bounds: list[tuple[int, str]] = []
        if limits.file_bytes is not None:
            bounds.append((limits.file_bytes, "space.file_bytes"))
        if limits.bytes is not None:
            bounds.append((limits.bytes, "space.bytes"))
        return min(bounds) if bounds else (None, "")


def _ask_ahead(view: View, op: Op[Any]) -> None:
    """Sends what the operation will ask first together with the lock."""
    while isinstance(op, Judged | Once):
        if isinstance(op, Once):
            view.recall_ahead(op.key)
        op = op.op
    if type(op).places:
        reading = isinstance(op, Append | Patch | Truncate | Checksum)
        for path in op.paths():
            ask_ahead(view, path, reading=reading)


def _is_batch(op: Op[Any]) -> bool:
    """Whether a reading operation asks several things, which must be answered at one moment."""
    while isinstance(op, Within):
        op = op.op
    return isinstance(op, Batch)
