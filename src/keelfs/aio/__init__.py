"""Keelfs for programs with an event loop: the same verbs, awaitable.

Streams and `watch` are asynchronous iterators, and data may arrive asynchronously.
"""

from keelfs.aio.files import File
from keelfs.aio.hop import Crew
from keelfs.aio.server import Server, Session, connect
from keelfs.aio.shell import Shell
from keelfs.aio.store import Store, Tenant, open
from keelfs.aio.watch import Watch
from keelfs.aio.workspace import Space, Workspace

__all__ = [
    "Crew", "File", "Server", "Session", "Shell", "Space", "Store", "Tenant", "Watch", "Workspace",
    "connect", "open",
]  # fmt: skip
