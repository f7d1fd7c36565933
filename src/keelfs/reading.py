"""The bytes of a file in blocks, all from one revision, by the fewest operations.

Searches and archives read files this way: a small file costs one operation, a large one is pinned
and read block by block, so that memory is bounded and a writer does not show through.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from keelfs import ops
from keelfs.errors import TooLarge
from keelfs.model import Content
from keelfs.path import VPath
from keelfs.ports import Handler

#: The size of a stored chunk, and the most that is read at once.
BLOCK: Final = 256 * 1024


def read_blocks(
    handler: Handler, path: VPath, size: int, block: int = BLOCK
) -> tuple[int, Iterator[bytes]]:
    """The size of the file and its blocks. `size` is what is believed; being wrong costs time."""
    if size < block:
        try:
            data = handler.perform(ops.Read(path, 0, block))
        except TooLarge:
            # Whoever set the limit of one read below a block has not forbidden streaming.
            data = b""
        if 0 < len(data) < block or size == 0 == len(data):
            return len(data), iter([data] if data else [])
    content = handler.perform(ops.Open(path))
    return content.stat.size, _blocks(content, block)


def _blocks(content: Content, block: int) -> Iterator[bytes]:
    for offset in range(0, content.stat.size, block):
        yield content.read(offset, block)
