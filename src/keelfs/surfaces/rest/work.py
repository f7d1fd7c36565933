"""From a request to an answer: the token, the body, the handler, in one hop to a thread.

Plain blocking code does the work: on the event loop where the route is short and the store reads
locally, otherwise in a thread. The context is made here and given to the handler; nothing else in
this room reaches the store.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from functools import partial
from typing import Any, Final, TypeVar

import msgspec

from keelfs.aio import Crew
from keelfs.arguments import Given
from keelfs.errors import DeadlineExceeded, InvalidArgument
from keelfs.grant import Role
from keelfs.identity import Authority, Context
from keelfs.model import Change
from keelfs.surfaces.rest.answer import Answer, Later
from keelfs.surfaces.rest.bounds import Bounds, Rates
from keelfs.surfaces.rest.events import Live
from keelfs.surfaces.rest.intake import Receive, blocks, whole
from keelfs.surfaces.rest.request import HttpRefusal, Request, parsed_query
from keelfs.surfaces.rest.table import Route

T = TypeVar("T")

#: The context of a public route, which asks nothing of it.
_NOBODY: Final[Any] = None
_OCTETS: Final = b"application/octet-stream"


class Workshop:
    """Where handlers are called."""

    def __init__(self, authority: Authority, crew: Crew, bounds: Bounds) -> None:
        self._authority, self._crew, self._bounds = authority, crew, bounds
        self._rates = Rates(bounds)
        self._decoders: dict[Any, msgspec.json.Decoder[Any]] = {}

    async def answer(
        self, route: Route, request: Request, query: bytes, receive: Receive
    ) -> Answer | Live:
        """What the route's handler answers."""
        request.now_ns = time.time_ns()
        request.until_ns = request.now_ns + int(self._bounds.request_s * 1e9)
        if route.query is not None:
            request.query = _parsed(route, query)
        if _streams(route, request):
            work = partial(self._worked_on, route, request)
            return await self._crew.carry(work, blocks(receive, self._bounds))
        if route.intake != "none":
            _refuse_other_types(request)
            request.source = await whole(receive, request, self._bounds)
        if route.brisk and self._authority.local_reads:
            answer = self._work(route, request)
            if isinstance(answer, Later):
                answer = await self._hop(answer.work)
            return answer
        if route.patient:
            return await self._crew.run_patient(self._worked_on, route, request)
        return await self._hop(partial(self._worked_on, route, request))

    async def look(self, live: Live, request: Request) -> list[Change]:
        """The next changes, for as long as the token and the session are there."""

        def looked() -> list[Change]:
            self._context(request).space(request.params["agent"], request.params["session"])
            return live.watcher.poll()

        return looked() if self._authority.local_reads else await self._crew.run(looked)

    async def _hop(self, work: Callable[[], T]) -> T:
        try:
            async with asyncio.timeout(self._bounds.request_s):
                return await self._crew.run(work)
        except TimeoutError:
            raise DeadlineExceeded("the request takes too long; ask for less at once") from None

    def _worked_on(
        self, route: Route, request: Request, source: Given | None = None
    ) -> Answer | Live:
        if source is not None:
            request.source = source
        answer = self._work(route, request)
        return answer.work() if isinstance(answer, Later) else answer

    def _work(self, route: Route, request: Request) -> Answer | Later | Live:
        if route.public:
            return route.handler(_NOBODY, request)
        context = self._context(request)
        if context.grant.role is not Role.OPERATOR:
            self._rates.spend(request.who)
        if route.body is not None and isinstance(request.source, bytes):
            request.body = self._decoded(route, request.source)
        return route.handler(context, request)

    def _context(self, request: Request) -> Context:
        context = self._authority.context(request.token, request.params.get("session", ""))
        request.who = f"{context.tenant}/{context.grant.role}:{context.grant.name}"
        return context

    def _decoded(self, route: Route, body: bytes) -> Any:
        decoder = self._decoders.get(route.body)
        if decoder is None:
            decoder = self._decoders[route.body] = msgspec.json.Decoder(route.body)
        try:
            return decoder.decode(body)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            raise InvalidArgument(f"the JSON body is wrong: {error}") from None


def _streams(route: Route, request: Request) -> bool:
    """Whether the body is handed on as it arrives."""
    if route.intake != "either":
        return route.intake == "stream"
    return request.headers.get(b"content-type", b"").strip().lower() == _OCTETS


def _parsed(route: Route, raw: bytes) -> Any:
    try:
        return msgspec.convert(parsed_query(raw), route.query, strict=False)
    except msgspec.ValidationError as error:
        raise InvalidArgument(f"the query is wrong: {error}") from None


def _refuse_other_types(request: Request) -> None:
    kind = request.headers.get(b"content-type", b"").partition(b";")[0].strip().lower()
    if kind != b"application/json" and not kind.endswith(b"+json"):
        raise HttpRefusal(415, "send JSON, with Content-Type: application/json")
