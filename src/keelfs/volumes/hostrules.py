"""What a verb may do to what it finds on the host.

Each rule is asked twice: before any work, so that nothing is done in vain, and again in the turn
that makes the change. Nothing here touches the host, except that hidden leftovers are cleared
where only an empty directory may be replaced.
"""

from __future__ import annotations

import os
import stat

from keelfs.errors import (
    AlreadyExists,
    Conflict,
    InvalidArgument,
    IsADirectory,
    NotADirectory,
    NotAFile,
    ReadOnly,
    StoreBusy,
)
from keelfs.model import ABSENT, ANY, Expect, Stat
from keelfs.volumes import staging
from keelfs.volumes.descent import Place
from keelfs.volumes.hostnode import id_of, is_readonly, revision_of


def judge(info: os.stat_result | None, expect: Expect) -> None:
    """Refuses when what is there is not what was expected."""
    if expect is ANY:
        return
    actual = None if info is None else revision_of(info)
    if expect is ABSENT:
        held = info is None
    elif isinstance(expect, Stat):
        held = info is not None and (id_of(info), actual) == (expect.id, expect.revision)
    else:
        held = actual == expect
    if not held:
        wanted = "no file" if expect is ABSENT else "another revision"
        raise Conflict(f"expected {wanted} here", expected=wanted, actual=actual)


def overwritable(info: os.stat_result | None, expect: Expect) -> os.stat_result | None:
    """What is there, if its bytes may be replaced."""
    if expect is ABSENT:
        judge(info, expect)
    if info is None:
        judge(info, expect)
        return None
    if stat.S_ISDIR(info.st_mode):
        raise IsADirectory
    if stat.S_ISLNK(info.st_mode):
        raise StoreBusy("another program put a link where a file was; try again")
    if not stat.S_ISREG(info.st_mode):
        raise NotAFile
    judge(info, expect)
    if is_readonly(info):
        raise ReadOnly
    return info


def replaceable(
    info: os.stat_result, present: os.stat_result | None, replace: bool, fd: int, name: str
) -> None:
    """Refuses to put `info` where `present` is, unless that may be replaced by it."""
    if present is None:
        return
    if not replace:
        raise AlreadyExists
    if stat.S_ISDIR(present.st_mode):
        if not stat.S_ISDIR(info.st_mode):
            raise IsADirectory("a file cannot take the place of a directory")
        staging.clear_leftovers(fd, name)
    elif stat.S_ISDIR(info.st_mode):
        raise NotADirectory("a directory cannot take the place of a file")
    elif is_readonly(present):
        raise ReadOnly


def not_into_itself(source: Place, target: Place) -> None:
    """Refuses to put a directory below itself; the names are those that links led to."""
    if source.info is None or not stat.S_ISDIR(source.info.st_mode):
        return
    inside = (*source.parents, source.name) if not source.is_root else ()
    below = (*target.parents, *target.missing)
    if len(below) > len(inside) and below[: len(inside)] == inside:
        raise InvalidArgument("a directory cannot be put into itself")
