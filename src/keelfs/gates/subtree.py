"""A gate that shows one directory as if it were the whole tree.

It only names the directory: the volume itself starts its resolution there, inside the transaction,
so no link leads out and no race can move one in between.
"""

from __future__ import annotations

from typing import TypeVar

from keelfs.ops import Op, Within
from keelfs.path import VPath
from keelfs.ports import Handler

T = TypeVar("T")


class Subtree:
    """The tree below `base`."""

    def __init__(self, below: Handler, base: VPath) -> None:
        self.below = below
        self.base = base

    def perform(self, op: Op[T], /) -> T:
        return self.below.perform(Within(op, self.base))
