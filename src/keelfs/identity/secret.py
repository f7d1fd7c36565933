"""Tokens as text: `keel_`, the number of a tenant, and 256 random bits.

The number only says where to look, so that even the look-up of a token is bound to one tenant; the
bits are the proof. The store keeps their hash, which needs no salt and no slowness: nobody guesses
256 bits.
"""

from __future__ import annotations

import base64
import hashlib
import secrets
from typing import Final

PREFIX: Final = "keel_"
_BYTES: Final = 32
#: Of the text of the secret: 32 bytes in base64 without padding.
_LENGTH: Final = 43


def new_secret() -> bytes:
    return secrets.token_bytes(_BYTES)


def text_of(tenant: int, secret: bytes) -> str:
    """What the bearer is given, once."""
    return f"{PREFIX}{tenant}_{base64.urlsafe_b64encode(secret).rstrip(b'=').decode()}"


def parsed(text: str) -> tuple[int, bytes] | None:
    """Tenant and hash of the secret; None for what cannot be a token."""
    number, _, secret = text.removeprefix(PREFIX).partition("_")
    if not text.startswith(PREFIX) or len(secret) != _LENGTH or not 1 <= len(number) <= 18:
        return None
    if not (text.isascii() and number.isdigit()):
        return None
    try:
        raw = base64.b64decode(secret + "=", altchars=b"-_", validate=True)
    except ValueError:
        return None
    return int(number), hash_of(raw)


def hash_of(secret: bytes) -> bytes:
    return hashlib.sha256(secret).digest()
