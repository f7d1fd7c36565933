"""The tree of one session as a handler: what it performs, a server does.

Small data travels inside of the operation, large data behind it, block by block. Answers come back
as the library gives them; of a file that is large, piece by piece.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any, Final, TypeVar, cast
from urllib.parse import quote, urlencode

from msgspec.structs import replace as with_fields

from keelfs import ops, wire
from keelfs.client.channel import Call, Channel
from keelfs.client.content import RemoteContent
from keelfs.errors import TooLarge, Unavailable
from keelfs.model import Data
from keelfs.ops import Op

T = TypeVar("T")
#: An operation as it is inside of what wraps it.
Around = Callable[[Op[Any]], Op[Any]]

#: Data up to this size is part of the operation.
INLINE: Final = 128 * 1024
#: What one answer carries of a file; what all operations of a batch carry in one request.
PIECE: Final = 4 * 2**20
#: What `read` gives at once, as a store has it unless it is told otherwise.
MOST: Final = 256 * 2**20
#: Longest wait of one question for changes.
_WAIT_S: Final = 50.0

_JSON: Final = {"content-type": "application/json"}
_OCTETS: Final = {"content-type": "application/octet-stream"}


class Tree:
    """Performs operations by asking a server, and wakes watchers."""

    def __init__(self, channel: Channel, session: str) -> None:
        self._channel, self._session = channel, session

    def perform(self, op: Op[T], /) -> T:
        ready = _with_lengths(op, PIECE)
        answer = wire_answer(ready, self._ask(ready))
        return cast(T, self._finished(op, answer, lambda inner: inner))

    def _ask(self, op: Op[Any]) -> bytes:
        bare, data = _unladen(op)
        safe = not op.mutates or isinstance(op, ops.Once)
        path = f"{self._session}/fs/_/operations"
        if data is None:
            call = Call(method="POST", path=path, body=wire.sent(bare), headers=_JSON, safe=safe)
        else:
            query = urlencode({"op": wire.sent(bare)})
            call = Call(
                method="POST", path=f"{path}?{query}", body=data, headers=_OCTETS, safe=safe
            )
        return self._channel.ask(call)

    # -- what answers become

    def _finished(self, op: Op[Any], answer: Any, around: Around) -> Any:
        """The answer as the library gives it: contents that can be read, files that are whole."""
        match op:
            case ops.Batch():
                share = _share(op, PIECE)
                pairs = zip(op.ops, answer, strict=True)
                return [self._part(each, part, around, share) for each, part in pairs]
            case ops.Within():
                return self._finished(
                    op.op, answer, lambda inner: around(with_fields(op, op=inner))
                )
            case ops.Once():
                return self._finished(op.op, answer, around)
            case ops.Open():
                return RemoteContent(self, op.path, answer, around)
            case ops.Read() if len(answer) == PIECE and op.length != PIECE:
                return self._whole(op, around)
            case _:
                return answer

    def _part(self, op: Op[Any], answer: Any, around: Around, share: int) -> Any:
        """The same for one operation of a batch, whose bytes cannot be asked for once more."""
        if isinstance(op, ops.Read) and len(answer) == share and op.length != share:
            raise TooLarge(
                "a batch answers no large files; read them one by one", limit="request.bytes",
                size=share, used=share + 1,
            )  # fmt: skip
        return self._finished(op, answer, around)

    def _whole(self, op: ops.Read, around: Around) -> bytes:
        content: RemoteContent = self.perform(around(ops.Open(op.path, op.revision)))
        left = content.stat.size - op.offset
        length = left if op.length is None else min(left, op.length)
        if length > MOST:
            raise TooLarge(
                "the file is too large to be read at once; stream it", limit="read_bytes",
                size=MOST, used=length,
            )  # fmt: skip
        return content.read(op.offset, length)

    def raw(self, path: str, revision: int, offset: int) -> Any:
        """The bytes of a file from `offset` on, as they arrive."""
        names = quote(path.strip("/"), safe="/")
        where = f"{self._session}/fs/_/raw/{names}?revision={revision}"
        headers = {"range": f"bytes={offset}-"} if offset else {}
        return self._channel.begin(Call(method="GET", path=where, headers=headers))

    # -- waking

    def wait(self, after_seq: int, timeout: float) -> None:
        """Returns once there may be a change behind `after_seq`, and after `timeout` seconds."""
        seconds = min(timeout, _WAIT_S)
        query = urlencode({"after": after_seq, "wait": f"{seconds:.3f}"})
        try:
            self._channel.ask(
                Call(method="GET", path=f"{self._session}/events?{query}", patience_s=seconds)
            )
        except Unavailable:
            # Whoever waits looks again by itself, and is told then.
            time.sleep(min(timeout, 1.0))


def wire_answer(op: Op[Any], text: bytes) -> Any:
    """A file's bytes come as they are, everything else as JSON."""
    inner = op
    while isinstance(inner, ops.Within | ops.Once):
        inner = inner.op
    return text if isinstance(inner, ops.Read) else wire.answer_to(op, text)


def _with_lengths(op: Op[Any], piece: int) -> Op[Any]:
    """The operation with each of its reads bounded by what one answer carries."""
    match op:
        case ops.Batch():
            share = _share(op, piece)
            return with_fields(op, ops=tuple(_with_lengths(each, share) for each in op.ops))
        case ops.Within() | ops.Once():
            return with_fields(op, op=_with_lengths(op.op, piece))
        case ops.Read():
            length = piece if op.length is None else min(op.length, piece)
            return with_fields(op, length=length)
        case _:
            return op


def _share(batch: ops.Batch, piece: int) -> int:
    return max(1, piece // max(1, len(batch.ops)))


class _Behind:
    """Stands in an operation for data that is sent behind it."""

    def blocks(self) -> Iterator[bytes]:
        return iter(())


def _unladen(op: Op[Any]) -> tuple[Op[Any], Data | None]:
    """The operation without data that is too large to be a part of it, and that data."""
    held: list[Data] = []

    def take(data: Data) -> Data:
        if isinstance(data, bytes) and len(data) <= INLINE:
            return data
        held.append(data)
        return _Behind()

    if any(True for _ in _batches(op)):
        return op.staged(_collected), None
    bare = op.staged(take)
    return bare, held[0] if held else None


def _batches(op: Op[Any]) -> Iterator[ops.Batch]:
    while isinstance(op, ops.Within | ops.Once):
        op = op.op
    if isinstance(op, ops.Batch):
        yield op


def _collected(data: Data) -> Data:
    """Data of a batch is a part of it."""
    if isinstance(data, bytes):
        return data
    blocks: list[bytes] = []
    size = 0
    for block in data.blocks():
        blocks.append(block)
        size += len(block)
        if size > PIECE:
            raise TooLarge(
                "a batch carries no large files; write them one by one", limit="request.bytes",
                size=PIECE, used=size,
            )  # fmt: skip
    return b"".join(blocks)
