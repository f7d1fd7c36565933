"""The registry of a store: agents, sessions and tokens, each verb one transaction.

It decides nothing about who may do what. Who calls: `keelfs.identity`, with a tenant that a token
has named.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

from keelfs.errors import NotFound
from keelfs.grant import Agent, Session, Token
from keelfs.model import Limits, Principal, Usage
from keelfs.ports import Clock
from keelfs.store import agents, sessions, spaces, tokens
from keelfs.store.database import Database, Tx
from keelfs.store.home import SEQ, SpaceHome
from keelfs.store.ledger import decoded, encoded, in_force
from keelfs.store.shelf import Shelf
from keelfs.store.tokens import Resolved


class Registry:
    """Who there is in the tenants of one database."""

    def __init__(self, database: Database, clock: Clock, limits: Limits) -> None:
        self._database = database
        self.clock = clock
        self._limits = limits
        #: Whether a short read is worth no thread of its own.
        self.local_reads = database.local

    # -- tokens

    def resolve(self, tenant: int, hash_: bytes, session: str) -> Resolved | None:
        """What a request may do, and what it is about, in one look."""
        return self._database.read(tenant, lambda tx: tokens.resolve(tx, hash_, session))

    def add_token(self, tenant: int, hash_: bytes, token: Token) -> None:
        self._database.write(tenant, lambda tx: tokens.add_token(tx, hash_, token))

    def tokens(self, tenant: int, below: str | None, after: str, limit: int) -> list[Token]:
        """Those of the tenant, or those that come from one of them, itself included."""
        return self._database.read(tenant, lambda tx: tokens.list_tokens(tx, below, after, limit))

    def revoke(self, tenant: int, id_: str, below: str | None) -> None:
        """The token and what was made from it are worth nothing once this returns."""
        self._database.write(tenant, lambda tx: tokens.revoke(tx, id_, below))

    def exchange(self, tenant: int, id_: str, hash_: bytes, token: Token) -> None:
        """Puts one token in the place of another, which must still be there."""

        def work(tx: Tx) -> None:
            tokens.revoke(tx, id_, None)
            tokens.add_token(tx, hash_, token)

        self._database.write(tenant, work)

    # -- agents

    def add_agent(self, tenant: int, agent: Agent) -> None:
        self._database.write(tenant, lambda tx: agents.add_agent(tx, agent))

    def agent(self, tenant: int, id_: str) -> Agent:
        return self._database.read(tenant, lambda tx: agents.find_agent(tx, id_))

    def agents(self, tenant: int, after: str, limit: int) -> list[Agent]:
        return self._database.read(tenant, lambda tx: agents.list_agents(tx, after, limit))

    def remove_agent(self, tenant: int, id_: str) -> None:
        """The agent with its sessions and all they hold, some of them at a time."""
        now = self.clock.now_ns()
        while not self._database.write(tenant, lambda tx: sessions.remove_agent(tx, id_, now)):
            pass

    # -- sessions

    def add_session(self, tenant: int, session: Session) -> None:
        """The session and its space."""
        now, limits = self.clock.now_ns(), self._limits

        def work(tx: Tx) -> None:
            sessions.add_session(tx, session)
            spaces.open_space(tx, "session", session.id, now, limits, create=True)

        self._database.write(tenant, work)

    def session(self, tenant: int, id_: str) -> Session | None:
        return self._database.read(tenant, lambda tx: sessions.find_session(tx, id_))

    def sessions(
        self, tenant: int, agent: str, after: str, owner: str | None, only: str | None, limit: int
    ) -> list[Session]:
        return self._database.read(
            tenant, lambda tx: sessions.list_sessions(tx, agent, after, owner, only, limit)
        )

    def remove_session(self, tenant: int, id_: str) -> None:
        now = self.clock.now_ns()
        self._database.write(tenant, lambda tx: sessions.remove_session(tx, id_, now))

    def fork(self, home: SpaceHome, session: Session, at: str | None) -> None:
        """A session whose files begin as those of another one, or of one of its snapshots."""
        home.fork("session", session.id, at, lambda tx: sessions.add_session(tx, session))

    # -- spaces

    def shelf(self, tenant: int) -> Shelf:
        """What the conversations of a tenant keep."""
        return Shelf(self._database, tenant, self.clock, self._limits)

    def tenant_usage(self, tenant: int) -> Usage:
        return self._database.read(tenant, spaces.tenant_usage)

    def version(self) -> object:
        return self._database.version()

    def newest(self, tenant: int, spaces: list[int]) -> dict[int, int]:
        """The number of the newest change of each space that is there."""

        def work(tx: Tx) -> dict[int, int]:
            answers = [(space, tx.later(SEQ, space)) for space in spaces]
            rows = [(space, answer()) for space, answer in answers]
            return {space: row[0][0] for space, row in rows if row and row[0][1] is None}

        return self._database.read(tenant, work)

    def home(self, tenant: int, found: Resolved, principal: Principal) -> SpaceHome:
        """The space that `resolve` found, opened without asking again unless limits changed."""
        if found.space is None:
            raise NotFound("there is no such session")
        space, limits, own = found.space
        effective = _effective(self._limits, found.limits, own)
        if _encoded(effective) != limits:
            self._database.write(tenant, self._refreshing(space, effective, own))
        return SpaceHome(
            self._database, tenant, space, principal, self.clock, effective, self._limits
        )

    def _refreshing(self, space: int, limits: Limits, own: str) -> Callable[[Tx], None]:
        return lambda tx: tx.do(spaces.SET_LIMITS, space, encoded(limits), own)


@lru_cache(maxsize=1024)
def _effective(store: Limits, tenant: str, own: str) -> Limits:
    return in_force("session", store, decoded(tenant), decoded(own))


@lru_cache(maxsize=1024)
def _encoded(limits: Limits) -> str:
    return encoded(limits)
