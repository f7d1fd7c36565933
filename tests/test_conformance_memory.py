"""The memory space keeps the whole contract, and is what only it promises."""

from __future__ import annotations

import pytest

from keelfs.memory import MemorySpace
from keelfs.model import Limits
from keelfs.ports import Handler
from keelfs.testing.conformance import ConformanceSuite, Setting, Subject, register


def make(setting: Setting) -> MemorySpace:
    return MemorySpace(setting.principal, setting.limits, setting.clock)


def relimit(handler: Handler, limits: Limits) -> None:
    assert isinstance(handler, MemorySpace)
    handler.limits = limits


MEMORY = register(Subject("memory", make, relimit=relimit))


class TestMemory(ConformanceSuite):
    @pytest.fixture
    def subject(self) -> Subject:
        return MEMORY
