"""One turn of an agent: the slash commands in what it writes are carried out, one by one.

Each command has one result, in a frame that nothing inside can imitate; a file that the agent shows
is told to whoever listens, whether it is kept or not. Nothing an agent writes ends a turn: what is
refused is said in its result. Who calls: programs that talk to a model, and the server.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Final

from msgspec import Struct

from keelfs.artifacts import reading
from keelfs.artifacts.collection import Artifacts
from keelfs.artifacts.frames import END_OF_TURN, framed, one_line
from keelfs.artifacts.memory import Memory
from keelfs.artifacts.slash import (
    MAX_BODY,
    AddEntry,
    Command,
    List,
    Read,
    ShowEntry,
    SlashParser,
    Write,
)
from keelfs.errors import KeelError

#: All files of one turn together.
MAX_SHOWN: Final = MAX_BODY
#: What the ending of a path declares; nobody looks into the file.
_TYPES: Final = {
    "css": "text/css", "csv": "text/csv", "htm": "text/html", "html": "text/html",
    "js": "text/javascript", "json": "application/json", "md": "text/markdown",
    "py": "text/x-python", "svg": "image/svg+xml", "toml": "application/toml",
    "xml": "application/xml", "yaml": "application/yaml", "yml": "application/yaml",
}  # fmt: skip
_UNAVAILABLE: Final = (
    "WARN: --persist requested but artifact store is unavailable in this context (no conversation,"
    " or CLI/REPL); the write was ephemeral only."
)


class FileEvent(Struct, frozen=True):
    """A file in what an agent writes. Its path is text to be shown, and nothing else."""

    path: str
    size: int
    content: str
    stream_id: str = ""
    depth: int = 0
    agent: str = ""
    encoding: str = "utf-8"


class Turn(Struct, frozen=True):
    """What came of one turn: the text to hand back to the model, and the files it showed."""

    text: str
    files: tuple[FileEvent, ...]


class Conversation:
    """Carries out slash commands; without a store, what needs one is refused."""

    def __init__(
        self,
        artifacts: Artifacts | None = None,
        memory: Memory | None = None,
        agent: str = "",
        *,
        stream_id: str = "",
        depth: int = 0,
    ) -> None:
        self.artifacts = artifacts
        self.memory = memory
        self.agent = agent
        self._stream_id, self._depth = stream_id, depth

    def turn(self, text: str | Iterable[str]) -> Turn:
        """Carries out all commands of a text."""
        results, files = list[str](), list[FileEvent]()
        for each in self.stream([text] if isinstance(text, str) else text):
            if isinstance(each, str):
                results.append(each)
            else:
                files.append(each)
        return Turn("".join(results), tuple(files))

    def stream(self, pieces: Iterable[str]) -> Iterator[str | FileEvent]:
        """Results and files, each as soon as its command is complete in the text."""
        parser, shown, any_command = SlashParser(), 0, False
        for piece in pieces:
            for command in parser.feed(piece.encode("utf-8", "replace").decode()):
                any_command = True
                for each in self._carried_out(command, shown):
                    shown += each.size if isinstance(each, FileEvent) else 0
                    yield each
        for command in parser.finish():
            any_command = True
            yield from self._carried_out(command, shown)
        if any_command:
            yield f"{END_OF_TURN}\n"

    def _carried_out(self, command: Command, shown: int) -> Iterator[str | FileEvent]:
        match command:
            case Write():
                yield from self._write(command, shown)
            case Read(args):
                lines = self._said(lambda: reading.read(self.artifacts, args))
                yield framed(f"/read {args}".rstrip(), lines, "READ")
            case List():
                yield framed("/list", self._said(lambda: reading.listed(self.artifacts)), "LIST")
            case ShowEntry(args):
                lines = self._said(lambda: reading.entry(self.memory, self.artifacts, args))
                yield framed(f"/mem entry {args}", lines, "MEMORY")
            case AddEntry():
                lines = self._said(lambda: reading.added(self.memory, command))
                yield framed(f"/mem add entry {command.type} {command.rest}", lines, "MEMORY")

    def _said(self, work: Callable[[], str]) -> str:
        try:
            return work()
        except KeelError as error:
            return f"ERR: {one_line(error.args[0])}"

    def _write(self, command: Write, shown: int) -> Iterator[str | FileEvent]:
        path, size = one_line(command.path), len(command.body.encode())
        heading = f"/write --persist {path}" if command.persist else f"/write {path}"
        if command.truncated:
            said = (
                f"ERR: /write block for {path} was truncated mid-generation (missing /endwrite)."
                " Write it again, whole. File NOT written."
            )
        elif command.cut or shown + size > MAX_SHOWN:
            said = f"ERR: per-response file-size cap ({MAX_SHOWN} bytes) reached"
        else:
            yield FileEvent(
                command.path, size, command.body, self._stream_id, self._depth, self.agent
            )
            said = f"OK: captured {size} bytes for '{path}' (streamed to client, not persisted)"
            if command.persist:
                said += f"\n{self._said(lambda: self._persisted(command, size))}"
        yield framed(heading, said, "WRITE")

    def _persisted(self, command: Write, size: int) -> str:
        if self.artifacts is None:
            return _UNAVAILABLE
        mime = _TYPES.get(command.path.rpartition(".")[2].lower(), "text/plain")
        artifacts = self.artifacts
        put = reading.spelled(lambda: artifacts.put(command.path, command.body, mime=mime))
        limit = put.room.conversation_limit_bytes
        used = f"{put.room.conversation_used_bytes}{'' if limit is None else f' of {limit}'}"
        done = "persisted" if put.created else "updated"
        return (
            f"OK: {done} {size} bytes (artifact #{put.artifact.id}, {used} bytes used in this"
            " conversation)"
        )
