"""What the validators that come along accept and refuse, and that nothing gets past them."""

from __future__ import annotations

import io
import json
import tarfile
from collections.abc import Callable
from typing import Any, TypedDict

import msgspec
import pytest

import keelfs
from keelfs import ops, validators
from keelfs.agents import AgentTree, fragments
from keelfs.errors import (
    FragmentValidationError,
    InvalidArgument,
    InvalidPattern,
    Problem,
    ValidationFailed,
)
from keelfs.gates.validate import Validate, ValidatorRegistry
from keelfs.memory import MemorySpace
from keelfs.model import Content
from keelfs.path import parse
from keelfs.validators import Validator

PATH = fragments.PATH
GOOD = '{"type": "hint", "text": "Ask first."}\n'
BAD = '{"type": "hint"}\n'


def outcome(validator: Validator, data: bytes | str) -> ValidationFailed | None:
    """What the validator says to a file of these bytes."""
    space, registry = MemorySpace(), ValidatorRegistry()
    registry.register("/f", validator)
    try:
        Validate(space, registry).perform(ops.Write("/f", data))
    except ValidationFailed as error:
        assert not space.tree().keys() - {"/"}
        return error
    return None


class Row(msgspec.Struct, forbid_unknown_fields=True):
    name: str
    count: int = 0


class Loose(TypedDict):
    name: str


# --- jsonl


@pytest.mark.parametrize(
    "data",
    ["", "\n\n", '{"name": "a"}', '{"name": "a", "count": 7}\n\n  \n{"name": "é"}\n',
     '{"name": "a"}\r\n{"name": "b"}\r\n', "\t" + '{"name": "\\u00e9"}'],
)  # fmt: skip
def test_lines_that_fit(data: str) -> None:
    """S0-50 to S0-52: each line is JSON of the type; empty lines count for nothing."""
    assert outcome(validators.jsonl(Row), data) is None


@pytest.mark.parametrize(
    ("line", "field", "said"),
    [
        ("{}", "name", "required field `name`"),
        ('{"name": 7}', "name", "Expected `str`, got `int`"),
        ('{"name": "a", "count": "7"}', "count", "Expected `int`, got `str`"),
        ('{"name": "a", "other": 1}', "other", "unknown field `other`"),
        ('{"name": "a", "name": "b"}', "name", "found twice"),
        ("[]", None, "Expected `object`, got `array`"),
        ("null", None, "Expected `object`"),
        ("{", None, "JSON"),
        ('{"name": "a"} {"name": "b"}', None, "JSON"),
        ("{'name': 'a'}", None, "JSON"),
        ('{"name": "a", "count": NaN}', None, "JSON"),
        ('{"name": "a", "count": 1e400}', "count", "out of range"),
        ('{"name": "\\ud800"}', None, "JSON"),
        ("\ufeff" + '{"name": "a"}', None, "JSON"),
    ],
)
def test_lines_that_do_not_fit(line: str, field: str | None, said: str) -> None:
    """S0-53, S0-54: one of them refuses all, and is pointed at."""
    data = '{"name": "good"}\n\n' + line + '\n{"name": "good"}\n'
    error = outcome(validators.jsonl(Row), data)
    assert error is not None
    (problem,) = error.problems
    assert (problem.line, problem.field) == (3, field)
    assert said in problem.expected
    assert "line 3" in str(error)


def test_bytes_that_are_no_text() -> None:
    error = outcome(validators.jsonl(Row), b'{"name": "\xff"}')
    assert error is not None
    assert error.problems[0].line == 1


def test_nesting_has_an_end() -> None:
    deep = "[" * 100_000 + "]" * 100_000
    for schema in (Any, list[Any], Row):
        assert outcome(validators.jsonl(schema), deep) is not None
        assert outcome(validators.json(schema), deep) is not None


def test_all_bad_lines_are_named_up_to_twenty() -> None:
    error = outcome(validators.jsonl(Row), '{"name": "good"}\n' + "{}\n" * 19)
    assert error is not None
    assert [problem.line for problem in error.problems] == list(range(2, 21))
    assert "more" not in error.message
    error = outcome(validators.jsonl(Row), "{}\n" * 1000)
    assert error is not None
    assert len(error.problems) == 20
    assert "perhaps more" in error.message


def test_lines_are_bounded_and_may_cross_blocks() -> None:
    long = json.dumps({"name": "x" * 300_000})
    assert outcome(validators.jsonl(Row), f"{long}\n{long}\n" * 3) is None
    error = outcome(validators.jsonl(Row, line_bytes=100), '{"name": "a"}\n' + long + "\n{}")
    assert error is not None
    assert error.problems[0] == Problem(2, None, None, "expected at most 100 bytes")
    assert error.problems[1].line == 3
    assert len(str(error)) < 1000


