"""What a driver reports and the store does not understand.

It is a defect, so its details, which may hold statements and names, go to the log and nowhere else;
the caller is given an id to look them up by. Who calls: the two implementations of `Database`.
"""

from __future__ import annotations

import logging
import secrets

from keelfs.errors import UnknownFailure

_LOG = logging.getLogger("keelfs.store")


def unknown(error: Exception) -> UnknownFailure:
    """The error that a caller sees in place of one that nobody foresaw."""
    number = secrets.token_hex(6)
    _LOG.error(
        "failure %s: the database reports what the store cannot mean", number, exc_info=error
    )
    return UnknownFailure(f"an unexpected failure; its details are in the log under {number}")
