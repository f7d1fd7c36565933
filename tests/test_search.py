"""Walks, globs and greps find exactly what a naive reading of their promise finds."""

from __future__ import annotations

import itertools
import re
import sys
from collections.abc import Iterator

import pytest
import re2
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from keelfs import ops
from keelfs.errors import InvalidArgument, InvalidPattern, KeelError, NotADirectory, NotFound
from keelfs.glob import MAX_ALTERNATIVES, GlobPattern
from keelfs.memory import MemorySpace
from keelfs.path import ROOT, VPath, parse
from keelfs.search import glob, grep, walk


def space(files: dict[str, bytes | str]) -> MemorySpace:
    made = MemorySpace()
    for path, data in files.items():
        made.perform(ops.Write(path, data))
    return made


def names(found: Iterator[tuple[tuple[str, ...], object]]) -> list[str]:
    return ["/".join(parts) for parts, _ in found]


def hits(found: Iterator[object]) -> list[tuple[str, int, str]]:
    return [("/".join(m.path), m.line_number, m.line) for m in found]  # type: ignore[attr-defined]


# --- walk


def test_a_walk_goes_depth_first_by_the_bytes_of_names() -> None:
    tree = space({"/b/2": "", "/b/10": "", "/a-b": "", "/a/x/y": "", "/é": "", "/z": "", "/B": ""})
    expected = ["B", "a", "a/x", "a/x/y", "a-b", "b", "b/10", "b/2", "z", "é"]
    assert names(walk(tree)) == expected
    assert names(walk(tree, page=1)) == expected
    assert names(walk(tree, parse("/a"))) == ["x", "x/y"]


def test_a_walk_does_not_enter_links_but_may_start_at_one() -> None:
    tree = space({"/real/f": "", "/other/g": ""})
    tree.perform(ops.Symlink("/other", "/real/link"))
    tree.perform(ops.Symlink("/real", "/start"))
    assert names(walk(tree, parse("/start"))) == ["f", "link"]


def test_a_walk_of_what_is_not_a_directory_fails() -> None:
    tree = space({"/f": ""})
    with pytest.raises(NotFound):
        list(walk(tree, parse("/missing")))
    with pytest.raises(NotADirectory):
        list(walk(tree, parse("/f")))


def test_a_walk_passes_over_what_vanishes_under_way() -> None:
    tree = space({f"/{top}/{name}": "" for top in "abc" for name in "xy"})
    seen = []
    for parts, _ in walk(tree, page=1):
        seen.append("/".join(parts))
        if parts == ("a", "x"):
            tree.perform(ops.Remove("/a", recursive=True))
            tree.perform(ops.Remove("/b", recursive=True))
            tree.perform(ops.Write("/b", "now a file"))
    assert seen == ["a", "a/x", "b", "c", "c/x", "c/y"]


def test_a_walk_keeps_few_entries_at_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    files = {"/" + "/".join(["d"] * depth + [f"f{at}"]): "" for depth in range(12) for at in "123"}
    tree = space(files)
    expected = names(walk(tree))
    monkeypatch.setattr("keelfs.search._MAX_WAITING", 4)
    assert names(walk(tree)) == expected
    assert len(expected) == len(files) + 11


# --- glob


