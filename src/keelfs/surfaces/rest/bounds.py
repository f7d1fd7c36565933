"""How much of everything a client may ask for, and from where.

The defaults fit a server that people reach by its own address. Who sets others: whoever starts it.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from typing import Final

from msgspec import Struct

from keelfs.errors import PermissionDenied, RateLimited
from keelfs.surfaces.rest.request import HttpRefusal, Request

_LOCAL_HOSTS: Final = frozenset({"localhost", "127.0.0.1", "[::1]"})


class Bounds(Struct, frozen=True, kw_only=True):
    """What a request may take."""

    #: Names under which the server answers; another one may be a trap for a browser.
    hosts: frozenset[str] = _LOCAL_HOSTS
    #: Bodies that are taken in as a whole; others stream.
    body_bytes: int = 10 * 2**20
    #: After this time nothing is begun any more on behalf of a request, and the client is told.
    request_s: float = 60.0
    #: A body arrives, and an answer leaves, at least this fast once `patience_s` have passed.
    bytes_per_s: int = 1024
    patience_s: float = 30.0
    #: Streams of events, of all and of one principal.
    streams: int = 4096
    streams_each: int = 1024
    #: Requests of one user or agent; operators are not counted. 0 is no limit.
    requests_per_s: float = 500.0
    burst: float = 1000.0


class Gatekeeper:
    """Refuses requests that come by a wrong name, or out of a page of somebody else's."""

    def __init__(self, bounds: Bounds) -> None:
        self._hosts = bounds.hosts
        #: Hosts as they were sent, with their ports, that have been found to be right.
        self._known: set[bytes] = set()

    def check(self, request: Request) -> None:
        host = request.headers.get(b"host", b"")
        if host not in self._known:
            if not self._answers(host.decode("latin-1")):
                raise HttpRefusal(421, "this server does not answer under this name")
            if len(self._known) < 100:
                self._known.add(host)
        origin = request.headers.get(b"origin")
        if origin is not None and origin.partition(b"://")[2] != host:
            raise PermissionDenied("pages of other origins may not use this server")

    def _answers(self, host: str) -> bool:
        name, colon, port = host.rpartition(":")
        if not colon or not port.isdigit() or host.endswith("]"):
            name = host
        return "*" in self._hosts or name.lower() in self._hosts


class Rates:
    """A bucket of requests for each principal, which fills by the second."""

    #: Principals remembered; who asks again after having been forgotten begins with a full bucket.
    MOST: Final = 10_000

    def __init__(self, bounds: Bounds) -> None:
        self._rate, self._burst = bounds.requests_per_s, bounds.burst
        self._lock = threading.Lock()
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def spend(self, who: str) -> None:
        """Takes one request out of the bucket, or raises `RateLimited`."""
        if not self._rate:
            return
        now = time.monotonic()
        with self._lock:
            left, at = self._buckets.pop(who, (self._burst, now))
            left = min(self._burst, left + (now - at) * self._rate)
            self._buckets[who] = (max(0.0, left - 1), now)
            if len(self._buckets) > self.MOST:
                self._buckets.popitem(last=False)
        if left < 1:
            raise RateLimited(after_s=(1 - left) / self._rate)
