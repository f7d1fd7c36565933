"""Validators that come with the package: JSON, JSON by lines, text, and a number of lines.

A validator is called with the final bytes of a file, inside the transaction that would commit them,
and raises `ValidationFailed` to refuse. Schemas are types of msgspec: a `Struct` with
`forbid_unknown_fields`, a union of tagged ones, a `TypedDict`. Bytes are read in blocks, lines are
bounded, and a key that is given twice is refused, because readers differ about which one counts.

Who calls: the gate `keelfs.gates.validate`, for paths that somebody registered.
"""

from __future__ import annotations

import codecs
import json as plain_json
import re
from collections.abc import Callable, Iterator
from typing import Any, Final

import msgspec

from keelfs.errors import InvalidArgument, Problem, ValidationFailed
from keelfs.model import Content

Validator = Callable[[Content], None]

#: Bad lines that one error names.
MOST_PROBLEMS: Final = 20
#: A line, or a document, is decoded as a whole.
LINE_BYTES: Final = 2**20
DOCUMENT_BYTES: Final = 16 * 2**20
_BLOCK: Final = 256 * 1024
#: What a decoder says: the complaint, and where.
_SAID: Final = re.compile(r"(?P<what>.*?)(?: - at `\$\.?(?P<at>.*)`)?", re.DOTALL)
_FIELD: Final = re.compile(r" field `(.*)`")


def jsonl(
    schema: Any, *, failure: type[ValidationFailed] = ValidationFailed,
    line_bytes: int = LINE_BYTES,
) -> Validator:  # fmt: skip
    """Every line is a JSON value of this type; empty lines count for nothing."""
    judge = _Judge(schema)

    def validate(content: Content) -> None:
        problems: list[Problem] = []
        for number, line in lines_of(content, line_bytes):
            found = judge.problem(line, number, line_bytes)
            if found is not None:
                problems.append(found)
            if len(problems) == MOST_PROBLEMS:
                break
        _refuse(problems, failure)

    return validate


def json(schema: Any, *, max_bytes: int = DOCUMENT_BYTES) -> Validator:
    """The file is one JSON value of this type."""
    judge = _Judge(schema)

    def validate(content: Content) -> None:
        size = content.stat.size
        if size > max_bytes:
            raise ValidationFailed(f"a file that is judged has at most {max_bytes} bytes")
        found = judge.problem(content.read(0, size), None, max_bytes)
        _refuse([] if found is None else [found], ValidationFailed)

    return validate


def text(encoding: str = "utf-8") -> Validator:
    """The file is text in this encoding."""
    try:
        codecs.lookup(encoding)
    except LookupError:
        raise InvalidArgument("there is no such encoding") from None

    def validate(content: Content) -> None:
        decoder = codecs.getincrementaldecoder(encoding)()
        line = 1
        try:
            for block in _blocks(content):
                line += decoder.decode(block).count("\n")
            decoder.decode(b"", True)
        except UnicodeError:
            problem = Problem(line, None, None, f"this line, or one behind it, is no {encoding}")
            _refuse([problem], ValidationFailed)

    return validate


def max_lines(most: int) -> Validator:
    """The file has at most so many lines; the last one needs no newline."""
    if type(most) is not int or most < 0:
        raise InvalidArgument("a number of lines is 0 or more")

    def validate(content: Content) -> None:
        count, last = 0, b"\n"
        for block in _blocks(content):
            count, last = count + block.count(b"\n"), block[-1:]
        count += last != b"\n"
        if count > most:
            raise ValidationFailed(f"the file may have {most} lines, this one has {count}")

    return validate


def lines_of(content: Content, longest: int) -> Iterator[tuple[int, bytes]]:
    """Numbers and bytes of the lines; of a line that is too long, one byte more than may be."""
    number, carried = 1, b""
    for block in _blocks(content):
        *whole, rest = (carried + block).split(b"\n")
        for line in whole:
            yield number, line[: longest + 1]
            number += 1
        carried = rest[: longest + 1]
    if carried:
        yield number, carried


def _blocks(content: Content) -> Iterator[bytes]:
    for offset in range(0, content.stat.size, _BLOCK):
        yield content.read(offset, _BLOCK)


class _Named(msgspec.Struct):
    """What an entry says it is."""

    type: Any = None


class _Judge:
    """Says what is wrong with one JSON value."""

    def __init__(self, schema: Any) -> None:
        try:
            self._decoder = msgspec.json.Decoder(schema)
        except (TypeError, NameError) as error:
            raise InvalidArgument(f"this cannot be a schema: {error}") from None
        self._tags = _tags(schema)

    def problem(self, data: bytes, line: int | None, longest: int) -> Problem | None:
        """The first thing wrong with the value; None if it is valid or nothing at all."""
        if line is not None and not data.strip():
            return None
        if len(data) > longest:
            return Problem(line, None, None, f"expected at most {longest} bytes")
        try:
            self._decoder.decode(data)
            plain_json.loads(data, object_pairs_hook=_unique)
        except msgspec.ValidationError as error:
            return self._explained(str(error), data, line)
        except _Twice as error:
            return Problem(line, _type_of(data), str(error), "expected once, found twice")
        except RecursionError:
            return Problem(line, None, None, "expected less nesting")
        except (msgspec.DecodeError, ValueError) as error:
            return Problem(line, None, None, f"expected JSON: {error}")
        return None

    def _explained(self, said: str, data: bytes, line: int | None) -> Problem:
        match = _SAID.fullmatch(said)
        assert match is not None
        what, at = match["what"], match["at"] or ""
        named = _FIELD.search(what)
        field = at if named is None else f"{at}.{named[1]}" if at else named[1]
        if field == "type" and self._tags:
            what += f"; expected one of {', '.join(self._tags)}"
        return Problem(line, _type_of(data), field or None, what)


class _Twice(ValueError):
    """A key that is given twice."""


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) < len(pairs):
        names = [name for name, _ in pairs]
        raise _Twice(next(name for name in names if names.count(name) > 1))
    return made


def _type_of(data: bytes) -> str | None:
    try:
        named = msgspec.json.decode(data, type=_Named).type
    except (msgspec.MsgspecError, ValueError):
        return None
    return named[:64] if isinstance(named, str) else None


def _tags(schema: Any) -> list[str]:
    found = msgspec.inspect.type_info(schema)
    members = found.types if isinstance(found, msgspec.inspect.UnionType) else (found,)
    tags = [each.tag for each in members if isinstance(each, msgspec.inspect.StructType)]
    return [str(tag) for tag in tags if tag is not None]


def _refuse(problems: list[Problem], failure: type[ValidationFailed]) -> None:
    if not problems:
        return
    more = " (and perhaps more behind them)" if len(problems) == MOST_PROBLEMS else ""
    raise failure("; ".join(map(str, problems)) + more, problems=tuple(problems))