def test_a_line_of_the_longest_size_passes() -> None:
    line = json.dumps({"name": "x" * 85})
    assert outcome(validators.jsonl(Row, line_bytes=len(line)), line + "\n" + line) is None
    assert outcome(validators.jsonl(Row, line_bytes=len(line) - 1), line) is not None


def test_other_schemas() -> None:
    assert outcome(validators.jsonl(dict[str, int]), '{"a": 1}\n{}') is None
    assert outcome(validators.jsonl(dict[str, int]), '{"a": "1"}') is not None
    assert outcome(validators.jsonl(Loose), '{"name": "a", "more": 1}') is None
    assert outcome(validators.jsonl(int | str), '1\n"a"\n') is None
    with pytest.raises(InvalidArgument):
        validators.jsonl(object())


# --- json, text, lines


def test_json() -> None:
    assert outcome(validators.json(Row), '{\n "name": "a"\n}\n') is None
    for bad in ("", "{}", '{"name": "a"}\n{"name": "a"}', '{"name": "a", "name": "a"}'):
        error = outcome(validators.json(Row), bad)
        assert error is not None
        assert error.problems[0].line is None
    assert outcome(validators.json(Row, max_bytes=20), '{"name": "aaaaaaaaaaaaaaaaa"}') is not None


def test_text() -> None:
    assert outcome(validators.text(), "é" * 200_000) is None
    assert outcome(validators.text("latin-1"), b"\xff") is None
    error = outcome(validators.text(), b"good\nbad \xff\n")
    assert error is not None
    assert outcome(validators.text(), "é".encode()[:1]) is not None
    with pytest.raises(InvalidArgument):
        validators.text("klingon")


@pytest.mark.parametrize(
    ("data", "lines"), [("", 0), ("\n", 1), ("a", 1), ("a\n", 1), ("a\nb", 2), ("\n\n", 2)]
)
def test_lines(data: str, lines: int) -> None:
    assert outcome(validators.max_lines(lines), data) is None
    if lines:
        assert outcome(validators.max_lines(lines - 1), data) is not None


@pytest.mark.parametrize("most", [-1, 1.5, True, "7", None])
def test_numbers_of_lines_that_cannot_be(most: Any) -> None:
    with pytest.raises(InvalidArgument):
        validators.max_lines(most)


# --- fragments

NEEDED: dict[str, dict[str, Any]] = {
    "term": {"name": "a", "definition": "b"},
    "hint": {"text": "a"},
    "guardrail": {"rule": "a"},
    "explain": {"concept": "a", "explanation": "b"},
    "example": {"question": "a", "answer": "b"},
    "clarification": {"when": "a", "ask": "b", "reason": "c"},
    "workflow": {"task": "a", "steps": ["b", "c"]},
    "quirk": {"issue": "a", "workaround": "b"},
    "styleGuide": {"prefer": "a"},
    "analogy": {"concepts": ["a", "b"], "relationship": "c"},
    "glossary": {"entries": {"a": "b"}},
    "role": {"content": "a"},
    "principle": {"title": "a", "description": "b"},
    "policy": {"rule": "a"},
    "identity": {},
    "persona": {"name": "a"},
    "alias": {"term": "a", "meaning": "b"},
    "preference": {"aspect": "a", "value": "b"},
    "correction": {"subject": "a", "clarification": "b"},
}
OPTIONAL: dict[str, dict[str, Any]] = {
    "guardrail": {"reason": "x", "action": "x"},
    "explain": {"therefore": "x"},
    "example": {"note": "x"},
    "workflow": {"triggers": ["x"], "notes": "x"},
    "styleGuide": {"never": "x", "always": "x"},
    "analogy": {"insight": "x", "therefore": "x", "pitfall": "x"},
    "principle": {"policies": ["x"]},
    "policy": {"before": "x", "reason": "x", "policies": ["x"]},
    "identity": {"name": "x", "role": "x"},
    "persona": {"role": "x", "objective": "x", "tone": "x"},
}


def fragment(kind: str, **fields: Any) -> str:
    return json.dumps({"type": kind, **fields})


def test_there_are_nineteen_types() -> None:
    assert len(NEEDED) == 19


@pytest.mark.parametrize("kind", NEEDED)
def test_each_type_is_closed(kind: str) -> None:
    """S0-X12: what is needed is needed, what is optional may be there, nothing else may."""
    needed, optional = NEEDED[kind], OPTIONAL.get(kind, {})
    assert outcome(fragments.validate, fragment(kind, **needed)) is None
    assert outcome(fragments.validate, fragment(kind, **needed, **optional)) is None
    for name in needed:
        less = {key: value for key, value in needed.items() if key != name}
        error = outcome(fragments.validate, fragment(kind, **less))
        assert isinstance(error, FragmentValidationError)
        assert error.problems[0][:3] == (1, kind, name)
    for name in (*needed, *optional):
        error = outcome(fragments.validate, fragment(kind, **{**needed, **optional, name: None}))
        assert error is not None
        assert error.problems[0].field == name
    assert outcome(fragments.validate, fragment(kind, **needed, other="x")) is not None


