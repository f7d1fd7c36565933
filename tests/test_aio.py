"""The awaitable twin: the same verbs, and what only an event loop can do wrong."""

from __future__ import annotations

import asyncio
import contextvars
import inspect
import threading
import time
from collections.abc import AsyncIterator, Coroutine
from pathlib import Path
from typing import Any

import pytest

from keelfs import aio, artifacts, assembly, errors, ops, workspace
from keelfs.aio.hop import DEPTH, Crew
from keelfs.memory import MemorySpace
from keelfs.model import ABSENT, ChangeKind, Kind, Limits


def run(coroutine: Coroutine[Any, Any, Any]) -> Any:
    """To the end, within seconds: a test that hangs fails."""
    return asyncio.run(asyncio.wait_for(coroutine, 20))


class Gate:
    """A handler whose operations can be held up, and are counted by thread."""

    def __init__(self, local: bool = False) -> None:
        self.below, self.open = MemorySpace(), threading.Event()
        self.open.set()
        self.local_reads = local
        self.threads: list[tuple[str, int]] = []

    def perform(self, op: Any, /) -> Any:
        self.threads.append((op.verb, threading.get_ident()))
        assert self.open.wait(10)
        return self.below.perform(op)


def twin(handler: Any = None, crew: Crew | None = None) -> aio.Workspace:
    return aio.Workspace(workspace.Workspace(handler or MemorySpace()), crew)


# -- one verb for each ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("blocking", "awaitable"),
    [(workspace.Workspace, aio.Workspace), (workspace.Space, aio.Space)],
)
def test_every_verb_is_there_with_the_same_arguments(blocking: type, awaitable: type) -> None:
    verbs = {name for name, _ in inspect.getmembers(blocking, callable) if name[0] != "_"}
    for name in verbs - {"watcher"}:
        theirs = inspect.signature(getattr(blocking, name)).parameters
        ours = inspect.signature(getattr(awaitable, name)).parameters
        assert list(ours) == list(theirs), name
        for each in theirs:
            assert (ours[each].default, ours[each].kind) == (
                theirs[each].default, theirs[each].kind,
            ), (name, each)  # fmt: skip


def test_each_verb_passes_its_arguments_on() -> None:
    """Each argument has its own value, so that an exchange of two shows."""

    async def check() -> None:
        told: list[Any] = []

        class Sync:
            handler = MemorySpace()

            def __getattr__(self, name: str) -> Any:
                def verb(*args: Any, **kwargs: Any) -> Any:
                    told.append((name, args, kwargs))
                    return iter(())

                return verb

        ws = aio.Workspace(Sync())  # type: ignore[arg-type]
        special = {"open", "watch", "subtree", "readonly", "handler", "sync", "pin", "stream"}
        for name, verb in inspect.getmembers(aio.Workspace, inspect.isfunction):
            if name[0] == "_" or name in special:
                continue
            parameters = list(inspect.signature(verb).parameters.values())[1:]
            given = {each.name: f"<{each.name}>" for each in parameters}
            args = [given[each.name] for each in parameters if each.kind is not each.KEYWORD_ONLY]
            named = {
                each.name: given[each.name] for each in parameters if each.kind is each.KEYWORD_ONLY
            }
            answer = getattr(ws, name)(*args, **named)
            if inspect.isasyncgen(answer):
                assert [each async for each in answer] == []
            else:
                await answer
            called, passed, keywords = told.pop()
            assert called == name
            expected = list(inspect.signature(getattr(workspace.Workspace, name)).parameters)[1:]
            bound = dict(zip(expected, passed, strict=False)) | keywords
            assert bound == given, name

    run(check())


