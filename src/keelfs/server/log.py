"""What a serving process writes about itself: one line of JSON for each event, on its error stream.

A line holds facts about a request, never anything out of it: no path, no name, no content, no
token. Which route it was tells enough; its id leads to the rest.

A thread writes the lines, so that whoever reads the stream too slowly never keeps a request
waiting. What is too much to be kept for that reader is dropped, and how much that was is told.
"""

from __future__ import annotations

import logging
import queue
import sys
import threading
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any, BinaryIO, Final

import msgspec

_encode: Final = msgspec.json.Encoder().encode
#: A request that took this long is worth a warning.
SLOW_S: Final = 5.0
#: Lines that wait for a slow reader.
MOST: Final = 20_000
#: Lines that are written at once.
_TOGETHER: Final = 500


class Log:
    """The lines of one process."""

    def __init__(self, stream: BinaryIO | None = None) -> None:
        self._stream = stream or sys.stderr.buffer
        self._waiting: queue.Queue[bytes | None] = queue.Queue(MOST)
        self._dropped, self._counting = 0, threading.Lock()
        self._thread = threading.Thread(target=self._write_all, name="keelfs-log", daemon=True)
        self._thread.start()

    def write(self, level: str, event: str, **facts: Any) -> None:
        """One line."""
        line = _encode({"at": datetime.now(UTC), "level": level, "event": event, **facts}) + b"\n"
        try:
            self._waiting.put_nowait(line)
        except queue.Full:
            with self._counting:
                self._dropped += 1

    def request(
        self, route: str, method: str, status: int, seconds: float, id_: str, who: str
    ) -> None:
        """A request that has been answered; 499 means that the client had gone."""
        level = "error" if status >= 500 and status != 503 else "info"
        if seconds >= SLOW_S and level == "info":
            level = "warning"
        self.write(
            level, "request", route=route, method=method, status=status,
            ms=round(seconds * 1000, 3), id=id_, who=who,
        )  # fmt: skip

    def close(self, seconds: float = 5.0) -> None:
        """Writes what is left, if somebody reads it within this time."""
        try:
            self._waiting.put(None, timeout=seconds)
        except queue.Full:
            return
        self._thread.join(seconds)

    def _write_all(self) -> None:
        ended = False
        while not ended:
            lines = [self._waiting.get()]
            while len(lines) < _TOGETHER and not self._waiting.empty():
                lines.append(self._waiting.get())
            ended = None in lines
            self._put(b"".join(line for line in lines if line is not None))

    def _put(self, data: bytes) -> None:
        with self._counting:
            dropped, self._dropped = self._dropped, 0
        if dropped:
            data += _encode({"level": "warning", "event": "dropped", "lines": dropped}) + b"\n"
        # Where nobody reads any more, the process serves on.
        with suppress(OSError):
            self._stream.write(data)
            self._stream.flush()


class Lines(logging.Handler):
    """Brings what libraries and the rest of the program log into the same form."""

    def __init__(self, log: Log) -> None:
        super().__init__()
        self._log = log

    def emit(self, record: logging.LogRecord) -> None:
        facts: dict[str, Any] = {"logger": record.name, "message": record.getMessage()}
        if record.exc_info and record.exc_info[0] is not None:
            formatter = self.formatter or logging.Formatter()
            facts["trace"] = formatter.formatException(record.exc_info)
        self._log.write(record.levelname.lower(), "log", **facts)


def set_up() -> Log:
    """Everything that is logged from now on is a line of JSON."""
    log = Log()
    root = logging.getLogger()
    root.handlers = [Lines(log)]
    root.setLevel(logging.INFO)
    # What it tells at each start and stop, the process says by itself.
    logging.getLogger("uvicorn").setLevel(logging.WARNING)
    return log
