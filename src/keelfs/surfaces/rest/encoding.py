"""Bytes as JSON carries them: text where they are text, base64 where they are not."""

from __future__ import annotations

import base64
import binascii
from typing import Final

from keelfs.errors import InvalidArgument

#: A NUL among so many first bytes is how a file is told not to be text.
PROBE: Final = 8192


def encoded(data: bytes) -> tuple[str, str]:
    """The content and the name of its encoding."""
    if b"\0" not in data[:PROBE]:
        try:
            return data.decode(), "text"
        except UnicodeDecodeError:
            pass
    return base64.b64encode(data).decode(), "base64"


def decoded(content: str, encoding: str) -> bytes:
    """The bytes of a content. An encoding that nobody knows is text, as the document has it."""
    if encoding != "base64":
        return content.encode()
    try:
        return base64.b64decode(content, validate=True)
    except (binascii.Error, ValueError):
        raise InvalidArgument("Invalid base64 content") from None