@pytest.mark.parametrize(
    ("pattern", "matching", "other"),
    [
        ("*.py", ["a.py", "x/y/b.py", ".py", ".hidden.py"], ["a.pyc", "a.py/x"]),
        ("src/*.py", ["src/a.py"], ["src/x/a.py", "x/src/a.py", "src"]),
        ("src/**/*.py", ["src/a.py", "src/x/y/a.py"], ["a.py", "src/a.txt"]),
        ("**/*.py", ["a.py", "x/y.py"], ["a.txt"]),
        ("**", ["a", "a/b"], []),
        ("a/**", ["a/b", "a/b/c"], ["a", "ab/c"]),
        ("**/b/**/d", ["b/d", "a/b/c/d", "b/b/d"], ["b", "d", "a/d"]),
        ("/top.txt", ["top.txt"], ["a/top.txt"]),
        ("a?c", ["abc", "x/aéc"], ["ac", "abbc"]),
        ("[a-c]x", ["ax", "cx"], ["dx", "x", "-x"]),
        ("[!a-c]x", ["dx"], ["ax", "x"]),
        ("[]]", ["]"], ["["]),
        ("[a-]", ["a", "-"], ["b"]),
        ("[\\]a]", ["]", "a"], ["\\"]),
        ("*.{py,rs}", ["a.py", "b.rs"], ["a.p", "a.{py,rs}"]),
        ("{a,b/c}/d", ["a/d", "b/c/d"], ["c/d", "x/a/d"]),
        ("{a,{b,c}d}e", ["ae", "bde", "cde"], ["be", "de"]),
        ("x{,.bak}", ["x", "x.bak"], ["x.ba"]),
        ("[{,]x", ["{x", ",x"], ["x"]),
        ("\\*", ["*"], ["a"]),
        ("\\{a,b}", ["{a,b}"], ["a", "b"]),
        ("a**b", ["ab", "axxb"], ["a/b"]),
        ("*a*b*a*", ["aba", "xaxbxax"], ["ab", "aab"]),
        ("a.c", ["a.c"], ["abc"]),
    ],
)
def test_globs_mean_what_is_promised(pattern: str, matching: list[str], other: list[str]) -> None:
    compiled = GlobPattern(pattern)
    for path in matching:
        assert compiled.matches(tuple(path.split("/"))), path
    for path in other:
        assert not compiled.matches(tuple(path.split("/"))), path


@pytest.mark.parametrize(
    "pattern",
    [
        *["", "/", "[a", "{a,b", "a\\", "../x", "a/../b", "[z-a]", "[/]", "x" * 5000],
        *["{a,b}" * 9, "{" * 40 + "}" * 40],
    ],
)
def test_bad_globs_are_refused(pattern: str) -> None:
    with pytest.raises(InvalidPattern):
        GlobPattern(pattern)


def test_alternatives_are_counted_before_they_are_made() -> None:
    assert GlobPattern("{a,b}" * 8).matches(("abababab",))
    assert MAX_ALTERNATIVES == 256
    with pytest.raises(InvalidPattern):
        GlobPattern("{a,b,c,d}" * 400)


def test_matching_stays_linear_where_backtracking_would_not() -> None:
    assert not GlobPattern("*a" * 100 + "b").matches(("a" * 255,))
    assert not GlobPattern("**/a/" * 60 + "b").matches(("a",) * 250)


_ALPHABET = st.sampled_from(["a", "b", "ab", ".a", "é"])
_PATHS = st.lists(_ALPHABET, min_size=1, max_size=4).map(tuple)
_PATTERNS = st.lists(
    st.lists(st.sampled_from(["a", "b", "*", "?", "[ab]", "[!a]", "{a,b}", "."]), min_size=1)
    .map("".join)
    .filter(lambda name: len(name) < 14 and name not in {".", "**"} and ".." not in name)
    | st.just("**"),
    min_size=1,
    max_size=4,
).map("/".join)


def naive(pattern: str, parts: tuple[str, ...]) -> bool:
    """Globs as a backtracking expression over the joined path."""
    text = pattern if "/" in pattern else f"**/{pattern}"
    out = ""
    for name in text.split("/"):
        if name == "**":
            out += "(?:[^/]+/)*"
            continue
        piece = re.sub(r"\*+", "*", name).replace(".", "\\.").replace("[!a]", "[^a/]")
        piece = piece.replace("?", "[^/]").replace("*", "[^/]*").replace("{a,b}", "(?:a|b)")
        out += piece + "/"
    if text.split("/")[-1] == "**":
        out += "[^/]+/"
    return re.fullmatch(out, "/".join(parts) + "/") is not None


@given(_PATTERNS, _PATHS)
@settings(max_examples=400, deadline=None)
def test_globs_agree_with_a_naive_reading(pattern: str, parts: tuple[str, ...]) -> None:
    # The naive reading knows no components "." in a pattern.
    assume("." not in pattern.split("/"))
    assert GlobPattern(pattern).matches(parts) == naive(pattern, parts)


_UNIVERSE = [
    parts
    for size in range(1, 4)
    for parts in itertools.product(["a", "b", "ab", ".a"], repeat=size)
]


