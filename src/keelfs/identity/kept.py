"""What all conversations of a tenant keep, as far as one grant reaches."""

from __future__ import annotations

from keelfs.errors import NotFound
from keelfs.filing import Artifact
from keelfs.grant import Grant, Role
from keelfs.model import Page
from keelfs.store.database import Tx
from keelfs.store.registry import Registry

_NO_SESSION = "\x01 no session has such an id"


class AllKept:
    """An agent reaches here what its token's session keeps, and nothing without one."""

    def __init__(self, registry: Registry, tenant: int, grant: Grant) -> None:
        self._registry, self._tenant, self._grant = registry, tenant, grant
        self._shelf = registry.shelf(tenant)

    @property
    def _session(self) -> str | None:
        must = self._grant.role is Role.AGENT and self._grant.session is None
        return _NO_SESSION if must else self._grant.session

    def reaches(self, artifact: Artifact) -> bool:
        """Whether the grant is about the session that keeps it."""
        grant, session = self._grant, self._session
        if (grant.owner, grant.agent, session) == (None, None, None):
            return True
        if session not in {None, artifact.conversation}:
            return False
        found = self._registry.session(self._tenant, artifact.conversation)
        return found is not None and grant.reaches(found.agent, found.owner, found.id)

    def _check(self, _tx: Tx, artifact: Artifact) -> None:
        if not self.reaches(artifact):
            raise NotFound("there is no such artifact")

    def page(self, cursor: str | None, limit: int) -> Page[Artifact]:
        """What changed last first."""
        grant = self._grant
        return self._shelf.of_tenant(
            cursor, limit, grant.owner or "", grant.agent or "", self._session or ""
        )

    def used(self) -> int:
        return self._shelf.tenant_used()

    def get(self, id_: int) -> Artifact:
        return self._shelf.find(id_, self._check)

    def fetch(self, id_: int) -> tuple[Artifact, bytes]:
        return self._shelf.read(id_, self._grant.principal, self._check)

    def delete(self, id_: int) -> None:
        self._shelf.delete(id_, self._grant.principal, self._check)