def test_the_verbs_work_together() -> None:
    async def check() -> None:
        ws = twin()
        first = await ws.write("/a", "hello", expect=ABSENT)
        assert await ws.read("/a", 1, 3) == b"ell"
        assert await ws.read_text("/a") == "hello"
        assert (await ws.stat("/a")) == first
        await ws.batch([ops.Write(f"/d/{number}.py", "x = 1") for number in range(600)])
        assert len([entry async for entry in ws.entries("/d")]) == 600
        assert len([path async for path in ws.glob("*.py")]) == 600
        assert len([match async for match in ws.grep("x", limit=7)]) == 7
        assert len([found async for found in ws.walk()]) == 602
        assert (await ws.subtree("/d").read("0.py")) == b"x = 1"
        assert (await ws.perform(ops.Read("/a"))) == b"hello"
        assert (await ws.mknod("/pipe", Kind.FIFO)).kind is Kind.FIFO
        with pytest.raises(errors.ReadOnly):
            await ws.readonly().write("/a", "x")

    run(check())


def test_errors_carry_the_callers_spelling() -> None:
    async def check() -> None:
        ws = twin()
        for call in (
            ws.read("./missing"),
            ws.write("./missing", 5),  # type: ignore[arg-type]
            anext(aiter(ws.stream("./missing"))),
            anext(aiter(ws.entries("./missing"))),
            anext(aiter(ws.grep("x", "./missing"))),
        ):
            with pytest.raises(errors.KeelError) as caught:
                await call
            assert caught.value.path == "./missing"

    run(check())


# -- streams -------------------------------------------------------------------------------------


async def arriving(*blocks: bytes, pause: float = 0) -> AsyncIterator[bytes]:
    for block in blocks:
        await asyncio.sleep(pause)
        yield block


def test_data_may_arrive_asynchronously() -> None:
    async def check() -> None:
        ws = twin()
        blocks = [bytes([number]) * 1000 for number in range(100)]
        await ws.write("/a", arriving(*blocks))
        assert await ws.read("/a") == b"".join(blocks)
        await ws.append("/a", arriving(b"x", b"y"))
        await ws.patch("/a", 1, arriving(b"z"))
        assert (await ws.read("/a"))[-2:] == b"xy"
        assert [block async for block in ws.stream("/a", block=60_000)][1][-1:] == b"y"

    run(check())


def test_a_stream_is_pinned_while_it_is_overwritten() -> None:
    async def check() -> None:
        ws = twin()
        await ws.write("/a", b"old" * 100)
        found = []
        async for block in ws.stream("/a", block=100):
            found.append(block)
            await ws.write("/a", b"new")
        assert b"".join(found) == b"old" * 100

    run(check())


def test_a_writer_that_is_behind_holds_the_data_back() -> None:
    async def check() -> None:
        taken = 0
        held = threading.Event()

        class Slow:
            def perform(self, op: Any, /) -> Any:
                for _ in op.data.blocks():
                    assert held.wait(10)

        async def endless() -> AsyncIterator[bytes]:
            nonlocal taken
            while taken < 100:
                taken += 1
                yield b"x"

        writing = asyncio.ensure_future(twin(Slow()).write("/a", endless()))
        for _ in range(200):
            await asyncio.sleep(0.001)
        assert DEPTH <= taken <= DEPTH + 2
        held.set()
        await writing
        assert taken == 100

    run(check())


def test_data_that_breaks_off_leaves_nothing() -> None:
    async def check() -> None:
        ws = twin()

        async def breaks() -> AsyncIterator[bytes]:
            yield b"some"
            raise OSError("the line is down")

        with pytest.raises(OSError, match="the line"):
            await ws.write("/a", breaks())
        assert not await ws.exists("/a")

    run(check())


def test_a_refused_write_stops_the_data() -> None:
    async def check() -> None:
        ws, taken = twin(MemorySpace(limits=Limits(file_bytes=10_000))), 0

        async def endless() -> AsyncIterator[bytes]:
            nonlocal taken
            while True:
                taken += 1
                yield b"x" * 1000

        with pytest.raises(errors.TooLarge):
            await ws.write("/a", endless())
        assert taken < 11 + DEPTH + 2
        assert not await ws.exists("/a")

    run(check())