def test_what_a_fragment_error_says() -> None:
    lines = [GOOD.strip(), fragment("workflow", task="a", steps=["b", 7]), fragment("spell"), "{}"]
    error = outcome(fragments.validate, "\n".join(lines))
    assert isinstance(error, FragmentValidationError)
    assert error.problems[0] == Problem(2, "workflow", "steps[1]", "Expected `str`, got `int`")
    assert error.problems[1][:3] == (3, "spell", "type")
    assert "expected one of term, hint, " in error.problems[1].expected
    assert error.problems[2] == Problem(4, None, "type", error.problems[2].expected)
    assert "line 2, type 'workflow', field 'steps[1]': Expected" in error.message


# --- no way around


@pytest.fixture
def tree() -> AgentTree:
    store = keelfs.open("memory:")
    tree = store.tenant("acme").agent_tree(session="s", agent="a", user="u")
    tree.write(PATH, GOOD)
    tree.write("/bad", BAD)
    tree.write("/.agent/bad", BAD)
    tree.write("/.agent/d/fragments.jsonl", BAD)
    return tree


WAYS: list[ops.Op[Any]] = [
    ops.Write(PATH, BAD),
    ops.Write("/.agent/./x/../fragments.jsonl", BAD),
    ops.Write("//.agent//fragments.jsonl", BAD),
    ops.Append(PATH, BAD),
    ops.Patch(PATH, 0, "["),
    ops.Truncate(PATH, 5),
    ops.Copy("/.agent/bad", PATH, replace=True),
    ops.Move("/.agent/bad", PATH, replace=True),
    ops.Transfer("/bad", PATH, replace=True),
    ops.Transfer("/.agent/bad", PATH, replace=True),
    ops.Batch((ops.Remove(PATH), ops.Link("/.agent/bad", PATH))),
    ops.Batch((ops.Remove(PATH), ops.Symlink("bad", PATH))),
    ops.Batch((ops.Remove(PATH), ops.Move("/.agent/bad", PATH))),
    ops.Batch((ops.Remove(PATH), ops.Transfer("/bad", PATH))),
    ops.Batch((ops.Link(PATH, "/.agent/alias"), ops.Write("/.agent/alias", BAD))),
    ops.Batch((ops.Symlink("fragments.jsonl", "/.agent/alias"), ops.Append("/.agent/alias", BAD))),
    ops.Batch((ops.Write("/ok", "1"), ops.Write(PATH, BAD))),
    ops.Batch((ops.Append(PATH, '{"type": "hint",'), ops.Append(PATH, '"text": 7}'))),
    ops.Batch((ops.Remove(PATH), ops.Mkdir(PATH), ops.Remove(PATH), ops.Write(PATH, BAD))),
    ops.Within(ops.Write("/fragments.jsonl", BAD), parse("/.agent")),
    ops.Within(ops.Write("/.agent/fragments.jsonl", BAD), parse("/")),
    ops.Once(ops.Write(PATH, BAD), "key", b"fingerprint"),
]


@pytest.mark.parametrize("op", WAYS, ids=lambda op: op.verb)
def test_no_operation_gets_a_bad_line_in(tree: AgentTree, op: ops.Op[Any]) -> None:
    """S0-47, S0-49, S0-55, S0-57, X-4: judged on the final bytes, before anything is kept."""
    before = (tree.read(PATH), sorted(tree.walk()))
    with pytest.raises(ValidationFailed):
        tree.handler.perform(op)
    assert (tree.read(PATH), sorted(tree.walk())) == before


def old_bytes(tree: AgentTree) -> Callable[[], object]:
    """A revision that was bad before the validators were there."""
    bare = unjudged(tree)
    bare.write("/fragments.jsonl", BAD)
    revision = bare.write("/fragments.jsonl", GOOD).revision - 1
    return lambda: tree.restore(PATH, revision)


def undone(tree: AgentTree) -> Callable[[], object]:
    bare = unjudged(tree)
    bare.write("/fragments.jsonl", BAD)
    bare.write("/fragments.jsonl", GOOD)
    last = tree.changes(PATH).items[-1].seq
    return lambda: tree.undo(last)


def rolled_back(tree: AgentTree) -> Callable[[], object]:
    bare = unjudged(tree)
    bare.write("/fragments.jsonl", BAD)
    bare.snapshot("bad")
    bare.write("/fragments.jsonl", GOOD)
    return lambda: tree.subtree("/.agent").rollback("bad")


