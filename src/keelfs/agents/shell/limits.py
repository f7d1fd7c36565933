"""What one command may use, and what came of it."""

from __future__ import annotations

from enum import StrEnum
from typing import Final

from msgspec import Struct
from msgspec.structs import asdict

from keelfs.errors import InvalidArgument

#: bashkit keeps at most this much of either stream by itself.
_MOST_OUTPUT: Final = 8 * 2**20


class Stopped(StrEnum):
    """Which limit ended a command before it was done."""

    TIME = "time"
    COMMANDS = "commands"
    LOOPS = "loops"
    OUTPUT = "output"
    MEMORY = "memory"
    #: A limit of the interpreter that has no setting: nesting, words, work.
    WORK = "work"
    #: Somebody called `stop()`.
    ASKED = "asked"


#: The exit code of a command that was stopped: as `timeout`, a signal and Ctrl-C have it in bash.
_EXIT_CODES: Final = {Stopped.TIME: 124, Stopped.ASKED: 130}
_KILLED: Final = 137


class ShellLimits(Struct, frozen=True, kw_only=True):
    """What one `run()` may use; its stop is told by `ShellResult.stopped`."""

    #: Wall time. It is looked at between steps; one step lasts as long as the store lets it.
    seconds: float = 30.0
    #: Simple commands, those in loops and functions counted each time.
    commands: int = 10_000
    #: Rounds of one loop.
    loop_iterations: int = 10_000
    #: Output and errors together, in bytes of UTF-8. The command ends where they end.
    output_bytes: int = 2**20
    #: All variables of the shell.
    memory_bytes: int = 16 * 2**20
    #: A file is handed to a command whole, so a larger one is refused; `cp` and `mv` do not read.
    file_bytes: int = 16 * 2**20
    #: A directory is handed over whole as well.
    directory_entries: int = 100_000
    script_bytes: int = 2**20

    def __post_init__(self) -> None:
        for name, value in asdict(self).items():
            kinds = (int, float) if name == "seconds" else (int,)
            if type(value) not in kinds or not 0 < value < 2**53:
                raise InvalidArgument(f"{name} is a positive number")
        if self.output_bytes > _MOST_OUTPUT:
            raise InvalidArgument(f"output_bytes is at most {_MOST_OUTPUT}")


class ShellResult(Struct, frozen=True, kw_only=True):
    """What a command printed, and how it ended."""

    stdout: str
    stderr: str
    #: What the script ended with; 124, 130 or 137 if it was stopped, 2 if it is not bash.
    exit_code: int
    stopped: Stopped | None = None

    @property
    def ok(self) -> bool:
        return self.exit_code == 0


def exit_code_of(stopped: Stopped) -> int:
    """How a command ends that a limit has stopped."""
    return _EXIT_CODES.get(stopped, _KILLED)
