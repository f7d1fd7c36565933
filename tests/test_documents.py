"""Documents cannot lie: whatever they name is looked up.

A code span is sorted by its looks (a path, a command, a test, a dotted name, an expression, a bare
word) and each sort has one way of being looked up in `documents.py`. Beside that, the pages that
list things are compared with what there is, in both directions. Examples of the README run in
`test_readme`.
"""

from __future__ import annotations

import errno
import re
from pathlib import Path

import pytest

from documents import DOCUMENTS, ROOT, Lookup, anchors, links, rows, spans, tables
from keelfs import errors
from keelfs.errors import KeelError
from keelfs.surfaces.outcomes import OUTCOMES

LOOKUP = Lookup()

#: Every requirement of the specification that is to be met by now.
REQUIREMENTS = [
    *(f"S0-{number}" for number in range(1, 69)),
    *(f"S0-X{number}" for number in range(1, 14)),
    *(f"S2-{number}" for number in range(1, 69)),
    *(f"S2-X{number}" for number in range(1, 13)),
]


@pytest.mark.parametrize("document", DOCUMENTS, ids=str)
def test_every_name_exists(document: Path) -> None:
    text = (ROOT / document).read_text(encoding="utf-8")
    unknown = [
        f"{document}:{line}: `{span}`: {why}"
        for line, span in spans(text)
        if (why := LOOKUP.complaint(span))
    ]
    assert not unknown, "\n".join(unknown)


@pytest.mark.parametrize("document", DOCUMENTS, ids=str)
def test_every_link_leads_somewhere(document: Path) -> None:
    text = (ROOT / document).read_text(encoding="utf-8")
    broken = [target for target in links(text) if not _leads_somewhere(document, target)]
    assert not broken


def _leads_somewhere(document: Path, target: str) -> bool:
    place, _, anchor = target.partition("#")
    page = (ROOT / document).parent / place if place else ROOT / document
    if not page.exists() or not page.resolve().is_relative_to(ROOT):
        return False
    return not anchor or anchor in anchors(page.read_text(encoding="utf-8"))


def test_the_documents_reach_each_other() -> None:
    """Whoever begins with the README finds every page."""
    reached, waiting = set[Path](), [Path("README.md")]
    while waiting:
        page = waiting.pop()
        if page in reached:
            continue
        reached.add(page)
        text = (ROOT / page).read_text(encoding="utf-8")
        targets = [(ROOT / page).parent / each.partition("#")[0] for each in links(text)]
        found = [target.resolve().relative_to(ROOT) for target in targets]
        waiting += [each for each in found if each.suffix == ".md" and (ROOT / each).is_file()]
    assert reached == set(DOCUMENTS)


# --- pages that list things


def tree(root: type[KeelError] = KeelError) -> dict[str, type[KeelError]]:
    found = {root.__name__: root}
    for child in root.__subclasses__():
        if child.__module__ == errors.__name__:
            found |= tree(child)
    return found


def test_errors_are_listed_as_they_are() -> None:
    page = (ROOT / "docs/errors.md").read_text(encoding="utf-8")
    told = {cells[0].strip("`"): cells[1:] for cells in rows(page) if len(cells) == 8}
    assert told.pop("class")[0] == "code"
    assert set(told) == set(tree())
    for name, (code, when, remedy, *outside) in told.items():
        kind = tree()[name]
        assert code.strip("`") == kind.code, name
        assert remedy == kind.remedy, name
        assert when, name
        outcome = OUTCOMES[kind]
        number = errno.errorcode[outcome.errno]
        retry = "yes" if outcome.retry else "no"
        assert outside == [str(outcome.status), number, str(outcome.exit), retry], name


def test_every_requirement_is_met_somewhere_and_proved_by_a_test() -> None:
    page = (ROOT / "docs/requirements.md").read_text(encoding="utf-8")
    told = {cells[0]: cells for cells in rows(page) if re.match(r"S\d-", cells[0])}
    assert list(told) == REQUIREMENTS
    for number, cells in told.items():
        assert len(cells) == 5, number
        files = [span for _, span in spans(cells[3]) if (ROOT / span).exists()]
        tests = [span for _, span in spans(cells[4]) if LOOKUP.is_test(span)]
        assert files, f"{number} names no file"
        assert tests, f"{number} names no test"
        assert len(tests) == len(spans(cells[4])), f"{number} names something that is no test"


def test_every_guarantee_says_where_it_holds_and_what_proves_it() -> None:
    page = (ROOT / "docs/guarantees.md").read_text(encoding="utf-8")
    numbered = re.split(r"^## (?=\d+\. )", page, flags=re.MULTILINE)[1:]
    assert [int(each.partition(".")[0]) for each in numbered] == list(range(1, 11))
    for each in numbered:
        section = each.partition("\n## ")[0]
        assert "Holds on:" in section, section[:40]
        proof = section.partition("Proved by:")[2]
        assert any(LOOKUP.is_test(span) for _, span in spans(proof)), section[:40]


