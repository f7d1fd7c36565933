"""What slash commands answer: the lines between the frames.

Whatever was written by somebody else, a path, a title or the bytes of a file, is made inert here.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final, TypeVar

from keelfs.artifacts.collection import Artifacts
from keelfs.artifacts.frames import inert, one_line
from keelfs.artifacts.memory import Memory
from keelfs.artifacts.slash import AddEntry
from keelfs.errors import InvalidArgument, InvalidPath, NotFound, Unsupported
from keelfs.filing import Artifact, MemoryEntry

T = TypeVar("T")

#: Bytes of a file that one answer shows.
MAX_READ: Final = 16_384
#: Where a NUL makes a file binary.
LOOKED_AT: Final = 8192
MAX_ENTRY_BYTES: Final = 32 * 1024
_NUMBER: Final = re.compile(r"[0-9]{1,18}", re.A)
_REST: Final = re.compile(r"(.*?)(?:(?:^| +)--artifact(?: +(.*))?)?", re.S)
_USAGE: Final = "usage: /read <path>  OR  /read #<artifact_id> [via=mem:<entry_id>]"
_UNAVAILABLE: Final = (
    "{} store unavailable in this context — no conversation is open (CLI/REPL), so nothing is kept"
)


def positive(text: str) -> int | None:
    """The number that a text is, all of it."""
    return int(text) or None if _NUMBER.fullmatch(text) else None


def spelled(ask: Callable[[], T]) -> T:
    """Asks about a path; says of one that cannot be one that it is invalid."""
    try:
        return ask()
    except InvalidPath as error:
        raise InvalidPath(f"invalid path: {error.args[0]}") from None


def read(artifacts: Artifacts | None, args: str) -> str:
    if artifacts is None:
        raise Unsupported(_UNAVAILABLE.format("artifact"))
    if not args:
        raise InvalidArgument(_USAGE)
    if args.startswith("#"):
        return _by_number(artifacts, args)
    try:
        found, data = spelled(lambda: artifacts.fetch(args))
    except NotFound:
        raise NotFound(f"'{one_line(args)}' not found in this conversation's artifacts") from None
    return _text(found, data)


def _by_number(artifacts: Artifacts, args: str) -> str:
    number, *more = args.split()
    id_ = positive(number[1:])
    if id_ is None:
        raise InvalidArgument("artifact id after '#' must be a positive integer")
    via = None
    if more:
        if len(more) > 1 or not more[0].startswith("via=mem:"):
            wrong = more[0] if not more[0].startswith("via=mem:") else more[1]
            raise InvalidArgument(
                f"trailing token '{one_line(wrong)}' — expected 'via=mem:<entry_id>'"
            )
        via = positive(more[0].removeprefix("via=mem:"))
        if via is None:
            raise InvalidArgument("via=mem:<id> requires a positive entry id")
    try:
        found, data = artifacts.fetch(id_, via=via)
    except NotFound as error:
        if "via=" in error.args[0]:
            raise
        raise NotFound(f"artifact #{id_} not found for this tenant") from None
    return _text(found, data)


def _text(found: Artifact, data: bytes) -> str:
    try:
        text = data.decode() if b"\0" not in data[:LOOKED_AT] else None
    except UnicodeDecodeError:
        text = None
    if text is None:
        return f"OK: artifact #{found.id} is binary ({found.size} bytes, mime={found.mime});" + (
            " its bytes are not shown as text"
        )
    if len(data) <= MAX_READ:
        return inert(text)
    return inert(data[:MAX_READ].decode(errors="ignore")) + "\n... [truncated]"


def listed(artifacts: Artifacts | None) -> str:
    if artifacts is None:
        raise Unsupported(_UNAVAILABLE.format("artifact"))
    page = artifacts.list()
    lines = [
        f"{inert(one_line(each.path))}  ({each.size} bytes, mime={each.mime}, id={each.id})"
        for each in page.items
    ]
    if page.next is not None:
        lines.append(f"... [truncated: the {len(lines)} that changed last are shown]")
    return "\n".join(lines) or "(no persisted artifacts in this conversation)"


def entry(memory: Memory | None, artifacts: Artifacts | None, args: str) -> str:
    if memory is None or artifacts is None:
        raise Unsupported(_UNAVAILABLE.format("memory"))
    id_ = positive(args)
    if id_ is None:
        raise InvalidArgument("usage: /mem entry <entry_id>")
    try:
        found = memory.get(id_)
    except NotFound:
        raise NotFound(f"memory entry #{id_} not found for this tenant") from None
    lines = [f"#{id_} [{found.type}] {one_line(found.title)}"]
    if found.content:
        lines.append(inert(found.content))
    return "\n".join([*lines, *_link(found, artifacts.conversation)])


def _link(found: MemoryEntry, conversation: str) -> list[str]:
    """How to fetch what an entry links to, as a line that can be copied."""
    if found.expired_artifact is not None:
        gone = found.expired_artifact
        return ["linked artifact:", f"  (link expired — artifact #{gone} no longer exists)"]
    linked = found.artifact
    if linked is None:
        return []
    path = one_line(linked.path)
    if linked.conversation == conversation:
        fetch = f"  fetch with: /read {path}   (or /read #{linked.id})"
    else:
        fetch = f"  cross-conversation — fetch with: /read #{linked.id} via=mem:{found.id}"
    shown = f"  #{linked.id} {path} ({linked.size} bytes, mime={linked.mime})"
    return ["linked artifact:", shown, fetch]


def added(memory: Memory | None, command: AddEntry) -> str:
    if memory is None:
        raise Unsupported(_UNAVAILABLE.format("memory"))
    if command.truncated:
        raise InvalidArgument(
            "/mem add entry block was truncated mid-generation (missing /endmem). Write it again,"
            " whole. Entry NOT added."
        )
    if not command.body.strip():
        raise InvalidArgument("/mem add entry needs a body before /endmem")
    if command.cut or len(command.body.encode()) > MAX_ENTRY_BYTES:
        raise InvalidArgument(f"the body of /mem add entry has at most {MAX_ENTRY_BYTES} bytes")
    title, artifact = _title(command.rest)
    try:
        made = memory.add(command.type, title, command.body, artifact=artifact)
    except InvalidArgument as error:
        if error.args[0].startswith("artifact_id "):
            raise InvalidArgument(f"artifact #{artifact} does not exist for this tenant") from None
        raise
    linked = "" if artifact is None else f" (linked to artifact #{artifact})"
    return f"OK: added entry #{made.id} [{made.type}] {one_line(made.title)}{linked}"


def _title(rest: str) -> tuple[str, int | None]:
    found = _REST.fullmatch(rest)
    assert found is not None
    if "--artifact" not in rest or found[1] == rest:
        return rest, None
    given = (found[2] or "").strip()
    artifact = positive(given[1:]) if given.startswith("#") else None
    if artifact is None:
        raise InvalidArgument("--artifact requires a positive id, e.g. --artifact #42")
    return found[1].strip(), artifact
