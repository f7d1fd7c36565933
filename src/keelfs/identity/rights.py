"""The verbs that a token may be limited to, and what a role may do unless it is told otherwise.

Verbs of trees are the names of operations. Verbs of management have no operation behind them: they
make and delete agents and sessions.
"""

from __future__ import annotations

from typing import Any, Final

from keelfs import ops
from keelfs.errors import InvalidArgument
from keelfs.grant import Role

_WRAPPERS: Final = (ops.Batch, ops.Wrapped)


def _is_operation(kind: Any) -> bool:
    if not isinstance(kind, type) or kind is ops.Op or issubclass(kind, _WRAPPERS):
        return False
    return issubclass(kind, ops.Op) and not kind.__name__.startswith("_")


_OPERATIONS: Final[list[type[ops.Op[Any]]]] = [
    kind for kind in vars(ops).values() if _is_operation(kind)
]

#: What changes nothing that can be seen.
READING: Final = frozenset(
    kind.__name__.lower() for kind in _OPERATIONS if not kind.mutates or kind is ops.Checksum
)
MANAGING: Final = frozenset(
    {"create_agent", "delete_agent", "create_session", "delete_session", "fork", "set_limits"}
)
#: The only verb of a token that is good for nothing but being exchanged, once, for a whole one.
REDEEM: Final = "redeem"
VERBS: Final = frozenset(kind.__name__.lower() for kind in _OPERATIONS) | MANAGING | {REDEEM}
#: What takes things away. An agent's token allows it only where it says so by name, because
#: whoever hands the token out has to decide that no approval is needed.
REMOVING: Final = frozenset({"remove", "trash", "purge", "dropsnapshot", "rollback", "undo"})
AGENT_VERBS: Final = VERBS - MANAGING - REMOVING - {REDEEM}

#: Which of the managing verbs a role has at all.
MANAGED_BY: Final = {
    Role.OPERATOR: MANAGING,
    Role.USER: frozenset({"create_session", "delete_session", "fork"}),
    Role.AGENT: frozenset[str](),
}


def checked_verbs(verbs: frozenset[str] | None) -> frozenset[str] | None:
    """The verbs, if there are such."""
    if verbs is not None and (unknown := sorted(verbs - VERBS)):
        raise InvalidArgument(f"there is no verb {unknown[0]!r}; verbs are {sorted(VERBS)}")
    return verbs
