"""Memory entries as rows, and the citations of them.

An entry links to an artifact only after `check` has seen that artifact in the same transaction,
which holds it until the link is there. Who calls: `keelfs.artifacts`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import msgspec

from keelfs.errors import InvalidArgument, NotFound
from keelfs.filing import Artifact, Citation, MemoryEntry
from keelfs.ident import uuid7
from keelfs.model import Page
from keelfs.store.database import Row, Statement, Tx
from keelfs.store.shelf import BY_ID, HOLD, artifact_of

_COLUMNS: Final = """id, type, title, content, source, tags, artifact, expired_artifact,
        conversation, author, created_ns, updated_ns"""
NEXT: Final = Statement(
    "UPDATE tenants SET next_memory = next_memory + 1 WHERE id = ?1 RETURNING next_memory - 1"
)
ADD: Final = Statement(
    """INSERT INTO memory_entries (tenant, id, type, title, content, source, tags, artifact,
                                   conversation, author, created_ns, updated_ns, haystack)
       VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?11, ?12)"""
)
ONE: Final = Statement(
    f"""SELECT {_COLUMNS} FROM memory_entries
        WHERE tenant = ?1 AND id = ?2 AND invalidated_ns IS NULL"""
)
LOCK: Final = Statement(
    ONE.sqlite,
    postgres=f"""SELECT {_COLUMNS} FROM memory_entries
        WHERE tenant = ?1 AND id = ?2 AND invalidated_ns IS NULL FOR NO KEY UPDATE""",
)
#: `?3` a type, `?4` a tag, `?5` folded text, '' for any; as it was at `?6`, changed since `?7`.
LIST: Final = Statement(
    f"""SELECT {_COLUMNS} FROM memory_entries
        WHERE tenant = ?1 AND id < ?2 AND (?3 = '' OR type = ?3)
          AND (?4 = '' OR EXISTS (SELECT 1 FROM json_each(tags) WHERE value = ?4))
          AND (?5 = '' OR instr(haystack, ?5) > 0) AND created_ns <= ?6
          AND (invalidated_ns IS NULL OR invalidated_ns > ?6) AND updated_ns >= ?7
        ORDER BY id DESC LIMIT ?8""",
    postgres=f"""SELECT {_COLUMNS} FROM memory_entries
        WHERE tenant = ?1 AND id < ?2 AND (?3::text = '' OR type = ?3::text)
          AND (?4::text = '' OR EXISTS (SELECT 1
                FROM jsonb_array_elements_text(tags::jsonb) AS x (value) WHERE x.value = ?4::text))
          AND (?5::text = '' OR strpos(haystack, ?5::text) > 0) AND created_ns <= ?6::bigint
          AND (invalidated_ns IS NULL OR invalidated_ns > ?6::bigint) AND updated_ns >= ?7
        ORDER BY id DESC LIMIT ?8""",
)
CHANGE: Final = Statement(
    """UPDATE memory_entries SET type = ?3, title = ?4, content = ?5, source = ?6, tags = ?7,
           artifact = ?8, expired_artifact = ?9, updated_ns = ?10, haystack = ?11
       WHERE tenant = ?1 AND id = ?2"""
)
INVALIDATE: Final = Statement(
    "UPDATE memory_entries SET invalidated_ns = ?3, updated_ns = ?3 WHERE tenant = ?1 AND id = ?2"
)
DELETE: Final = Statement("DELETE FROM memory_entries WHERE tenant = ?1 AND id = ?2")
CITE: Final = Statement(
    """INSERT INTO citations (tenant, id, at_ns, author, conversation, artifact, entry, outcome)
       VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)"""
)
CITATIONS: Final = Statement(
    """SELECT id, at_ns, author, conversation, artifact, entry, outcome FROM citations
       WHERE tenant = ?1 AND id > ?2 ORDER BY id LIMIT ?3"""
)
_NO_ENTRY: Final = "there is no such memory entry"
#: A time at which what is now is still there.
_NOW: Final = 2**63 - 1

#: Called with the artifact that would be linked, None if there is none; raises to refuse.
Linkable = Callable[[Artifact | None], None]


def add(tx: Tx, entry: MemoryEntry, artifact: int | None, linkable: Linkable) -> MemoryEntry:
    linked = _held(tx, artifact, linkable)
    row = tx.one(NEXT)
    assert row is not None
    tx.do(
        ADD, row[0], entry.type, entry.title, entry.content, entry.source, _listed(entry),
        linked and linked.id, entry.conversation, entry.author, entry.created_ns, _haystack(entry),
    )  # fmt: skip
    return msgspec.structs.replace(entry, id=row[0], artifact=linked, updated_ns=entry.created_ns)


def _held(tx: Tx, artifact: int | None, linkable: Linkable) -> Artifact | None:
    """The artifact, which does not go before this transaction ends."""
    if artifact is None:
        return None
    held = tx.one(HOLD, artifact) if 0 < artifact <= _NOW else None
    row = tx.one(BY_ID, artifact) if held is not None else None
    found = None if row is None else artifact_of(row)
    linkable(found)
    return found


def get(tx: Tx, id_: int) -> MemoryEntry:
    """An entry that is visible, with the artifact it links to if that is there."""
    row = tx.one(ONE, id_) if 0 < id_ <= _NOW else None
    if row is None:
        raise NotFound(_NO_ENTRY)
    return _entry(tx, row)


def page(
    tx: Tx, *, before: str | None, limit: int, type_: str, tag: str, q: str, as_of_ns: int | None,
    since_ns: int,
) -> Page[MemoryEntry]:  # fmt: skip
    """The newest first. `before` is where the page before ended."""
    if before is not None and not (before.isascii() and before.isdigit() and len(before) < 19):
        raise InvalidArgument("this cursor was not given by a listing of memory entries")
    at = _NOW if as_of_ns is None else as_of_ns
    first = _NOW if before is None else int(before)
    rows = tx.all(LIST, first, type_, tag, q.casefold(), at, since_ns, limit + 1)
    items = [_entry(tx, row) for row in rows[:limit]]
    return Page(items, str(items[-1].id) if len(rows) > limit else None)


def change(
    tx: Tx, id_: int, changes: dict[str, Any], linkable: Linkable, now_ns: int,
    judge: Callable[[MemoryEntry], None],
) -> MemoryEntry:  # fmt: skip
    """Sets some fields; `artifact` among them links, or with None clears the link."""
    artifact = changes.get("artifact")
    linked = _held(tx, artifact, linkable)
    row = tx.one(LOCK, id_) if 0 < id_ <= _NOW else None
    if row is None:
        raise NotFound(_NO_ENTRY)
    old = _entry(tx, row)
    plain = {name: value for name, value in changes.items() if name != "artifact"}
    new = msgspec.structs.replace(old, **plain, updated_ns=now_ns)
    judge(new)
    number, expired = row[6], row[7]
    if "artifact" in changes:
        number, expired = artifact, None
        new = msgspec.structs.replace(new, artifact=linked, expired_artifact=None)
    tx.do(
        CHANGE, id_, new.type, new.title, new.content, new.source, _listed(new), number, expired,
        now_ns, _haystack(new),
    )  # fmt: skip
    return new


def invalidate(tx: Tx, id_: int, now_ns: int) -> None:
    """From now on nobody sees the entry, and it grants nothing."""
    if not 0 < id_ <= _NOW or tx.one(LOCK, id_) is None:
        raise NotFound(_NO_ENTRY)
    tx.do(INVALIDATE, id_, now_ns)


def delete(tx: Tx, id_: int) -> None:
    if not 0 < id_ <= _NOW or tx.one(LOCK, id_) is None:
        raise NotFound(_NO_ENTRY)
    tx.do(DELETE, id_)


def _entry(tx: Tx, row: Row) -> MemoryEntry:
    """A link counts only while its artifact lies in the tree."""
    linked = None if row[6] is None else tx.one(BY_ID, row[6])
    return MemoryEntry(
        id=row[0], type=row[1], title=row[2], content=row[3], source=row[4],
        tags=tuple(msgspec.json.decode(row[5], type=list[str])),
        artifact=None if linked is None else artifact_of(linked),
        expired_artifact=row[7] if row[6] is None else row[6] if linked is None else None,
        conversation=row[8], author=row[9], created_ns=row[10], updated_ns=row[11],
    )  # fmt: skip


def _listed(entry: MemoryEntry) -> str:
    return msgspec.json.encode(list(entry.tags)).decode()


def _haystack(entry: MemoryEntry) -> str:
    return "\n".join((entry.title, entry.content, *entry.tags)).casefold()


# -- who asked


def cite(
    now_ns: int, author: str, conversation: str, artifact: int, entry: int | None, outcome: str,
    tx: Tx,
) -> None:  # fmt: skip
    """Keeps that somebody asked for an artifact of another conversation."""
    id_ = uuid7(now_ns).hex()
    tx.do(CITE, id_, now_ns, author, conversation, artifact, entry, outcome)


def citations(tx: Tx, after: str, limit: int) -> list[Citation]:
    return [
        Citation(id=row[0], at_ns=row[1], author=row[2], conversation=row[3], artifact=row[4],
                 entry=row[5], outcome=row[6])
        for row in tx.all(CITATIONS, after, limit)
    ]  # fmt: skip
