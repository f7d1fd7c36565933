"""Operations and their answers as JSON, for what is performed elsewhere than it is asked for.

Each operation of `keelfs.ops` is an object whose `op` is its verb and whose other members are its
fields, under the same names and with the same defaults; bytes are base64. Nothing is judged here
but the shape: what fields may hold, the door says that performs the operation.

Two things have no shape. A judge is a function of the asking process; an opened content is told as
its `Stat`, and whoever wants its bytes reads them. Who calls: the client, and the surface that
answers it.
"""

from __future__ import annotations

import types
from collections.abc import Mapping, Sequence
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    Final,
    Literal,
    TypeAlias,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

import msgspec
from msgspec import Meta, Struct
from msgspec.structs import fields
from msgspec.structs import replace as with_fields

from keelfs import ops
from keelfs.errors import InvalidArgument, Unsupported
from keelfs.model import Data, Expect, Expectation, Source, Stat
from keelfs.ops import Op
from keelfs.path import VPath, parse

#: How deep operations may lie in each other: a key around a batch of sub-trees needs three.
DEPTH: Final = 16

_Expected = int | Literal["any", "absent"] | Stat
_WRAPPERS: Final = (ops.Batch, ops.Wrapped)


def _is_plain(kind: object) -> bool:
    if not isinstance(kind, type) or not issubclass(kind, Op) or kind is Op:
        return False
    return not kind.__name__.startswith("_") and not issubclass(kind, _WRAPPERS)


def _shape_of(hint: Any) -> Any:
    """What a field of an operation is in JSON."""
    members = set(get_args(hint)) if get_origin(hint) in {Union, types.UnionType} else {hint}
    if VPath in members:
        return str | None if type(None) in members else str
    if Source in members:
        # None: the data arrives by itself, behind the operation.
        return bytes | None
    return _Expected if hint == Expect else hint


def _given(name: str, default: Any) -> Any:
    if name == "data":
        return None
    return default.value if isinstance(default, Expectation) else _path_text(default)


def _path_text(value: Any) -> Any:
    return str(value) if isinstance(value, VPath) else value


def _shape(kind: type[Op[Any]]) -> type[Struct]:
    """The class of the JSON objects that stand for one class of operations."""
    hints = get_type_hints(kind)
    shapes: list[Any] = []
    for field in fields(kind):
        shape = _shape_of(hints[field.name])
        needed = field.default is msgspec.NODEFAULT and field.name != "data"
        usual = () if needed else (_given(field.name, field.default),)
        shapes.append((field.name, shape, *usual))
    return msgspec.defstruct(
        kind.__name__, shapes, module=__name__, tag=kind.__name__.lower(), tag_field="op",
        kw_only=True, forbid_unknown_fields=True, frozen=True,
    )  # fmt: skip


class _Wrapper(Struct, tag_field="op", forbid_unknown_fields=True, frozen=True, kw_only=True):
    """What stands for an operation around others."""


class Batch(_Wrapper, tag="batch", frozen=True, kw_only=True):
    """All or none."""

    ops: Annotated[list[AnyShape], Meta(max_length=100_000)]


class Within(_Wrapper, tag="within", frozen=True, kw_only=True):
    """In the sub-tree below a directory."""

    base: str
    inner: AnyShape


class Once(_Wrapper, tag="once", frozen=True, kw_only=True):
    """At most once under its key."""

    key: str
    inner: AnyShape


_KINDS: Final[Mapping[str, type[Op[Any]]]] = {
    kind.__name__: kind for kind in vars(ops).values() if _is_plain(kind)
}
_SHAPES: Final[Mapping[str, type[Struct]]] = {name: _shape(kind) for name, kind in _KINDS.items()}
if TYPE_CHECKING:
    AnyShape: TypeAlias = Any
else:
    #: Every operation there is, as JSON.
    AnyShape = Union[(*_SHAPES.values(), Batch, Within, Once)]

