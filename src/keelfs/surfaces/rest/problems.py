"""Errors as bodies: `application/problem+json`, with what the caller can do.

The status comes from the table of outcomes. Where the document of the session filesystem gives
another one, or a sentence of its own, that is told here, by route and error; the sentence is the
member `error`, which every body has.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec
from msgspec import UNSET, Struct, UnsetType

from keelfs import errors
from keelfs.errors import KeelError
from keelfs.surfaces.outcomes import known, outcome_of
from keelfs.surfaces.rest.answer import Answer, Header
from keelfs.surfaces.rest.request import HttpRefusal

_PROBLEM: Final = (b"content-type", b"application/problem+json")

#: A sentence, with the caller's paths in it, and a status where it is not the table's.
Sentence = tuple[str, int | None]
_READONLY: Final = ("Cannot modify readonly file: {path}", 400)
_FILE_ABOVE: Final = ("A file exists on the way to: {path}", 400)

#: What the document says, by route and error; what is not here is said by the error itself.
SENTENCES: Final[Mapping[str, Mapping[type[KeelError], Sentence]]] = {
    "read": {errors.NotFound: ("File not found: {path}", None)},
    "create": {
        errors.Conflict: ("File already exists at path: {path}", 409),
        errors.IsADirectory: ("File already exists at path: {path}", 409),
        errors.AlreadyExists: ("A file exists at path: {path}", 400),
        errors.NotADirectory: _FILE_ABOVE,
        errors.ReadOnly: _READONLY,
    },
    "update": {
        errors.NotFound: ("File not found", None),
        errors.IsADirectory: ("Cannot update directory: {path}", 400),
        errors.ReadOnly: _READONLY,
    },
    "delete": {
        errors.NotEmpty: ("Directory is not empty. Use recursive=true to delete", 400),
        errors.Busy: ("Cannot delete root directory", 400),
    },
    "stat": {
        errors.NotFound: ("Path not found", None),
        errors.NotADirectory: ("Path not found", 404),
    },
    "move": {
        errors.NotFound: ("Source not found: {path}", None),
        errors.AlreadyExists: ("Destination already exists: {to}", None),
        errors.NotADirectory: ("A file exists on the way to: {to}", 400),
        errors.Busy: ("Cannot move root directory", 400),
        errors.ReadOnly: _READONLY,
    },
    "copy": {
        errors.NotFound: ("Source not found: {path}", None),
        errors.AlreadyExists: ("Destination already exists: {to}", None),
        errors.IsADirectory: ("Cannot copy directories: {path}", None),
        errors.NotADirectory: ("A file exists on the way to: {to}", 400),
        errors.Busy: ("Cannot copy over root directory", 400),
        errors.ReadOnly: _READONLY,
    },
    "grep": {errors.InvalidPattern: ("Invalid regex: {message}", None)},
}


class ProblemBody(Struct, kw_only=True):
    """What every refusal and every failure looks like."""

    #: A name for this kind of error that never changes.
    type: str
    title: str
    status: int
    #: What is wrong, without any path.
    detail: str
    #: What is wrong, as the document of the session filesystem says it where it does.
    error: str
    code: str
    #: What the client can do about it.
    remedy: str
    request_id: str
    path: str | UnsetType = UNSET
    to: str | UnsetType = UNSET
    #: Which limit would be passed, how much it is, and how much of it is used.
    limit: str | UnsetType = UNSET
    size: int | UnsetType = UNSET
    used: int | UnsetType = UNSET
    #: What was expected, and the revision that is there.
    expected: str | UnsetType = UNSET
    actual: int | UnsetType = UNSET
    #: What a validator has found, and where.
    problems: tuple[errors.Problem, ...] | UnsetType = UNSET
    #: Which operation of a batch was refused, counted from 0.
    operation: int | UnsetType = UNSET


#: Facts of single errors that a client may act upon.
_FACTS: Final = ("limit", "size", "used", "expected", "actual", "problems")


def problem(error: Exception, request_id: str, route: str = "") -> Answer:
    """The answer that tells of an error; of a defect it tells nothing but an id."""
    told = known(error)
    body = body_of(told, request_id, route)
    headers = [_PROBLEM, *_headers(told, body.status)]
    return Answer(body.status, headers, msgspec.json.encode(body))


def body_of(told: KeelError, request_id: str, route: str = "") -> ProblemBody:
    """The body of that answer."""
    sentence, status = _sentence(told, route)
    body = ProblemBody(
        type=f"urn:keelfs:error:{told.code}",
        title=(type(told).__doc__ or told.code).strip().splitlines()[0],
        status=status, detail=told.message, error=sentence, code=told.code, remedy=told.remedy,
        request_id=request_id,
    )  # fmt: skip
    # Which operation of a batch it was matters only to whoever has sent one.
    for name in ("path", "to", *_FACTS, *(["operation"] if route == "batch" else [])):
        value = getattr(told, name, None)
        if value is not None and value != ():
            setattr(body, name, value)
    return body


def _sentence(error: KeelError, route: str) -> tuple[str, int]:
    status = error.status if isinstance(error, HttpRefusal) else outcome_of(error).status
    for kind in type(error).__mro__:
        said = SENTENCES.get(route, {}).get(kind)
        if said is not None:
            text = said[0].format(path=error.path, to=error.to, message=error.message)
            return text, said[1] or status
    return error.message, status


def _headers(error: KeelError, status: int) -> list[Header]:
    if isinstance(error, HttpRefusal):
        return list(error.headers)
    if isinstance(error, errors.RateLimited):
        return [(b"retry-after", str(max(1, round(error.after_s))).encode())]
    if status == 401:
        return [(b"www-authenticate", b'Bearer realm="keelfs"')]
    return [(b"retry-after", b"1")] if outcome_of(error).retry else []