@given(_PATTERNS, st.sampled_from(_UNIVERSE))
@settings(max_examples=150, deadline=None)
def test_pruning_and_pinning_lose_nothing(pattern: str, parts: tuple[str, ...]) -> None:
    compiled = GlobPattern(pattern)
    below = [other for other in _UNIVERSE if other[: len(parts)] == parts and other != parts]
    if any(compiled.matches(other) for other in below):
        assert compiled.may_match_below(parts)
    assert compiled.literal_prefix == parts[:0] or not any(
        compiled.matches(other)
        for other in _UNIVERSE
        if other[: len(compiled.literal_prefix)] != compiled.literal_prefix
    )
    if not compiled.pins(parts):
        # Seen through a link of these names, nothing matches that does not match elsewhere too.
        for rest in _UNIVERSE[:20]:
            if compiled.matches(parts + rest):
                assert compiled.matches(("elsewhere", *rest))


def test_a_glob_finds_in_the_order_of_a_walk_and_prunes() -> None:
    tree = space({"/src/a.py": "", "/src/x/b.py": "", "/src/x/c.txt": "", "/lib/d.py": ""})
    listed: list[str] = []

    class Watching:
        def perform(self, op: ops.Op[object], /) -> object:
            if isinstance(op, ops.List):
                listed.append(str(op.path))
            return tree.perform(op)

    watching: MemorySpace = Watching()  # type: ignore[assignment]
    assert names(glob(watching, "src/**/*.py")) == ["src/a.py", "src/x/b.py"]
    assert listed == ["/src", "/src/x"]
    listed.clear()
    assert names(glob(watching, "src/*.py")) == ["src/a.py"]
    assert listed == ["/src"]
    listed.clear()
    assert names(glob(watching, "src/x/c.txt")) == ["src/x/c.txt"]
    assert listed == ["/src/x"]
    assert names(glob(watching, "*.py", parse("/src"))) == ["a.py", "x/b.py"]
    assert names(glob(watching, "none/x/*")) == []
    assert names(glob(watching, "src/a.py/x")) == []


def test_a_glob_does_not_follow_a_link_that_it_names() -> None:
    tree = space({"/real/f": ""})
    tree.perform(ops.Symlink("/real", "/link"))
    assert names(glob(tree, "link/*")) == []
    assert names(glob(tree, "link")) == ["link"]
    with pytest.raises(NotFound):
        list(glob(tree, "*", parse("/missing")))


# --- grep


def test_a_grep_answers_relative_to_where_it_searches() -> None:
    tree = space({"/a/x.py": "one\ntwo\nthree\n", "/a/b/y.txt": "two", "/c": "two"})
    assert hits(grep(tree, "tw", parse("/a"))) == [("b/y.txt", 1, "two"), ("x.py", 2, "two")]
    assert hits(grep(tree, "t", ROOT, "*.py")) == [("a/x.py", 2, "two"), ("a/x.py", 3, "three")]
    assert hits(grep(tree, "two", parse("/c"))) == [("", 1, "two")]
    assert hits(grep(tree, "two", limit=1)) == [("a/b/y.txt", 1, "two")]
    assert hits(grep(tree, "two", limit=0)) == []


def test_fixed_texts_and_cases() -> None:
    tree = space({"/f": "a.c\nabc\nA.C\n"})
    assert [m.line for m in grep(tree, "a.c")] == ["a.c", "abc"]
    assert [m.line for m in grep(tree, "a.c", fixed=True)] == ["a.c"]
    assert [m.line for m in grep(tree, "A.c", fixed=True, case_sensitive=False)] == ["a.c", "A.C"]
    assert [m.line for m in grep(tree, "c\na", fixed=True)] == []


def test_binary_files_are_passed_over_and_odd_bytes_are_replaced() -> None:
    tree = space(
        {"/nul": b"needle\0", "/late": b"needle" + b"x" * 9000 + b"\0", "/bad": b"x\xff needle"}
    )
    assert [(m.path, m.line[:8]) for m in grep(tree, "needle")] == [
        (("bad",), "x� needl"),
        (("late",), "needlexx"),
    ]
    assert [m.path for m in grep(tree, "�")] == [("bad",)]


