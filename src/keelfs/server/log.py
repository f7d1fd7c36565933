"""What a serving process writes about itself: one line of JSON for each event, on its error stream.

A line holds facts about a request, never anything out of it: no path, no name, no content, no
token. Which route it was tells enough; its id leads to the rest.
"""

from __future__ import annotations

import logging
import sys
import time
from datetime import UTC, datetime
from typing import Any, Final

import msgspec

_encode: Final = msgspec.json.Encoder().encode
#: A request that took this long is worth a warning.
SLOW_S: Final = 5.0


def write(level: str, event: str, **facts: Any) -> None:
    """One line."""
    at = datetime.fromtimestamp(time.time(), UTC)
    line = _encode({"at": at, "level": level, "event": event, **facts}) + b"\n"
    sys.stderr.buffer.write(line)
    sys.stderr.buffer.flush()


def request(route: str, method: str, status: int, seconds: float, id_: str, who: str) -> None:
    """A request that has been answered; 499 means that the client had gone."""
    level = "error" if status >= 500 and status != 503 else "info"
    if seconds >= SLOW_S and level == "info":
        level = "warning"
    write(
        level, "request", route=route, method=method, status=status,
        ms=round(seconds * 1000, 3), id=id_, who=who,
    )  # fmt: skip


class Lines(logging.Handler):
    """Brings what libraries and the rest of the program log into the same form."""

    def emit(self, record: logging.LogRecord) -> None:
        facts: dict[str, Any] = {"logger": record.name, "message": record.getMessage()}
        if record.exc_info and record.exc_info[0] is not None:
            formatter = self.formatter or logging.Formatter()
            facts["trace"] = formatter.formatException(record.exc_info)
        write(record.levelname.lower(), "log", **facts)


def set_up() -> None:
    """Everything that is logged from now on is a line of JSON."""
    root = logging.getLogger()
    root.handlers = [Lines()]
    root.setLevel(logging.INFO)
    # What it tells at each start and stop, the process says by itself.
    logging.getLogger("uvicorn").setLevel(logging.WARNING)