_decoder: Final = msgspec.json.Decoder(AnyShape)


# -- operations


def sent(op: Op[Any]) -> bytes:
    """The operation as JSON, if its paths are some. Data that is a source is sent behind it."""
    op.paths()
    try:
        return msgspec.json.encode(_shown(op))
    except UnicodeEncodeError:
        raise InvalidArgument("the operation holds text that is not valid Unicode") from None


def _shown(op: Op[Any]) -> Struct:
    match op:
        case ops.Batch():
            return Batch(ops=[_shown(each) for each in op.ops])
        case ops.Within():
            return Within(base=str(op.base), inner=_shown(op.op))
        case ops.Once():
            return Once(key=op.key, inner=_shown(op.op))
        case _:
            pass
    shape = _SHAPES.get(type(op).__name__)
    if shape is None or type(op) not in _KINDS.values():
        raise Unsupported("this operation cannot be performed by a server")
    return shape(**{name: _outward(name, getattr(op, name)) for name in op.__struct_fields__})


def _outward(name: str, value: Any) -> Any:
    if name == "data":
        value = value.encode() if isinstance(value, str) else value
        return value if isinstance(value, bytes) else None
    if isinstance(value, Stat):
        # What is expected is an identity and a revision; attributes may be long.
        return with_fields(value, xattrs={})
    return value.value if isinstance(value, Expectation) else _path_text(value)


def decoded(text: str | bytes) -> Any:
    """The shape that a text says; `InvalidArgument` where it says none."""
    try:
        return _decoder.decode(text)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise InvalidArgument(f"this is no operation: {error}") from None


def operation(shape: Any, data: Data | None = None, depth: int = 0) -> Op[Any]:
    """The operation that a shape stands for; data that is not in it is `data`."""
    if depth > DEPTH:
        raise InvalidArgument(f"operations lie in each other at most {DEPTH} deep")
    match shape:
        case Batch():
            return ops.Batch(tuple(operation(each, None, depth + 1) for each in shape.ops))
        case Within():
            return ops.Within(operation(shape.inner, data, depth + 1), parse(shape.base))
        case Once():
            inner = operation(shape.inner, data, depth + 1)
            if has_key(inner):
                raise InvalidArgument("what is done under a key has no other key inside")
            return ops.Once(inner, shape.key, ops.fingerprint(inner))
        case _:
            pass
    kind = _KINDS[type(shape).__name__]
    given = {name: getattr(shape, name) for name in shape.__struct_fields__}
    if "data" in given and given["data"] is None:
        given["data"] = b"" if data is None else data
    if isinstance(given.get("expect"), str):
        given["expect"] = Expectation(given["expect"])
    return kind(**given)


def has_key(op: Op[Any]) -> bool:
    """Whether any part of it is done under a key."""
    if isinstance(op, ops.Batch):
        return any(has_key(each) for each in op.ops)
    return isinstance(op, ops.Once) or (isinstance(op, ops.Wrapped) and has_key(op.op))


# -- answers


def told(answer: Any) -> bytes:
    """An answer as JSON; of an opened content, what is known of it."""
    return msgspec.json.encode(answer, enc_hook=_plain)


def _plain(answer: Any) -> Any:
    return [*answer] if isinstance(answer, Sequence) else answer.stat


def answer_to(op: Op[Any], text: bytes) -> Any:
    """What was told, as the operation says that its answer is."""
    match op:
        case ops.Batch():
            each = msgspec.json.decode(text, type=list[msgspec.Raw])
            pairs = zip(op.ops, each, strict=True)
            return [answer_to(inner, bytes(raw)) for inner, raw in pairs]
        case ops.Within() | ops.Once():
            return answer_to(op.op, text)
        case ops.Open():
            return msgspec.json.decode(text, type=Stat)
        case _:
            return msgspec.json.decode(text, type=get_type_hints(type(op).run)["return"])
