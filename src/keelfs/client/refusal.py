"""Problems that a server tells, as the errors that they were over there.

The path is left out: whoever asked spells it, as everywhere. Who calls: the channel.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

import msgspec
from msgspec import Struct

from keelfs import errors
from keelfs.errors import KeelError, Problem


class _Told(Struct):
    """As much of a problem's body as errors have."""

    code: str
    detail: str = ""
    operation: int | None = None
    limit: str | None = None
    size: int | None = None
    used: int | None = None
    expected: str | None = None
    actual: int | None = None
    problems: tuple[Problem, ...] | None = None


def _tree(kind: type[KeelError]) -> Iterator[type[KeelError]]:
    yield kind
    for child in kind.__subclasses__():
        if child.__module__ == errors.__name__:
            yield from _tree(child)


_KINDS: Final[Mapping[str, type[KeelError]]] = {kind.code: kind for kind in _tree(KeelError)}
#: What HTTP refuses by itself, and what whoever stands in between does.
_BY_STATUS: Final[Mapping[int, type[KeelError]]] = {
    401: errors.NotAuthenticated, 403: errors.PermissionDenied, 404: errors.NotFound,
    408: errors.Unavailable, 413: errors.TooLarge, 429: errors.RateLimited,
    502: errors.Unavailable, 503: errors.Unavailable, 504: errors.Unavailable,
}  # fmt: skip
_FACTS: Final = ("operation", "limit", "size", "used", "expected", "actual", "problems")


def error_of(status: int, body: bytes, retry_after: str | None) -> KeelError:
    """The error that an answer of this status tells of."""
    try:
        told = msgspec.json.decode(body, type=_Told)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        told = _Told("", f"the answer has the status {status} and does not say why")
    kind = _KINDS.get(told.code) or _BY_STATUS.get(status)
    if kind is None:
        kind = errors.Invalid if status < 500 else errors.UnknownFailure
    error = kind(told.detail or None)
    for name in _FACTS:
        value = getattr(told, name)
        if value is not None and hasattr(error, name):
            setattr(error, name, value)
    if isinstance(error, errors.RateLimited) and retry_after and retry_after.isdecimal():
        error.after_s = float(retry_after)
    return error
