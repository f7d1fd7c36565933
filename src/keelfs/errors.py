"""The one exception tree, drawn where it is defined.

Families are named for what the caller can do next. An error is raised without a path, so that
nothing has to be scrubbed on its way out; the outermost facade sets `path` to the caller's own
spelling. The message says what is wrong, `remedy` what to do about it.

    KeelError
    ├── Missing            look again, or create it:   NotFound, RevisionNotFound, CursorExpired
    ├── Taken              choose another name:        AlreadyExists, NotEmpty
    ├── WrongKind          use another verb:           IsADirectory, NotADirectory, NotALink,
    │                                                  NotAFile
    ├── Conflict           read again, then retry
    ├── Invalid            correct the call:           InvalidPath, NameTooLong, InvalidArgument,
    │                                                  InvalidPattern, LinkLoop, DanglingLink
    ├── Refused            ask for permission:         NotAuthenticated, PermissionDenied,
    │                                                  ReadOnly, Busy, CrossDevice,
    │                                                  ValidationFailed with
    │                                                  FragmentValidationError, NotUndoable,
    │                                                  Unsupported
    ├── LimitExceeded      free or ask for room:       QuotaExceeded, TooLarge
    ├── Unavailable        retry later:                StoreBusy, StoreFull, DeadlineExceeded,
    │                                                  RateLimited, StoreClosed, InDoubt
    └── Broken             call the operator:          Corrupt, StoreFailed, UnknownFailure
"""

from __future__ import annotations

from typing import ClassVar, NamedTuple


class KeelError(Exception):
    """Something was refused or failed."""

    code: ClassVar[str] = "error"
    remedy: ClassVar[str] = "Look at the message."
    #: The caller's spelling of the path; only the outermost facade sets it.
    path: str | None = None
    #: The caller's spelling of the second path, for verbs that have two.
    to: str | None = None
    #: Which operation of a batch was refused, counted from 0.
    operation: int | None = None

    def __init__(self, message: str | None = None) -> None:
        super().__init__(message or (type(self).__doc__ or "").strip())

    @property
    def message(self) -> str:
        """What is wrong, without any path."""
        return str(self.args[0])

    def __str__(self) -> str:
        text = (
            self.message
            if self.operation is None
            else f"operation {self.operation}: {self.message}"
        )
        named = " -> ".join(repr(path) for path in (self.path, self.to) if path is not None)
        return f"{text.rstrip('.')}: {named}" if named else text


class Missing(KeelError):
    """What was asked for does not exist."""

    code = "missing"
    remedy = "List the parent directory to see what exists."


class NotFound(Missing):
    """No such file or directory."""

    code = "not_found"


class RevisionNotFound(Missing):
    """This revision of the file is not kept."""

    code = "revision_not_found"
    remedy = "Ask for the history to see which revisions are kept."


class CursorExpired(Missing):
    """The journal no longer reaches back to this cursor."""

    code = "cursor_expired"
    remedy = "Read the tree anew and watch from the present end of the journal."


class Taken(KeelError):
    """The place is taken."""

    code = "taken"
    remedy = "Choose another name."


class AlreadyExists(Taken):
    """There is already an entry of this name."""

    code = "already_exists"
    remedy = "Choose another name, or pass replace=True where the verb offers it."


class NotEmpty(Taken):
    """The directory is not empty."""

    code = "not_empty"
    remedy = "Pass recursive=True to remove what it holds, or empty it first."


class WrongKind(KeelError):
    """The entry is of another kind than the verb needs."""

    code = "wrong_kind"
    remedy = "Use stat() to see the kind of the entry, then the verb that fits it."


class IsADirectory(WrongKind):
    """This is a directory."""

    code = "is_a_directory"


class NotADirectory(WrongKind):
    """A component of the path is not a directory."""

    code = "not_a_directory"


class NotALink(WrongKind):
    """This is not a symbolic link."""

    code = "not_a_link"


class NotAFile(WrongKind):
    """This is neither a file nor a directory, and has no bytes to read or write."""

    code = "not_a_file"


class Conflict(KeelError):
    """The file is not at the revision that was expected."""

    code = "conflict"
    remedy = "Read the file again, redo the change on what is there now, and retry."

    def __init__(
        self, message: str | None = None, *, expected: str | None = None, actual: int | None = None
    ) -> None:
        super().__init__(message)
        self.expected = expected
        #: The revision that is there now; None when there is no file.
        self.actual = actual


class Invalid(KeelError):
    """The call cannot mean anything."""

    code = "invalid"
    remedy = "Correct the call."


class InvalidPath(Invalid):
    """This cannot be a path."""

    code = "invalid_path"


class NameTooLong(InvalidPath):
    """The name or the path is too long."""

    code = "name_too_long"
    remedy = "Use a shorter name or fewer directories."


class InvalidArgument(Invalid):
    """An argument is out of range or of the wrong type."""

    code = "invalid_argument"


class InvalidPattern(Invalid):
    """The pattern cannot be compiled."""

    code = "invalid_pattern"
    remedy = "Use RE2 syntax: no look-around, no back-references."


class LinkLoop(Invalid):
    """Following the symbolic links takes more than 40 steps."""

    code = "link_loop"
    remedy = "Remove one of the links that point at each other."


