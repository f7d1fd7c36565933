"""The refusals of a volume that keeps nothing but the present tree.

Verbs of `ports.Volume` that need history, a trash, snapshots, a journal or kept requests are
refused here, so that host folders and overlays refuse the same verbs with the same words. Nothing
here reads or changes anything.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NoReturn

from keelfs.errors import Unsupported
from keelfs.model import Change, Expect, Page, Revision, Snapshot, Stat, Trashed
from keelfs.path import VPath
from keelfs.ports import Volume


def _refuse(what: str) -> NoReturn:
    raise Unsupported(f"this volume keeps no {what}; use a space of a store for that")


class Unversioned:
    """The part of a volume that says no."""

    def history(self, path: VPath, before: int | None, limit: int) -> Sequence[Revision]:  # noqa: ARG002
        _refuse("history")

    def restore(self, path: VPath, revision: int, expect: Expect) -> Stat:  # noqa: ARG002
        _refuse("history")

    def trash(self, path: VPath, expect: Expect) -> Trashed:  # noqa: ARG002
        _refuse("trash")

    def trashed(self, after: str | None, limit: int) -> Page[Trashed]:  # noqa: ARG002
        _refuse("trash")

    def untrash(self, trash_id: str, to: VPath | None, parents: bool) -> Stat:  # noqa: ARG002
        _refuse("trash")

    def purge(self, trash_id: str) -> None:  # noqa: ARG002
        _refuse("trash")

    def snapshot(self, name: str) -> Snapshot:  # noqa: ARG002
        _refuse("snapshots")

    def snapshots(self) -> Sequence[Snapshot]:
        _refuse("snapshots")

    def drop_snapshot(self, name: str) -> None:  # noqa: ARG002
        _refuse("snapshots")

    def rollback(self, name: str) -> Snapshot:  # noqa: ARG002
        _refuse("snapshots")

    def undo(self, seq: int) -> Sequence[int]:  # noqa: ARG002
        _refuse("journal")

    def changes(self, path: VPath, after: int, limit: int) -> Page[Change]:  # noqa: ARG002
        _refuse("journal")

    def receive(
        self,
        source: Volume,  # noqa: ARG002
        path: VPath,  # noqa: ARG002
        to: VPath,  # noqa: ARG002
        replace: bool,  # noqa: ARG002
        parents: bool,  # noqa: ARG002
    ) -> Stat:
        raise Unsupported("this volume takes part in no transaction with others; use transfer()")

    def touched(self) -> Sequence[tuple[str, ...]]:
        _refuse("journal")

    def recall(self, key: str, fingerprint: bytes) -> bytes | None:  # noqa: ARG002
        _refuse("answers of earlier requests")

    def remember(self, key: str, fingerprint: bytes, answer: bytes) -> None:  # noqa: ARG002
        _refuse("answers of earlier requests")
