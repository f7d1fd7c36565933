"""What a write may expect of the node that it changes."""

from __future__ import annotations

from keelfs.errors import Conflict, InvalidArgument
from keelfs.model import ABSENT, ANY, Expect, Stat
from keelfs.store.tree import Node


def check_expect(node: Node | None, expect: Expect) -> None:
    """Raises `Conflict` unless what is there (None: nothing) is what was expected."""
    if expect is ANY:
        return
    actual = None if node is None else node.revision
    if expect is ABSENT:
        if node is not None:
            raise Conflict("there is already something here", expected="absent", actual=actual)
        return
    if isinstance(expect, bool) or not isinstance(expect, int | Stat):  # pyright: ignore
        raise InvalidArgument("expect is ANY, ABSENT, a revision or a Stat")
    revision = expect.revision if isinstance(expect, Stat) else expect
    if node is None:
        raise Conflict("there is nothing here any more", expected=str(revision), actual=None)
    if isinstance(expect, Stat) and expect.id != node.uuid:
        raise Conflict("this is another file than the one expected", expected=str(revision),
                       actual=actual)  # fmt: skip
    if revision != actual:
        raise Conflict(
            f"revision {revision} was expected, revision {actual} is there",
            expected=str(revision),
            actual=actual,
        )
