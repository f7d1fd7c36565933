"""What the fields of an operation may hold.

Operations are frozen records that trust whoever builds them. Here they are judged once, field by
field, before a handler sees them, so that a mistake is answered with a sentence that says what to
pass, on every surface alike and inside batches too. Data of every accepted shape becomes bytes or a
source on its way through.

Nothing here looks at a volume. Who calls: the door of a workspace.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import cache, partial
from typing import Any, Final, Protocol, TypeVar, cast

from msgspec.structs import fields
from msgspec.structs import replace as with_fields

from keelfs import ops
from keelfs.errors import InvalidArgument, KeelError
from keelfs.model import END_OF_JOURNAL, MAX_PAGE, Attrs, Data, Expectation, Kind, Source, Stat
from keelfs.path import parse

T = TypeVar("T")
Check = Callable[[str, Any], object]

#: How much is asked of a file or a content at once; what one chunk of the stores holds.
BLOCK: Final = 256 * 1024
#: Enough for any identifier that a client makes; the stores index it.
MAX_KEY_BYTES: Final = 255


class BinaryReader(Protocol):
    """A file object opened for reading bytes."""

    def read(self, size: int, /) -> bytes: ...


#: As many digits of a composed journal as anybody mounts spaces.
MAX_NUMBER_BITS: Final = 4096

#: What a caller may pass where bytes are wanted.
Given = str | bytes | bytearray | memoryview | Iterable[bytes] | BinaryReader | Source


class Blocks:
    """Blocks out of an iterable, as a source; they can be taken once."""

    def __init__(self, given: Iterable[object]) -> None:
        self._given: Iterable[object] | None = given

    def blocks(self) -> Iterator[bytes]:
        given, self._given = self._given, None
        if given is None:
            raise InvalidArgument("this data was read before; pass it anew to each operation")
        for block in given:
            if not isinstance(block, bytes | bytearray | memoryview):
                raise InvalidArgument(
                    f"data arrives in blocks of bytes, not {type(block).__name__}; "
                    "encode text, and open files in binary mode"
                )
            yield bytes(cast(bytes, block))


def carried(data: object) -> Data:
    """Data as operations carry it. Nothing is read yet."""
    match data:
        case bytes():
            return data
        case str():
            try:
                return data.encode()
            except UnicodeEncodeError:
                raise InvalidArgument("the text is not valid Unicode; pass bytes") from None
        case bytearray() | memoryview():
            return bytes(cast(bytes, data))
        case _ if hasattr(data, "blocks"):
            return cast(Source, data)
        case _ if hasattr(data, "__aiter__"):
            raise InvalidArgument("asynchronous data needs keelfs.aio; or collect it into bytes")
        case _ if hasattr(data, "read"):
            return Blocks(iter(partial(cast(BinaryReader, data).read, BLOCK), b""))
        case _ if hasattr(data, "__iter__"):
            return Blocks(cast(Iterable[object], data))
        case _:
            raise InvalidArgument(
                "data is text, bytes, an iterable of bytes or a binary file, "
                f"not {type(data).__name__}"
            )


def checked(op: ops.Op[T]) -> ops.Op[T]:
    """The operation, ready to be performed, if each of its fields holds what it may hold."""
    if not isinstance(op, ops.Op):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise InvalidArgument(f"operations are made by keelfs.ops, not {type(op).__name__}")
    if isinstance(op, ops.Batch):
        return cast(ops.Op[T], with_fields(op, ops=_each(op.ops)))
    for name, check, usual in _checks(type(op)):
        value = getattr(op, name)
        if value is not usual:
            check(name, value)
    data: object = getattr(op, "data", b"")
    return op if type(data) is bytes else with_fields(op, data=carried(data))


def _each(batch: Iterable[ops.Op[Any]]) -> tuple[ops.Op[Any], ...]:
    if isinstance(batch, ops.Op) or not hasattr(batch, "__iter__"):
        raise InvalidArgument("a batch is a list of operations")
    done: list[ops.Op[Any]] = []
    for op in batch:
        try:
            done.append(checked(op))
        except KeelError as error:
            error.operation = len(done)
            raise
    return tuple(done)


def flag(name: str, value: object) -> None:
    if value is not True and value is not False:
        raise InvalidArgument(f"{name} is True or False, not {value!r:.40}")


def integer(name: str, value: object) -> None:
    """Whole numbers that both databases can hold; True and False are none."""
    if type(value) is not int:
        raise InvalidArgument(f"{name} is a whole number, not {type(value).__name__}")
    if not -END_OF_JOURNAL <= value <= END_OF_JOURNAL:
        raise InvalidArgument(f"{name} lies within 63 bits")


def natural(name: str, value: object) -> None:
    integer(name, value)
    if cast(int, value) < 0:
        raise InvalidArgument(f"{name} is 0 or more, not {value}")


def _number(name: str, value: object) -> None:
    """A number of the journal; those of a composed tree are longer than any database's."""
    if type(value) is int and 0 <= value < 1 << MAX_NUMBER_BITS:
        return
    natural(name, value)