def untrashed(tree: AgentTree) -> Callable[[], object]:
    bare = unjudged(tree)
    bare.write("/fragments.jsonl", BAD)
    trashed = tree.trash(PATH)
    tree.write(PATH, GOOD)
    moved = tree.move(PATH, "/.agent/good.jsonl")
    assert moved.revision == 1

    def back() -> object:
        return tree.untrash(trashed.id)

    return back


def imported(tree: AgentTree) -> Callable[[], object]:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        member = tarfile.TarInfo("fragments.jsonl")
        member.size = len(BAD)
        archive.addfile(member, io.BytesIO(BAD.encode()))
    return lambda: tree.import_(packed.getvalue(), "/.agent", replace=True)


def moved_in(tree: AgentTree) -> Callable[[], object]:
    return lambda: tree.batch([ops.Remove(PATH), ops.Move("/.agent/d/fragments.jsonl", PATH)])


def unjudged(tree: AgentTree) -> keelfs.Workspace:
    """The agent's space as somebody sees it who has no validators."""
    return keelfs.Workspace(tree._homes[parse("/.agent")])  # pyright: ignore[reportPrivateUsage]


@pytest.mark.parametrize(
    "way",
    [old_bytes, undone, rolled_back, untrashed, imported, moved_in],
    ids=lambda way: way.__name__,
)
def test_nothing_bad_comes_back(
    tree: AgentTree, way: Callable[[AgentTree], Callable[[], object]]
) -> None:
    """X-4: restore, undo, rollback, untrash and import are judged like a write."""
    comes_back = way(tree)
    before = sorted(tree.walk("/.agent"))
    with pytest.raises(ValidationFailed):
        comes_back()
    assert [(path, stat.size) for path, stat in sorted(tree.walk("/.agent"))] == [
        (path, stat.size) for path, stat in before
    ]


def test_a_directory_is_judged_with_what_it_holds() -> None:
    tree = keelfs.open("memory:").tenant("acme").agent_tree(
        session="s", agent="a", user="u", validators={"/data/**/*.json": validators.json(Row)}
    )  # fmt: skip
    tree.write("/in/deep/bad.json", "{}")
    tree.write("/.user/in/bad.json", "{}")
    for op in (
        ops.Move("/in", "/data"), ops.Copy("/in", "/data", recursive=True),
        ops.Transfer("/.user/in", "/data", recursive=True), ops.Symlink("/in", "/data"),
    ):  # fmt: skip
        with pytest.raises(ValidationFailed):
            tree.perform(op)
    assert not tree.exists("/data")
    tree.write("/in/deep/bad.json", '{"name": "good now"}')
    tree.move("/in", "/data")


def test_one_line_registers_a_validator_of_ones_own(tree: AgentTree) -> None:
    """S0-58: any glob, any function of the content; several judge the same file."""

    def no_tabs(content: Content) -> None:
        if b"\t" in content.read(0, content.stat.size):
            raise ValidationFailed("tabs are not wanted here; use spaces")

    own = keelfs.open("memory:").tenant("acme").agent_tree(
        session="s", agent="a", user="u",
        validators={"*.py": no_tabs, "/skills/**/*.py": no_tabs, "/src/*": validators.max_lines(2)},
    )  # fmt: skip
    own.write("/src/a.py", "x = 1\n")
    for path, data in (("/src/a.py", "\tx"), ("/src/a.py", "\n\n\n"), ("/.user/d/b.py", "\t")):
        with pytest.raises(ValidationFailed):
            own.write(path, data)
    own.write("/src/a.md", "\t")
    with pytest.raises(ValidationFailed):
        own.append(PATH, BAD)
    for wrong in ({"[": no_tabs}, {"": no_tabs}):
        with pytest.raises(InvalidPattern):
            keelfs.open("memory:").tenant("a").agent_tree(
                session="s", agent="a", user="u", validators=wrong
            )
    with pytest.raises(InvalidArgument):
        keelfs.open("memory:").tenant("a").agent_tree(
            session="s", agent="a", user="u", validators={"*": "no function"}  # type: ignore[dict-item]  # pyright: ignore
        )  # fmt: skip


def test_other_paths_pass(tree: AgentTree) -> None:
    """S0-48, S0-56: nothing else is judged, and good lines are written."""
    for path in ("/fragments.jsonl", "/.agent/other.jsonl", "/.user/fragments.jsonl"):
        tree.write(path, BAD)
    tree.append(PATH, "\n\n" + GOOD)
    assert tree.read_text(PATH) == GOOD + "\n\n" + GOOD
    tree.write(PATH, "")
    tree.remove(PATH)
