"""The C interface by which bashkit calls a filesystem: its structures, and one table of functions.

bashkit takes a filesystem as a capsule that holds a handle: a version, an instance, how to retain
and release it, and a table of functions. An instance is the number of a seat in this room, and on
the seat sits a `Filesystem`, which answers.

What must always be true here: the table and its functions live as long as the process, because
bashkit may be inside one of them when its instance is released; what bashkit was given is kept
until it gives it back; no exception leaves a function, because nothing on the other side could
catch it. What a path or an error means is none of this room's business. `shell` calls.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable
from ctypes import (
    CFUNCTYPE,
    POINTER,
    Structure,
    addressof,
    c_bool,
    c_char,
    c_char_p,
    c_int64,
    c_size_t,
    c_uint8,
    c_uint32,
    c_uint64,
    c_void_p,
    pointer,
    py_object,
    pythonapi,
    string_at,
)
from typing import Any, Final, Protocol

VERSION: Final = 1
CAPSULE: Final = b"bashkit.FileSystem.v1"
_OK, _REFUSED = 0, 1

# The kinds of error that the interface knows; everything else is OTHER.
OTHER, NOT_FOUND, EXISTS, DENIED, INVALID, IS_DIRECTORY, NOT_DIRECTORY, NOT_EMPTY, UNSUPPORTED = (
    range(9)
)


class Bytes(Structure):
    """A range of memory, borrowed or owned."""

    _fields_ = (("ptr", c_void_p), ("len", c_size_t))


class Failure(Structure):
    _fields_ = (("kind", c_uint32), ("message", Bytes))


class Metadata(Structure):
    """Type (0 file, 1 directory, 2 symbolic link, 3 fifo), size, mode, and two times."""

    _fields_ = (
        ("type", c_uint8),
        ("reserved", c_uint8 * 7),
        ("size", c_uint64),
        ("mode", c_uint32),
        ("modified_s", c_int64),
        ("modified_ns", c_uint32),
        ("created_s", c_int64),
        ("created_ns", c_uint32),
    )


class DirEntry(Structure):
    _fields_ = (("name", Bytes), ("metadata", Metadata))


class Filesystem(Protocol):
    """What answers on a seat. Paths are absolute; any exception is an answer too."""

    def read_file(self, path: str, /) -> bytearray: ...

    def write_file(self, path: str, data: bytes, /) -> None: ...

    def append_file(self, path: str, data: bytes, /) -> None: ...

    def mkdir(self, path: str, recursive: bool, /) -> None: ...

    def remove(self, path: str, recursive: bool, /) -> None: ...

    def stat(self, path: str, into: Metadata, /) -> None: ...

    def read_dir(self, path: str, /) -> list[tuple[str, Callable[[Metadata], None]]]:
        """Names, each with what fills in its metadata."""
        ...

    def exists(self, path: str, /) -> bool: ...

    def rename(self, path: str, to: str, /) -> None: ...

    def copy(self, path: str, to: str, /) -> None: ...

    def symlink(self, target: str, path: str, /) -> None: ...

    def read_link(self, path: str, /) -> str: ...

    def chmod(self, path: str, mode: int, /) -> None: ...

    def refusal(self, error: BaseException, /) -> tuple[int, str]:
        """The kind of an error, and what to say about it."""
        ...


class _Seat:
    """A filesystem, how often it is retained, and what bashkit has of it in its hands."""

    def __init__(self, filesystem: Filesystem) -> None:
        self.filesystem = filesystem
        self.retained = 1
        self.lent: dict[int, object] = {}

    def lend(self, out: Bytes, data: bytearray) -> None:
        """Points `out` at the bytes, which stay until they are given back."""
        out.ptr, out.len = None, len(data)
        if data:
            kept = (c_char * len(data)).from_buffer(data)
            out.ptr = addressof(kept)
            self.lent[addressof(kept)] = kept


_seats: dict[int, _Seat] = {}
_numbers = itertools.count(1)
_lock = threading.Lock()


def seats() -> int:
    """How many filesystems are held by somebody."""
    return len(_seats)


def capsule(filesystem: Filesystem) -> tuple[Any, Callable[[], None]]:
    """A capsule that bashkit imports, and what to call when it has done so, or failed to."""
    number = next(_numbers)
    _seats[number] = _Seat(filesystem)
    handle = _Handle(VERSION, 0, number, _RETAIN, _RELEASE, pointer(_TABLE))
    made = _new_capsule(addressof(handle), CAPSULE, None)

    def imported(_kept: object = handle) -> None:
        """Gives up the first hold; the handle was copied by whoever imported it."""
        _let_go(number)

    return made, imported


def _let_go(number: int) -> None:
    with _lock:
        seat = _seats[number]
        seat.retained -= 1
        if seat.retained == 0:
            del _seats[number]


# -- the functions of the table ------------------------------------------------------------------

_Read = CFUNCTYPE(c_uint32, c_void_p, Bytes, POINTER(Bytes), POINTER(Failure))
_Two = CFUNCTYPE(c_uint32, c_void_p, Bytes, Bytes, POINTER(Failure))
_Flagged = CFUNCTYPE(c_uint32, c_void_p, Bytes, c_bool, POINTER(Failure))
_Stat = CFUNCTYPE(c_uint32, c_void_p, Bytes, POINTER(Metadata), POINTER(Failure))
_Exists = CFUNCTYPE(c_uint32, c_void_p, Bytes, POINTER(c_bool), POINTER(Failure))
_Chmod = CFUNCTYPE(c_uint32, c_void_p, Bytes, c_uint32, POINTER(Failure))
_Free = CFUNCTYPE(None, c_void_p, Bytes)
_Hold = CFUNCTYPE(None, c_void_p)


def _text(given: Bytes) -> str:
    return _data(given).decode()


def _data(given: Bytes) -> bytes:
    return string_at(given.ptr, given.len) if given.len else b""


def _answered(instance: int, failure: Any, work: Callable[[_Seat], None]) -> int:
    """Runs `work` for a seat; whatever it raises becomes a failure."""
    seat = _seats[instance]
    try:
        work(seat)
    except BaseException as error:
        kind, message = seat.filesystem.refusal(error)
        failure.contents.kind = kind
        seat.lend(failure.contents.message, bytearray(message.encode("utf-8", "replace")))
        return _REFUSED
    return _OK


def _read_file(instance: int, path: Bytes, out: Any, failure: Any) -> int:
    def work(seat: _Seat) -> None:
        seat.lend(out.contents, seat.filesystem.read_file(_text(path)))

    return _answered(instance, failure, work)


def _write_file(instance: int, path: Bytes, data: Bytes, failure: Any) -> int:
    return _answered(
        instance, failure, lambda seat: seat.filesystem.write_file(_text(path), _data(data))
    )


def _append_file(instance: int, path: Bytes, data: Bytes, failure: Any) -> int:
    return _answered(
        instance, failure, lambda seat: seat.filesystem.append_file(_text(path), _data(data))
    )


def _mkdir(instance: int, path: Bytes, recursive: bool, failure: Any) -> int:
    return _answered(instance, failure, lambda seat: seat.filesystem.mkdir(_text(path), recursive))


def _remove(instance: int, path: Bytes, recursive: bool, failure: Any) -> int:
    return _answered(instance, failure, lambda seat: seat.filesystem.remove(_text(path), recursive))


def _stat(instance: int, path: Bytes, out: Any, failure: Any) -> int:
    return _answered(
        instance, failure, lambda seat: seat.filesystem.stat(_text(path), out.contents)
    )


def _read_dir(instance: int, path: Bytes, out: Any, failure: Any) -> int:
    def work(seat: _Seat) -> None:
        found = seat.filesystem.read_dir(_text(path))
        out.contents.ptr, out.contents.len = None, len(found)
        if not found:
            return
        names = [name.encode() for name, _ in found]
        text = (c_char * (sum(map(len, names)) + 1)).from_buffer(bytearray(b"".join(names) + b"\0"))
        entries = (DirEntry * len(found))()
        at = addressof(text)
        for entry, name, (_, fill) in zip(entries, names, found, strict=True):
            entry.name.ptr, entry.name.len = at, len(name)
            at += len(name)
            fill(entry.metadata)
        out.contents.ptr = addressof(entries)
        seat.lent[addressof(entries)] = (entries, text)

    return _answered(instance, failure, work)


def _exists(instance: int, path: Bytes, out: Any, failure: Any) -> int:
    def work(seat: _Seat) -> None:
        out.contents.value = seat.filesystem.exists(_text(path))

    return _answered(instance, failure, work)


def _rename(instance: int, path: Bytes, to: Bytes, failure: Any) -> int:
    return _answered(instance, failure, lambda seat: seat.filesystem.rename(_text(path), _text(to)))


def _copy(instance: int, path: Bytes, to: Bytes, failure: Any) -> int:
    return _answered(instance, failure, lambda seat: seat.filesystem.copy(_text(path), _text(to)))


def _symlink(instance: int, target: Bytes, path: Bytes, failure: Any) -> int:
    return _answered(
        instance, failure, lambda seat: seat.filesystem.symlink(_text(target), _text(path))
    )


def _read_link(instance: int, path: Bytes, out: Any, failure: Any) -> int:
    def work(seat: _Seat) -> None:
        seat.lend(out.contents, bytearray(seat.filesystem.read_link(_text(path)).encode()))

    return _answered(instance, failure, work)


def _chmod(instance: int, path: Bytes, mode: int, failure: Any) -> int:
    return _answered(instance, failure, lambda seat: seat.filesystem.chmod(_text(path), mode))


def _free(instance: int, given: Bytes) -> None:
    if given.ptr:
        _seats[instance].lent.pop(given.ptr, None)


def _retain(instance: int) -> None:
    with _lock:
        _seats[instance].retained += 1


def _release(instance: int) -> None:
    _let_go(instance)


class _Table(Structure):
    """In the order of the interface; directory entries are freed as bytes are, by their address."""

    _fields_ = (
        ("read_file", _Read),
        ("write_file", _Two),
        ("append_file", _Two),
        ("mkdir", _Flagged),
        ("remove", _Flagged),
        ("stat", _Stat),
        ("read_dir", _Read),
        ("exists", _Exists),
        ("rename", _Two),
        ("copy", _Two),
        ("symlink", _Two),
        ("read_link", _Read),
        ("chmod", _Chmod),
        ("free_bytes", _Free),
        ("free_dir_entries", _Free),
    )


class _Handle(Structure):
    _fields_ = (
        ("version", c_uint32),
        ("reserved", c_uint32),
        ("instance", c_void_p),
        ("retain", _Hold),
        ("release", _Hold),
        ("table", POINTER(_Table)),
    )


#: A structure keeps alive what was put into it.
_TABLE: Final = _Table(
    _Read(_read_file), _Two(_write_file), _Two(_append_file), _Flagged(_mkdir), _Flagged(_remove),
    _Stat(_stat), _Read(_read_dir), _Exists(_exists), _Two(_rename), _Two(_copy), _Two(_symlink),
    _Read(_read_link), _Chmod(_chmod), _Free(_free), _Free(_free),
)  # fmt: skip
_RETAIN: Final = _Hold(_retain)
_RELEASE: Final = _Hold(_release)

_new_capsule = pythonapi.PyCapsule_New
_new_capsule.restype = py_object
_new_capsule.argtypes = [c_void_p, c_char_p, c_void_p]
