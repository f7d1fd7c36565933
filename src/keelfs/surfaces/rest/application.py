"""The table of routes as an application: from a request to an answer that has been sent.

A request is read and checked, finds its route, and is worked on by plain blocking code: on the
event loop where the route is short and the store reads locally, otherwise in a thread, with one hop
for everything from the token to the last statement. The context is made there and given to the
handler; nothing else in this room reaches the store.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any, Final

import msgspec

from keelfs.aio import Crew
from keelfs.arguments import Given
from keelfs.errors import DeadlineExceeded, InvalidArgument
from keelfs.identity import Authority
from keelfs.surfaces.rest.answer import Answer, Later
from keelfs.surfaces.rest.bounds import Bounds, Gatekeeper, Rates
from keelfs.surfaces.rest.intake import Gone, Receive, blocks, whole
from keelfs.surfaces.rest.problems import problem
from keelfs.surfaces.rest.request import HttpRefusal, Request, parsed_query
from keelfs.surfaces.rest.routes import ROUTES
from keelfs.surfaces.rest.table import Route, Table

Scope = Mapping[str, Any]
Send = Callable[[Mapping[str, Any]], Awaitable[None]]

_OCTETS: Final = b"application/octet-stream"
_ALWAYS: Final = [
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
]


class Application:
    """ASGI: serves the routes of the table."""

    def __init__(self, authority: Authority, crew: Crew, bounds: Bounds | None = None) -> None:
        self._authority, self._crew = authority, crew
        self._bounds = bounds or Bounds()
        self._table = Table(ROUTES)
        self._gatekeeper = Gatekeeper(self._bounds)
        self._rates = Rates(self._bounds)
        self._decoders = {
            id(route): msgspec.json.Decoder(route.body) for route in ROUTES if route.body
        }

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        id_, name = secrets.token_hex(8), ""
        try:
            request = Request(scope, id_)
            self._gatekeeper.check(request)
            route = self._route(request)
            name = route.says_as
            answer = await self._answer(route, request, scope, receive)
        except Gone:
            return
        except Exception as error:
            answer = problem(error, id_, name)
        await self._send(answer, id_, scope["method"] == "HEAD", send)

    # -- the route

    def _route(self, request: Request) -> Route:
        found = self._table.find(request.segments)
        if found is None:
            raise HttpRefusal(404, "there is nothing under this address")
        routes, request.params = found
        method = "GET" if request.method == "HEAD" else request.method
        route = routes.get(method)
        if route is None:
            allowed = ", ".join(sorted({*routes, *(["HEAD"] if "GET" in routes else [])}))
            headers = ((b"allow", allowed.encode()),)
            raise HttpRefusal(405, f"here one can only {allowed}", headers)
        return route

    # -- the work

    async def _answer(
        self, route: Route, request: Request, scope: Scope, receive: Receive
    ) -> Answer:
        request.now_ns = time.time_ns()
        request.until_ns = request.now_ns + int(self._bounds.request_s * 1e9)
        if route.query is not None:
            request.query = _query(route, scope["query_string"])
        streams = route.intake == "stream"
        if route.intake == "either":
            streams = request.headers.get(b"content-type", b"").lower() == _OCTETS
        if streams:
            arriving = blocks(receive, self._bounds)
            return await self._crew.carry(partial(self._worked_on, route, request), arriving)
        if route.intake != "none":
            _refuse_other_types(request)
            request.source = await whole(receive, request, self._bounds)
        if route.brisk and self._authority.local_reads:
            answer = self._work(route, request)
            return await self._hop(answer.work) if isinstance(answer, Later) else answer
        if route.patient:
            return await self._crew.run_patient(self._worked_on, route, request)
        return await self._hop(partial(self._worked_on, route, request))

    async def _hop(self, work: Callable[[], Answer]) -> Answer:
        try:
            async with asyncio.timeout(self._bounds.request_s):
                return await self._crew.run(work)
        except TimeoutError:
            raise DeadlineExceeded("the request takes too long; ask for less at once") from None

    def _worked_on(self, route: Route, request: Request, source: Given | None = None) -> Answer:
        if source is not None:
            request.source = source
        answer = self._work(route, request)
        return answer.work() if isinstance(answer, Later) else answer

    def _work(self, route: Route, request: Request) -> Answer | Later:
        context = self._authority.context(request.token, request.params.get("session", ""))
        grant = context.grant
        if grant.role != "operator":
            self._rates.spend(context.tenant, f"{grant.role}:{grant.name}")
        if route.body is not None and isinstance(request.source, bytes):
            request.body = self._decoded(route, request.source)
        return route.handler(context, request)

    def _decoded(self, route: Route, body: bytes) -> Any:
        try:
            return self._decoders[id(route)].decode(body)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            raise InvalidArgument(f"the JSON body is wrong: {error}") from None

    # -- the answer

    async def _send(self, answer: Answer, id_: str, bare: bool, send: Send) -> None:
        size = len(answer.body) if answer.blocks is None else answer.size
        headers = [*answer.headers, *_ALWAYS, (b"x-request-id", id_.encode())]
        if size is not None and answer.status not in {204, 304}:
            headers.append((b"content-length", str(size).encode()))
        start = {"type": "http.response.start", "status": answer.status, "headers": headers}
        await send(start)
        if answer.blocks is None or bare:
            body = b"" if bare else answer.body
            await send({"type": "http.response.body", "body": body, "more_body": False})
            return
        await self._send_blocks(answer, send)

    async def _send_blocks(self, answer: Answer, send: Send) -> None:
        assert answer.blocks is not None
        ahead = answer.blocks
        run = self._crew.run_patient if answer.slow else self._crew.run
        while (block := await run(next, ahead, b"")) != b"":
            async with asyncio.timeout(self._bounds.patience_s + len(block) / 1024):
                await send({"type": "http.response.body", "body": block, "more_body": True})
        await send({"type": "http.response.body", "body": b"", "more_body": False})


def _query(route: Route, raw: bytes) -> Any:
    try:
        return msgspec.convert(parsed_query(raw), route.query, strict=False)
    except msgspec.ValidationError as error:
        raise InvalidArgument(f"the query is wrong: {error}") from None


def _refuse_other_types(request: Request) -> None:
    kind = request.headers.get(b"content-type", b"").partition(b";")[0].strip().lower()
    if kind != b"application/json" and not kind.endswith(b"+json"):
        raise HttpRefusal(415, "send JSON, with Content-Type: application/json")