def text(name: str, value: object) -> None:
    if not isinstance(value, str):
        raise InvalidArgument(f"{name} is text, not {type(value).__name__}")
    if "\0" in value:
        raise InvalidArgument(f"{name} cannot contain a NUL character")
    try:
        _ = value.isascii() or value.encode()
    except UnicodeEncodeError:
        raise InvalidArgument(f"{name} is not valid Unicode") from None


def check_key(key: object) -> None:
    """Refuses what cannot be an idempotency key."""
    text("key", key)
    if not 1 <= len(cast(str, key).encode()) <= MAX_KEY_BYTES:
        raise InvalidArgument(f"key has 1 to {MAX_KEY_BYTES} bytes; a UUID will do")


def place(name: str, value: Any) -> None:  # noqa: ARG001
    parse(value)


def _page(name: str, value: object) -> None:
    natural(name, value)
    if not 1 <= cast(int, value) <= MAX_PAGE:
        raise InvalidArgument(f"{name} lies between 1 and {MAX_PAGE:,}, not {value}")


def _kind(name: str, value: object) -> None:
    if not isinstance(value, Kind):
        raise InvalidArgument(f"{name} is one of keelfs.Kind, not {value!r:.40}")


def _expect(name: str, value: object) -> None:
    if type(value) is int:
        natural(name, value)
    elif not isinstance(value, Expectation | Stat):
        raise InvalidArgument(
            f"{name} is ANY, ABSENT, a revision or a Stat, not {type(value).__name__}"
        )


def _attrs(name: str, value: object) -> None:
    if not isinstance(value, Attrs):
        raise InvalidArgument(f"{name} is a keelfs.model.Attrs, not {type(value).__name__}")
    for field in fields(Attrs):
        given: Any = getattr(value, field.name)
        if given is not None:
            _ATTRS[field.name](field.name, given)


def _xattrs(name: str, value: object) -> None:
    if not isinstance(value, dict):
        raise InvalidArgument(f"{name} is a dictionary of names and bytes")
    for key, held in cast(dict[object, object], value).items():
        text(f"the name of one of the {name}", key)
        if held is not None and not isinstance(held, bytes):
            raise InvalidArgument(f"{name} hold bytes, or None to remove one")


_ATTRS: Final[dict[str, Check]] = {
    "mode": natural, "uid": natural, "gid": natural, "atime_ns": integer, "mtime_ns": integer,
    "readonly": flag, "mime": text, "xattrs": _xattrs,
}  # fmt: skip

_RULES: Final[dict[str, Check]] = {
    "path": place, "to": place,
    "follow": flag, "parents": flag, "exist_ok": flag, "recursive": flag, "replace": flag,
    "offset": natural, "length": natural, "size": natural, "revision": natural, "seq": _number,
    "before": natural, "mode": natural, "rdev": natural, "limit": _page,
    "after": text, "mime": text, "target": text, "name": text, "trash_id": text,
    "key": lambda _, key: check_key(key),
    "kind": _kind, "attrs": _attrs, "expect": _expect,
    "op": lambda _, op: checked(op),
}  # fmt: skip


@cache
def _checks(operation: type[ops.Op[Any]]) -> tuple[tuple[str, Check, Any], ...]:
    """The checks of one class of operations, and the value that needs none: a field's default."""
    found: list[tuple[str, Check, Any]] = []
    for field in fields(operation):
        check = _RULES.get(field.name)
        if field.name == "after" and field.default is not None:
            check = _number
        if check is not None:
            found.append((field.name, check, field.default))
    return tuple(found)