def test_cancelling_a_write_whose_data_has_not_come_discards_it() -> None:
    async def check() -> None:
        ws, waiting, closed = twin(), asyncio.Event(), asyncio.Event()

        async def stuck() -> AsyncIterator[bytes]:
            try:
                yield b"some"
                waiting.set()
                await asyncio.Event().wait()
            finally:
                closed.set()

        writing = asyncio.ensure_future(ws.write("/a", stuck()))
        await waiting.wait()
        writing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await writing
        assert closed.is_set()
        await asyncio.sleep(0.05)
        assert not await ws.exists("/a")

    run(check())


def test_uploads_that_wait_for_verbs_do_not_block_them() -> None:
    """More uploads than threads, each of which reads from the same crew."""

    async def check() -> None:
        ws = twin(crew=Crew(2))
        await ws.write("/a", b"x" * 1000)
        await asyncio.gather(*[
            ws.write(f"/copy{number}", ws.stream("/a", block=100)) for number in range(20)
        ])  # fmt: skip
        assert await ws.read("/copy19") == b"x" * 1000

    run(check())


# -- cancelling and threads ----------------------------------------------------------------------


def test_cancelling_stops_the_wait_and_not_the_write() -> None:
    async def check() -> None:
        gate = Gate()
        ws = twin(gate)
        gate.open.clear()
        writing = asyncio.ensure_future(ws.write("/a", b"x"))
        while not gate.threads:
            await asyncio.sleep(0.001)
        writing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await writing
        gate.open.set()
        while not await ws.exists("/a"):
            await asyncio.sleep(0.001)

    run(check())


def test_work_that_has_not_begun_is_dropped() -> None:
    async def check() -> None:
        gate = Gate()
        ws = twin(gate, Crew(1))
        gate.open.clear()
        first = asyncio.ensure_future(ws.write("/first", b"x"))
        while not gate.threads:
            await asyncio.sleep(0.001)
        second = asyncio.ensure_future(ws.write("/second", b"x"))
        await asyncio.sleep(0.01)
        second.cancel()
        with pytest.raises(asyncio.CancelledError):
            await second
        gate.open.set()
        await first
        assert not await ws.exists("/second")

    run(check())


def test_verbs_leave_the_loop_free_and_run_side_by_side() -> None:
    async def check() -> None:
        gate = Gate()
        ws = twin(gate)
        gate.open.clear()
        both = [asyncio.ensure_future(ws.write(f"/{name}", b"x")) for name in "ab"]
        while len(gate.threads) < 2:
            await asyncio.sleep(0.001)
        gate.open.set()
        await asyncio.gather(*both)
        assert threading.get_ident() not in {thread for _, thread in gate.threads}

    run(check())


def test_short_local_reads_stay_on_the_loop() -> None:
    async def check() -> None:
        gate, here = Gate(local=True), threading.get_ident()
        ws = twin(gate)
        await ws.write("/small", b"x" * 1000)
        await ws.write("/large", b"x" * 200_000)
        gate.threads.clear()
        assert len(await ws.read("/small")) == 1000
        assert len(await ws.read("/large", 10, 5)) == 5
        assert len(await ws.read("/large", length=64 * 1024)) == 64 * 1024
        assert await ws.exists("/small")
        assert not await ws.lexists("/missing")
        assert (await ws.stat("/small")).size == 1000
        with pytest.raises(errors.NotALink):
            await ws.readlink("/small")
        assert {thread for _, thread in gate.threads} == {here}
        gate.threads.clear()
        assert len(await ws.read("/large")) == 200_000
        assert len(await ws.read("/large", length=100_000)) == 100_000
        assert len([name for name, thread in gate.threads if thread != here]) == 2
        gate.threads.clear()
        await ws.list("/")
        await ws.write("/small", b"y")
        assert here not in {thread for _, thread in gate.threads}
        for wrong in ({"length": True}, {"length": -1}, {"offset": "x"}):
            with pytest.raises(errors.InvalidArgument):
                await ws.read("/small", **wrong)  # type: ignore[arg-type]

    run(check())


def test_context_goes_along() -> None:
    async def check() -> None:
        variable: contextvars.ContextVar[str] = contextvars.ContextVar("variable")
        variable.set("here")
        assert await Crew(1).run(variable.get) == "here"

    run(check())


