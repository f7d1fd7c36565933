"""The dialect of artifact paths: every vector, the boundaries, and what is refused beyond them."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from keelfs.artifactpath import MAX_BYTES, MAX_COMPONENT_BYTES, artifact_path
from keelfs.errors import InvalidPath

VECTORS = Path(__file__).parent / "data" / "artifact_paths.txt"

#: Paths that the source document leaves open and other systems accept; here they are refused,
#: because a file of such a name cannot be saved everywhere, or cannot be addressed.
ADDITIONS = {
    b"a.": "cannot end with a space or a dot",
    b"a/b.": "cannot end with a space or a dot",
    b"a ": "cannot end with a space or a dot",
    b"a/ ": "cannot end with a space or a dot",
    b" ": "cannot end with a space or a dot",
    b"con ": "cannot end with a space or a dot",
    b"#1": "cannot begin with '#'",
    b"a\x80": "not valid UTF-8",
}


def vectors() -> list[tuple[str, bytes, bytes]]:
    rows = [line for line in VECTORS.read_text().splitlines() if line and not line.startswith("#")]
    found: list[tuple[str, bytes, bytes]] = []
    for row in rows:
        verdict, rest = row.split(maxsplit=1)
        path, result = rest.split("  ", 1)
        found.append((verdict, ast.literal_eval(path), ast.literal_eval(result)))
    return found


def test_the_vectors_are_all_there() -> None:
    assert len(vectors()) == 87
    assert ADDITIONS.keys() <= {path for verdict, path, _ in vectors() if verdict == "OK"}


@pytest.mark.parametrize(("verdict", "path", "result"), vectors())
def test_a_vector_is_kept(verdict: str, path: bytes, result: bytes) -> None:
    text = path.decode("utf-8", "surrogateescape")
    if verdict == "OK" and path not in ADDITIONS:
        assert "/".join(artifact_path(text).parts) == result.decode()
        return
    with pytest.raises(InvalidPath) as refused:
        artifact_path(text)
    if path in ADDITIONS:
        assert ADDITIONS[path] in refused.value.message
    else:
        assert refused.value.message == result.decode()


X, A = "x", "é"


@pytest.mark.parametrize(
    ("path", "result"),
    [
        (X * 128, X * 128),
        (A * 64, A * 64),
        (f"d/{X * 128}", f"d/{X * 128}"),
        (f"{X * 128}/{'y' * 127}", f"{X * 128}/{'y' * 127}"),
        ("a" * 100 + "/" * 150 + "b", "a" * 100 + "/b"),
    ],
)
def test_at_the_boundary(path: str, result: str) -> None:
    assert "/".join(artifact_path(path).parts) == result


@pytest.mark.parametrize(
    ("path", "message"),
    [
        (X * 129, f"path component '{X * 16}...' > 128 chars"),
        (A * 65, f"path component '{A * 16}...' > 128 chars"),
        (f"d/{X * 129}", f"path component '{X * 16}...' > 128 chars"),
        (f"{X * 128}/{'y' * 128}", "path > 256 chars"),
        (A * 129, "path > 256 chars"),
        ("a" * 256, f"path component '{'a' * 16}...' > 128 chars"),
        ("a" * 257, "path > 256 chars"),
        ("a" * 100 + "/" * 156 + "b", "path > 256 chars"),
    ],
)
def test_beyond_the_boundary(path: str, message: str) -> None:
    with pytest.raises(InvalidPath) as refused:
        artifact_path(path)
    assert refused.value.message == message


HOSTILE = st.text(
    st.sampled_from("ab/\\.:#~ \0\n\x7f\x85\u202e\ud800éCONcon1") | st.characters(), max_size=300
)


@given(HOSTILE)
def test_any_text_is_refused_or_has_one_canonical_form(text: str) -> None:
    try:
        path = artifact_path(text)
    except InvalidPath:
        return
    canonical = "/".join(path.parts)
    assert artifact_path(canonical) == path
    assert artifact_path(canonical.replace("/", "\\")) == path
    assert artifact_path(canonical + "/") == path or len(canonical.encode()) == MAX_BYTES
    assert not any(part.startswith(".") or ":" in part for part in path.parts)
    assert all(len(part.encode()) <= MAX_COMPONENT_BYTES for part in path.parts)
