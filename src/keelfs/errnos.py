"""The number that POSIX has for each error: one table, total by test.

A mount tells it to the kernel, the shell to its commands. Who calls: `surfaces.outcomes`, which
adds the other dialects, and `agents.shell`.
"""

from __future__ import annotations

import errno
from collections.abc import Mapping
from typing import Final

from keelfs import errors
from keelfs.errors import KeelError

ERRNOS: Final[Mapping[type[KeelError], int]] = {
    errors.KeelError: errno.EIO,
    errors.Missing: errno.ENOENT,
    errors.NotFound: errno.ENOENT,
    errors.RevisionNotFound: errno.ENOENT,
    errors.CursorExpired: errno.ESTALE,
    errors.Taken: errno.EEXIST,
    errors.AlreadyExists: errno.EEXIST,
    errors.NotEmpty: errno.ENOTEMPTY,
    errors.WrongKind: errno.EINVAL,
    errors.IsADirectory: errno.EISDIR,
    errors.NotADirectory: errno.ENOTDIR,
    errors.NotALink: errno.EINVAL,
    errors.NotAFile: errno.ENXIO,
    errors.Conflict: errno.EAGAIN,
    errors.Invalid: errno.EINVAL,
    errors.InvalidPath: errno.EINVAL,
    errors.NameTooLong: errno.ENAMETOOLONG,
    errors.InvalidArgument: errno.EINVAL,
    errors.InvalidPattern: errno.EINVAL,
    errors.LinkLoop: errno.ELOOP,
    errors.DanglingLink: errno.ENOENT,
    errors.Refused: errno.EPERM,
    errors.NotAuthenticated: errno.EACCES,
    errors.PermissionDenied: errno.EACCES,
    errors.ReadOnly: errno.EROFS,
    errors.Busy: errno.EBUSY,
    errors.CrossDevice: errno.EXDEV,
    errors.ValidationFailed: errno.EINVAL,
    errors.FragmentValidationError: errno.EINVAL,
    errors.NotUndoable: errno.EPERM,
    errors.Unsupported: errno.EOPNOTSUPP,
    errors.LimitExceeded: errno.EDQUOT,
    errors.QuotaExceeded: errno.EDQUOT,
    errors.TooLarge: errno.EFBIG,
    errors.Unavailable: errno.EAGAIN,
    errors.StoreBusy: errno.EAGAIN,
    errors.DeadlineExceeded: errno.ETIMEDOUT,
    errors.RateLimited: errno.EAGAIN,
    errors.StoreClosed: errno.EAGAIN,
    errors.StoreFull: errno.ENOSPC,
    errors.InDoubt: errno.EIO,
    errors.Broken: errno.EIO,
    errors.Corrupt: errno.EIO,
    errors.StoreFailed: errno.EIO,
    errors.UnknownFailure: errno.EIO,
}


def errno_of(error: KeelError) -> int:
    """The number of the error; one of somebody else's volume has that of its family."""
    return next(ERRNOS[kind] for kind in type(error).__mro__ if kind in ERRNOS)