def test_a_closed_crew_says_that_the_store_is_closed() -> None:
    async def check() -> None:
        crew = Crew(1)
        crew.close()
        with pytest.raises(errors.StoreClosed):
            await twin(crew=crew).read("/a")

    run(check())


# -- watching ------------------------------------------------------------------------------------


def test_a_watch_tells_what_comes() -> None:
    async def check() -> None:
        ws = twin()
        await ws.write("/before", b"x")
        watch = await ws.watch(kinds={ChangeKind.CREATE})
        writing = asyncio.ensure_future(ws.write("/after", b"x"))
        assert (await anext(watch)).path == ("after",)
        await writing
        assert [change.path async for change in ws.watch(after=0, timeout=0)] == [
            ("before",), ("after",),
        ]  # fmt: skip

    run(check())


def test_a_step_that_is_cancelled_loses_nothing() -> None:
    async def check() -> None:
        gate = Gate()
        ws = twin(gate)
        watch = await ws.watch()
        await ws.write("/a", b"x")
        gate.threads.clear()
        gate.open.clear()
        step = asyncio.ensure_future(anext(watch))
        while not gate.threads:
            await asyncio.sleep(0.001)
        step.cancel()
        with pytest.raises(asyncio.CancelledError):
            await step
        gate.open.set()
        assert (await anext(watch)).path == ("a",)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(anext(watch), 0.02)
        await ws.write("/b", b"x")
        assert (await anext(watch)).path == ("b",)

    run(check())


def test_a_step_that_fails_can_be_repeated() -> None:
    async def check() -> None:
        space, failing = MemorySpace(), [True]

        class Flaky:
            def perform(self, op: Any, /) -> Any:
                if failing and failing.pop():
                    raise errors.StoreBusy
                return space.perform(op)

        watch = twin(Flaky()).watch("./here", after=0, timeout=0)
        with pytest.raises(errors.StoreBusy) as caught:
            await anext(watch)
        assert caught.value.path == "./here"
        with pytest.raises(StopAsyncIteration):
            await anext(watch)

    run(check())


def test_a_watch_is_woken_and_ends() -> None:
    async def check() -> None:
        space, asked = MemorySpace(), threading.Event()
        come = threading.Event()

        class Waiter:
            def wait(self, after_seq: int, timeout: float) -> None:
                asked.set()
                come.wait(timeout)

        ws = aio.Workspace(workspace.Workspace(space, wait=Waiter()))
        watch = await ws.watch(timeout=5)
        step = asyncio.ensure_future(anext(watch))
        while not asked.is_set():
            await asyncio.sleep(0.001)
        await ws.write("/a", b"x")
        come.set()
        assert (await step).path == ("a",)
        came = time.monotonic()
        assert [change async for change in ws.watch(timeout=0.05)] == []
        assert time.monotonic() - came < 2

    run(check())


# -- files and stores ----------------------------------------------------------------------------


def test_files_commit_on_leaving_and_not_on_exceptions() -> None:
    async def check() -> None:
        ws = twin()
        async with ws.open("/a", "w") as file:
            await file.write("one\ntwo\n")
            assert not await ws.exists("/a")
        assert file.closed
        assert file.stat == await ws.stat("/a")
        async with ws.open("/a") as file:
            assert [line async for line in file] == ["one\n", "two\n"]
            assert file.stat == await ws.stat("/a")
        async with ws.open("/a", "r+b") as data:
            assert await data.read(3) == b"one"
            assert await data.seek(0) == 0
            await data.write(b"ONE")
            await data.truncate(4)
            assert await data.tell() == 3
        assert await ws.read("/a") == b"ONE\n"
        with pytest.raises(KeyError):
            async with ws.open("/a", "wb") as data:
                await data.write(b"never")
                raise KeyError
        with pytest.raises(errors.Conflict):
            async with ws.open("/a", "x") as file:
                pass
        assert await ws.read("/a") == b"ONE\n"

    run(check())


