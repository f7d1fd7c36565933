"""A space of a store, with what can be done to it as a whole."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

from keelfs.errors import NotFound
from keelfs.model import Limits, Principal
from keelfs.ports import Clock
from keelfs.spelling import check_id, check_kind
from keelfs.store import spaces
from keelfs.store.database import Database, Statement, Tx
from keelfs.store.snapshots import image_of
from keelfs.store.volume import SpaceVolume

SEQ: Final = Statement("SELECT seq, deleted_ns FROM spaces WHERE tenant = ?1 AND id = ?2")
SIZES: Final = Statement(
    "SELECT bytes, nodes FROM snapshots WHERE tenant = ?1 AND space = ?2 AND image = ?3"
)

#: How long a watcher sleeps between looks at the journal: at first, and at most.
FIRST_NAP_S: Final = 0.002
LONGEST_NAP_S: Final = 0.1


class SpaceHome(SpaceVolume):
    """Performs operations on a space; forks it, limits it, deletes it."""

    def __init__(
        self,
        database: Database,
        tenant: int,
        space: int,
        principal: Principal,
        clock: Clock,
        limits: Limits,
        store_limits: Limits,
        kind: str = "",
    ) -> None:
        super().__init__(database, tenant, space, principal, clock, limits, kind)
        self._store_limits = store_limits

    def fork(
        self, kind: str, key: str, at: str | None, also: Callable[[Tx], None] | None = None
    ) -> SpaceHome:
        """A new space of the same tenant that holds this tree, or that of a snapshot.

        `also` is done in the same transaction.
        """
        check_kind(kind)
        check_id("key of a space", key)

        def work(tx: Tx) -> tuple[int, Limits]:
            view = self.writing(tx)
            image = None
            if at is not None:
                origin, nodes = image_of(view, at)
                sizes = tx.one(SIZES, self.space, origin)
                image = (origin, sizes[0] if sizes else 0, nodes)
            forked = spaces.fork(
                tx, view.scope, kind, key,
                image=image, principal=self.principal, limits=self._store_limits,
            )  # fmt: skip
            if also is not None:
                also(tx)
            return forked

        space, limits = self.write(work)
        return SpaceHome(
            self._database, self.tenant, space, self.principal, self._clock, limits,
            self._store_limits, kind,
        )  # fmt: skip

    def set_limits(self, limits: Limits) -> None:
        """Narrows the tenant's limits for this space."""
        self._limits = self._database.write(
            self.tenant,
            lambda tx: spaces.set_space_limits(tx, self.space, limits, self._store_limits),
        )

    def delete(self) -> None:
        """Deletes the space with everything in it; the sweep gives the room back in steps."""
        now = self._clock.now_ns()
        self._database.write(self.tenant, lambda tx: spaces.delete_space(tx, self.space, now))

    def waiter(self) -> Waiter:
        """Who wakes the watchers of this space."""
        return Waiter(self._database, self.tenant, self.space)


class Waiter:
    """Looks at one row, more and more seldom, until the space has changed.

    The row is asked for only when somebody has committed anything at all, where the database can
    tell that for less.
    """

    def __init__(self, database: Database, tenant: int, space: int) -> None:
        self._database = database
        self._tenant = tenant
        self._space = space

    def wait(self, after_seq: int, timeout: float) -> None:
        """Returns once there is a change behind `after_seq`, and after `timeout` seconds."""
        deadline = time.monotonic() + timeout
        nap, seen = FIRST_NAP_S, object()
        while True:
            version = self._database.version()
            if version != seen:
                seen = version
                if self._newest() > after_seq:
                    return
            left = deadline - time.monotonic()
            if left <= 0:
                return
            time.sleep(min(nap, left))
            nap = min(nap * 1.5, LONGEST_NAP_S)

    def _newest(self) -> int:
        rows = self._database.read(self._tenant, lambda tx: tx.all(SEQ, self._space))
        if not rows or rows[0][1] is not None:
            raise NotFound("this space has been deleted")
        return int(rows[0][0])