def test_every_threat_has_a_file_and_a_test() -> None:
    page = (ROOT / "docs/threat-model.md").read_text(encoding="utf-8")
    threats = [cells for cells in rows(page) if cells[0].isdigit()]
    assert [int(cells[0]) for cells in threats] == list(range(1, len(threats) + 1))
    assert len(threats) > 15
    for cells in threats:
        assert len(cells) == 7, cells[0]
        assert any((ROOT / span).is_file() for _, span in spans(cells[4])), cells[0]
        assert any(LOOKUP.is_test(span) for _, span in spans(cells[5])), cells[0]
        assert cells[6], f"{cells[0]} does not say what remains"


def test_every_decision_is_listed_under_its_title() -> None:
    folder = ROOT / "docs/decisions"
    listed = dict(
        re.findall(
            r"^- \[(.+)\]\((\S+)\)$", (folder / "README.md").read_text(encoding="utf-8"), re.M
        )
    )
    pages = {page.name: page.read_text(encoding="utf-8") for page in folder.glob("*.md")}
    pages.pop("README.md")
    assert {name: title for title, name in listed.items()} == {
        name: text.splitlines()[0].removeprefix("# ") for name, text in pages.items()
    }
    for name, text in pages.items():
        for part in ("## Decision", "## Rejected"):
            assert part in text, f"{name} has no part {part!r}"


def _rooms(folder: str) -> set[str]:
    """The modules and packages in a folder, as the tables of the architecture name them."""
    found = set[str]()
    for each in (ROOT / folder).iterdir():
        if each.suffix == ".py" and each.name != "__init__.py":
            found.add(f"{folder}/{each.name}")
        elif each.is_dir() and (each / "__init__.py").exists():
            found.add(f"{folder}/{each.name}/")
    return found


@pytest.mark.parametrize(
    ("heading", "folder"), [("floor", "src/keelfs"), ("module", "src/keelfs/store")]
)
def test_the_architecture_names_every_room_and_no_other(heading: str, folder: str) -> None:
    page = (ROOT / "docs/ARCHITECTURE.md").read_text(encoding="utf-8")
    table = next(each for each in tables(page) if each[0][0] == heading)
    named = [span for cells in table for _, span in spans(" | ".join(cells)) if "/" in span]
    assert not _rooms(folder) - set(named), "a room without a word about it"
    assert len(named) == len(set(named))
    assert all((ROOT / each).exists() for each in named)


# --- the tests of the tests

GOOD = (
    "src/keelfs/ops.py", "src/keelfs/store/", "tests/test_gates.py", "docs", "make test",
    "tests/test_gates.py::test_no_verb_is_forgotten", "Reading.test_read_whole",
    "keelfs.aio", "keelfs.errors.Conflict", "Workspace.write", "Limits.bytes", "files.write",
    "Conflict", "not_found", "expect=keelfs.ABSENT", 'durability="full"', "ws.write(path, data)",
    "keelfs.open(url)", "check()", "KEELFS_URL", "KEELFS_LIMIT_BYTES", "COMMIT", "OUTCOMES",
    "/notes/plan.md", "../x", "tenant-grants", "python -m bench", "keelfs serve",
)  # fmt: skip
BAD = (
    "src/keelfs/nothing.py", "tests/test_nothing.py", "make nothing", "docs/nothing.md",
    "tests/test_gates.py::test_nothing", "Reading.test_nothing", "Nothing.test_read_whole",
    "keelfs.nothing", "keelfs.errors.Nothing", "Workspace.nothing", "Limits.nothing",
    "files.nothing", "Nothing", "no_such_code", "nothing=keelfs.ABSENT", "expect=keelfs.NOTHING",
    "ws.nothing(path)", "no_such_verb()", "KEELFS_NOTHING", "KEELFS_LIMIT_NOTHING",
    "keelfs nothing", "nothing-*", "import keelfs.nothing",
    "NOTHING_AT_ALL", "python -m nothing", "test_nothing_at_all",
)  # fmt: skip


@pytest.mark.parametrize("span", GOOD)
def test_what_exists_is_found(span: str) -> None:
    assert LOOKUP.complaint(span) == ""


@pytest.mark.parametrize("span", BAD)
def test_what_does_not_exist_is_noticed(span: str) -> None:
    assert LOOKUP.complaint(span)


def test_spans_links_and_rows_are_read_as_written() -> None:
    text = "a `b c` [d](e.md#f)\n```sh\n`not this`\n```\n| `g` | h \\| i |\n| --- | --- |\n"
    assert [span for _, span in spans(text)] == ["b c", "g"]
    assert links(text) == ["e.md#f"]
    assert rows(text) == [["`g`", "h | i"]]
    assert anchors("## What is *not* `here`, yet\n") == {"what-is-not-here-yet"}