@pytest.mark.parametrize("url", ["memory:", "sqlite:///{}/store.db"])
def test_a_store_is_opened_from_the_loop(url: str, tmp_path: Path) -> None:
    async def check() -> None:
        opened = await aio.open(url.format(tmp_path), workers=2)
        async with opened as store:
            tenant = await store.tenant("acme")
            space = await tenant.space("session", "one")
            await space.write("/a", arriving(b"x", b"y"))
            await space.snapshot("before")
            fork = await space.fork("session", "two", at="before")
            assert await fork.read("/a") == b"xy"
            await space.set_limits(Limits(bytes=10))
            with pytest.raises(errors.QuotaExceeded):
                await space.write("/b", b"x" * 11)
            assert [name async for name in store.tenants()] == ["acme"]
            assert [key async for _, key in tenant.spaces()] == ["one", "two"]
            assert (await tenant.usage()).bytes == 4
            assert await store.stats()
            if url.startswith("sqlite"):
                await tenant.set_limits(Limits(bytes=10_000))
            else:
                with pytest.raises(errors.InvalidArgument):
                    await store.backup(tmp_path / "backup.db")
                await store.sweep(steps=1)
                assert (await store.check(repair=True)).ok
            await fork.delete()
            with pytest.raises(errors.NotFound):
                await tenant.space("session", "two", create=False)
            await tenant.delete()
            with pytest.raises(errors.NotFound):
                await store.tenant("acme", create=False)
        with pytest.raises(errors.StoreClosed):
            await space.list("/")

    run(check())


def test_every_verb_of_stores_is_there_with_the_same_arguments() -> None:
    for blocking, awaitable in ((assembly.Store, aio.Store), (assembly.Tenant, aio.Tenant)):
        for name, verb in inspect.getmembers(blocking, inspect.isfunction):
            if name[0] != "_":
                theirs, ours = inspect.signature(verb), inspect.signature(getattr(awaitable, name))
                assert list(ours.parameters.values()) == list(theirs.parameters.values()), name


def test_a_store_that_cannot_be_opened_says_why() -> None:
    async def check() -> None:
        for wrong in ({"url": "nowhere"}, {"url": "memory:", "workers": 0}):
            with pytest.raises(errors.InvalidArgument):
                await aio.open(**wrong)  # type: ignore[arg-type]

    run(check())


def test_what_conversations_keep_has_the_same_arguments(tmp_path: Path) -> None:
    for kind in ("Artifacts", "Memory", "Conversation"):
        ours = getattr(aio.artifacts, kind)
        theirs = getattr(artifacts, kind)
        for name, verb in inspect.getmembers(theirs, inspect.isfunction):
            if name[0] != "_" and name != "acting_as":
                wanted = list(inspect.signature(verb).parameters.items())
                found = inspect.signature(getattr(ours, name)).parameters
                assert [(key, each.kind, each.default) for key, each in found.items()] == [
                    (key, each.kind, each.default) for key, each in wanted
                ], name

    async def check() -> None:
        async with await aio.open(f"sqlite:///{tmp_path}/kept.db") as store:
            tenant = await store.tenant("acme")
            talk = await tenant.conversation("c", agent="bot")
            seen = [each async for each in talk.stream(["/write --persist a\nx\n/endwrite\n"])]
            assert len(seen) == 3
            assert (await talk.turn("/read a")).text.startswith("[/read a]\nx\n")
            kept, memory = await tenant.artifacts("c"), await tenant.memory()
            assert (await kept.put("b", "y")).created
            assert await kept.read((await kept.at("b")).id) == b"y"
            assert (await kept.fetch(2))[0] == await kept.get(2) == await kept.find(2)
            entry = await memory.add("user", "t", "c", artifact=2)
            await kept.delete(2)
            assert (await memory.get(entry.id)).expired_artifact == 2
            assert (await memory.update(entry.id, title="u")).title == "u"
            await memory.invalidate(entry.id)
            assert (await memory.list()).items == []
            await memory.delete((await memory.add("user", "t", "c")).id)
            assert (await kept.usage()).conversation_used_bytes == 1
            assert len((await kept.list()).items) == 1
            assert list(await kept.citations()) == []

    run(check())
