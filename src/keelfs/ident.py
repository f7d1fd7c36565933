"""Identities that are never used twice.

A UUIDv7 begins with the time, so that newer identities sort after older ones; within one process
they only ever grow, also when the clock stands still or steps back.
"""

from __future__ import annotations

import os
import threading

_lock = threading.Lock()
_last = 0


def uuid7(now_ns: int) -> bytes:
    """16 bytes, greater than all this process has made before."""
    global _last
    value = (now_ns // 1_000_000) << 80 | int.from_bytes(os.urandom(10))
    # Version 7 in bits 76-79, variant 10 in bits 62-63.
    value = value & ~(0xF << 76) & ~(0x3 << 62) | 0x7 << 76 | 0x2 << 62
    with _lock:
        if value <= _last:
            value = _last + 1
        _last = value
    return value.to_bytes(16)
