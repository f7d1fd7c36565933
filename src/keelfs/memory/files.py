"""The verbs of the memory volume that read or change what a node holds.

Always true: bytes change in one place (`put_bytes`), which counts the revision, keeps the former
content and checks sizes; nothing here gives a node another name.
"""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Sequence
from heapq import nsmallest
from typing import Any

from msgspec.structs import asdict, replace

from keelfs.errors import InvalidArgument, NotALink, RevisionNotFound
from keelfs.memory.records import Bytes, Found, Kept, Node, digest
from keelfs.memory.tree import (
    FILE_MODE,
    PERMISSIONS,
    Tree,
    a_file,
    check_page,
    judge,
    metered,
    writable,
)
from keelfs.model import (
    Attrs,
    ChangeKind,
    Content,
    Data,
    Entry,
    Expect,
    Kind,
    Page,
    Revision,
    Stat,
)
from keelfs.path import VPath, sort_key

MAX_ID = 2**32 - 1
MAX_TIME = 2**63 - 1


class Files(Tree):
    """Reading, writing, history and attributes."""

    def stat(self, path: VPath, follow: bool) -> Stat:
        return self.answer(self.existing(path, follow)[1].id)

    def list(self, path: VPath, after: str | None, limit: int) -> Page[Entry]:
        check_page(limit)
        names = self._state.children[self.directory(path).id]
        start = b"" if after is None else encoded(after)
        later = (name for name in names if sort_key(name) > start)
        chosen = nsmallest(limit + 1, later, key=sort_key)
        entries = [Entry(name, self.answer(names[name])) for name in chosen[:limit]]
        return Page(entries, entries[-1].name if len(chosen) > limit else None)

    def read(self, path: VPath, offset: int, length: int | None, revision: int | None) -> bytes:
        _, node = self.file(path)
        data = self._content(node, revision).data
        if offset < 0 or (length is not None and length < 0):
            raise InvalidArgument("offset and length cannot be negative")
        end = len(data) if length is None else min(len(data), offset + length)
        self.check_size("read_bytes", end - offset, "the answer of one read()")
        return data[offset:end]

    def open(self, path: VPath, revision: int | None) -> Content:
        _, node = self.file(path)
        kept = self._content(node, revision)
        stat = replace(
            self.answer(node.id),
            revision=kept.revision, size=len(kept.data), sha256=kept.sha256,
        )  # fmt: skip
        return Bytes(stat, kept.data)

    def readlink(self, path: VPath) -> str:
        _, node = self.existing(path, follow=False)
        if node.target is None:
            raise NotALink
        return node.target

    @metered
    def write(
        self, path: VPath, data: Data, expect: Expect, parents: bool, mode: int | None,
        mime: str | None,
    ) -> Stat:  # fmt: skip
        check_mime(mime)
        new = joined(data)
        found = self.locate(path, follow=True)
        if found.node is None:
            mode = FILE_MODE if mode is None else mode
            return self._create(found, new, expect, parents, mode, mime)
        node = a_file(found.node)
        judge(expect, node)
        writable(node)
        if mime is not None:
            node = replace(node, mime=mime or None)
        return self.put_bytes(found, node, new, digest(new))

    @metered
    def append(self, path: VPath, data: Data, expect: Expect, parents: bool) -> Stat:
        new = joined(data)
        found = self.locate(path, follow=True)
        if found.node is None:
            return self._create(found, new, expect, parents, FILE_MODE, None)
        node = a_file(found.node)
        judge(expect, node)
        writable(node)
        if not new:
            return self.answer(node.id)
        self.check_file_size(len(node.data) + len(new), len(node.data))
        return self.put_bytes(found, node, node.data + new, None)

    @metered
    def patch(self, path: VPath, offset: int, data: Data, expect: Expect) -> Stat:
        if offset < 0:
            raise InvalidArgument("an offset cannot be negative")
        new = joined(data)
        found, node = self.file(path)
        judge(expect, node)
        writable(node)
        if not new:
            return self.answer(node.id)
        self.check_file_size(offset + len(new), len(node.data))
        head = node.data[:offset].ljust(offset, b"\0")
        return self.put_bytes(found, node, head + new + node.data[offset + len(new) :], None)

    @metered
    def truncate(self, path: VPath, size: int, expect: Expect) -> Stat:
        if size < 0:
            raise InvalidArgument("a size cannot be negative")
        found, node = self.file(path)
        judge(expect, node)
        writable(node)
        if size == len(node.data):
            return self.answer(node.id)
        self.check_file_size(size, len(node.data))
        return self.put_bytes(found, node, node.data[:size].ljust(size, b"\0"), None)

    def _create(
        self, found: Found, data: bytes, expect: Expect, parents: bool, mode: int,
        mime: str | None,
    ) -> Stat:  # fmt: skip
        judge(expect, None)
        directory = self.make_way(found, parents)
        self.check_file_size(len(data))
        node = self.fresh(Kind.FILE, mode, data=data, mime=mime or None)
        self.enter(directory, found.path, node.id)
        self.record(ChangeKind.CREATE, found.path, node=node)
        return self.answer(node.id)

    def put_bytes(self, found: Found, node: Node, data: bytes, sha256: str | None) -> Stat:
        """Makes `data` the next revision of a file."""
        self.check_file_size(len(data), len(self._state.nodes[node.id].data))
        written = self.next_revision(node, data, sha256)
        self.record(ChangeKind.WRITE, found.path, node=written)
        return self.answer(node.id)

    def next_revision(self, node: Node, data: bytes, sha256: str | None) -> Node:
        """The node one revision later; its former content goes into the history."""
        now = self._turn.now
        self._keep(self._state.nodes[node.id])
        written = replace(
            node, data=data, sha256=sha256, revision=node.revision + 1, mtime_ns=now,
            ctime_ns=now, written_ns=now, written_by=str(self._turn.principal),
        )  # fmt: skip
        self._state.replace(written)
        self._turn.touched.add(node.id)
        return written

    def _keep(self, node: Node) -> None:
        """Adds a content that is about to be replaced, as far as the limits let it stay."""
        count, room = self._turn.limits.history_count, self._turn.limits.history_bytes
        old = Kept(node.revision, node.data, node.written_ns, node.written_by, node.sha256)
        former = self._state.history.get(node.id, ())
        kept = (*former, old)
        if count is not None:
            kept = kept[len(kept) - count :] if count < len(kept) else kept
        if room is not None:
            others = self._state.totals["history_bytes"] - sum(len(each.data) for each in former)
            while kept and others + sum(len(each.data) for each in kept) > room:
                kept = kept[1:]
        self._state.set_history(node.id, kept)

    def checksum(self, path: VPath) -> str:
        _, node = self.file(path)
        if node.sha256 is None:
            node = replace(node, sha256=digest(node.data))
            self._state.replace(node)
        return str(node.sha256)

    def history(self, path: VPath, before: int | None, limit: int) -> Sequence[Revision]:
        check_page(limit)
        _, node = self.file(path)
        kept = (*self._state.history.get(node.id, ()), self._content(node, None))
        newest_first = [
            Revision(each.revision, len(each.data), each.at_ns, each.by, each.sha256)
            for each in reversed(kept)
            if before is None or each.revision < before
        ]
        return newest_first[:limit]

    @metered
    def restore(self, path: VPath, revision: int, expect: Expect) -> Stat:
        found, node = self.file(path)
        judge(expect, node)
        kept = self._content(node, revision)
        writable(node)
        if revision == node.revision:
            return self.answer(node.id)
        return self.put_bytes(found, node, kept.data, kept.sha256)

    def _content(self, node: Node, revision: int | None) -> Kept:
        """One content of a file: the present one, or one that is kept."""
        if revision is None or revision == node.revision:
            return Kept(node.revision, node.data, node.written_ns, node.written_by, node.sha256)
        for kept in self._state.history.get(node.id, ()):
            if kept.revision == revision:
                return kept
        raise RevisionNotFound

    def set_attrs(self, path: VPath, attrs: Attrs, follow: bool, expect: Expect) -> Stat:
        check_attrs(attrs)
        found, node = self.existing(path, follow)
        judge(expect, node)
        given = {name: value for name, value in asdict(attrs).items() if value is not None}
        if not given:
            return self.answer(node.id)
        former = {name: getattr(node, name) for name in given}
        if attrs.xattrs is not None:
            former["xattrs"] = {
                name: b64encode(node.xattrs[name]).decode() if name in node.xattrs else None
                for name in attrs.xattrs
            }
            given["xattrs"] = self._merged(node.xattrs, attrs.xattrs)
        if attrs.mode is not None:
            given["mode"] = attrs.mode & PERMISSIONS
        if attrs.mime is not None:
            given["mime"] = attrs.mime or None
        changed: Node = replace(node, ctime_ns=self._turn.now, **given)
        self._state.replace(changed)
        self.record(ChangeKind.ATTRS, found.path, node=changed, detail=json.dumps(former))
        return self.answer(node.id)

    def _merged(self, present: dict[str, bytes], given: dict[str, bytes | None]) -> dict[str, Any]:
        merged = {**present, **given}
        xattrs = {name: value for name, value in merged.items() if value is not None}
        size = sum(len(name.encode()) + len(value) for name, value in xattrs.items())
        self.check_size("xattr_bytes", size, "the bytes of all xattrs of one node")
        return xattrs