def test_a_bad_pattern_is_refused_at_once() -> None:
    for pattern in ["(", "*", "(?=x)", "(a)\\1", "(x{1000}){1000}", "\ud800", "a" * 70_000]:
        with pytest.raises(InvalidPattern):
            grep(space({}), pattern)
    with pytest.raises(InvalidArgument):
        grep(space({}), "x", limit=-1)
    with pytest.raises(NotFound):
        list(grep(space({}), "x", parse("/missing")))


def test_long_lines_are_cut_and_say_so() -> None:
    text = "é" * 40 + "needle\nshort needle\n" + "x" * 200 + "needle\n" + "needle" + "y" * 90
    tree = space({"/f": text + "\nlast needle"})
    found = list(grep(tree, "needle", max_line_bytes=61))
    assert [(m.line_number, m.cut) for m in found] == [(2, False), (4, True), (5, False)]
    assert found[1].line == "needle" + "y" * 55
    assert [m.line for m in grep(tree, "é$", max_line_bytes=61)] == ["é" * 30]


def test_a_file_that_vanishes_is_passed_over() -> None:
    tree = space({"/a": "x", "/b": "x", "/c": "x"})
    found = []
    for match in grep(tree, "x"):
        found.append(match.path)
        if match.path == ("a",):
            tree.perform(ops.Remove("/b"))
    assert found == [("a",), ("c",)]


def test_a_large_file_is_read_in_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = [f"line {at} {'needle' if at % 7000 == 0 else ''}" for at in range(1, 40_000)]
    tree = space({"/f": "\n".join(lines)})
    assert [m.line_number for m in grep(tree, "needle")] == [7000, 14000, 21000, 28000, 35000]
    assert [m.line_number for m in grep(tree, "^line 39999")] == [39_999]


_PIECES = [
    *["a", "b", ".", "^", "$", "*", "+", "|", "(", ")", "[^a]", "\\s", "\\W", "\\b", "\\A"],
    *["\\z", "(?s)", "(?-m)", "(?i)", "(?m)", "\\n", "é", "\\C", "{2}", "[^\\S]", "�"],
]
_TEXT_PATTERNS = st.lists(st.sampled_from(_PIECES), max_size=6).map("".join)
_TEXTS = st.lists(
    st.sampled_from([b"a", b"b", b"\n", b"\n", b"A", b" ", b"\r", "é".encode(), b"\xff", b"\xc3"]),
    max_size=24,
).map(b"".join)


@given(_TEXT_PATTERNS, _TEXTS, st.booleans(), st.booleans(), st.sampled_from([1000, 5, 1]))
@settings(max_examples=600, deadline=None)
def test_a_grep_agrees_with_every_line_on_its_own(
    pattern: str, data: bytes, fixed: bool, case_sensitive: bool, longest: int
) -> None:
    options = re2.Options()
    options.log_errors = False
    options.literal = fixed
    options.case_sensitive = case_sensitive
    tree = space({"/f": data})
    try:
        program = re2.compile(pattern.encode(), options)
    except re2.error:
        with pytest.raises(InvalidPattern):
            grep(tree, pattern, fixed=fixed)
        return
    expected = []
    lines = data.split(b"\n")
    for number, line in enumerate(lines[:-1] if lines[-1] == b"" else lines, 1):
        shown = line[:longest]
        while len(line) > longest and len(shown) > max(0, longest - 3):
            if line[len(shown)] & 0xC0 != 0x80:
                break
            shown = shown[:-1]
        text = shown.decode("utf-8", "replace")
        if program.search(text.encode()):
            expected.append((number, text, len(line) > longest))
    found = grep(tree, pattern, fixed=fixed, case_sensitive=case_sensitive, max_line_bytes=longest)
    assert [(m.line_number, m.line, m.cut) for m in found] == expected


def test_the_pattern_library_is_loaded_by_the_first_search() -> None:
    import subprocess

    code = "import sys, keelfs.search; sys.exit('re2' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_refusals_of_the_tree_are_not_hidden() -> None:
    class Broken:
        def perform(self, op: ops.Op[object], /) -> object:
            if isinstance(op, ops.Read | ops.Open):
                raise KeelError("broken")
            return space({"/f": "x"}).perform(op)

    with pytest.raises(KeelError, match="broken"):
        list(grep(Broken(), "x"))  # type: ignore[arg-type]
    assert VPath(("f",)) == parse("f")
