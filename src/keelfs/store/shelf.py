"""The artifacts of a tenant as rows: found by number or path, listed, written and removed.

Who may see what is not known here: whoever reads or links says so by a function that is called in
the transaction that does it. Who calls: `keelfs.artifacts`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeVar

from keelfs.artifactpath import artifact_path
from keelfs.errors import InvalidArgument, NotFound
from keelfs.filing import Artifact, Put, Room
from keelfs.model import ANY, ARTIFACTS, Limits, Page, Principal
from keelfs.path import VPath
from keelfs.ports import Clock
from keelfs.spelling import check_id
from keelfs.store import files, spaces
from keelfs.store.content import prepare
from keelfs.store.database import Database, Row, Statement, Tx
from keelfs.store.home import SpaceHome
from keelfs.store.scope import decoded_limits
from keelfs.store.view import View

T = TypeVar("T")

DEFAULT_MIME: Final = "application/octet-stream"
_NO_ARTIFACT: Final = "there is no such artifact"

_COLUMNS: Final = """a.id, s.key, a.path, n.size, n.mime, n.sha256, n.created_ns, a.updated_ns,
        a.space"""
_JOINED: Final = """FROM artifacts a
        JOIN spaces s ON s.tenant = ?1 AND s.id = a.space AND s.deleted_ns IS NULL
        JOIN nodes n ON n.tenant = ?1 AND n.space = a.space AND n.id = a.node"""
BY_ID: Final = Statement(
    f"SELECT {_COLUMNS} {_JOINED} WHERE a.tenant = ?1 AND a.id = ?2 AND a.path IS NOT NULL"
)
#: Keeps an artifact from going before something refers to it.
HOLD: Final = Statement(
    "SELECT id FROM artifacts WHERE tenant = ?1 AND id = ?2",
    postgres="SELECT id FROM artifacts WHERE tenant = ?1 AND id = ?2 FOR KEY SHARE",
)
BY_PATH: Final = Statement(
    f"SELECT {_COLUMNS} {_JOINED} WHERE a.tenant = ?1 AND a.space = ?2 AND a.path = ?3"
)
OF_SPACE: Final = Statement(
    f"""SELECT {_COLUMNS} {_JOINED}
        WHERE a.tenant = ?1 AND a.space = ?2 AND a.path IS NOT NULL AND a.updated_ns <= ?3
          AND (a.updated_ns < ?3 OR a.id < ?4)
        ORDER BY a.updated_ns DESC, a.id DESC LIMIT ?5"""
)
#: `?4` is an owner, `?5` an agent, `?6` a session, '' for any.
OF_TENANT: Final = Statement(
    f"""SELECT {_COLUMNS} {_JOINED}
        LEFT JOIN sessions c ON c.tenant = ?1 AND c.id = s.key
        WHERE a.tenant = ?1 AND a.path IS NOT NULL AND a.updated_ns <= ?2
          AND (a.updated_ns < ?2 OR a.id < ?3)
          AND (?4 = '' OR c.owner = ?4) AND (?5 = '' OR c.agent = ?5) AND (?6 = '' OR c.id = ?6)
        ORDER BY a.updated_ns DESC, a.id DESC LIMIT ?7""",
    postgres=f"""SELECT {_COLUMNS} {_JOINED}
        LEFT JOIN sessions c ON c.tenant = ?1 AND c.id = s.key
        WHERE a.tenant = ?1 AND a.path IS NOT NULL AND a.updated_ns <= ?2
          AND (a.updated_ns < ?2 OR a.id < ?3)
          AND (?4::text = '' OR c.owner = ?4::text) AND (?5::text = '' OR c.agent = ?5::text)
          AND (?6::text = '' OR c.id = ?6::text)
        ORDER BY a.updated_ns DESC, a.id DESC LIMIT ?7""",
)
ROOM: Final = Statement(
    """SELECT s.bytes + s.trash_bytes, t.artifact_bytes, s.limits FROM spaces s
        JOIN tenants t ON t.id = ?1 WHERE s.tenant = ?1 AND s.id = ?2"""
)
BOOK: Final = Statement("SELECT artifact_bytes, limits FROM tenants WHERE id = ?1")

#: Called where something is read, with what is there; raises to refuse.
Check = Callable[[Tx, Artifact], None]


class Shelf:
    """All artifacts of one tenant."""

    def __init__(self, database: Database, tenant: int, clock: Clock, limits: Limits) -> None:
        self.database = database
        self.tenant = tenant
        self.clock = clock
        self._limits = limits

    # -- spaces

    def home(self, conversation: str, principal: Principal, *, create: bool) -> SpaceHome:
        """The space of a conversation's artifacts."""
        check_id("id of a conversation", conversation)
        key, now, limits = (ARTIFACTS, conversation), self.clock.now_ns(), self._limits
        found = self.database.read(self.tenant, lambda tx: spaces.find_spaces(tx, [key], limits))
        if found is None:
            found = [
                self.database.write(
                    self.tenant,
                    lambda tx: spaces.open_space(tx, *key, now, limits, create=create),
                )
            ]
        ((space, effective),) = found
        return SpaceHome(
            self.database, self.tenant, space, principal, self.clock, effective, limits, ARTIFACTS
        )

    # -- changing

    def put(self, home: SpaceHome, path: str, data: bytes, mime: str | None) -> Put:
        """Makes the file, or replaces its bytes and keeps its number; nothing if refused."""
        place, prepared = artifact_path(path), prepare(data)

        def work(tx: Tx) -> Put:
            view = home.writing(tx)
            stat = files.write(view, place, prepared, ANY, True, None, mime)
            view.scope.flush()
            row = tx.one(BY_PATH, home.space, "/".join(place.parts))
            assert row is not None
            return Put(
                artifact=artifact_of(row), created=stat.revision == 1, room=room_of(tx, home.space)
            )

        return home.write(work)

    def delete(self, id_: int, principal: Principal, check: Check) -> None:
        """Removes the file for good, and the directories that hold nothing any more."""
        home = self.home(self.find(id_, check).conversation, principal, create=False)

        def work(tx: Tx) -> None:
            view = home.writing(tx)
            view.scope.row  # noqa: B018
            row = found_in(tx, id_)
            check(tx, artifact_of(row))
            place = VPath(tuple(row[2].split("/")))
            view.remove(place, False, ANY)
            _remove_empty(view, place.parent)
            view.scope.flush()

        home.write(work)

    # -- reading

    def find(self, id_: int, check: Check) -> Artifact:
        def work(tx: Tx) -> Artifact:
            found = artifact_of(found_in(tx, id_))
            check(tx, found)
            return found

        return self.database.snapshot(self.tenant, work)

    def at(self, space: int, path: str) -> Artifact:
        text = "/".join(artifact_path(path).parts)
        rows = self.database.read(self.tenant, lambda tx: tx.all(BY_PATH, space, text))
        if not rows:
            raise NotFound(_NO_ARTIFACT)
        return artifact_of(rows[0])

    def read(self, id_: int, principal: Principal, check: Check) -> tuple[Artifact, bytes]:
        """An artifact and its bytes, of one moment, in which `check` allows it."""

        def work(tx: Tx) -> tuple[Artifact, bytes]:
            row = found_in(tx, id_)
            found = artifact_of(row)
            check(tx, found)
            home = SpaceHome(
                self.database, self.tenant, row[8], principal, self.clock, self._limits,
                self._limits, ARTIFACTS,
            )  # fmt: skip
            data = home.reading(tx).read(VPath(tuple(row[2].split("/"))), 0, None, None)
            return found, data

        return self.database.snapshot(self.tenant, work)

    def of_space(self, space: int, cursor: str | None, limit: int) -> Page[Artifact]:
        """Of one conversation, what changed last first."""
        at, id_ = place_of(cursor)
        return self._page(lambda tx: tx.all(OF_SPACE, space, at, id_, limit + 1), limit)

    def of_tenant(
        self, cursor: str | None, limit: int, owner: str = "", agent: str = "", session: str = ""
    ) -> Page[Artifact]:
        """Of all conversations, or of those of an owner, an agent, or one session."""
        at, id_ = place_of(cursor)
        return self._page(
            lambda tx: tx.all(OF_TENANT, at, id_, owner, agent, session, limit + 1), limit
        )

    def _page(self, ask: Callable[[Tx], list[Row]], limit: int) -> Page[Artifact]:
        rows = self.database.read(self.tenant, ask)
        items = [artifact_of(row) for row in rows[:limit]]
        more = len(rows) > limit
        return Page(items, f"{items[-1].updated_ns}-{items[-1].id}" if more else None)

    def room(self, space: int) -> Room:
        return self.database.snapshot(self.tenant, lambda tx: room_of(tx, space))

    def tenant_used(self) -> int:
        row = self.database.read(self.tenant, lambda tx: tx.one(BOOK))
        return int(row[0]) if row else 0


