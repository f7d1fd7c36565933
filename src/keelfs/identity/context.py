"""One request's identity: who asks, in which tenant, and everything they may reach.

A context is made by the authority out of a token and never changes. Whatever a handler wants of the
store it asks of its context, which answers only what the grant allows; what it does not reach is
not there (`NotFound`), whether it exists or not.
"""

from __future__ import annotations

from typing import Any, Final
from uuid import UUID

from msgspec.structs import replace as with_fields

from keelfs.artifacts import Artifacts, Memory
from keelfs.errors import NotFound, PermissionDenied
from keelfs.gates.confined import Confined
from keelfs.gates.deadline import Deadline
from keelfs.gates.policy import Policy
from keelfs.grant import Agent, Grant, Role, Session, Token, checked_grant, refuse_wider
from keelfs.ident import uuid7
from keelfs.identity.kept import AllKept
from keelfs.identity.rights import AGENT_VERBS, MANAGED_BY, REDEEM, checked_verbs
from keelfs.identity.secret import hash_of, new_secret, text_of
from keelfs.model import Usage
from keelfs.ops import Op
from keelfs.path import VPath
from keelfs.ports import Handler
from keelfs.store.registry import Registry
from keelfs.store.tokens import Resolved
from keelfs.workspace import Space

_NO_SESSION: Final = "there is no such session"


