"""Tokens become contexts here, and nowhere else.

Also where the first token of a tenant comes from: whoever may open the store itself, on the machine
that runs it, may hand out an operator's token of any tenant.
"""

from __future__ import annotations

from typing import Final

from keelfs.assembly import Store
from keelfs.errors import NotAuthenticated, NotFound
from keelfs.grant import Grant, Token, checked_grant
from keelfs.identity.context import Context, new_id
from keelfs.identity.rights import checked_verbs
from keelfs.identity.secret import hash_of, new_secret, parsed, text_of

#: Looked for where a request has no token at all, so that it takes as long as with a wrong one.
_NOBODY: Final = (0, bytes(32))


class Authority:
    """Knows who bears a token of a store."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._registry = store.registry
        #: Whether `context` is worth no thread of its own.
        self.local_reads = self._registry.local_reads

    def context(self, token: str | None, session: str = "") -> Context:
        """What a request may do that bears this token and is about this session, if any."""
        tenant, hash_ = parsed(token or "") or _NOBODY
        found = self._registry.resolve(tenant, hash_, session)
        if found is None or found.token.grant.is_over(self._registry.clock.now_ns()):
            raise NotAuthenticated
        return Context(self._registry, tenant, found, session)

    def issue(self, tenant: str, grant: Grant, label: str = "") -> str:
        """The text of a new token that comes from no other one; makes the tenant if need be."""
        checked_verbs(checked_grant(grant).verbs)
        key, secret = self._store.tenant(tenant).key, new_secret()
        if grant.agent is not None:
            self._registry.agent(key, grant.agent)
        if grant.session is not None and self._registry.session(key, grant.session) is None:
            raise NotFound("there is no such session")
        now = self._registry.clock.now_ns()
        token = Token(id=new_id(now), grant=grant, label=label, created_ns=now)
        self._registry.add_token(key, hash_of(secret), token)
        return text_of(key, secret)

    # -- who waits for changes, and for nothing else

    def version(self) -> object:
        """A value that changes when any space may have changed."""
        return self._registry.version()

    def newest(self, addresses: list[tuple[int, int]]) -> list[int]:
        """The number of the newest change of each space; -1 where there is no space any more."""
        by_tenant: dict[int, list[int]] = {}
        for tenant, space in addresses:
            by_tenant.setdefault(tenant, []).append(space)
        found = {
            (tenant, space): seq
            for tenant, spaces in by_tenant.items()
            for space, seq in self._registry.newest(tenant, spaces).items()
        }
        return [found.get(address, -1) for address in addresses]
