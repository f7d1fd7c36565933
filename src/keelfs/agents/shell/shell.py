"""Runs bash over a tree, one command after another, in a state that lasts as long as the shell.

The only room that knows bashkit. The interpreter runs in the thread that calls, has the tree for
its root and nothing besides: host folders, sockets and processes are not behind it, and its network
is never switched on. What a command wrote is committed when the command goes on, so a command that
is stopped leaves what was done before, each piece of it whole.

Who calls: agents' tools; `keelfs.aio` for the event loop.
"""

from __future__ import annotations

import threading
import time
import weakref
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Any, Final, Self

from keelfs.agents.shell import abi
from keelfs.agents.shell.commands import COMMANDS, Call, Command
from keelfs.agents.shell.limits import ShellLimits, ShellResult, Stopped, exit_code_of
from keelfs.agents.shell.mount import Mount, told
from keelfs.arguments import text
from keelfs.defects import known
from keelfs.errors import InvalidArgument, TooLarge
from keelfs.path import parse
from keelfs.ports import Handler

#: How the interpreter names a limit that it met, and which one that is.
_LIMIT: Final = ("resource limit exceeded: ", "execution error: budget ")
_STOPS: Final = (
    ("timeout", Stopped.TIME),
    ("command count", Stopped.COMMANDS),
    ("loop iteration", Stopped.LOOPS),
    ("memory limit", Stopped.MEMORY),
    ("intermediate bytes", Stopped.MEMORY),
    ("input bytes", Stopped.MEMORY),
)
_NOT_BASH: Final = 2


