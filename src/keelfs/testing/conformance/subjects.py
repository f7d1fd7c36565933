"""Who is examined: a subject, what it cannot do, and the roster of all of them.

Always true: an ability is refused by name and with a reason, or it is examined; a subject that was
put on the roster and not examined fails the run (see `plugin`).

Who calls: test modules make subjects and register them; the frame reads them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Final

from msgspec import Struct, field

from keelfs.model import Limits, Principal
from keelfs.ports import Clock, Handler

#: Every ability that a test may need, with what it means.
ABILITIES: Final[Mapping[str, str]] = {
    "tree": "files and directories: write, read, list, move, copy, remove",
    "symlinks": "symbolic links, resolved inside the volume",
    "identity": "an identity that stays when the bytes change, and is never given again",
    "hard_links": "several names of one node",
    "shared_bytes": "bytes written under one name of a node show under the others",
    "special_nodes": "fifos and sockets as entries that are never opened",
    "devices": "character and block devices, with their numbers",
    "owners": "modes, uid and gid are kept as they were set",
    "times": "times are kept in nanoseconds as they were set, or as the clock told",
    "xattrs": "extended attributes",
    "mime": "a media type per file",
    "readonly": "files that refuse changes of their bytes",
    "revisions": "`expect` by number, by stat and ABSENT; revisions that count",
    "history": "former contents",
    "trash": "a trash",
    "snapshots": "named states of the whole tree",
    "journal": "changes and undo",
    "usage": "a ledger of what is used",
    "limits": "limits given when the subject is made",
    "relimit": "limits that are changed while the subject is in use",
    "principal": "a principal given when the subject is made",
    "clock": "a clock given when the subject is made",
    "requests": "answers kept under idempotency keys",
    "batch": "several operations in one transaction",
    "judges": "operations judged before they are committed, by what they touched",
    "within": "operations confined to a sub-tree",
    "checksum": "sha256 of files",
    "known_checksum": "what was written whole shows its sha256 in its stat",
    "streams": "data that arrives in blocks",
    "open": "contents pinned to a revision",
    "outliving": "contents that are read after their file is gone",
}


class Setting(Struct, frozen=True, kw_only=True):
    """Under what circumstances a test wants its subject."""

    limits: Limits = field(default_factory=Limits)
    principal: Principal = field(default_factory=Principal)
    clock: Clock | None = None


Made = Handler | AbstractContextManager[Handler]


class Subject:
    """Something that performs operations and claims to keep the contract.

    `make` is called for every test and gives an empty tree, as a handler, or as a context manager
    that gives one and clears up. `cannot` names each ability that the subject does not offer, with
    the reason. `relimit` changes the limits of a handler that `make` gave.
    """

    def __init__(
        self, name: str, make: Callable[[Setting], Made], cannot: Mapping[str, str] | None = None,
        relimit: Callable[[Handler, Limits], None] | None = None,
    ) -> None:  # fmt: skip
        self.name = name
        self._make = make
        self.cannot = dict(cannot or {})
        self.relimit = relimit
        if relimit is None:
            self.cannot.setdefault("relimit", "no way to change its limits was given")
        for ability, reason in self.cannot.items():
            if ability not in ABILITIES:
                raise ValueError(f"{name}: there is no ability {ability!r}")
            if not reason.strip():
                raise ValueError(f"{name}: say why it cannot do {ability!r}")
        if "tree" in self.cannot:
            raise ValueError(f"{name}: a subject without a tree cannot be examined")

    def opened(self, setting: Setting) -> AbstractContextManager[Handler]:
        """A new, empty tree for one test."""
        made = self._make(setting)
        return made if isinstance(made, AbstractContextManager) else nullcontext(made)


_roster: dict[str, Subject] = {}


def register(subject: Subject) -> Subject:
    """Puts a subject on the roster; from then on a full run fails if it is not examined."""
    if subject.name in _roster:
        raise ValueError(f"there are two subjects of the name {subject.name!r}")
    _roster[subject.name] = subject
    return subject


def registered() -> Mapping[str, Subject]:
    """The roster."""
    return dict(_roster)
