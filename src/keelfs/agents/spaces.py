"""Which spaces a tree is made of, and what they are called in the store.

Kind and key are bound parameters everywhere, so nothing here keeps people apart by spelling. The
one key that stands for a pair is the JSON array of its names, and no two pairs have the same.
"""

from __future__ import annotations

import hashlib
from typing import Final

import msgspec
from msgspec import Struct

from keelfs.model import ARTIFACTS
from keelfs.path import ROOT, VPath
from keelfs.spelling import check_id

SESSION: Final = "session"
AGENT: Final = "agent"
USER: Final = "user"

#: What the store takes as a key.
_KEY_BYTES: Final = 255


class Room(Struct, frozen=True):
    """One space of a tree: where it is mounted, and what its kind and key are."""

    at: VPath
    kind: str
    key: str
    #: What a model is told about it.
    about: str


def rooms(session: str, agent: str, user: str) -> list[Room]:
    """The spaces of one tree, the root first."""
    check_id("id of a session", session)
    check_id("id of an agent", agent)
    check_id("id of a user", user)
    return [
        Room(ROOT, SESSION, session, "this conversation's own files; deleted with it"),
        Room(
            VPath((".agent",)), AGENT, agent,
            "your own files, in every conversation and with every user",
        ),
        Room(
            VPath((".user",)), USER, key_of_pair(user, agent),
            "what you keep about this user, in every conversation with them",
        ),
        Room(
            VPath(("artifacts",)), ARTIFACTS, session,
            "results for the user; deleted with this conversation",
        ),
    ]  # fmt: skip


def key_of_pair(user: str, agent: str) -> str:
    """One key for a user with an agent; that of another pair is another one."""
    pair = msgspec.json.encode([user, agent])
    if len(pair) <= _KEY_BYTES:
        return pair.decode()
    # No JSON array begins like this.
    return f"sha256:{hashlib.sha256(pair).hexdigest()}"
