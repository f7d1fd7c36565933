"""Who may read an artifact, and who may link to it: the only place that decides.

Operators and users read what their tenant keeps. An agent reads what its own conversation keeps;
what another one keeps it reads by citing a memory entry that links to exactly that. So an agent
links only to what its own conversation keeps: else it could write its own permission.
"""

from __future__ import annotations

from msgspec import Struct

from keelfs.errors import InvalidArgument, NotFound, PermissionDenied
from keelfs.filing import Artifact, MemoryEntry
from keelfs.model import Principal


class Reader(Struct, frozen=True):
    """Who asks, and in which conversation."""

    principal: Principal
    conversation: str

    @property
    def must_cite(self) -> bool:
        return self.principal.kind == "agent"


def check_read(
    reader: Reader, artifact: Artifact, via: int | None, entry: MemoryEntry | None
) -> None:
    """Raises unless the artifact may be read; `entry` is what `via` names, if it is visible.

    What is cited must be right even where it is not needed.
    """
    number = artifact.id
    if via is not None and entry is None:
        raise NotFound(f"via=mem:{via} — memory entry not found for this tenant")
    if entry is not None and (entry.artifact is None or entry.artifact.id != number):
        linked = "null" if entry.artifact is None else entry.artifact.id
        raise PermissionDenied(
            f"memory entry #{via} does not reference artifact #{number} (its artifact_id={linked})"
        )
    if reader.must_cite and artifact.conversation != reader.conversation and entry is None:
        raise PermissionDenied(
            f"artifact #{number} is in a different conversation; cite the memory entry that links"
            f" it: /read #{number} via=mem:<entry_id>"
        )


def check_link(reader: Reader, artifact: Artifact | None) -> None:
    """Raises unless a memory entry may link to the artifact."""
    if artifact is None:
        raise InvalidArgument("artifact_id does not exist for this tenant")
    if reader.must_cite and artifact.conversation != reader.conversation:
        raise PermissionDenied(
            f"artifact #{artifact.id} is in a different conversation; an agent links what its own"
            " conversation keeps"
        )
