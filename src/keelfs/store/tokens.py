"""Tokens, as rows: what each allows, under the hash of its secret.

One statement answers everything a request has to know before it may begin: whether the token
exists, what it allows, and the session and space that the request names. It does the same work
whether they exist or not.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final

import msgspec
from msgspec import Struct

from keelfs.errors import NotFound
from keelfs.grant import Grant, Role, Token
from keelfs.store.database import Row, Statement, Tx
from keelfs.store.spaces import DELETED

Names = tuple[str, ...]

_COLUMNS: Final = """id, parent, role, name, owner, agent, session, paths, verbs, expires_ns, label,
       created_ns"""
_QUALIFIED: Final = ", ".join(f"t.{name.strip()}" for name in _COLUMNS.split(","))

RESOLVE: Final = Statement(
    f"""SELECT {_QUALIFIED}, te.name, te.limits, s.agent, s.owner, sp.id, sp.limits, sp.own_limits
          FROM tokens t
          JOIN tenants te ON te.id = ?1
          LEFT JOIN sessions s ON s.tenant = ?1 AND s.id = ?3
          LEFT JOIN spaces sp ON sp.tenant = ?1 AND sp.kind = 'session' AND sp.key = ?3
                             AND sp.deleted_ns IS NULL
         WHERE t.tenant = ?1 AND t.hash = ?2"""
)
NEW_TOKEN: Final = Statement(
    f"""INSERT INTO tokens (tenant, hash, {_COLUMNS})
       VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14)"""
)
TOKENS: Final = Statement(
    f"SELECT {_COLUMNS} FROM tokens WHERE tenant = ?1 AND id > ?2 ORDER BY id LIMIT ?3"
)
#: More than anybody has made.
MANY: Final = 2**31
#: A token and all that were made from it, and from those.
DESCENDANTS: Final = Statement(
    f"""WITH RECURSIVE line (id) AS (
            SELECT id FROM tokens WHERE tenant = ?1 AND id = ?2
            UNION SELECT t.id FROM line JOIN tokens t ON t.tenant = ?1 AND t.parent = line.id)
       SELECT {_QUALIFIED} FROM line JOIN tokens t ON t.tenant = ?1 AND t.id = line.id
        WHERE t.id > ?3 ORDER BY t.id LIMIT ?4"""
)
REVOKE: Final = Statement("DELETE FROM tokens WHERE tenant = ?1 AND id = ?2")
EXISTS: Final = Statement("SELECT 1 FROM tokens WHERE tenant = ?1 AND id = ?2")
EXPIRES: Final = Statement("SELECT 1 FROM tokens WHERE tenant = ?1 AND expires_ns <= ?2 LIMIT 1")
EXPIRED: Final = Statement(
    """DELETE FROM tokens WHERE tenant = ?1 AND id IN (
           SELECT id FROM tokens WHERE tenant = ?1 AND expires_ns <= ?2
            ORDER BY expires_ns LIMIT ?3) RETURNING id"""
)


class Resolved(Struct, frozen=True):
    """What one look tells about a request's token and the session that it names."""

    token: Token
    tenant: str
    #: Agent and owner of the session; None where there is no such session.
    session: tuple[str, str] | None
    #: Id, limits in force and own limits of its space; None where there is none.
    space: tuple[int, str, str] | None
    #: The tenant's limits.
    limits: str


def resolve(tx: Tx, hash_: bytes, session: str) -> Resolved | None:
    """The token of this hash, with the session of this id; None if the token is worth nothing."""
    row = tx.one(RESOLVE, hash_, session)
    if row is None or row[12].startswith(DELETED):
        return None
    return Resolved(
        token=_token(row),
        tenant=row[12],
        session=None if row[14] is None else (row[14], row[15]),
        space=None if row[16] is None else (row[16], row[17], row[18]),
        limits=row[13],
    )


def add_token(tx: Tx, hash_: bytes, token: Token) -> None:
    grant = token.grant
    tx.do(
        NEW_TOKEN, hash_, token.id, token.parent, grant.role.value, grant.name, grant.owner,
        grant.agent, grant.session, _json(grant.paths),
        _json(None if grant.verbs is None else sorted(grant.verbs)), grant.expires_ns,
        token.label, token.created_ns,
    )  # fmt: skip


def list_tokens(tx: Tx, below: str | None, after: str, limit: int) -> list[Token]:
    """Those of the tenant, or those that come from one of them, itself included; by age."""
    if below is None:
        return [_token(row) for row in tx.all(TOKENS, after, limit)]
    return [_token(row) for row in tx.all(DESCENDANTS, below, after, limit)]


def revoke(tx: Tx, id_: str, below: str | None) -> None:
    """Deletes a token and what was made from it. `below` says whose descendants may go."""
    if below is None:
        found = tx.one(EXISTS, id_) is not None
    else:
        found = any(row[0] == id_ for row in tx.all(DESCENDANTS, below, "", MANY))
    if not found:
        raise NotFound("there is no such token")
    tx.do(REVOKE, id_)


def _token(row: Row) -> Token:
    grant = Grant(
        role=Role(row[2]), name=row[3], owner=row[4], agent=row[5], session=row[6],
        paths=_paths(row[7]), verbs=_verbs(row[8]), expires_ns=row[9],
    )  # fmt: skip
    return Token(id=row[0], grant=grant, parent=row[1], label=row[10], created_ns=row[11])


def _json(value: object) -> str | None:
    return None if value is None else msgspec.json.encode(value).decode()


@lru_cache(maxsize=1024)
def _paths(text: str | None) -> tuple[Names, ...] | None:
    return None if text is None else msgspec.json.decode(text, type=tuple[Names, ...])


@lru_cache(maxsize=1024)
def _verbs(text: str | None) -> frozenset[str] | None:
    return None if text is None else msgspec.json.decode(text, type=frozenset[str])
