"""A diff leads from one content to the other, says the least that does, and takes bounded time."""

from __future__ import annotations

import itertools
import re
import subprocess
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from keelfs import textdiff
from keelfs.errors import InvalidArgument, TooLarge
from keelfs.textdiff import aligned, unified


def test_a_diff_looks_as_everybody_knows_it() -> None:
    before = b"".join(b"line %d\n" % at for at in range(1, 12))
    after = before.replace(b"line 5\n", b"line five\n") + b"end"
    assert unified(before, after, "a/f", "b/f", context=1) == (
        "--- a/f\n+++ b/f\n"
        "@@ -4,3 +4,3 @@\n line 4\n-line 5\n+line five\n line 6\n"
        "@@ -11 +11,2 @@\n line 11\n+end\n\\ No newline at end of file\n"
    )


def test_edges() -> None:
    assert unified(b"same", b"same", "a", "b") == ""
    assert unified(None, None, "a", "b") == ""
    assert unified(None, b"x\n", "a", "b") == "--- /dev/null\n+++ b\n@@ -0,0 +1 @@\n+x\n"
    assert unified(b"x\n", None, "a", "b") == "--- a\n+++ /dev/null\n@@ -1 +0,0 @@\n-x\n"
    assert unified(None, b"", "a", "b") == "--- /dev/null\n+++ b\n"
    assert unified(b"a\0", b"b", "a", "b") == "--- a\n+++ b\nBinary contents differ\n"
    assert "-\\xff\n+\\xfe\n" in unified(b"\xff\n", b"\xfe\n", "a", "b")
    assert unified(b"x", b"y", "a\n+++ evil", "ü").startswith("--- a\\n+++ evil\n+++ ü\n")
    with pytest.raises(InvalidArgument):
        unified(b"", b"x", "a", "b", context=-1)


def test_what_is_too_large_is_refused() -> None:
    with pytest.raises(TooLarge):
        unified(b"\n" * (textdiff.MAX_LINES + 1), b"", "a", "b")
    with pytest.raises(TooLarge):
        unified(b"x" * (textdiff.MAX_BYTES + 1), b"", "a", "b")


def test_hostile_contents_take_little_time() -> None:
    """Where a naive diff would take minutes, the time limit of the suite is far."""
    size = textdiff.MAX_LINES
    before = b"".join(b"%d\n" % (at % 7) for at in range(size))
    after = b"".join(b"%d\n" % (at * at % 11) for at in range(size))
    assert unified(before, after, "a", "b")
    unique = [b"%d\n" % at for at in range(size)]
    moved = unique[size // 2 :] + unique[: size // 2]
    text = unified(b"".join(unique), b"".join(moved), "a", "b")
    assert text.count("\n-") == text.count("\n+") - 1 == size // 2


_LINES = st.lists(st.sampled_from([b"a", b"b", b"c", b"d"]), max_size=14)


def longest(left: list[bytes], right: list[bytes]) -> int:
    row = [0] * (len(right) + 1)
    for line in left:
        diagonal = 0
        for at, other in enumerate(right, 1):
            row[at], diagonal = (
                (diagonal + 1) if line == other else max(row[at], row[at - 1]),
                row[at],
            )
    return row[-1]


@given(_LINES, _LINES)
@settings(max_examples=300, deadline=None)
def test_the_alignment_is_a_longest_one(left: list[bytes], right: list[bytes]) -> None:
    pairs = list(aligned(left, right))
    assert all(left[at] == right[there] for at, there in pairs)
    assert all(a < c and b < d for (a, b), (c, d) in itertools.pairwise(pairs))
    assert len(pairs) == longest(left, right)


@given(st.lists(st.integers(0, 40), max_size=40), st.lists(st.integers(0, 40), max_size=40))
@settings(max_examples=200, deadline=None)
def test_large_contents_are_split_and_still_aligned(left: list[int], right: list[int]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(textdiff, "_MAX_PAIRS", 20)
        ours, theirs = [b"%d" % line for line in left], [b"%d" % line for line in right]
        pairs = list(aligned(ours, theirs))
    assert all(ours[at] == theirs[there] for at, there in pairs)
    assert all(a < c and b < d for (a, b), (c, d) in itertools.pairwise(pairs))
    if ours == theirs:
        assert len(pairs) == len(ours)
    for at, line in enumerate(ours):
        if ours.count(line) == theirs.count(line) == len(set(ours) & set(theirs)) == 1:
            assert (at, theirs.index(line)) in pairs


_CONTENT = st.lists(st.sampled_from([b"a\n", b"b\n", b"\n", b"-x\n", b"c", b"\r\n"]), max_size=12)


@given(_CONTENT.map(b"".join), _CONTENT.map(b"".join), st.integers(0, 3))
@settings(max_examples=200, deadline=None)
def test_applying_it_gives_what_came_after(before: bytes, after: bytes, context: int) -> None:
    assert applied(unified(before, after, "a", "b", context), before) == after


def applied(diff: str, before: bytes) -> bytes:
    """A patch program that believes every number it reads."""
    if not diff:
        return before
    old = re.findall(rb"[^\n]*\n|[^\n]+\Z", before)
    done, at = [], 0
    lines = re.findall(r"[^\n]*\n", diff)[2:]
    for number, line in enumerate(lines):
        data = line[1:].encode()
        if lines[number + 1 : number + 2] == ["\\ No newline at end of file\n"]:
            data = data[:-1]
        if header := re.fullmatch(r"@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@\n", line):
            start = int(header[1]) - (header[2] != "0")
            done += old[at:start]
            at = start
        elif line[0] == "+":
            done.append(data)
        elif line[0] in " -":
            assert old[at] == data
            done += [data] if line[0] == " " else []
            at += 1
    return b"".join([*done, *old[at:]])


def test_the_patch_program_of_the_system_accepts_it(tmp_path: Path) -> None:
    before = b"".join(b"%d\n" % at for at in range(60))
    after = before.replace(b"7\n", b"seven\n").replace(b"30\n", b"") + b"new"
    (tmp_path / "f").write_bytes(before)
    run = subprocess.run(
        ["git", "apply", "--unsafe-paths", "-"], check=False, capture_output=True, cwd=tmp_path,
        input=unified(before, after, "a/f", "b/f").encode(),
    )  # fmt: skip
    assert run.returncode == 0, run.stderr
    assert (tmp_path / "f").read_bytes() == after
