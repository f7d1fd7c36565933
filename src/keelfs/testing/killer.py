"""Kills a writing process at random moments and asks each time what is left.

A round starts a writer, a program of its own that prints `begin 7` before change 7 and `ack 7` when
it is acknowledged, lets it get on for a while, crashes something (the writer by `kill -9`, unless
told otherwise), and hands the marks to a verifier. Marks are flushed line by line; what the writer
had printed when it died is read to the end, so no acknowledgement is missed.

Who calls: the crash tests of both stores. `keelfs.testing.workload` is such a writer.
"""

from __future__ import annotations

import contextlib
import os
import random
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from typing import IO, Final

from msgspec import Struct

from keelfs.errors import StoreFailed

#: How long a writer may take until its first marks; starting Python on a busy machine is slow.
PATIENCE_S: Final = 60.0


class Killed(Struct, frozen=True):
    """One round, after the crash."""

    number: int
    acked: frozenset[int]
    begun: frozenset[int]
    #: What the writer said besides marks, in order.
    remarks: list[str]


class Writer:
    """One running writer and the marks that it has made."""

    def __init__(self, command: Sequence[str]) -> None:
        # A file and not a pipe: nobody needs to read it while the writer lives.
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115
        self.process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=self._errors, stdin=subprocess.DEVNULL
        )
        self._marks: dict[str, set[int]] = {"begin": set(), "ack": set()}
        self._remarks: list[str] = []
        self._changed = threading.Condition()
        self._ended = False
        assert self.process.stdout is not None
        self._reader = threading.Thread(
            target=self._read, args=[self.process.stdout], name="keelfs-killer", daemon=True
        )
        self._reader.start()

    def wait_for(self, acks: int) -> None:
        """Returns when so many changes are acknowledged."""
        deadline = time.monotonic() + PATIENCE_S
        with self._changed:
            while len(self._marks["ack"]) < acks:
                left = deadline - time.monotonic()
                if self._ended or left <= 0:
                    raise StoreFailed(
                        f"the writer stopped after {len(self._marks['ack'])} of {acks} changes:\n"
                        f"{self.errors()}"
                    )
                self._changed.wait(left)

    def kill9(self) -> None:
        """Kills it, if it still lives, and reads what it has said to the end."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.process.pid, signal.SIGKILL)
        self.process.wait()
        self._reader.join()
        assert self.process.stdout is not None
        self.process.stdout.close()

    def errors(self) -> str:
        """The end of what it has written to its standard error."""
        self._errors.seek(0)
        return self._errors.read().decode(errors="replace")[-4000:]

    def killed(self, number: int) -> Killed:
        """The marks, once it is dead."""
        begun, acked = self._marks["begin"], self._marks["ack"]
        return Killed(number, frozenset(acked), frozenset(begun), self._remarks)

    def _read(self, stream: IO[bytes]) -> None:
        for line in stream:
            word, _, rest = line.decode(errors="replace").strip().partition(" ")
            with self._changed:
                # The last line may be cut short by the kill: a mark counts with its line end.
                if word in self._marks and line.endswith(b"\n"):
                    self._marks[word].add(int(rest))
                else:
                    self._remarks.append(f"{word} {rest}".strip())
                self._changed.notify_all()
        with self._changed:
            self._ended = True
            self._changed.notify_all()


def rounds(
    count: int,
    spawn: Callable[[int], Sequence[str]],
    verify: Callable[[Killed], object],
    *,
    seed: int,
    crash: Callable[[int], object] | None = None,
    most_acks: int = 30,
) -> list[Killed]:
    """Runs `count` rounds; `spawn` gives the command of a writer, `verify` raises when it objects.

    `crash` is what dies besides the writer, a server for instance; it dies first. Each round lasts
    until a random number of changes is acknowledged, and a random part of the next one or two.
    """
    rng = random.Random(seed)
    done: list[Killed] = []
    for number in range(count):
        writer = Writer(spawn(number))
        try:
            writer.wait_for(1)
            started, wanted = time.monotonic(), rng.randint(2, most_acks)
            writer.wait_for(wanted)
            pace = (time.monotonic() - started) / (wanted - 1)
            time.sleep(rng.random() * 2 * pace)
            if crash is not None:
                crash(number)
        finally:
            writer.kill9()
        killed = writer.killed(number)
        try:
            verify(killed)
        except Exception as error:
            error.add_note(
                f"round {number} of seed {seed}: {len(killed.acked)} acknowledged, "
                f"{len(killed.begun)} begun\n{writer.errors()}"
            )
            raise
        done.append(killed)
    return done
