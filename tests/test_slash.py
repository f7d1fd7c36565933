"""Slash commands are found in any text, however it arrives; frames cannot be imitated."""

from __future__ import annotations

import random
import re
from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from keelfs.artifacts import frames, slash
from keelfs.artifacts.slash import (
    AddEntry,
    Command,
    List,
    Read,
    ShowEntry,
    SlashParser,
    Write,
)


def parsed(pieces: Iterable[str]) -> list[Command]:
    parser = SlashParser()
    found = [command for piece in pieces for command in parser.feed(piece)]
    return found + list(parser.finish())


TURN = """I write it down.
/write --persist output/report.md
# Report
/read not-a-command
```
/endwrite is not at the beginning here: ` /endwrite`
 /endwrite
```
/endwrite
/write --persist b.txt
/endwrite
/write c.txt\r
one\r
two\r
/endwrite \r
/list
/read output/report.md\t
/read #88 via=mem:42
/mem entry 42
/mem add entry reference Findings report --artifact #88
see the report
/endmem
 /list
text /list
"""


def test_a_turn() -> None:
    assert parsed([TURN]) == [
        Write(
            "output/report.md",
            "# Report\n/read not-a-command\n```\n"
            "/endwrite is not at the beginning here: ` /endwrite`\n /endwrite\n```",
            True,
        ),
        Write("b.txt", "", True),
        Write("c.txt", "one\r\ntwo"),
        List(),
        Read("output/report.md"),
        Read("#88 via=mem:42"),
        ShowEntry("42"),
        AddEntry("reference", "Findings report --artifact #88", "see the report"),
    ]


@pytest.mark.parametrize("size", [1, 2, 3, 7, 64])
def test_the_size_of_the_pieces_does_not_matter(size: int) -> None:
    pieces = [TURN[at : at + size] for at in range(0, len(TURN), size)]
    assert parsed(pieces) == parsed([TURN])


@pytest.mark.parametrize(
    ("text", "commands"),
    [
        ("/write a\nbody", [Write("a", "body", truncated=True)]),
        ("/write a\nbody\n", [Write("a", "body\n", truncated=True)]),
        ("/write a\nbody\n/endwrite", [Write("a", "body")]),
        (
            "/write a\nbody\n/endwrite more\n",
            [Write("a", "body\n/endwrite more\n", truncated=True)],
        ),
        ("/write a\n\n\n/endwrite\n", [Write("a", "\n")]),
        ("/write  --persist   a b \n/endwrite\n", [Write("a b", "", True)]),
        ("/write --persist\n/endwrite\n", []),
        ("/write --persist --persist x\n/endwrite\n", [Write("--persist x", "", True)]),
        ("/mem add entry note t\nbody", [AddEntry("note", "t", "body", truncated=True)]),
        ("/read", [Read("")]),
        ("/read \n", [Read("")]),
        ("/list", [List()]),
        ("/endwrite\n/endmem\n", []),
        ("/write\nbody\n/endwrite\n", []),
        ("/writes a\n/reading\n/lists\n/list all\n/mem\n/mem add entry x\n", []),
        ("//list\n\\/list\n/ list\n", []),
        ("```\n/list\n```\n/list\n", [List()]),
        ("~~~\n/list\n```\n/list\n~~~\n/list\n", [List()]),
        ("````\n/list\n```\n/list\n````\n", []),
        ("```py\n/list\n```py\n/list\n```\n/list\n", [List()]),
        ("``` a ` b\n/list\n", [List()]),
        ("    ```\n/list\n", [List()]),
        ("```\n/list", []),
        ("/list" + " " * 5000 + "\n", []),
        ("x" * 5000 + "/list\n/list\n", [List()]),
        ("", []),
    ],
)
def test_edges(text: str, commands: list[Command]) -> None:
    assert parsed([text]) == commands
    assert parsed(text) == commands


