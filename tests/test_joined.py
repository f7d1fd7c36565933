"""Changes that travel together: which ones may, and what becomes of their parameters."""

from __future__ import annotations

import re

from keelfs.store.content import GROW_STRAND, INSERT_SMALL
from keelfs.store.files import KEEP, UPDATE_FILE
from keelfs.store.joined import FEW, Waiting
from keelfs.store.names import DELETE_NODE, INSERT_NODE
from keelfs.store.scope import LOCK, REFER_CONTENT, SAVE


def test_a_change_alone_travels_as_it_is() -> None:
    waiting = Waiting()
    waiting.add(SAVE, [(1, 2)])
    assert waiting.taken() == (SAVE.pg, [1, 2])
    assert waiting.taken() is None


def test_parameters_follow_one_another_behind_the_tenant() -> None:
    waiting = Waiting()
    small, kept = ["c", 1, 2, b""], list(range(9))
    waiting.add(INSERT_SMALL, [small])
    assert waiting.accepts(KEEP, [kept])
    waiting.add(KEEP, [kept])
    taken = waiting.taken()
    assert taken is not None
    text, params = taken
    assert params == [*small, *kept]
    numbers = [int(each) for each in re.findall(r"\$(\d+)", text)]
    assert sorted(numbers) == [1, *range(1, len(params) + 2)]
    assert numbers.index(len(small) + 1) < numbers.index(len(small) + 2)


def test_one_table_is_changed_once() -> None:
    waiting = Waiting()
    waiting.add(INSERT_NODE, [()])
    assert not waiting.accepts(UPDATE_FILE, [()])
    waiting.taken()
    assert waiting.accepts(UPDATE_FILE, [()])


def test_what_spaces_share_keeps_its_order() -> None:
    for shared in (REFER_CONTENT, GROW_STRAND, DELETE_NODE, LOCK):
        assert not Waiting().accepts(shared, [()])


def test_many_rows_travel_by_themselves() -> None:
    assert Waiting().accepts(KEEP, [()] * FEW)
    assert not Waiting().accepts(KEEP, [()] * (FEW + 1))
    assert not Waiting().accepts(KEEP, [])
