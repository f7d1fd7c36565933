"""Any operation of the library as a value: what a client of ours performs on a tree here.

It passes the same gates as every route. Its paths are the tree's own and not those of the session
filesystem, whose reserved names exist because a URL could mean two things; here none is in the URL.
What one request may be told is bounded, since it is told at once.
"""

from __future__ import annotations

from typing import Any, Final

from keelfs import ops, wire
from keelfs.arguments import carried
from keelfs.errors import InvalidArgument, TooLarge
from keelfs.identity import Context
from keelfs.surfaces.rest.answer import Answer
from keelfs.surfaces.rest.raw import GUARDS
from keelfs.surfaces.rest.reach import files_of
from keelfs.surfaces.rest.request import Request

#: Bytes that all reads of one request may ask for together, and items that its listings may.
READ_BYTES: Final = 16 * 2**20
ITEMS: Final = 100_000

_JSON: Final = (b"content-type", b"application/json")
_OCTETS: Final = (b"content-type", b"application/octet-stream")


def perform(context: Context, request: Request) -> Answer:
    """Performs one operation; data that is large is the body, and `op` tells the operation."""
    op = _bounded(_asked(request))
    if request.key is not None and wire.has_key(op):
        raise InvalidArgument("what is done under a key has no other key inside")
    answer = files_of(context, request).perform(op, key=request.key)
    if isinstance(answer, bytes):
        return Answer(200, [_OCTETS, *GUARDS], answer)
    return Answer(200, [_JSON], wire.told(answer))


def _asked(request: Request) -> ops.Op[Any]:
    if request.body is not None:
        return wire.operation(request.body)
    if request.query.op is None:
        raise InvalidArgument("the operation is JSON: in the body, or in op= with data as the body")
    return wire.operation(wire.decoded(request.query.op), carried(request.source))


def _bounded(op: ops.Op[Any]) -> ops.Op[Any]:
    """The operation, if what it may answer fits into one answer."""
    size = items = 0
    for each in ops.unwrapped(op):
        if isinstance(each, ops.Read):
            if each.length is None:
                raise InvalidArgument("say how many bytes to read: length=")
            size += max(0, each.length)
        items += max(1, getattr(each, "limit", 1))
    if size > READ_BYTES:
        raise TooLarge(
            "this asks for more bytes than one answer holds; read files as they are",
            limit="request.read_bytes", size=READ_BYTES, used=size,
        )  # fmt: skip
    if items > ITEMS:
        raise TooLarge(
            "this asks for more than one answer holds; use smaller pages",
            limit="request.items", size=ITEMS, used=items,
        )  # fmt: skip
    return op
