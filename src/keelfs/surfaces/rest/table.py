"""The table of routes, and how a path finds its row.

A row says everything about a route that can be known before a request comes: where it is, what it
takes, what it answers and how it is run. The application serves the table; the OpenAPI document is
made from it. Templates are like `/v1/agents/{agent}/fs/{path...}`: a name in braces stands for one
segment, with dots for all that follow.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Literal

from msgspec import Struct

from keelfs.identity import Context
from keelfs.surfaces.rest.answer import Answer, Later
from keelfs.surfaces.rest.events import Live
from keelfs.surfaces.rest.request import Request

Handler = Callable[[Context, Request], Answer | Later | Live]


class Route(Struct, frozen=True, kw_only=True):
    """One row."""

    method: str
    template: str
    handler: Handler
    #: One sentence for whoever reads the description.
    says: str
    #: The models of the JSON body, of the query and of the answer's body; None where there is none.
    #: Where there are several answers, a tuple of them.
    body: Any = None
    query: Any = None
    answer: Any = None
    status: int = 200
    #: Other statuses of success.
    also: tuple[int, ...] = ()
    #: Media types of an answer that is not JSON, or not always.
    media: tuple[str, ...] = ()
    #: Names of the headers that it heeds, beside those that every route does.
    heeds: tuple[str, ...] = ()
    #: Whether it tells everybody the same, so that no token is needed.
    public: bool = False
    #: How the body is taken in: not at all, as a whole, or as it arrives.
    #: "either": a JSON body as a whole, any other as it arrives.
    intake: Literal["none", "whole", "stream", "either"] = "none"
    #: Whether the handler is short enough for the event loop where the store reads locally.
    brisk: bool = False
    #: Which sentences of S1 stand for its errors.
    says_as: str = ""
    #: Whether it works in a thread of its own kind because it may take long.
    patient: bool = False

    @property
    def name(self) -> str:
        return self.handler.__name__


class Table:
    """All routes, found by the segments of a path."""

    def __init__(self, routes: Iterable[Route]) -> None:
        self.routes = tuple(routes)
        self._root = _Level()
        for route in self.routes:
            self._root.add(route.template.split("/")[1:], route)

    def find(self, segments: tuple[str, ...]) -> tuple[dict[str, Route], dict[str, str]] | None:
        """The routes of this path by their methods, and what the names in braces stand for."""
        return self._root.find(segments, 0)


class _Level:
    """What may follow at one place of a path."""

    __slots__ = ("literal", "name", "routes", "tail", "tail_name", "wild")

    def __init__(self) -> None:
        self.literal: dict[str, _Level] = {}
        self.wild: _Level | None = None
        self.name = ""
        self.routes: dict[str, Route] = {}
        #: Routes that take all segments that are left.
        self.tail: dict[str, Route] = {}
        self.tail_name = ""

    def add(self, pieces: list[str], route: Route) -> None:
        if not pieces:
            self.routes[route.method] = route
            return
        first, *rest = pieces
        if first.endswith("...}"):
            self.tail[route.method], self.tail_name = route, first[1:-4]
        elif first.startswith("{"):
            self.wild, self.name = self.wild or _Level(), first[1:-1]
            self.wild.add(rest, route)
        else:
            self.literal.setdefault(first, _Level()).add(rest, route)

    def find(
        self, segments: tuple[str, ...], at: int
    ) -> tuple[dict[str, Route], dict[str, str]] | None:
        if at == len(segments):
            return (self.routes, {}) if self.routes else None
        segment = segments[at]
        child = self.literal.get(segment)
        found = child.find(segments, at + 1) if child is not None else None
        if found is None and self.wild is not None and segment:
            found = self.wild.find(segments, at + 1)
            if found is not None:
                found[1][self.name] = segment
        if found is None and self.tail:
            found = self.tail, {self.tail_name: "/".join(segments[at:])}
        return found
