"""How each error looks outside: one table, total by test.

A surface that meets an error asks `outcome_of` and translates nothing by itself. An error that is
not ours is a defect: it is given an id, written into the log once, and shown as nothing but the id.

Who calls: every surface. What must never live here: a message, which belongs to the error.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from msgspec import Struct

from keelfs import errors
from keelfs.defects import known
from keelfs.errnos import ERRNOS
from keelfs.errors import KeelError

__all__ = ["OUTCOMES", "Outcome", "known", "outcome_of"]

# Exit codes of the command line; `keelfs help exit-codes` prints them.
NO, USAGE, MISSING, FORBIDDEN, CONFLICT, LIMIT, LATER, FAULT = 1, 2, 3, 4, 5, 6, 8, 70


class Outcome(Struct, frozen=True):
    """One error in every dialect."""

    #: The status of an HTTP answer.
    status: int
    #: What a mount tells the kernel.
    errno: int
    #: How a command ends.
    exit: int
    #: Whether the same call may succeed later without anybody changing anything.
    retry: bool = False


_ROWS: Final[Mapping[type[KeelError], tuple[int, int]]] = {
    errors.KeelError: (500, FAULT),
    errors.Missing: (404, MISSING),
    errors.NotFound: (404, MISSING),
    errors.RevisionNotFound: (404, MISSING),
    errors.CursorExpired: (410, MISSING),
    errors.Taken: (409, CONFLICT),
    errors.AlreadyExists: (409, CONFLICT),
    errors.NotEmpty: (409, CONFLICT),
    errors.WrongKind: (400, USAGE),
    errors.IsADirectory: (400, USAGE),
    errors.NotADirectory: (400, USAGE),
    errors.NotALink: (400, USAGE),
    errors.NotAFile: (400, USAGE),
    errors.Conflict: (412, CONFLICT),
    errors.Invalid: (400, USAGE),
    errors.InvalidPath: (400, USAGE),
    errors.NameTooLong: (400, USAGE),
    errors.InvalidArgument: (400, USAGE),
    errors.InvalidPattern: (400, USAGE),
    errors.LinkLoop: (400, USAGE),
    errors.DanglingLink: (400, USAGE),
    errors.Refused: (403, FORBIDDEN),
    errors.NotAuthenticated: (401, FORBIDDEN),
    errors.PermissionDenied: (403, FORBIDDEN),
    errors.ReadOnly: (403, FORBIDDEN),
    errors.Busy: (409, FORBIDDEN),
    errors.CrossDevice: (409, FORBIDDEN),
    errors.ValidationFailed: (422, FORBIDDEN),
    errors.FragmentValidationError: (422, FORBIDDEN),
    errors.NotUndoable: (409, FORBIDDEN),
    errors.Unsupported: (422, FORBIDDEN),
    errors.LimitExceeded: (413, LIMIT),
    errors.QuotaExceeded: (413, LIMIT),
    errors.TooLarge: (413, LIMIT),
    errors.Unavailable: (503, LATER),
    errors.StoreBusy: (503, LATER),
    errors.DeadlineExceeded: (503, LATER),
    errors.RateLimited: (429, LATER),
    errors.StoreClosed: (503, LATER),
    errors.StoreFull: (507, LATER),
    errors.InDoubt: (503, LATER),
    errors.Broken: (500, FAULT),
    errors.Corrupt: (500, FAULT),
    errors.StoreFailed: (500, FAULT),
    errors.UnknownFailure: (500, FAULT),
}
#: `InDoubt` is not here: without an idempotency key a retry could do the change twice.
_RETRIED: Final = frozenset(
    {
        errors.Unavailable,
        errors.StoreBusy,
        errors.DeadlineExceeded,
        errors.RateLimited,
        errors.StoreClosed,
        errors.StoreFull,
    }
)

OUTCOMES: Final[Mapping[type[KeelError], Outcome]] = {
    kind: Outcome(status, ERRNOS[kind], exit, kind in _RETRIED)
    for kind, (status, exit) in _ROWS.items()
}


def outcome_of(error: KeelError) -> Outcome:
    """How the error looks outside; an error of somebody else's volume looks like its family."""
    for kind in type(error).__mro__:
        if kind in OUTCOMES:
            return OUTCOMES[kind]
    raise AssertionError("every error is a KeelError")
