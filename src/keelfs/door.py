"""Where a caller's operations go in, and errors get the caller's own spelling on their way out.

An operation holds its paths as the caller gave them, so the one place that performs it is also the
one place that knows how to name them. Below this door no error carries a path.

Who calls: the verbs of a workspace, and whoever has an operation at hand instead of a verb.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, TypeVar, cast

from keelfs import ops
from keelfs.arguments import check_key, checked
from keelfs.errors import KeelError
from keelfs.model import Content, Stat
from keelfs.path import VPath, parse
from keelfs.ports import Handler

T = TypeVar("T")
Place = VPath | str


class Door:
    """A handler, seen by somebody who spells paths in their own way."""

    def __init__(self, handler: Handler) -> None:
        self._handler = handler

    @property
    def handler(self) -> Handler:
        """What performs the operations; its errors carry no path."""
        return self._handler

    def perform(self, op: ops.Op[T], /, *, key: str | None = None) -> T:
        """The operation's answer. Under an idempotency key it is done at most once.

        An error names the paths as `op` spells them; that of a batch, which operation it was.
        """
        try:
            ready = checked(op)
            if key is not None:
                check_key(key)
                ready = ops.Once(ready, key, ops.fingerprint(ready))
            return self._handler.perform(ready)
        except KeelError as error:
            name_paths(error, op)
            raise

    def pin(self, path: Place, revision: int | None = None) -> Pinned:
        """The content of one revision, to be read at any offset whatever is written meanwhile."""
        return Pinned(self.perform(ops.Open(path, revision)), path)


class Pinned:
    """The content of one revision; errors while it is read name the file."""

    def __init__(self, content: Content, path: Place) -> None:
        self._content, self._path = content, path
        self.stat: Stat = content.stat

    def read(self, offset: int, length: int) -> bytes:
        try:
            return self._content.read(offset, length)
        except KeelError as error:
            spell(error, self._path)
            raise


def spelling(path: Place, work: Callable[[VPath], T]) -> T:
    """What `work` makes of the path; its errors name it."""
    try:
        return work(parse(path))
    except KeelError as error:
        spell(error, path)
        raise


def named(path: Place, begin: Callable[[VPath], Iterator[T]]) -> Iterator[T]:
    """What is found at `path`, begun at once; errors now and on the way name it."""
    return _named(path, spelling(path, begin))


def _named(path: Place, found: Iterator[T]) -> Iterator[T]:
    try:
        yield from found
    except KeelError as error:
        spell(error, path)
        raise


def spell(error: KeelError, path: object, to: object = None) -> None:
    """Tells the error what its caller calls the paths, unless it knows already."""
    if error.path is None and path is not None:
        error.path = str(path)
        error.to = None if to is None else str(to)


def name_paths(error: KeelError, op: object) -> None:
    """Spells the paths of `error` as the operation that was asked for does."""
    plain = _unwrapped(op)
    if isinstance(plain, ops.Batch):
        index, each = error.operation, plain.ops
        plain = None if index is None or index >= len(each) else _unwrapped(each[index])
    if isinstance(plain, ops.Op):
        spell(error, *_places(cast(Any, plain)))


def _places(op: ops.Op[Any]) -> list[object]:
    return [getattr(op, name) for name in op.places] or [None]


def _unwrapped(op: Any) -> Any:
    while isinstance(getattr(op, "op", None), ops.Op):
        op = op.op
    return op
