"""The sessions of an agent, as rows; each is made and deleted together with its space."""

from __future__ import annotations

from typing import Final

from keelfs.errors import NotFound
from keelfs.grant import Session
from keelfs.store.agents import DELETE_AGENT, find_agent, listed, unlisted
from keelfs.store.database import Row, Statement, Tx
from keelfs.store.spaces import SPACE, delete_space, delete_spaces

#: The kinds of spaces whose key is the id of a session, and which go with it.
KINDS: Final = ("session", "artifacts", "overlay")
#: Sessions that one transaction deletes.
STEP: Final = 100

_COLUMNS: Final = """id, agent, owner, title, tags, model_id, status, created_ns, started_ns,
       finished_ns"""

NEW_SESSION: Final = Statement(
    f"""INSERT INTO sessions (tenant, {_COLUMNS})
       VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)"""
)
SESSION: Final = Statement(f"SELECT {_COLUMNS} FROM sessions WHERE tenant = ?1 AND id = ?2")
#: `?4` is an owner, or '' for all of them; `?5` a session, or '' likewise.
SESSIONS: Final = Statement(
    f"""SELECT {_COLUMNS} FROM sessions
       WHERE tenant = ?1 AND agent = ?2 AND id > ?3 AND (?4 = '' OR owner = ?4)
         AND (?5 = '' OR id = ?5) ORDER BY id LIMIT ?6"""
)
DELETE_SESSION: Final = Statement("DELETE FROM sessions WHERE tenant = ?1 AND id = ?2")
#: Keeps a session from being made for an agent that goes in the same moment.
HOLD_AGENT: Final = Statement(
    "SELECT 1 FROM agents WHERE tenant = ?1 AND id = ?2",
    postgres="SELECT 1 FROM agents WHERE tenant = ?1 AND id = ?2 FOR SHARE",
)
TAKE_AGENT: Final = Statement(
    "SELECT 1 FROM agents WHERE tenant = ?1 AND id = ?2",
    postgres="SELECT 1 FROM agents WHERE tenant = ?1 AND id = ?2 FOR UPDATE",
)


def add_session(tx: Tx, session: Session) -> None:
    """The row alone; whoever calls makes the space in the same transaction."""
    if tx.one(HOLD_AGENT, session.agent) is None:
        raise NotFound("there is no such agent")
    tx.do(
        NEW_SESSION, session.id, session.agent, session.owner, session.title,
        listed(session.tags), session.model_id, session.status, session.created_ns,
        session.started_ns, session.finished_ns,
    )  # fmt: skip


def find_session(tx: Tx, id_: str) -> Session | None:
    row = tx.one(SESSION, id_)
    return None if row is None else session_of(row)


def list_sessions(
    tx: Tx, agent: str, after: str, owner: str | None, session: str | None, limit: int
) -> list[Session]:
    """By id, which is by age."""
    find_agent(tx, agent)
    rows = tx.all(SESSIONS, agent, after, owner or "", session or "", limit)
    return [session_of(row) for row in rows]


def remove_session(tx: Tx, id_: str, now_ns: int) -> bool:
    """The session with its spaces and the tokens that were for it alone; whether it was there."""
    spaces = delete_spaces(tx, [(kind, id_) for kind in KINDS], now_ns)
    known = tx.one(SESSION, id_) is not None
    tx.do(DELETE_SESSION, id_)
    return spaces > 0 or known


def remove_agent(tx: Tx, id_: str, now_ns: int) -> bool:
    """Takes away some of the agent's sessions, and at last the agent; whether it is gone."""
    if tx.one(TAKE_AGENT, id_) is None:
        raise NotFound("there is no such agent")
    rows = tx.all(SESSIONS, id_, "", "", "", STEP)
    for row in rows:
        remove_session(tx, row[0], now_ns)
    if len(rows) == STEP:
        return False
    space = tx.one(SPACE, "agent", id_)
    if space is not None:
        delete_space(tx, space[0], now_ns)
    tx.do(DELETE_AGENT, id_)
    return True


def session_of(row: Row) -> Session:
    return Session(
        id=row[0], agent=row[1], owner=row[2], title=row[3], tags=unlisted(row[4]),
        model_id=row[5], status=row[6], created_ns=row[7], started_ns=row[8], finished_ns=row[9],
    )  # fmt: skip
