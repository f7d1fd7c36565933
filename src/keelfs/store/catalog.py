"""A store: tenants, their spaces, and what keeps all of it sound."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any, Final

from keelfs.errors import NotFound
from keelfs.model import Limits, Principal, Report, Swept, Usage
from keelfs.ports import Clock
from keelfs.spelling import check_id, check_kind
from keelfs.store import spaces
from keelfs.store.database import Database, Row, Statement, Tx
from keelfs.store.home import SpaceHome
from keelfs.store.registry import Registry
from keelfs.store.sessions import remove_session
from keelfs.store.shelf import Shelf
from keelfs.store.stats import stats

PAGE: Final = 1000


def _page(statement: Statement, *after_and_tx: Any) -> list[Row]:
    *after, tx = after_and_tx
    rows: list[Row] = tx.all(statement, *after, PAGE)
    return rows


class SqlCatalog:
    """Every tenant of one database."""

    def __init__(self, database: Database, clock: Clock, limits: Limits, grace_s: float) -> None:
        self._database = database
        self._clock = clock
        self._limits = limits
        self._grace_s = grace_s

    def registry(self) -> Registry:
        return Registry(self._database, self._clock, self._limits)

    def shelf(self, tenant: int) -> Shelf:
        """The artifacts and memory entries of a tenant."""
        return Shelf(self._database, tenant, self._clock, self._limits)

    def open_tenant(self, name: str, create: bool) -> int:
        check_id("name of a tenant", name)
        now = self._clock.now_ns()
        found = self._database.read(0, lambda tx: tx.one(spaces.TENANT, name))
        if found is not None:
            return int(found[0])
        return self._database.write(0, lambda tx: spaces.open_tenant(tx, name, now, create=create))

    def tenants(self) -> Iterator[str]:
        for _id, name in self.tenant_ids():
            if not name.startswith(spaces.DELETED):
                yield name

    def tenant_ids(self) -> Iterator[tuple[int, str]]:
        after = ""
        while True:
            page = partial(_page, spaces.TENANTS, after)
            rows = self._database.read(0, page)
            for row in rows:
                after = row[1]
                yield row[0], row[1]
            if len(rows) < PAGE:
                return

    def open_space(
        self, tenant: int, kind: str, key: str, principal: Principal, create: bool
    ) -> SpaceHome:
        return self.open_spaces(tenant, [(kind, key)], principal, create)[0]

    def open_spaces(
        self, tenant: int, wanted: Sequence[spaces.Key], principal: Principal, create: bool
    ) -> list[SpaceHome]:
        """Several spaces by one look, or made in one transaction."""
        for kind, key in wanted:
            check_kind(kind)
            check_id("key of a space", key)
        now = self._clock.now_ns()

        def work(tx: Tx) -> list[spaces.Found]:
            return [
                spaces.open_space(tx, kind, key, now, self._limits, create=create)
                for kind, key in wanted
            ]

        found = self._database.read(tenant, lambda tx: spaces.find_spaces(tx, wanted, self._limits))
        spaces_ = found or self._database.write(tenant, work)
        return [
            SpaceHome(
                self._database, tenant, space, principal, self._clock, limits, self._limits, kind
            )
            for (kind, _key), (space, limits) in zip(wanted, spaces_, strict=True)
        ]

    def delete_session(self, tenant: int, session: str) -> None:
        """Makes all spaces of a session unreachable, and its tokens worth nothing, at once."""
        now = self._clock.now_ns()
        if not self._database.write(tenant, lambda tx: remove_session(tx, session, now)):
            raise NotFound("there is no such session")

    def spaces(self, tenant: int) -> Iterator[tuple[str, str]]:
        after = ("", "")
        while True:
            page = partial(_page, spaces.SPACES, *after)
            rows = self._database.read(tenant, page)
            for row in rows:
                after = (row[1], row[2])
                yield after
            if len(rows) < PAGE:
                return

    def usage(self, tenant: int) -> Usage:
        return self._database.read(tenant, spaces.tenant_usage)

    def set_limits(self, tenant: int, limits: Limits) -> None:
        self._database.write(tenant, lambda tx: spaces.set_tenant_limits(tx, limits, self._limits))

    def delete_tenant(self, tenant: int) -> None:
        """Makes the tenant and its spaces unreachable; the sweep removes the rows."""
        now = self._clock.now_ns()
        self._database.write(tenant, lambda tx: spaces.delete_tenant(tx, now))

    def check(self, repair: bool) -> Report:
        from keelfs.store.fsck import Checker

        return Checker(self._database, self._clock, repair).whole(self.tenant_ids())

    def sweep(self, steps: int | None) -> Swept:
        from keelfs.store.sweep import Sweeper

        sweeper = Sweeper(self._database, self._clock, self._grace_s)
        return sweeper.sweep(self.tenant_ids(), steps)

    def stats(self) -> dict[str, Any]:
        return stats(self._database, self.tenant_ids())

    def backup(self, path: str) -> None:
        self._database.backup(path)

    def close(self) -> None:
        self._database.close()
