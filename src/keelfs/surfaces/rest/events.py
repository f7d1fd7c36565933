"""What changes in a session, as it changes: a stream of events, or a question that waits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import msgspec
from msgspec import Struct

from keelfs.errors import InvalidArgument
from keelfs.identity import Context
from keelfs.model import Change
from keelfs.surfaces.rest.answer import Answer, json
from keelfs.surfaces.rest.bodies import Listing
from keelfs.surfaces.rest.dialect import place
from keelfs.surfaces.rest.history import change_body
from keelfs.surfaces.rest.reach import files_of
from keelfs.surfaces.rest.request import Request
from keelfs.watch import Watcher

#: How soon a client that lost its stream comes back, in milliseconds.
_RETRY: Final = b"retry: 1000\n\n"
HEADERS: Final = [
    (b"content-type", b"text/event-stream"),
    (b"cache-control", b"no-store"),
    # Proxies would otherwise keep events until they have many.
    (b"x-accel-buffering", b"no"),
]
_encode: Final = msgspec.json.Encoder().encode


class Live(Struct):
    """An answer that goes on: what to look at, and how to tell what is seen."""

    watcher: Watcher
    #: Where the space is, for whoever wakes those that wait.
    address: tuple[int, int]
    #: Seconds that a question waits; None for a stream, which has no end.
    wait: float | None
    show: Callable[[Change], Any]

    def begin(self) -> bytes:
        """What a stream begins with: where it stands, so that nothing is missed from now on."""
        return _RETRY + self.frame("ready", {"cursor": self.watcher.cursor})

    def frames(self, changes: list[Change]) -> bytes:
        return b"".join(
            _frame(change.seq, change.kind.value, self.show(change)) for change in changes
        )

    def beat(self) -> bytes:
        """Keeps a quiet stream open, and its client's cursor up to date."""
        return b"id: %d\n: \n\n" % self.watcher.cursor

    def frame(self, name: str, body: Any) -> bytes:
        return _frame(self.watcher.cursor, name, body)

    def answer(self, changes: list[Change]) -> Answer:
        """What a question that waited is told."""
        return json(Listing([self.show(each) for each in changes], str(self.watcher.cursor)))


def _frame(cursor: int, name: str, body: Any) -> bytes:
    return b"id: %d\nevent: %s\ndata: %s\n\n" % (cursor, name.encode(), _encode(body))


def events(context: Context, request: Request) -> Live:
    """Changes as they come: a stream of events, or, without asking for one, the next of them."""
    query, space = request.query, files_of(context, request)
    base = place(query.path)
    kinds = None if query.kinds is None else [kind for kind in query.kinds.split(",") if kind]
    watcher = space.watcher(base, _cursor(request), query.recursive, kinds, query.glob)
    streams = request.accepts("text/event-stream")
    return Live(
        watcher, context.address, None if streams else query.wait,
        lambda change: change_body(change, base),
    )  # fmt: skip


def _cursor(request: Request) -> int | None:
    """What was seen last; where both are said, what the stream itself had told."""
    last = request.header(b"last-event-id")
    if last is None:
        after: int | None = request.query.after
        return after
    if not (last.isascii() and last.isdigit() and len(last) <= 18):
        raise InvalidArgument("Last-Event-ID is a number that a stream has told")
    return int(last)