class Context:
    """What one request may do."""

    __slots__ = ("_found", "_named", "_registry", "_tenant", "grant", "tenant", "token_id")

    def __init__(self, registry: Registry, tenant: int, found: Resolved, named: str) -> None:
        """`named` is the session that `found` was asked about."""
        put = object.__setattr__
        put(self, "_registry", registry)
        put(self, "_tenant", tenant)
        put(self, "_found", found)
        put(self, "_named", named)
        put(self, "grant", found.token.grant)
        put(self, "tenant", found.tenant)
        put(self, "token_id", found.token.id)

    _registry: Registry
    _tenant: int
    _found: Resolved
    _named: str
    grant: Grant
    tenant: str
    token_id: str

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError("a context does not change")

    @property
    def token(self) -> Token:
        return self._found.token

    # -- trees

    def space(self, agent: str, session: str, until_ns: int | None = None) -> Space:
        """The files of a session, with the gates of this token before them.

        With `until_ns` nothing is begun any more from then on.
        """
        self._check_session(agent, session)
        home = self._registry.home(self._tenant, self._found, self.grant.principal)
        if until_ns is None and not self._is_limited:
            return Space(home)
        return Space(home, lambda handler: self._gated(handler, until_ns))

    @property
    def address(self) -> tuple[int, int]:
        """Where the space is of the session that this is about: for `Authority.newest` only."""
        return self._tenant, self._found.space[0] if self._found.space else 0

    def _check_session(self, agent: str, session: str) -> None:
        owner = self._found.session
        if session != self._named or owner is None or owner[0] != agent:
            raise NotFound(_NO_SESSION)
        if not self.grant.reaches(agent, owner[1], session):
            raise NotFound(_NO_SESSION)

    @property
    def _is_limited(self) -> bool:
        return self.grant.paths is not None or self._verbs is not None

    @property
    def _verbs(self) -> frozenset[str] | None:
        if self.grant.verbs is None and self.grant.role is Role.AGENT:
            return AGENT_VERBS
        return self.grant.verbs

    def _gated(self, handler: Handler, until_ns: int | None) -> Handler:
        if until_ns is not None:
            handler = Deadline(handler, self._registry.clock, until_ns)
        if self.grant.paths is not None:
            handler = Confined(handler, [VPath(names) for names in self.grant.paths])
        return handler if self._verbs is None else Policy(handler, self._decide)

    def _decide(self, op: Op[Any]) -> None:
        if op.verb not in (self._verbs or ()):
            raise PermissionDenied(f"this token does not allow the verb {op.verb}")

    # -- what conversations keep

    def conversation(self, id_: str, verb: str) -> Artifacts:
        """What a conversation keeps, for a verb that this token allows."""
        owner = self._found.session
        if id_ != self._named or owner is None or not self.grant.reaches(*owner, id_):
            raise NotFound("conversation not found")
        self._may_keep(verb)
        return Artifacts(self._registry.shelf(self._tenant), id_, self.grant.principal)

    def agent_of(self, conversation: str) -> str:
        """Whose conversation it is that this request is about."""
        self.conversation(conversation, "read")
        owner = self._found.session
        assert owner is not None
        return owner[0]

    def _may_keep(self, verb: str) -> None:
        if self.grant.paths is not None:
            raise PermissionDenied("this token is about a part of a session's files")
        if self._verbs is not None and verb not in self._verbs:
            raise PermissionDenied(f"this token does not allow the verb {verb}")

    def all_kept(self, verb: str) -> AllKept:
        """What all conversations keep that this token reaches."""
        self._may_keep(verb)
        return AllKept(self._registry, self._tenant, self.grant)

    def memory(self, conversation: str | None, verb: str) -> Memory:
        """The memory entries of the tenant; links go to what this token reaches."""
        self._may_keep(verb)
        named = conversation or self.grant.session or ""
        if conversation is not None:
            self._check_ends(with_fields(self.grant, session=conversation))
        kept = AllKept(self._registry, self._tenant, self.grant)
        shelf = self._registry.shelf(self._tenant)
        return Memory(shelf, named, self.grant.principal, lambda found: kept.reaches(found))

    # -- management

    def _may(self, verb: str) -> None:
        """Managing a session is about the whole of it, so no token for a part of it may."""
        grant = self.grant
        if verb not in MANAGED_BY[grant.role] or not grant.allows(verb) or grant.paths is not None:
            raise PermissionDenied(f"this token does not allow the verb {verb}")

    def _may_look(self) -> None:
        if self.grant.verbs == frozenset({REDEEM}):
            raise PermissionDenied("this token is good for nothing but being redeemed")

    def agents(self, after: str, limit: int) -> list[Agent]:
        self._may_look()
        if self.grant.agent is not None:
            return [self.agent(self.grant.agent)] if after < self.grant.agent else []
        return self._registry.agents(self._tenant, after, limit)

    def agent(self, id_: str) -> Agent:
        self._may_look()
        if self.grant.agent not in {None, id_}:
            raise NotFound("there is no such agent")
        return self._registry.agent(self._tenant, id_)

    def create_agent(self, agent: Agent) -> Agent:
        self._may("create_agent")
        if self.grant.agent is not None:
            raise PermissionDenied("this token is about one agent")
        now = self._registry.clock.now_ns()
        made = with_fields(agent, id=new_id(now), created_ns=now, updated_ns=now)
        self._registry.add_agent(self._tenant, made)
        return made

    def delete_agent(self, id_: str) -> None:
        """With its sessions and all they hold."""
        self.agent(id_)
        self._may("delete_agent")
        self._registry.remove_agent(self._tenant, id_)

    def sessions(self, agent: str, after: str, limit: int) -> list[Session]:
        self.agent(agent)
        grant = self.grant
        return self._registry.sessions(
            self._tenant, agent, after, grant.owner, grant.session, limit
        )

    def session(self, agent: str, id_: str) -> Session:
        self._check_session(agent, id_)
        found = self._registry.session(self._tenant, id_)
        if found is None:
            raise NotFound(_NO_SESSION)
        return found

    def create_session(self, session: Session) -> Session:
        """A user's session is the user's own."""
        self.agent(session.agent)
        self._may("create_session")
        made = self._new_session(session)
        self._registry.add_session(self._tenant, made)
        return made

    def fork(self, source: str, session: Session, at: str | None) -> Session:
        """A new session of the same agent that begins with the files of `source`."""
        self._check_session(session.agent, source)
        self._may("fork")
        made = self._new_session(session)
        home = self._registry.home(self._tenant, self._found, self.grant.principal)
        self._registry.fork(home, made, at)
        return made

    def _new_session(self, session: Session) -> Session:
        if self.grant.session is not None:
            raise PermissionDenied("this token is about one session")
        now = self._registry.clock.now_ns()
        owner = session.owner if self.grant.owner is None else self.grant.owner
        return with_fields(session, id=new_id(now), owner=owner, created_ns=now)

    def delete_session(self, agent: str, id_: str) -> None:
        """With its files, their history, trash and snapshots, and the tokens that were for it."""
        self._check_session(agent, id_)
        self._may("delete_session")
        self._registry.remove_session(self._tenant, id_)

    def may_set_limits(self) -> None:
        self._may("set_limits")

    def tenant_usage(self) -> Usage:
        """The sums over all spaces tell of everybody's sessions, so only whole operators see."""
        if self._below is not None:
            raise PermissionDenied("only an operator of the whole tenant sees its usage")
        return self._registry.tenant_usage(self._tenant)

    # -- tokens

    def mint(self, grant: Grant, label: str = "") -> tuple[str, Token]:
        """A narrower token, and its text, which nobody will see again."""
        if REDEEM in (checked_verbs(checked_grant(grant).verbs) or ()):
            raise PermissionDenied("links are made where the store is opened, not by tokens")
        refuse_wider(_plainly(grant), _plainly(self.grant))
        self._check_ends(grant)
        now, secret = self._registry.clock.now_ns(), new_secret()
        token = Token(
            id=new_id(now), grant=grant, parent=self.token_id, label=label, created_ns=now
        )
        self._registry.add_token(self._tenant, hash_of(secret), token)
        return text_of(self._tenant, secret), token

    def redeem(self) -> str:
        """Exchanges a token that is good for nothing else for one of a whole operator, once."""
        if self.grant.verbs != frozenset({REDEEM}) or self.grant.role is not Role.OPERATOR:
            raise PermissionDenied("this token is no link to be redeemed")
        now, secret = self._registry.clock.now_ns(), new_secret()
        grant = Grant(role=Role.OPERATOR, name=self.grant.name)
        token = Token(id=new_id(now), grant=grant, label="redeemed", created_ns=now)
        self._registry.exchange(self._tenant, self.token_id, hash_of(secret), token)
        return text_of(self._tenant, secret)

    def _check_ends(self, grant: Grant) -> None:
        """What a token is limited to must be there, for this one to see."""
        if grant.agent is not None:
            self.agent(grant.agent)
        if grant.session is not None:
            found = self._registry.session(self._tenant, grant.session)
            if found is None or not self.grant.reaches(found.agent, found.owner, found.id):
                raise NotFound(_NO_SESSION)

    def tokens(self, after: str, limit: int) -> list[Token]:
        """An operator sees all of the tenant, others what was made from their own token."""
        self._may_look()
        return self._registry.tokens(self._tenant, self._below, after, limit)

    def revoke(self, id_: str) -> None:
        """The token and what was made from it are worth nothing once this returns."""
        self._may_look()
        self._registry.revoke(self._tenant, id_, self._below)

    @property
    def _below(self) -> str | None:
        whole = Grant(role=Role.OPERATOR, name=self.grant.name, expires_ns=self.grant.expires_ns)
        return None if self.grant == whole else self.token_id


def new_id(now_ns: int) -> str:
    """A UUIDv7 as text."""
    return str(UUID(bytes=uuid7(now_ns)))


def _plainly(grant: Grant) -> Grant:
    """The grant with the verbs that its role stands for where it names none."""
    if grant.role is Role.AGENT and grant.verbs is None:
        return with_fields(grant, verbs=AGENT_VERBS)
    return grant