def joined(data: Data) -> bytes:
    """The bytes of what a write carries."""
    if isinstance(data, bytes):
        return data
    return b"".join(data.blocks())


def encoded(text: str) -> bytes:
    """Text from outside in UTF-8."""
    try:
        return text.encode()
    except UnicodeEncodeError:
        raise InvalidArgument("the text is not valid UTF-8") from None


def check_mime(mime: str | None) -> None:
    """A media type is short and can be put into a header."""
    if mime is not None and (len(mime) > 255 or not mime.isascii() or not mime.isprintable()):
        raise InvalidArgument("a media type has at most 255 printable ASCII characters")


def check_attrs(attrs: Attrs) -> None:
    """Refuses values that no database can keep."""
    if any(owner is not None and not 0 <= owner <= MAX_ID for owner in (attrs.uid, attrs.gid)):
        raise InvalidArgument(f"uid and gid lie between 0 and {MAX_ID}")
    times = (attrs.atime_ns, attrs.mtime_ns)
    if any(time is not None and abs(time) > MAX_TIME for time in times):
        raise InvalidArgument("a time has 64 bits of nanoseconds")
    check_mime(attrs.mime)
    for name in attrs.xattrs or {}:
        if "\0" in name or not 1 <= len(encoded(name)) <= 255:
            raise InvalidArgument("the name of an xattr has 1 to 255 bytes and no NUL")