class DanglingLink(Invalid):
    """The symbolic link points at nothing; writing through it is refused."""

    code = "dangling_link"
    remedy = "Write to the link's target by its own path, or remove the link."


class Refused(KeelError):
    """This is not allowed."""

    code = "refused"
    remedy = "Ask whoever runs the store for permission."


class NotAuthenticated(Refused):
    """There is no token, or it is worth nothing."""

    code = "not_authenticated"
    remedy = "Send a token that has neither expired nor been revoked."


class PermissionDenied(Refused):
    """Permission denied."""

    code = "permission_denied"


class ReadOnly(Refused):
    """The file, or the whole tree, is read-only."""

    code = "read_only"
    remedy = "Clear the readonly attribute if you may, or write somewhere else."


class Busy(Refused):
    """The root or a mount point cannot be removed, replaced or renamed."""

    code = "busy"
    remedy = "Work on what lies below it instead."


class CrossDevice(Refused):
    """The two paths lie in different volumes."""

    code = "cross_device"
    remedy = "Use transfer(), which says whether it is atomic."


class Problem(NamedTuple):
    """One thing that a validator has found."""

    #: Counted from 1; None where the content has no lines.
    line: int | None
    #: What the entry says it is; None if it does not say.
    type: str | None
    #: Where in the entry, such as `steps[0]`; None for all of it.
    field: str | None
    #: What was expected there, and what was found.
    expected: str

    def __str__(self) -> str:
        where = [] if self.line is None else [f"line {self.line}"]
        where += [] if self.type is None else [f"type {self.type!r}"]
        where += [] if self.field is None else [f"field {self.field!r}"]
        return f"{', '.join(where)}: {self.expected}" if where else self.expected


class ValidationFailed(Refused):
    """The content does not pass the validator of this path."""

    code = "validation_failed"
    remedy = "Correct the content as the message says; nothing was written."

    def __init__(self, message: str | None = None, *, problems: tuple[Problem, ...] = ()) -> None:
        super().__init__(message)
        #: What is wrong where, as far as the validator can tell.
        self.problems = problems


class FragmentValidationError(ValidationFailed):
    """Some lines of the file hold no valid fragments."""

    code = "fragment_validation_failed"


class NotUndoable(Refused):
    """This change cannot be undone."""

    code = "not_undoable"
    remedy = "Undo the changes that came after it first, or restore a revision or a snapshot."


class Unsupported(Refused):
    """This volume does not offer the verb."""

    code = "unsupported"
    remedy = "Use a space of a store; host folders and overlays keep no history."


class LimitExceeded(KeelError):
    """A limit would be passed."""

    code = "limit_exceeded"
    remedy = "Remove something, or ask the operator for a higher limit."

    def __init__(
        self,
        message: str | None = None,
        *,
        limit: str | None = None,
        size: int | None = None,
        used: int | None = None,
    ) -> None:
        super().__init__(message)
        #: Which limit: a field of `Limits`, prefixed by whose it is, such as "tenant.bytes".
        self.limit = limit
        self.size = size
        self.used = used


class QuotaExceeded(LimitExceeded):
    """There is no room left for this."""

    code = "quota_exceeded"


class TooLarge(LimitExceeded):
    """One file, directory or request is larger than its limit."""

    code = "too_large"
    remedy = "Split it, or stream it, or ask the operator for a higher limit."


class Unavailable(KeelError):
    """The store cannot answer at the moment."""

    code = "unavailable"
    remedy = "Retry after a moment."


class StoreBusy(Unavailable):
    """Other writers held the store until the deadline."""

    code = "store_busy"


class DeadlineExceeded(Unavailable):
    """The deadline of the call has passed."""

    code = "deadline_exceeded"


class RateLimited(Unavailable):
    """There are too many requests."""

    code = "rate_limited"
    remedy = "Wait as long as the answer says, then retry; ask for less at once."

    def __init__(self, message: str | None = None, *, after_s: float = 1.0) -> None:
        super().__init__(message)
        #: After how many seconds a retry is worth it.
        self.after_s = after_s


class StoreClosed(Unavailable):
    """The store is closed."""

    code = "store_closed"
    remedy = "Open the store again."


class StoreFull(Unavailable):
    """The disk or the server that holds the store is full; nothing of this change was kept."""

    code = "store_full"
    remedy = "Tell the operator to make room, then retry."


class InDoubt(Unavailable):
    """The connection broke while the change was being committed; it may or may not be kept."""

    code = "in_doubt"
    remedy = "Look whether the change is there, or repeat the call with the same idempotency key."


class Broken(KeelError):
    """The store is damaged or has a defect."""

    code = "broken"
    remedy = "Tell the operator; run check() and restore a backup if it finds damage."


class Corrupt(Broken):
    """Stored bytes do not match their checksum."""

    code = "corrupt"


class StoreFailed(Broken):
    """The disk refused to keep what was written; the store has stopped."""

    code = "store_failed"
    remedy = "Restart the process after looking at the disk; nothing acknowledged before is lost."


class UnknownFailure(Broken):
    """An unexpected failure; its details are in the log under the id in the message."""

    code = "unknown_failure"
    remedy = "Look the id up in the log and report it; this is a defect."
