"""HTTP/1.1 on one connection, less patient than the library's own.

A head that does not arrive in time, or is too long, ends the connection, and so does a body that
goes on after its request was answered: a client could hold a connection for ever, byte by byte.
"""

from __future__ import annotations

import asyncio
from typing import Any, Final

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

#: Seconds that the head of a request may take, and bytes that it may have.
HEAD_S: Final = 15.0
HEAD_BYTES: Final = 64 * 1024
#: Bytes and seconds that a client may go on sending what nobody reads any more.
UNREAD_BYTES: Final = 32 * 2**20
UNREAD_S: Final = 15.0


class Protocol(HttpToolsProtocol):
    """One connection."""

    def __init__(self, *args: Any, head_s: float = HEAD_S, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._head_s = head_s
        self._head_timer: asyncio.TimerHandle | None = None
        self._unread_timer: asyncio.TimerHandle | None = None
        self._head_bytes = self._unread_bytes = 0
        self._in_head = True

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)  # type: ignore[arg-type]  # pyright: ignore
        self._await_head()

    def connection_lost(self, exc: Exception | None) -> None:
        self._cancel_timers()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._in_head:
            self._head_bytes += len(data)
            if self._head_timer is None:
                self._await_head()
        super().data_received(data)
        if self._in_head and self._head_bytes > HEAD_BYTES and not self.transport.is_closing():
            self.send_400_response("The head of the request is too long.")

    def on_headers_complete(self) -> None:
        self._in_head, self._head_bytes = False, 0
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        if self.cycle.response_complete:
            self._unread_bytes += len(body)
            if self._unread_bytes > UNREAD_BYTES:
                self.transport.abort()
            elif self._unread_timer is None:
                self._unread_timer = self.loop.call_later(UNREAD_S, self.transport.abort)
        super().on_body(body)

    def on_message_complete(self) -> None:
        super().on_message_complete()
        self._in_head, self._unread_bytes = True, 0
        if self._unread_timer is not None:
            self._unread_timer.cancel()
            self._unread_timer = None

    def _await_head(self) -> None:
        self._head_timer = self.loop.call_later(self._head_s, self._head_is_late)

    def _head_is_late(self) -> None:
        self._head_timer = None
        if self._in_head and not self.transport.is_closing():
            self.transport.close()

    def _cancel_timers(self) -> None:
        for timer in (self._head_timer, self._unread_timer):
            if timer is not None:
                timer.cancel()
