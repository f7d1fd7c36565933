"""No number that a caller names, and no sum of such, outgrows what both databases can count."""

from __future__ import annotations

import pytest

import keelfs
from keelfs.errors import QuotaExceeded, TooLarge
from keelfs.store.scope import MOST_BYTES


@pytest.mark.parametrize("engine", ["sqlite", "postgres"])
def test_holes_do_not_outgrow_the_ledger(engine: str, request: pytest.FixtureRequest) -> None:
    with keelfs.open(request.getfixturevalue(f"{engine}_url")) as store:
        ws = store.tenant("acme").space("session", "s")
        ws.write("/a", "x")
        ws.write("/b", "x")
        for size in (MOST_BYTES + 1, 2**63 - 1):
            with pytest.raises(TooLarge):
                ws.truncate("/a", size)
            with pytest.raises(TooLarge):
                ws.patch("/a", size - 1, "xx")
        ws.truncate("/a", MOST_BYTES - 1)
        with pytest.raises(QuotaExceeded):
            ws.truncate("/b", 2)
        with pytest.raises(QuotaExceeded):
            ws.copy("/a", "/c")
        assert ws.usage().bytes == MOST_BYTES