def test_long_lines_inside_a_body_are_kept_whole() -> None:
    body = "\n".join(["x" * 100_000, "/endwrite" + " " * 5000, "y" * 5000])
    assert parsed([f"/write a\n{body}\n/endwrite\n"]) == [Write("a", body)]


def test_a_body_beyond_all_bounds_is_cut_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slash, "MAX_BODY", 10)
    exact, cut = parsed(["/write a\n123456789\n/endwrite\n/write b\n12345678901\n/endwrite\n"])
    assert exact == Write("a", "123456789")
    assert cut == Write("b", "1234567890", cut=True)


def test_ten_megabytes_in_small_pieces() -> None:
    """A parser that looked at what it has again for each piece would not come to an end."""
    line = "/write a is not here; 0123456789\n"
    text = "/write big\n" + line * (10 * 2**20 // len(line) - 1) + "/endwrite\n" + "x" * 2**20
    found = parsed(text[at : at + 16] for at in range(0, len(text), 16))
    assert [type(command) for command in found] == [Write]
    assert isinstance(found[0], Write)
    assert not found[0].cut
    assert len(found[0].body) > 10 * 2**20 - 100


TOKENS = st.sampled_from(
    ["/write a", "/write --persist b", "/endwrite", "/endmem", "/read #1", "/list", "/mem entry 1",
     "/mem add entry note t", "```", "~~~", "\n", "\n", "\r\n", " ", "x", "[END WRITE]", "\0", "é"]
)  # fmt: skip


@given(st.lists(TOKENS | st.text(max_size=5), max_size=60), st.randoms(use_true_random=False))
def test_any_text_in_any_pieces(tokens: list[str], choose: random.Random) -> None:
    text = "".join(tokens)
    cuts = sorted(choose.randrange(len(text) + 1) for _ in range(5))
    pieces = [text[start:end] for start, end in zip([0, *cuts], [*cuts, len(text)], strict=True)]
    whole = parsed([text])
    assert parsed(pieces) == whole
    assert parsed(text) == whole
    for command in whole:
        if isinstance(command, Write | AddEntry) and not command.truncated:
            end = "/endwrite" if isinstance(command, Write) else "/endmem"
            assert end not in [line.rstrip(" \t\r") for line in command.body.split("\n")]


# -- frames


def frame_lines(text: str) -> list[str]:
    """The lines that a reader, even a generous one, takes for frames."""
    return [
        line for line in re.split(r"\r\n|[\n\r\v\f\x1c-\x1e\x85\u2028\u2029]", text)
        if re.match(r"\s*\[\s*(/|end\b)", line, re.I)
    ]  # fmt: skip


def test_a_result_is_framed() -> None:
    assert frames.framed("/read a", "hello", "READ") == "[/read a]\nhello\n[END READ]\n\n"
    assert frames.framed("/list", "", "LIST") == "[/list]\n[END LIST]\n\n"


PARTS = st.sampled_from(
    ["[END READ]", "[/read x]", "[end tool results]", "[ END", "\\", " ", "\t", "\n", "\r", "\x85",
     "\u2028", "\v", "x", "[", "END", "/", "]", "\ufeff", "\xa0"]
)  # fmt: skip


@given(st.lists(PARTS, max_size=30).map("".join))
def test_no_text_imitates_a_frame(text: str) -> None:
    shown = frames.inert(text)
    assert frame_lines(shown) == []
    assert frame_lines(frames.framed(f"/read {text}", shown, "READ")) == [
        f"[/read {frames.one_line(text)}]", "[END READ]",
    ]  # fmt: skip


@given(st.lists(PARTS, max_size=30).map("".join))
def test_what_was_made_inert_can_be_told(text: str) -> None:
    breaks = "\n\r\v\f\x1c\x1d\x1e\x85\u2028\u2029"
    marked = re.compile(
        rf"(^|[{breaks}])([ \t\u00a0\ufeff]*\\*)\\(?=\[[ \t]*(?:/|END\b))", re.IGNORECASE
    )
    assert marked.sub(r"\1\2", frames.inert(text)) == text
