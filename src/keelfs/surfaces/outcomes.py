"""How each error looks outside: one table, total by test.

A surface that meets an error asks `outcome_of` and translates nothing by itself. An error that is
not ours is a defect: it is given an id, written into the log once, and shown as nothing but the id.

Who calls: every surface. What must never live here: a message, which belongs to the error.
"""

from __future__ import annotations

import errno
import logging
import uuid
from collections.abc import Mapping
from typing import Final

from msgspec import Struct

from keelfs import errors
from keelfs.errors import KeelError

_log = logging.getLogger("keelfs.defects")

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


OUTCOMES: Final[Mapping[type[KeelError], Outcome]] = {
    errors.KeelError: Outcome(500, errno.EIO, FAULT),
    errors.Missing: Outcome(404, errno.ENOENT, MISSING),
    errors.NotFound: Outcome(404, errno.ENOENT, MISSING),
    errors.RevisionNotFound: Outcome(404, errno.ENOENT, MISSING),
    errors.CursorExpired: Outcome(410, errno.ESTALE, MISSING),
    errors.Taken: Outcome(409, errno.EEXIST, CONFLICT),
    errors.AlreadyExists: Outcome(409, errno.EEXIST, CONFLICT),
    errors.NotEmpty: Outcome(409, errno.ENOTEMPTY, CONFLICT),
    errors.WrongKind: Outcome(400, errno.EINVAL, USAGE),
    errors.IsADirectory: Outcome(400, errno.EISDIR, USAGE),
    errors.NotADirectory: Outcome(400, errno.ENOTDIR, USAGE),
    errors.NotALink: Outcome(400, errno.EINVAL, USAGE),
    errors.NotAFile: Outcome(400, errno.ENXIO, USAGE),
    errors.Conflict: Outcome(412, errno.EAGAIN, CONFLICT),
    errors.Invalid: Outcome(400, errno.EINVAL, USAGE),
    errors.InvalidPath: Outcome(400, errno.EINVAL, USAGE),
    errors.NameTooLong: Outcome(400, errno.ENAMETOOLONG, USAGE),
    errors.InvalidArgument: Outcome(400, errno.EINVAL, USAGE),
    errors.InvalidPattern: Outcome(400, errno.EINVAL, USAGE),
    errors.LinkLoop: Outcome(400, errno.ELOOP, USAGE),
    errors.DanglingLink: Outcome(400, errno.ENOENT, USAGE),
    errors.Refused: Outcome(403, errno.EPERM, FORBIDDEN),
    errors.NotAuthenticated: Outcome(401, errno.EACCES, FORBIDDEN),
    errors.PermissionDenied: Outcome(403, errno.EACCES, FORBIDDEN),
    errors.ReadOnly: Outcome(403, errno.EROFS, FORBIDDEN),
    errors.Busy: Outcome(409, errno.EBUSY, FORBIDDEN),
    errors.CrossDevice: Outcome(409, errno.EXDEV, FORBIDDEN),
    errors.ValidationFailed: Outcome(422, errno.EINVAL, FORBIDDEN),
    errors.NotUndoable: Outcome(409, errno.EPERM, FORBIDDEN),
    errors.Unsupported: Outcome(422, errno.EOPNOTSUPP, FORBIDDEN),
    errors.LimitExceeded: Outcome(413, errno.EDQUOT, LIMIT),
    errors.QuotaExceeded: Outcome(413, errno.EDQUOT, LIMIT),
    errors.TooLarge: Outcome(413, errno.EFBIG, LIMIT),
    errors.Unavailable: Outcome(503, errno.EAGAIN, LATER, retry=True),
    errors.StoreBusy: Outcome(503, errno.EAGAIN, LATER, retry=True),
    errors.DeadlineExceeded: Outcome(503, errno.ETIMEDOUT, LATER, retry=True),
    errors.RateLimited: Outcome(429, errno.EAGAIN, LATER, retry=True),
    errors.StoreClosed: Outcome(503, errno.EAGAIN, LATER, retry=True),
    errors.StoreFull: Outcome(507, errno.ENOSPC, LATER, retry=True),
    # Without an idempotency key a retry could do the change twice.
    errors.InDoubt: Outcome(503, errno.EIO, LATER),
    errors.Broken: Outcome(500, errno.EIO, FAULT),
    errors.Corrupt: Outcome(500, errno.EIO, FAULT),
    errors.StoreFailed: Outcome(500, errno.EIO, FAULT),
    errors.UnknownFailure: Outcome(500, errno.EIO, FAULT),
}


def outcome_of(error: KeelError) -> Outcome:
    """How the error looks outside; an error of somebody else's volume looks like its family."""
    for kind in type(error).__mro__:
        if kind in OUTCOMES:
            return OUTCOMES[kind]
    raise AssertionError("every error is a KeelError")


def known(error: Exception) -> KeelError:
    """The error itself if it is ours; anything else is logged and becomes an id."""
    if isinstance(error, KeelError):
        return error
    number = uuid.uuid4().hex
    _log.error("unexpected failure %s", number, exc_info=error)
    return errors.UnknownFailure(f"an unexpected failure; it is in the log as {number}")
