"""Keelfs: the filesystem an AI agent cannot escape from, cannot lose data in, cannot slow down.

Begin with `keelfs.open(url)`; it gives a store, a store gives tenants, a tenant gives spaces, and a
space is a workspace with every verb. `keelfs.aio.open(url)` is the same for an event loop.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from keelfs import errors, ops
from keelfs.assembly import Store, Tenant, open, restore
from keelfs.errors import (
    AlreadyExists,
    Conflict,
    KeelError,
    NotFound,
    PermissionDenied,
    QuotaExceeded,
    ReadOnly,
    TooLarge,
)
from keelfs.model import (
    ABSENT,
    ANY,
    Change,
    ChangeKind,
    Entry,
    Kind,
    Limits,
    Match,
    Page,
    Principal,
    Revision,
    Snapshot,
    Stat,
    Trashed,
    Usage,
)
from keelfs.workspace import Space, Workspace

if TYPE_CHECKING:
    from keelfs.client import Server

__version__ = "0.1.0"

__all__ = [
    "ABSENT",
    "ANY",
    "AlreadyExists",
    "Change",
    "ChangeKind",
    "Conflict",
    "Entry",
    "KeelError",
    "Kind",
    "Limits",
    "Match",
    "NotFound",
    "Page",
    "PermissionDenied",
    "Principal",
    "QuotaExceeded",
    "ReadOnly",
    "Revision",
    "Snapshot",
    "Space",
    "Stat",
    "Store",
    "Tenant",
    "TooLarge",
    "Trashed",
    "Usage",
    "Workspace",
    "connect",
    "errors",
    "open",
    "ops",
    "restore",
]


def connect(url: str, *, token: str | None = None, timeout: float = 90.0) -> Server:
    """A server at an address such as `http://127.0.0.1:8420`, for the bearer of a token."""
    from keelfs import client

    return client.connect(url, token=token, timeout=timeout)


def __getattr__(name: str) -> object:
    """`keelfs.aio` is loaded when it is asked for: an event loop costs more than all the rest."""
    if name == "aio":
        from importlib import import_module

        return import_module("keelfs.aio")
    raise AttributeError(f"module 'keelfs' has no attribute {name!r}")