def _remove_empty(view: View, directory: VPath) -> None:
    while not directory.is_root and not view.list(directory, None, 1).items:
        view.remove(directory, False, ANY)
        directory = directory.parent


def found_in(tx: Tx, id_: int) -> Row:
    row = tx.one(BY_ID, id_) if 0 < id_ < 2**63 else None
    if row is None:
        raise NotFound(_NO_ARTIFACT)
    return row


def artifact_of(row: Row) -> Artifact:
    return Artifact(
        id=row[0], conversation=row[1], path=row[2], size=row[3], mime=row[4] or DEFAULT_MIME,
        sha256=None if row[5] is None else bytes(row[5]).hex(), created_ns=row[6],
        updated_ns=row[7],
    )  # fmt: skip


def room_of(tx: Tx, space: int) -> Room:
    row = tx.one(ROOM, space)
    if row is None:
        raise NotFound("there is no such conversation")
    limits = decoded_limits(row[2])
    return Room(
        conversation_used_bytes=row[0], tenant_used_bytes=row[1],
        conversation_limit_bytes=limits.bytes, tenant_limit_bytes=limits.artifact_bytes,
    )  # fmt: skip


def place_of(cursor: str | None) -> tuple[int, int]:
    """Where a page begins: behind an artifact that was the last of the page before."""
    if not cursor:
        return 2**63 - 1, 2**63 - 1
    at, dash, id_ = cursor.partition("-")
    if not (dash and at.isascii() and at.isdigit() and id_.isascii() and id_.isdigit()):
        raise InvalidArgument("this cursor was not given by a listing of artifacts")
    return min(int(at[:19]), 2**63 - 1), min(int(id_[:19]), 2**63 - 1)