class Shell:
    """A bash over one tree. Threads may share it; its commands run one at a time."""

    def __init__(
        self,
        tree: Handler,
        limits: ShellLimits | None = None,
        *,
        cwd: str = "/",
        env: Mapping[str, str] | None = None,
        user: str = "agent",
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        environment = {"HOME": "/", **(env or {})}
        for name, value in (("cwd", cwd), ("user", user), *environment.items()):
            text(name, value)
        self._limits = limits or ShellLimits()
        self._mount = Mount(tree, self._limits, now)
        self._bash = _bash(self._mount, self._limits, str(parse(cwd)), environment, user)
        self._mount.stop = self._bash.cancel
        self._lock = threading.Lock()
        self._running = self._asked = False
        self._let_go = weakref.finalize(self, _let_go, self._bash, self._mount)

    def run(self, command: str, seconds: float | None = None) -> ShellResult:
        """Runs a script, within the limits and, if given, within so many seconds.

        What fails is told as bash tells it, in `stderr` and `exit_code`, and never raised.
        """
        self._check(command, seconds)
        with self._lock:
            if not self._let_go.alive:
                raise InvalidArgument("the shell is closed")
            return self._run(command, min(seconds or self._limits.seconds, self._limits.seconds))

    def _check(self, command: str, seconds: float | None) -> None:
        text("command", command)
        if len(command.encode("utf-8", "replace")) > self._limits.script_bytes:
            raise TooLarge(
                f"a script has up to {self._limits.script_bytes} bytes", limit="shell.script_bytes"
            )
        if seconds is not None and (type(seconds) not in (int, float) or not seconds > 0):
            raise InvalidArgument("seconds is a positive number")

    def _run(self, command: str, seconds: float) -> ShellResult:
        printed = _Printed(self._limits.output_bytes)
        self._asked = False
        self._bash.clear_cancel()
        self._mount.begin(seconds)
        watch = _Watch(seconds, self._bash.cancel) if seconds < self._limits.seconds else None
        self._running = True
        try:
            ended = self._bash.execute_sync(command, printed.take)
            problem, exit_code = ended.error, ended.exit_code
        except _Overflow:
            problem, exit_code = None, exit_code_of(Stopped.OUTPUT)
        finally:
            self._running = False
            if watch is not None:
                watch.cancel()
        if self._mount.interrupt is not None:
            raise self._mount.interrupt
        return self._result(printed, problem, exit_code)

    def _result(self, printed: _Printed, problem: str | None, exit_code: int) -> ShellResult:
        stopped = self._stopped(printed, problem)
        if stopped is not None:
            exit_code = exit_code_of(stopped)
        elif problem is not None and problem.startswith("parse error"):
            exit_code = _NOT_BASH
        if stopped is Stopped.OUTPUT:
            problem = f"the output is cut after {self._limits.output_bytes} bytes"
        elif stopped is Stopped.TIME:
            problem = "the time of this command is up"
        elif stopped is Stopped.ASKED:
            problem = "stopped"
        elif problem is not None and "variable byte limit" in problem:
            problem = f"{problem}; unset what is large, or no further command may run"
        if problem is not None:
            printed.err.append(f"bash: {problem.removeprefix('io error: ')}\n")
        return ShellResult(
            stdout="".join(printed.out), stderr="".join(printed.err), exit_code=exit_code,
            stopped=stopped,
        )  # fmt: skip

    def _stopped(self, printed: _Printed, problem: str | None) -> Stopped | None:
        if self._mount.expired:
            return Stopped.TIME
        if printed.full:
            return Stopped.OUTPUT
        if problem is None:
            return None
        if self._asked:
            return Stopped.ASKED
        if self._mount.late:
            return Stopped.TIME
        if not problem.startswith(_LIMIT):
            return None
        return next((stop for words, stop in _STOPS if words in problem), Stopped.WORK)

    def stop(self) -> None:
        """Ends what is running, if anything is, before its next command; from any thread."""
        if self._running:
            self._asked = True
            self._bash.cancel()

    def close(self) -> None:
        """Stops what is running, and gives the tree back."""
        self.stop()
        with self._lock:
            self._let_go()

    @property
    def cwd(self) -> str:
        """Where the next command begins."""
        return str(self._bash.shell_state().cwd)

    @property
    def limits(self) -> ShellLimits:
        return self._limits

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def _let_go(bash: Any, mount: Mount) -> None:
    """Parts an interpreter and a tree that hold each other, which nobody would collect."""
    bash.unmount("/")
    mount.stop = _nothing


def _nothing() -> None:
    """Stops nothing."""


class _Overflow(Exception):
    """Ends a command that has printed as much as it may."""


class _Printed:
    """What a command has printed so far, cut where its room ends."""

    def __init__(self, room: int) -> None:
        self._room = room
        self.out: list[str] = []
        self.err: list[str] = []
        self.full = False

    def take(self, out: str, err: str) -> None:
        for piece, pieces in ((out, self.out), (err, self.err)):
            data = piece.encode("utf-8", "replace")
            if len(data) > self._room:
                pieces.append(data[: self._room].decode("utf-8", "ignore"))
                self._room, self.full = 0, True
                raise _Overflow
            self._room -= len(data)
            pieces.append(piece)


class _Watch(threading.Timer):
    """Ends a command that was given less time than the shell has, without asking the tree."""

    def __init__(self, seconds: float, stop: Callable[[], None]) -> None:
        super().__init__(seconds, stop)
        self.daemon = True
        self.start()


def _bash(mount: Mount, limits: ShellLimits, cwd: str, env: Mapping[str, str], user: str) -> Any:
    """An interpreter whose root is the mount."""
    try:
        import bashkit
    except ImportError:
        raise InvalidArgument(
            "a shell needs its interpreter: pip install 'keelfs[shell]'"
        ) from None
    result = bashkit.BuiltinResult
    bash = bashkit.Bash(
        username=user, hostname="keelfs", cwd=cwd, env=env,
        max_commands=limits.commands, max_loop_iterations=limits.loop_iterations,
        max_memory=limits.memory_bytes, timeout_seconds=limits.seconds,
        custom_builtins={name: _builtin(mount, work, result) for name, work in COMMANDS.items()},
        # Of the profiles the one whose sessions never end; every other limit of it is given here.
        profile=bashkit.ExecutionProfile.Interactive,
    )  # fmt: skip
    capsule, imported = abi.capsule(mount)
    try:
        bash.mount("/", bashkit.FileSystem.from_capsule(capsule), read_only=False)
    finally:
        imported()
    return bash


def _builtin(mount: Mount, work: Command, result: Callable[..., Any]) -> Callable[[Any], Any]:
    def run(context: Any) -> Any:
        try:
            return result(*work(Call(mount, context.argv, context.cwd)))
        except Exception as error:
            return result("", f"{context.name}: {told(known(error))}\n", 1)
        except BaseException as error:
            return result("", f"{mount.refusal(error)[1]}\n", 1)

    return run
