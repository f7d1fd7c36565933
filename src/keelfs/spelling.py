"""What the ids of tenants and spaces may look like: the same for every store.

They are compared byte for byte, as parameters; so anything that can be written down is a good id.
"""

from __future__ import annotations

from keelfs.errors import InvalidArgument


def check_id(what: str, text: str) -> str:
    """Ids of tenants and spaces: any text but what no URL, log or file name could carry."""
    if not isinstance(text, str):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise InvalidArgument(f"the {what} is text")
    try:
        size = len(text.encode())
    except UnicodeEncodeError:
        raise InvalidArgument(f"the {what} is not valid UTF-8") from None
    if not 1 <= size <= 255 or text in {".", ".."}:
        raise InvalidArgument(f"the {what} has 1 to 255 bytes, and is not . or ..")
    if any(ord(each) < 32 or ord(each) == 127 for each in text):
        raise InvalidArgument(f"the {what} cannot contain control characters")
    return text


def check_kind(kind: str) -> str:
    """The kinds of spaces are the caller's, but for the one that the store keeps for itself."""
    check_id("kind of a space", kind)
    if kind == "snapshot":
        raise InvalidArgument("spaces of kind snapshot are made by taking snapshots")
    return kind
