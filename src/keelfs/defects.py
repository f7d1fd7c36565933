"""What nobody foresaw: an id outside, the details in the log.

An error that is not ours is a defect. It may hold anything, names and paths included, so nothing of
it is shown but the id under which it was logged, once. Who calls: surfaces, and the agents' shell.
"""

from __future__ import annotations

import logging
import uuid

from keelfs.errors import KeelError, UnknownFailure

_log = logging.getLogger("keelfs.defects")


def known(error: Exception) -> KeelError:
    """The error itself if it is ours; anything else is logged and becomes an id."""
    if isinstance(error, KeelError):
        return error
    number = uuid.uuid4().hex
    _log.error("unexpected failure %s", number, exc_info=error)
    return UnknownFailure(f"an unexpected failure; it is in the log as {number}")
