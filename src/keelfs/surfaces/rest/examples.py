"""One example of every model, as a client would send it or get it.

The description of the surface shows them. Each is an instance of its model, so none can have a
field that the model has not; a test holds each against its schema as well.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final
from uuid import UUID

import msgspec

from keelfs import ops, wire
from keelfs.grant import Role
from keelfs.model import ABSENT, Kind, Limits, Stat, Usage
from keelfs.surfaces.rest import bodies, keeping_bodies, more_bodies

AGENT: Final = "01993b0c-5c1e-7a41-9d0f-6a1f3c9d2e11"
SESSION: Final = "01993b0c-6f02-7c3b-8e55-2b7d4f6a8c22"
_NODE: Final = UUID("01993b0c-7d10-7e8a-a1b2-3c4d5e6f7a33")
_GRANT: Final = "01993b0c-8e2f-7f10-b3c4-4d5e6f7a8b44"
_AT: Final = datetime(2026, 3, 14, 9, 26, 53, 589793, tzinfo=UTC)
_LATER: Final = datetime(2026, 3, 15, 9, 26, 53, 589793, tzinfo=UTC)
_SHA: Final = "1a0e2e1ad8f4a1d59f1d8f5f6d3a2a0a9f5d0a8f3c6b7e4d2c1b0a9f8e7d6c5b"
_PLAN: Final = "/notes/plan.md"

#: What stands for the names in braces.
PARAMETERS: Final[Mapping[str, str]] = {
    "agent": AGENT, "session": SESSION, "path": "notes/plan.md", "token": _GRANT,
    "name": "before-the-refactoring", "item": "7",
    "artifact": "88", "entry": "42",
}  # fmt: skip

_KNOWN: Final[dict[str, Any]] = {
    "is_directory": False, "is_readonly": False, "size_bytes": 7, "created_at": _AT,
    "updated_at": _AT,
}  # fmt: skip
_GREP_LINE: Final = bodies.GrepLine(path=_PLAN, line_number=1, line="1. Read")

_KEPT: Final = keeping_bodies.ArtifactBody(
    88, "default", SESSION, "output/report.md", _SHA, "text/markdown", 1832, 1773480413, 1773480413
)
_ENTRY: Final = keeping_bodies.EntryBody(
    42, "reference", "Findings report", "What was found", "", ("report",), 88, None, SESSION,
    "operator:ann", 1773480413, 1773480413, _KEPT,
)  # fmt: skip

_ALL: Final[tuple[Any, ...]] = (
    keeping_bodies.NewArtifact(
        path="output/report.md", content="# Findings", mime_type="text/markdown"
    ),
    _KEPT,
    keeping_bodies.ArtifactPut(_KEPT, 1832, 1832, created=True),
    keeping_bodies.ConversationArtifacts(SESSION, 1, [_KEPT], 1832, 1832),
    keeping_bodies.TenantArtifacts("default", 1, [_KEPT], 1832),
    keeping_bodies.NewEntry(type="reference", title="Findings report", artifact_id=88),
    keeping_bodies.EntryChange(artifact_id=None),
    _ENTRY,
    keeping_bodies.Entries(1, [_ENTRY]),
    keeping_bodies.Invalidated(invalidated=True, id=42),
    keeping_bodies.CommandsBody(text="/list\n"),
    bodies.NewAgent(name="coder", description="Writes code", tags=("backend",)),
    bodies.AgentBody(
        id=AGENT, name="coder", description="Writes code", system_prompt="",
        default_model_id=None, tags=("backend",), capabilities=(), status="active",
        created_at=_AT, updated_at=_AT,
    ),
    bodies.NewSession(title="Fix the parser"),
    bodies.NewFork(title="Another way", snapshot="before-the-refactoring"),
    bodies.SessionBody(
        id=SESSION, agent_id=AGENT, title="Fix the parser", tags=(), model_id=None,
        status="pending", user=None, created_at=_AT, started_at=None, finished_at=None,
    ),
    bodies.NewToken(
        role=Role.AGENT, agent_id=AGENT, session_id=SESSION, paths=("/notes",),
        verbs=frozenset({"read"}), expires_in_s=3600, label="reads notes",
    ),
    bodies.TokenBody(
        id=_GRANT, tenant="default", role="agent", name=AGENT, user=None, agent_id=AGENT,
        session_id=SESSION, paths=["/notes"], verbs=["read"], expires_at=_LATER,
        label="reads notes", created_at=_AT,
    ),
    bodies.Redeemed(token="keel_1_" + "A" * 43),
    bodies.FileInfo(id=_NODE, session_id=SESSION, path=_PLAN, name="plan.md", **_KNOWN),
    bodies.SessionFile(
        id=_NODE, session_id=SESSION, path=_PLAN, name="plan.md", content="1. Read",
        encoding="text", **_KNOWN,
    ),
    bodies.FileStat(path=_PLAN, name="plan.md", **_KNOWN),
    bodies.NewFile(content="1. Read", encoding="text"),
    bodies.FileUpdate(content="1. Read\n2. Write"),
    bodies.PathBody(path=_PLAN),
    bodies.TwoPaths(src_path=_PLAN, dst_path="/notes/done.md"),
    bodies.GrepBody(pattern="Rea.", path_pattern="*.md"),
    bodies.GrepAnswer(data=[bodies.GrepFile(path=_PLAN, matches=[_GREP_LINE])]),
    bodies.Deleted(deleted=True),
    more_bodies.FilePatch(content="3. Rest", offset="end"),
    more_bodies.Written(path=_PLAN, size_bytes=7, revision=1, sha256=_SHA),
    more_bodies.RevisionBody(revision=1, size_bytes=7, at=_AT, by="agent:coder", sha256=_SHA),
    more_bodies.RestoreBody(path=_PLAN, revision=1),
    more_bodies.ChangeBody(
        seq=2, batch=1, kind="create", path=_PLAN, to=None, node="file", revision=1,
        by="agent:coder", at=_AT,
    ),
    more_bodies.UndoBody(seq=2),
    more_bodies.Undone(changes=[3]),
    more_bodies.TrashedBody(
        id="7", path=_PLAN, kind="file", size_bytes=7, by="agent:coder", at=_AT, expires_at=_LATER
    ),
    more_bodies.UntrashBody(id="7"),
    more_bodies.SnapshotName(name="before-the-refactoring"),
    more_bodies.SnapshotBody(
        name="before-the-refactoring", at=_AT, by="user:ada", size_bytes=7, nodes=2
    ),
    more_bodies.BatchBody(
        operations=[
            more_bodies.BatchStep(op="write", path=_PLAN, content="1. Read", expect="absent"),
            more_bodies.BatchStep(op="move", path="/old", to="/new"),
        ]
    ),
    more_bodies.BatchAnswer(
        data=[more_bodies.BatchDone(id=_NODE, kind="file", size_bytes=7, revision=1), None]
    ),
    more_bodies.NewLimits(bytes=100_000_000),
    more_bodies.ImportAnswer(files=2, directories=1, links=0, bytes=14),
    Limits(bytes=100_000_000),
    Usage(bytes=7, nodes=2, limits=Limits(bytes=100_000_000)),
)  # fmt: skip

_WRITE: Final = msgspec.json.decode(wire.sent(ops.Write(_PLAN, "1. Read", ABSENT)))
_STAT: Final = Stat(
    kind=Kind.FILE, id=_NODE.bytes, size=7, revision=1, mode=0o644, sha256=_SHA
)  # fmt: skip

EXAMPLES: Final[Mapping[Any, Any]] = {
    **{type(each): each for each in _ALL},
    wire.AnyShape: _WRITE, more_bodies.Answered: msgspec.to_builtins(_STAT),
}  # fmt: skip
