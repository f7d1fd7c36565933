"""Who somebody is and what they may do, as values: grants, and the records of agents and sessions.

A grant belongs to one tenant and can only be narrowed. Everything a grant leaves open is given:
`None` is no limit. Nothing here asks a store; whoever decides about a request does it with these.

Who calls: the store keeps these values, identity decides by them, surfaces show them.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final

from msgspec import Struct

from keelfs.errors import InvalidArgument, PermissionDenied
from keelfs.model import Principal
from keelfs.path import VPath, check_name

Names = tuple[str, ...]


class Role(StrEnum):
    """What kind of principal a token speaks for."""

    OPERATOR = "operator"
    USER = "user"
    AGENT = "agent"


#: A role may hand out itself and those below it.
_RANKS: Final = {Role.OPERATOR: 2, Role.USER: 1, Role.AGENT: 0}


class Grant(Struct, frozen=True, kw_only=True):
    """What a token lets its bearer do inside one tenant."""

    role: Role
    #: Of the principal, as the journal names it: a user's name, an agent's id.
    name: str
    #: Only sessions of this user. A user's own grant always says so.
    owner: str | None = None
    #: Only sessions of this agent. An agent's own grant always says so.
    agent: str | None = None
    session: str | None = None
    #: Only what lies at or below one of these directories of a session's tree, by component.
    paths: tuple[Names, ...] | None = None
    #: Only these verbs, by the names that operations have.
    verbs: frozenset[str] | None = None
    #: The first nanosecond at which it is worth nothing.
    expires_ns: int | None = None

    @property
    def principal(self) -> Principal:
        return Principal(self.role.value, self.name)

    def is_over(self, now_ns: int) -> bool:
        return self.expires_ns is not None and now_ns >= self.expires_ns

    def reaches(self, agent: str, owner: str, session: str | None = None) -> bool:
        """Whether it is about this session; without one, about sessions of this kind at all."""
        return (
            (self.agent is None or self.agent == agent)
            and (self.owner is None or self.owner == owner)
            and (self.session is None or session is None or self.session == session)
        )

    def allows(self, verb: str) -> bool:
        return self.verbs is None or verb in self.verbs


def checked_grant(grant: Grant) -> Grant:
    """The grant, if its fields can mean something together."""
    for what, value in (("name", grant.name), ("owner", grant.owner)):
        if value is not None and not (0 < len(value.encode("utf-8", "replace")) <= 255):
            raise InvalidArgument(f"the {what} has 1 to 255 bytes")
    if grant.role is Role.USER and grant.owner != grant.name:
        raise InvalidArgument("a user's token is about the user's own sessions")
    if grant.role is Role.AGENT and grant.agent != grant.name:
        raise InvalidArgument("an agent's token names its agent")
    if grant.paths is not None:
        if not grant.paths:
            raise InvalidArgument("a token without any path is of no use; leave paths out")
        for name in (name for names in grant.paths for name in names):
            check_name(name)
    if grant.verbs is not None and not grant.verbs:
        raise InvalidArgument("a token without any verb is of no use; leave verbs out")
    return grant


def refuse_wider(child: Grant, parent: Grant) -> None:
    """Raises unless everything that `child` allows, `parent` allows as well."""
    if _RANKS[child.role] > _RANKS[parent.role]:
        raise PermissionDenied(f"this token hands out no tokens of role {child.role.value}")
    if child.role is parent.role is not Role.OPERATOR and child.name != parent.name:
        raise PermissionDenied("this token hands out tokens of its own principal only")
    for what in ("owner", "agent", "session"):
        limit = getattr(parent, what)
        if limit is not None and getattr(child, what) != limit:
            raise PermissionDenied(f"this token is limited to one {what}, and so are its own")
    if parent.verbs is not None and (child.verbs is None or not child.verbs <= parent.verbs):
        raise PermissionDenied("the new token would allow more verbs than this one")
    if parent.expires_ns is not None and (
        child.expires_ns is None or child.expires_ns > parent.expires_ns
    ):
        raise PermissionDenied("the new token would outlive this one")
    if parent.paths is not None and not _lie_within(child.paths, parent.paths):
        raise PermissionDenied("the new token would reach paths that this one does not")


def _lie_within(inner: tuple[Names, ...] | None, outer: tuple[Names, ...]) -> bool:
    return inner is not None and all(
        any(VPath(names).is_within(VPath(limit)) for limit in outer) for names in inner
    )


class Agent(Struct, frozen=True, kw_only=True):
    """An agent of a tenant, as it was registered."""

    id: str
    name: str
    description: str | None = None
    system_prompt: str = ""
    default_model_id: str | None = None
    tags: tuple[str, ...] = ()
    capabilities: tuple[str, ...] = ()
    status: str = "active"
    created_ns: int = 0
    updated_ns: int = 0


class Session(Struct, frozen=True, kw_only=True):
    """One conversation of an agent; its files are the space of kind `session` with its id."""

    id: str
    agent: str
    #: The user whose session it is, "" if nobody's.
    owner: str = ""
    title: str | None = None
    tags: tuple[str, ...] = ()
    model_id: str | None = None
    status: str = "pending"
    created_ns: int = 0
    started_ns: int | None = None
    finished_ns: int | None = None


class Token(Struct, frozen=True, kw_only=True):
    """What is known of a token besides its secret, which nobody knows."""

    id: str
    grant: Grant
    #: The token that it was made from; it goes when that one goes.
    parent: str | None = None
    label: str = ""
    created_ns: int = 0
