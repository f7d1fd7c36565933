"""Attributes of a node: everything about it but its bytes and its names."""

from __future__ import annotations

from base64 import b64decode, b64encode
from typing import TYPE_CHECKING, Any, Final

from msgspec import json, msgpack
from msgspec.structs import asdict

from keelfs.errors import InvalidArgument, TooLarge
from keelfs.model import Attrs, ChangeKind, Expect, Stat
from keelfs.path import VPath
from keelfs.store.database import Statement
from keelfs.store.expect import check_expect
from keelfs.store.tree import Node, resolve, stat_of

if TYPE_CHECKING:
    from keelfs.store.view import View

SET_ATTRS: Final = Statement(
    """UPDATE nodes SET mode = ?4, uid = ?5, gid = ?6, readonly = ?7, mime = ?8, xattrs = ?9,
           atime_ns = ?10, mtime_ns = ?11, ctime_ns = ?12
       WHERE tenant = ?1 AND space = ?2 AND id = ?3"""
)
MAX_OWNER: Final = 2**32 - 1
MAX_TIME_NS: Final = 2**63 - 1


def set_attrs(view: View, path: VPath, attrs: Attrs, follow: bool, expect: Expect) -> Stat:
    check_attrs(attrs)
    spot = resolve(view, path, follow=follow)
    node = spot.found
    check_expect(node, expect)
    given = {name: value for name, value in asdict(attrs).items() if value is not None}
    if not given:
        return stat_of(node)
    former = {name: getattr(node, name) for name in given}
    if attrs.xattrs is not None:
        present = xattrs_of(node)
        former["xattrs"] = {
            name: b64encode(present[name]).decode() if name in present else None
            for name in attrs.xattrs
        }
    if "readonly" in former:
        former["readonly"] = bool(former["readonly"])
    _apply(view, node, attrs)
    scope = view.scope
    node.ctime_ns = scope.now_ns
    scope.flush_directories()
    view.tx.do(
        SET_ATTRS, view.space, node.id, node.mode, node.uid, node.gid, int(node.readonly),
        node.mime, node.xattrs, node.atime_ns, node.mtime_ns, node.ctime_ns,
    )  # fmt: skip
    scope.record(ChangeKind.ATTRS, spot.parts, node, detail=json.encode(former).decode())
    return stat_of(node)


def _apply(view: View, node: Node, attrs: Attrs) -> None:
    for name in ("uid", "gid", "atime_ns", "mtime_ns"):
        value = getattr(attrs, name)
        if value is not None:
            setattr(node, name, value)
    if attrs.mode is not None:
        node.mode = attrs.mode & 0o7777
    if attrs.readonly is not None:
        node.readonly = int(attrs.readonly)
    if attrs.mime is not None:
        node.mime = attrs.mime or None
    if attrs.xattrs is not None:
        merged = {**xattrs_of(node), **attrs.xattrs}
        kept = {name: value for name, value in merged.items() if value is not None}
        size = sum(len(name.encode()) + len(value) for name, value in kept.items())
        limit = view.scope.limits.xattr_bytes
        if limit is not None and size > limit:
            raise TooLarge(
                f"the xattrs of one node may have {limit} bytes, these have {size}",
                limit="space.xattr_bytes",
                size=limit,
                used=size,
            )
        node.xattrs = msgpack.encode(kept) if kept else None


def xattrs_of(node: Node) -> dict[str, bytes]:
    return {} if node.xattrs is None else msgpack.decode(node.xattrs, type=dict[str, bytes])


def check_attrs(attrs: Attrs) -> None:
    """Refuses values that no database can keep."""
    if any(owner is not None and not 0 <= owner <= MAX_OWNER for owner in (attrs.uid, attrs.gid)):
        raise InvalidArgument(f"uid and gid lie between 0 and {MAX_OWNER}")
    times = (attrs.atime_ns, attrs.mtime_ns)
    if any(time is not None and abs(time) > MAX_TIME_NS for time in times):
        raise InvalidArgument("a time has 64 bits of nanoseconds")
    check_mime(attrs.mime)
    for name in attrs.xattrs or {}:
        try:
            size = len(name.encode())
        except UnicodeEncodeError:
            raise InvalidArgument("the name of an xattr is UTF-8 text") from None
        if not 1 <= size <= 255 or "\0" in name:
            raise InvalidArgument("the name of an xattr has 1 to 255 bytes and no NUL")


def check_mime(mime: str | None) -> None:
    """A media type is short, and can be put into a header."""
    if mime is not None and (len(mime) > 255 or not mime.isascii() or not mime.isprintable()):
        raise InvalidArgument("a media type has at most 255 printable ASCII characters")


def former_attrs(detail: str) -> Attrs:
    """What a change of attributes replaced, ready to be set again."""
    former: dict[str, Any] = json.decode(detail)
    if "mime" in former:
        former["mime"] = former["mime"] or ""
    if "xattrs" in former:
        former["xattrs"] = {
            name: None if value is None else b64decode(value)
            for name, value in former["xattrs"].items()
        }
    return Attrs(**former)
