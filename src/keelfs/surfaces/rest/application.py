"""The table of routes as an application: requests come in, answers go out, and both are counted.

Who calls: the server that the process runs. What a handler does is not known here.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any, Final

from keelfs.aio import Crew
from keelfs.identity import Authority
from keelfs.surfaces.rest.answer import Answer
from keelfs.surfaces.rest.bounds import Bounds, Gatekeeper
from keelfs.surfaces.rest.events import HEADERS, Live
from keelfs.surfaces.rest.intake import Gone, Receive
from keelfs.surfaces.rest.live import Streams
from keelfs.surfaces.rest.problems import problem
from keelfs.surfaces.rest.pulse import Pulse
from keelfs.surfaces.rest.request import HttpRefusal, Request
from keelfs.surfaces.rest.routes import ROUTES
from keelfs.surfaces.rest.table import Route, Table
from keelfs.surfaces.rest.work import Workshop

Scope = Mapping[str, Any]
Send = Callable[[Mapping[str, Any]], Awaitable[None]]
#: Told of every request: the name of its route, status, seconds, id, and who has asked.
Observe = Callable[[str, str, int, float, str, str], None]

_ALWAYS: Final = [
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
]


class _Seen:
    """What is known of a request, as far as it has come."""

    __slots__ = ("id", "request", "route", "status")

    def __init__(self, id_: str) -> None:
        self.id, self.status = id_, 200
        self.request: Request | None = None
        self.route: Route | None = None


class Application:
    """ASGI: serves the routes of the table."""

    def __init__(self, authority: Authority, crew: Crew, bounds: Bounds, observe: Observe) -> None:
        self._crew, self._bounds, self._observe = crew, bounds, observe
        self._table = Table(ROUTES)
        self._gatekeeper = Gatekeeper(bounds)
        self._workshop = Workshop(authority, crew, bounds)
        self._pulse = Pulse(authority, crew)
        self._streams = Streams(self._pulse, bounds)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        began, bare = time.perf_counter(), scope["method"] == "HEAD"
        seen = _Seen(secrets.token_hex(8))
        answer: Answer | None = None
        try:
            answer = await self._answer(seen, scope, bare, receive, send)
        except Gone:
            seen.status = 499
        except Exception as error:
            answer = problem(error, seen.id, "" if seen.route is None else seen.route.says_as)
        if answer is not None:
            seen.status = answer.status
        name = "" if seen.route is None else seen.route.name
        who = "" if seen.request is None else seen.request.who
        seconds = time.perf_counter() - began
        self._observe(name, scope["method"], seen.status, seconds, seen.id, who)
        if answer is not None:
            await self._send(answer, seen.id, bare, send)

    async def _answer(
        self, seen: _Seen, scope: Scope, bare: bool, receive: Receive, send: Send
    ) -> Answer | None:
        """What is to be sent; None where all has been sent already."""
        request = seen.request = Request(scope, seen.id)
        self._gatekeeper.check(request)
        route = seen.route = self._route(request)
        answer = await self._workshop.answer(route, request, scope["query_string"], receive)
        if isinstance(answer, Answer):
            return answer
        look = partial(self._workshop.look, answer, request)
        if answer.wait is not None:
            return await self._streams.waited(answer, look, request.who)
        if bare:
            return Answer(200, HEADERS)
        await self._stream(answer, look, request, receive, send)
        return None

    async def close(self) -> None:
        """Ends the streams; what else is under way is done."""
        self._streams.stop()
        await self._pulse.close()

    def stop(self) -> None:
        """Ends the streams."""
        self._streams.stop()

    def _route(self, request: Request) -> Route:
        found = self._table.find(request.segments)
        if found is None:
            raise HttpRefusal(404, "there is nothing under this address")
        routes, request.params = found
        if any("\0" in value for name, value in request.params.items() if name != "path"):
            raise HttpRefusal(404, "no name holds a NUL")
        route = routes.get("GET" if request.method == "HEAD" else request.method)
        if route is None:
            allowed = ", ".join(sorted({*routes, *(["HEAD"] if "GET" in routes else [])}))
            headers = ((b"allow", allowed.encode()),)
            raise HttpRefusal(405, f"here one can only {allowed}", headers)
        return route

    # -- answers that go on

    async def _stream(
        self, live: Live, look: Any, request: Request, receive: Receive, send: Send
    ) -> None:
        begun = False

        async def tell(data: bytes) -> None:
            nonlocal begun
            if not begun:
                begun = True
                await send(self._start(200, HEADERS, request.id))
            await send({"type": "http.response.body", "body": data, "more_body": True})

        try:
            await self._streams.serve(live, look, request.who, receive, tell)
        except TimeoutError:
            # A reader that takes nothing: it comes back with the cursor that it was told.
            return
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    # -- answers

    def _start(self, status: int, headers: list[tuple[bytes, bytes]], id_: str) -> Scope:
        sent = [*headers, *_ALWAYS, (b"x-request-id", id_.encode())]
        return {"type": "http.response.start", "status": status, "headers": sent}

    async def _send(self, answer: Answer, id_: str, bare: bool, send: Send) -> None:
        size = len(answer.body) if answer.blocks is None else answer.size
        headers = answer.headers
        if size is not None and answer.status not in {204, 304}:
            headers = [*headers, (b"content-length", str(size).encode())]
        await send(self._start(answer.status, headers, id_))
        if answer.blocks is None or bare:
            body = b"" if bare else answer.body
            await send({"type": "http.response.body", "body": body, "more_body": False})
        else:
            await self._send_blocks(answer, send)

    async def _send_blocks(self, answer: Answer, send: Send) -> None:
        """Block by block, each asked for when the one before it has left."""
        blocks = answer.blocks
        assert blocks is not None
        run = self._crew.run_patient if answer.slow else self._crew.run
        try:
            while (block := await run(next, blocks, b"")) != b"":
                seconds = self._bounds.patience_s + len(block) / self._bounds.bytes_per_s
                async with asyncio.timeout(seconds):
                    await send({"type": "http.response.body", "body": block, "more_body": True})
        except TimeoutError:
            return
        finally:
            getattr(blocks, "close", lambda: None)()
        await send({"type": "http.response.body", "body": b"", "more_body": False})
