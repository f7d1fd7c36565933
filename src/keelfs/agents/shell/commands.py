"""Commands that ask more of a tree than the interpreter can: `touch`, `ln` and `df`.

The C interface sets no times, makes no second names and knows no limits; the tree does. Each
command is a function of its arguments that returns what it prints and how it ends. Paths are those
of the shell. Who calls: bashkit, when a script names one of them.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from getopt import GetoptError, gnu_getopt
from typing import Any, Final, NamedTuple

from keelfs import ops
from keelfs.agents.shell.mount import told
from keelfs.errors import Conflict, KeelError, Missing, WrongKind
from keelfs.model import ABSENT, Attrs, Stat
from keelfs.path import VPath, parse
from keelfs.ports import Handler


class Ended(NamedTuple):
    """What a command printed, and its exit code."""

    stdout: str = ""
    stderr: str = ""
    exit_code: int = 0


class Call(NamedTuple):
    """A command as a script spells it."""

    tree: Handler
    arguments: Sequence[str]
    cwd: str

    def place(self, name: str) -> VPath:
        return parse(name if name.startswith("/") else f"{self.cwd}/{name}")


Command = Callable[[Call], Ended]


def _ended(complaints: list[str]) -> Ended:
    return Ended("", "".join(f"{line}\n" for line in complaints), 1 if complaints else 0)


# -- touch -----------------------------------------------------------------------------------------


def touch(call: Call) -> Ended:
    """Makes files that are missing, and sets the times of those that are there."""
    try:
        given, names = gnu_getopt(
            list(call.arguments), "acmfhd:t:r:", ["no-create", "date=", "reference=", "time="]
        )
        asked = dict(given)
        times = _times(call, asked)
    except GetoptError as error:
        return Ended("", f"touch: {error.msg}\n", 1)
    except ValueError as error:
        return Ended("", f"touch: invalid date format '{error}'\n", 1)
    except KeelError as error:
        return Ended("", f"touch: failed to get attributes of the reference: {told(error)}\n", 1)
    if not names:
        return Ended("", "touch: missing file operand\n", 1)
    complaints: list[str] = []
    for name in names:
        try:
            _touch(call, name, times, create=not {"-c", "--no-create"} & asked.keys())
        except KeelError as error:
            complaints.append(f"touch: cannot touch '{name}': {told(error)}")
    return _ended(complaints)


def _touch(call: Call, name: str, times: Attrs, create: bool) -> None:
    path = call.place(name)
    set_times = ops.SetAttrs(path, times)
    try:
        call.tree.perform(set_times)
    except Missing:
        if not create:
            return
        made = ops.Write(path, b"", expect=ABSENT, parents=False)
        try:
            call.tree.perform(ops.Batch((made, set_times)))
        except Conflict:
            call.tree.perform(set_times)


def _times(call: Call, asked: dict[str, str]) -> Attrs:
    """The times to set; without `-a` and `-m`, and with both, it is both."""
    atime = mtime = time.time_ns()
    reference = asked.get("-r", asked.get("--reference"))
    stamp = asked.get("-d", asked.get("--date"))
    if reference is not None:
        stat: Stat = call.tree.perform(ops.GetStat(call.place(reference)))
        atime, mtime = stat.atime_ns, stat.mtime_ns
    elif stamp is not None:
        atime = mtime = _moment(stamp)
    elif "-t" in asked:
        atime = mtime = _packed_moment(asked["-t"])
    word = asked.get("--time", "")
    only_a = "-a" in asked or word in {"atime", "access", "use"}
    only_m = "-m" in asked or word in {"mtime", "modify"}
    return Attrs(
        atime_ns=atime if only_a or not only_m else None,
        mtime_ns=mtime if only_m or not only_a else None,
    )


def _moment(text: str) -> int:
    """An ISO date, in UTC unless it says otherwise, or `@` and seconds since 1970."""
    if text.startswith("@"):
        return int(float(text[1:]) * 10**9)
    try:
        moment = datetime.fromisoformat(text.strip().replace(" UTC", "+00:00"))
    except ValueError:
        raise ValueError(text) from None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return int(moment.timestamp()) * 10**9 + moment.microsecond * 1000


def _packed_moment(text: str) -> int:
    """`[[CC]YY]MMDDhhmm[.ss]`."""
    digits, _, seconds = text.partition(".")
    now = datetime.now(UTC)
    years = {8: f"{now.year}", 10: f"{now.year // 100}", 12: ""}
    try:
        moment = datetime.strptime(
            f"{years[len(digits)]}{digits}{seconds or '00'} +0000", "%Y%m%d%H%M%S %z"
        )
    except (KeyError, ValueError):
        raise ValueError(text) from None
    return int(moment.timestamp()) * 10**9


# -- ln --------------------------------------------------------------------------------------------


def ln(call: Call) -> Ended:
    """Makes symbolic links, and second names of files."""
    try:
        given, names = gnu_getopt(
            list(call.arguments), "sfnvTPt:", ["symbolic", "force", "target-directory="]
        )
    except GetoptError as error:
        return Ended("", f"ln: {error.msg}\n", 1)
    asked = dict(given)
    symbolic = bool({"-s", "--symbolic"} & asked.keys())
    force = bool({"-f", "--force"} & asked.keys())
    into = asked.get("-t", asked.get("--target-directory"))
    if not names:
        return Ended("", "ln: missing file operand\n", 1)
    sources, into, to = _ends(call, names, into, asked)
    complaints: list[str] = []
    for source in sources:
        dest = to if into is None else f"{into.rstrip('/')}/{source.rstrip('/').split('/')[-1]}"
        try:
            _link(call, source, dest, symbolic, force)
        except KeelError as error:
            kind = "symbolic" if symbolic else "hard"
            complaints.append(f"ln: failed to create {kind} link '{dest}': {told(error)}")
    return _ended(complaints)


def _ends(
    call: Call, names: list[str], into: str | None, asked: dict[str, str]
) -> tuple[list[str], str | None, str]:
    """What to link, into which directory or else under which name."""
    if into is not None:
        return names, into, ""
    if len(names) == 1:
        return names, ".", ""
    if len(names) > 2 or ("-T" not in asked and _is_directory(call, names[-1], "-n" not in asked)):
        return names[:-1], names[-1], ""
    return names[:1], None, names[1]


def _is_directory(call: Call, name: str, follow: bool) -> bool:
    try:
        return call.tree.perform(ops.GetStat(call.place(name), follow)).is_directory
    except (KeelError, WrongKind):
        return False


def _link(call: Call, source: str, dest: str, symbolic: bool, force: bool) -> None:
    at = call.place(dest)
    made: ops.Op[Stat] = ops.Symlink(source, at) if symbolic else ops.Link(call.place(source), at)
    if force and _is_there(call, at):
        replaced: tuple[ops.Op[Any], ...] = (ops.Remove(at), made)
        call.tree.perform(ops.Batch(replaced))
    else:
        call.tree.perform(made)


def _is_there(call: Call, path: VPath) -> bool:
    try:
        call.tree.perform(ops.GetStat(path, follow=False))
    except (Missing, WrongKind):
        return False
    return True


# -- df --------------------------------------------------------------------------------------------


def df(call: Call) -> Ended:
    """What the tree uses and may use."""
    human = any("h" in word for word in call.arguments if word.startswith("-"))
    usage = call.tree.perform(ops.GetUsage())
    used = usage.bytes + usage.trash_bytes
    most = usage.limits.bytes
    free = None if most is None else max(0, most - used)
    share = "-" if not most else f"{-(-100 * used // most)}%"
    head = ("Filesystem", "Size" if human else "1K-blocks", "Used", "Available", "Use%")
    row = ("keelfs", *(_size(each, human) for each in (most, used, free)), share)
    lines = (f"{a:<10} {b:>12} {c:>12} {d:>12} {e:>5}" for a, b, c, d, e in (head, row))
    first, second = lines
    return Ended(f"{first} Mounted on\n{second} /\n")


def _size(count: int | None, human: bool) -> str:
    if count is None:
        return "-"
    if not human:
        return str(-(-count // 1024))
    size, unit = float(count), ""
    for larger in "KMGTP":
        if size < 1024:
            break
        size, unit = size / 1024, larger
    return f"{size:.1f}{unit}" if unit and size < 10 else f"{size:.0f}{unit}"


COMMANDS: Final[dict[str, Command]] = {"touch": touch, "ln": ln, "df": df}
