"""Tokens allow what they say and nothing else, and can only be narrowed, on both databases."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import pytest
from msgspec.structs import replace

from databases import ENGINES, Opened
from keelfs import ops
from keelfs.assembly import Store
from keelfs.errors import (
    InvalidArgument,
    KeelError,
    NotAuthenticated,
    NotFound,
    PermissionDenied,
    Unsupported,
)
from keelfs.gates.confined import Confined
from keelfs.grant import Agent, Grant, Role, Session, checked_grant, refuse_wider
from keelfs.identity import AGENT_VERBS, READING, VERBS, Authority, Context
from keelfs.identity.secret import new_secret, parsed, text_of
from keelfs.memory import MemorySpace
from keelfs.model import Limits, Principal
from keelfs.path import parse
from keelfs.store.database import Database
from keelfs.workspace import Workspace

SECOND = 10**9


class Clock:
    def __init__(self) -> None:
        self.now = 1_700_000_000 * SECOND

    def now_ns(self) -> int:
        self.now += 1000
        return self.now


class World:
    """A store with two tenants, and an operator of the first."""

    def __init__(self, opened: Opened, clock: Clock) -> None:
        self.opened, self.clock = opened, clock
        self.store = Store(opened.catalog)
        self.authority = Authority(self.store)
        self.operator = self.issue(role=Role.OPERATOR, name="operator")
        self.agent = self.operator.create_agent(Agent(id="", name="coder")).id

    def issue(self, tenant: str = "acme", **fields: Any) -> Context:
        return self.authority.context(self.authority.issue(tenant, Grant(**fields)))

    def session(self, owner: str = "") -> str:
        session = Session(id="", agent=self.agent, owner=owner)
        return self.operator.create_session(session).id

    def seen_by(self, text: str, session: str = "") -> Context:
        return self.authority.context(text, session)


@pytest.fixture(params=ENGINES)
def world(request: pytest.FixtureRequest) -> Iterator[World]:
    clock = Clock()
    url = request.getfixturevalue(f"{request.param}_url")
    opened = Opened(request.param, url, clock=clock)
    try:
        world = World(opened, clock)
        yield world
        assert world.store.check().ok
    finally:
        opened.close()


# -- narrowing

AGENTS, OWNERS, SESSIONS, PATHS = ("x", "y"), ("alice", "bob"), ("1", "2"), ("a/b", "a/c", "ab")
SOME_VERBS, TIMES = ("read", "write"), (10, 20)


def grants() -> list[Grant]:
    """Every mixture of a few values, as far as it means something."""
    found = []
    for role, owner, agent, session, paths, verbs, end in itertools.product(
        Role, (None, "alice", "bob"), (None, "x", "y"), (None, "1"),
        (None, (("a",),), (("a", "b"), ("ab",))), (None, frozenset({"read"})), (None, 15),
    ):  # fmt: skip
        name = {Role.OPERATOR: "op", Role.USER: owner or "", Role.AGENT: agent or ""}[role]
        grant = Grant(
            role=role, name=name, owner=owner, agent=agent, session=session, paths=paths,
            verbs=verbs, expires_ns=end,
        )  # fmt: skip
        try:
            found.append(checked_grant(grant))
        except InvalidArgument:
            continue
    return found


def reach(grant: Grant) -> frozenset[Any]:
    """Every single thing of a small world that the grant allows, said without `refuse_wider`."""
    ranks = {Role.AGENT: 0, Role.USER: 1, Role.OPERATOR: 2}
    allowed = {
        (agent, owner, session, path, verb, time, rank)
        for agent, owner, session, path, verb, time in itertools.product(
            AGENTS, OWNERS, SESSIONS, PATHS, SOME_VERBS, TIMES
        )
        for rank in range(ranks[grant.role] + 1)
        if (grant.agent is None or agent == grant.agent)
        and (grant.owner is None or owner == grant.owner)
        and (grant.session is None or session == grant.session)
        and (grant.verbs is None or verb in grant.verbs)
        and (grant.expires_ns is None or time < grant.expires_ns)
        and (grant.paths is None or any(
            path == "/".join(base) or path.startswith("/".join(base) + "/") for base in grant.paths
        ))
    }  # fmt: skip
    return frozenset(allowed)


def test_a_grant_hands_out_only_what_it_allows_itself() -> None:
    every = [(grant, reach(grant)) for grant in grants()]
    assert len(every) > 150
    passed = refused = 0
    for (child, inner), (parent, outer) in itertools.product(every, every):
        try:
            refuse_wider(child, parent)
        except PermissionDenied:
            refused += 1
            same = child.role is not parent.role or child.role is Role.OPERATOR
            same = same or child.name == parent.name
            unlimited = any(
                getattr(child, field) is None and getattr(parent, field) is not None
                for field in ("owner", "agent", "session", "paths", "verbs", "expires_ns")
            )
            assert not inner <= outer or not same or unlimited, (child, parent)
        else:
            passed += 1
            assert inner <= outer, (child, parent)
    assert passed > 1000
    assert refused > passed


def test_grants_that_mean_nothing_are_refused() -> None:
    good = Grant(role=Role.USER, name="alice", owner="alice")
    checked_grant(good)
    wrong: list[dict[str, Any]] = [
        {"name": ""}, {"owner": "bob"}, {"owner": None}, {"role": Role.AGENT}, {"paths": ()},
        {"verbs": frozenset()}, {"paths": (("..",),)}, {"paths": (("a/b",),)}, {"name": "x" * 256},
    ]  # fmt: skip
    for fields in wrong:
        with pytest.raises(KeelError):
            checked_grant(replace(good, **fields))


# -- tokens


def test_of_a_token_only_its_hash_is_kept(world: World) -> None:
    text = world.authority.issue("acme", Grant(role=Role.OPERATOR, name="op"))
    assert text.startswith("keel_")
    assert len(text) >= 43
    context = world.seen_by(text)
    assert context.tenant == "acme"
    kept = repr(world.opened.execute("SELECT * FROM tokens"))
    secret = text.rpartition("_")[2]
    assert secret not in kept
    _, hash_ = parsed(text) or (0, b"")
    assert context.token_id in kept
    assert repr(hash_)[2:-1] in kept


def test_what_is_no_token_is_worth_nothing(world: World) -> None:
    good = world.authority.issue("acme", Grant(role=Role.OPERATOR, name="op"))
    number, nines = good.replace("keel_1", "keel_{}"), "9" * 18
    wrong = [
        None, "", "keel_", "keel_1_", good[:-1], good + "A", good.upper(), good[5:], "ü" * 50,
        text_of(1, new_secret()), *(number.format(text) for text in ("2", "-1", nines, "\u0661")),
    ]  # fmt: skip
    for text in wrong:
        with pytest.raises(NotAuthenticated) as caught:
            world.seen_by(text)
        assert str(caught.value) == str(NotAuthenticated())
    last = good[-1]
    for other in "AEIMQUYcgkosw048":
        if other != last:
            with pytest.raises(NotAuthenticated):
                world.seen_by(good[:-1] + other)


def test_a_token_ends_when_it_is_said_to(world: World) -> None:
    end = world.clock.now + 10 * SECOND
    text = world.authority.issue("acme", Grant(role=Role.OPERATOR, name="op", expires_ns=end))
    world.seen_by(text)
    world.clock.now = end
    with pytest.raises(NotAuthenticated):
        world.seen_by(text)


def test_tokens_that_have_ended_are_swept_away(world: World) -> None:
    kept = world.authority.issue("acme", Grant(role=Role.OPERATOR, name="op"))
    end = world.clock.now + 10 * SECOND
    ending = Grant(role=Role.OPERATOR, name="op", expires_ns=end)
    world.seen_by(world.authority.issue("acme", ending)).mint(ending)
    before = len(world.opened.execute("SELECT id FROM tokens"))
    world.store.sweep()
    assert len(world.opened.execute("SELECT id FROM tokens")) == before
    world.clock.now = end
    world.store.sweep()
    assert len(world.opened.execute("SELECT id FROM tokens")) == before - 2
    world.seen_by(kept)


def test_a_revoked_token_takes_along_what_was_made_from_it(world: World) -> None:
    texts = [world.authority.issue("acme", Grant(role=Role.OPERATOR, name="op"))]
    for _ in range(3):
        parent = world.seen_by(texts[-1])
        texts.append(parent.mint(Grant(role=Role.OPERATOR, name="op"))[0])
    contexts = [world.seen_by(text) for text in texts]
    world.operator.revoke(contexts[1].token_id)
    world.seen_by(texts[0])
    for text in texts[1:]:
        with pytest.raises(NotAuthenticated):
            world.seen_by(text)
    with pytest.raises(NotFound):
        world.operator.revoke(contexts[1].token_id)


def test_one_sees_and_revokes_only_what_comes_from_ones_own_token(world: World) -> None:
    user = world.issue(role=Role.USER, name="alice", owner="alice")
    text, made = user.mint(Grant(role=Role.USER, name="alice", owner="alice"))
    assert [token.id for token in user.tokens("", 10)] == [user.token_id, made.id]
    assert {token.id for token in world.operator.tokens("", 10)} >= {made.id, user.token_id}
    child = world.seen_by(text)
    with pytest.raises(NotFound):
        child.revoke(user.token_id)
    with pytest.raises(NotFound):
        user.revoke(world.operator.token_id)
    user.revoke(made.id)
    with pytest.raises(NotAuthenticated):
        world.seen_by(text)
    foreign = world.issue("other", role=Role.OPERATOR, name="operator")
    with pytest.raises(NotFound):
        foreign.revoke(user.token_id)
    assert [token.id for token in foreign.tokens("", 10)] == [foreign.token_id]


def test_minting_never_widens(world: World) -> None:
    mine = world.session("alice")
    theirs = world.session("bob")
    user = world.issue(role=Role.USER, name="alice", owner="alice")
    agent = Grant(role=Role.AGENT, name=world.agent, agent=world.agent, owner="alice", session=mine)
    text, token = user.mint(agent)
    assert world.seen_by(text).grant == token.grant == agent
    wider: list[Grant] = [
        Grant(role=Role.OPERATOR, name="operator"),
        Grant(role=Role.USER, name="bob", owner="bob"),
        replace(agent, owner=None),
        replace(agent, owner="bob"),
    ]
    for grant in wider:
        with pytest.raises(PermissionDenied):
            user.mint(grant)
    with pytest.raises(NotFound):
        user.mint(replace(agent, session=theirs))
    with pytest.raises(NotFound):
        user.mint(replace(agent, name="x", agent="x"))
    with pytest.raises(InvalidArgument):
        user.mint(replace(agent, verbs=frozenset({"reed"})))
    limited = world.seen_by(user.mint(replace(agent, verbs=READING, paths=(("d",),)))[0])
    for grant in (agent, replace(agent, verbs=READING), replace(agent, verbs=frozenset({"write"})),
                  replace(agent, verbs=READING, paths=(("d2",),))):  # fmt: skip
        with pytest.raises(PermissionDenied):
            limited.mint(grant)
    limited.mint(replace(agent, verbs=frozenset({"read"}), paths=(("d", "e"),)))
    # An agent that may not remove hands out no token that may.
    with pytest.raises(PermissionDenied):
        world.seen_by(text).mint(replace(agent, verbs=frozenset({"remove"})))


# -- contexts


def test_a_context_does_not_change(world: World) -> None:
    for name in ("grant", "tenant", "token_id", "_tenant", "anything"):
        with pytest.raises(AttributeError):
            setattr(world.operator, name, None)


def test_only_ones_own_sessions_are_there(world: World) -> None:
    hers, his, nobodys = world.session("alice"), world.session("bob"), world.session()
    alice = world.authority.issue("acme", Grant(role=Role.USER, name="alice", owner="alice"))
    agent = world.authority.issue(
        "acme", Grant(role=Role.AGENT, name=world.agent, agent=world.agent)
    )
    other = world.operator.create_agent(Agent(id="", name="other")).id
    stranger = world.authority.issue("acme", Grant(role=Role.AGENT, name=other, agent=other))
    foreign = world.authority.issue("umbrella", Grant(role=Role.OPERATOR, name="operator"))
    absent = "01900000-0000-7000-8000-000000000000"
    expected = {alice: {hers}, agent: {hers, his, nobodys}, stranger: set(), foreign: set()}
    for text, there in expected.items():
        messages = set()
        for session in (hers, his, nobodys, absent):
            context = world.seen_by(text, session)
            if session in there:
                context.space(world.agent, session).exists("/")
                context.session(world.agent, session)
                continue
            for verb in (context.space, context.session, context.delete_session):
                with pytest.raises(NotFound) as caught:
                    verb(world.agent, session)
                messages.add(str(caught.value))
            with pytest.raises(NotFound):
                context.fork(session, Session(id="", agent=world.agent), None)
        assert messages == {"there is no such session"}
    for_alice = world.seen_by(alice)
    assert [each.id for each in for_alice.sessions(world.agent, "", 10)] == [hers]
    for text in (stranger, foreign):
        with pytest.raises(NotFound):
            world.seen_by(text).sessions(world.agent, "", 10)
        with pytest.raises(NotFound):
            world.seen_by(text).agent(world.agent)
    assert [each.id for each in world.seen_by(stranger).agents("", 10)] == [other]
    assert world.seen_by(foreign).agents("", 10) == []


def test_a_context_is_about_the_session_it_was_made_for(world: World) -> None:
    one, two = world.session(), world.session()
    text = world.authority.issue("acme", Grant(role=Role.OPERATOR, name="op"))
    context = world.seen_by(text, one)
    with pytest.raises(NotFound):
        context.space(world.agent, two)
    with pytest.raises(NotFound):
        context.space("x", one)


class Counting:
    """Counts the statements of a database."""

    def __init__(self, below: Database) -> None:
        self._below, self.seen = below, list[str]()

    def read(self, tenant: int, work: Any) -> Any:
        def counted(tx: Any) -> Any:
            return work(_CountingTx(tx, self.seen))

        return self._below.read(tenant, counted)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._below, name)


class _CountingTx:
    def __init__(self, below: Any, seen: list[str]) -> None:
        self._below, self._seen = below, seen

    def one(self, statement: Any, *params: Any) -> Any:
        self._seen.append(statement.sqlite)
        return self._below.one(statement, *params)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._below, name)


def test_absence_costs_as_much_as_refusal(sqlite_url: str) -> None:
    """A session that is not there, one of somebody else, one of another tenant: one look."""
    counters: list[Counting] = []

    def wrap(database: Database) -> Database:
        counters.append(Counting(database))
        return counters[-1]

    opened = Opened("sqlite", sqlite_url, wrap=wrap, clock=Clock())
    try:
        world = World(opened, Clock())
        user = world.authority.issue("acme", Grant(role=Role.USER, name="alice", owner="alice"))
        foreign = world.authority.issue("other", Grant(role=Role.OPERATOR, name="operator"))
        session = world.session("bob")
        seen = []
        for text, named in ((user, session), (user, "absent"), (foreign, session)):
            counters[-1].seen.clear()
            with pytest.raises(NotFound):
                world.seen_by(text, named).space(world.agent, named)
            seen.append(list(counters[-1].seen))
        assert seen[0] == seen[1] == seen[2]
        assert len(seen[0]) == 1
    finally:
        opened.close()


def test_what_each_role_manages(world: World) -> None:
    session = world.session("alice")
    user = world.issue(role=Role.USER, name="alice", owner="alice")
    agent = world.issue(role=Role.AGENT, name=world.agent, agent=world.agent)
    made = user.create_session(Session(id="", agent=world.agent, owner="bob"))
    assert made.owner == "alice"
    for context in (user, agent):
        with pytest.raises(PermissionDenied):
            context.create_agent(Agent(id="", name="x"))
        with pytest.raises(PermissionDenied):
            context.delete_agent(world.agent)
        with pytest.raises(PermissionDenied):
            context.may_set_limits()
    with pytest.raises(PermissionDenied):
        agent.create_session(Session(id="", agent=world.agent))
    text = world.authority.issue(
        "acme", Grant(role=Role.AGENT, name=world.agent, agent=world.agent)
    )
    with pytest.raises(PermissionDenied):
        world.seen_by(text, session).delete_session(world.agent, session)
    part = Grant(role=Role.OPERATOR, name="op", paths=(("d",),))
    limited = world.seen_by(world.authority.issue("acme", part), session)
    with pytest.raises(PermissionDenied):
        limited.delete_session(world.agent, session)
    some = Grant(role=Role.OPERATOR, name="op", verbs=READING)
    reading = world.seen_by(world.authority.issue("acme", some), session)
    with pytest.raises(PermissionDenied):
        reading.delete_session(world.agent, session)
    assert reading.space(world.agent, session).exists("/")
    with pytest.raises(PermissionDenied):
        reading.space(world.agent, session).write("/x", "")


def test_an_agent_takes_nothing_away_unless_it_was_told_so(world: World) -> None:
    session = world.session()
    grant = Grant(role=Role.AGENT, name=world.agent, agent=world.agent)
    plain = world.seen_by(world.authority.issue("acme", grant), session)
    space = plain.space(world.agent, session)
    space.write("/f", "x")
    removing: list[ops.Op[Any]] = [
        ops.Remove("/f"), ops.Trash("/f"), ops.Purge("x"), ops.Rollback("s"),
        ops.DropSnapshot("s"), ops.Undo(1),
    ]  # fmt: skip
    for op in removing:
        for wrapped in (op, ops.Batch((ops.Write("/g", ""), op))):
            with pytest.raises(PermissionDenied):
                space.perform(wrapped)
    assert not space.exists("/g")
    told = replace(grant, verbs=AGENT_VERBS | {"remove"})
    other = world.seen_by(world.authority.issue("acme", told), session)
    other.space(world.agent, session).remove("/f")
    assert world.store.tenant("acme").space("session", session).changes().items[-1].by == (
        f"agent:{world.agent}"
    )


def test_a_forked_session_belongs_to_who_forks_it(world: World) -> None:
    session = world.session("alice")
    text = world.authority.issue("acme", Grant(role=Role.USER, name="alice", owner="alice"))
    user = world.seen_by(text, session)
    user.space(world.agent, session).write("/f", "x")
    user.space(world.agent, session).snapshot("s")
    user.space(world.agent, session).write("/f", "y")
    for at, there in ((None, b"y"), ("s", b"x")):
        forked = user.fork(session, Session(id="", agent=world.agent, owner="bob"), at)
        assert forked.owner == "alice"
        space = world.seen_by(text, forked.id).space(world.agent, forked.id)
        assert space.read("/f") == there
    with pytest.raises(NotFound):
        user.fork(session, Session(id="", agent=world.agent), "none")
    assert len(user.sessions(world.agent, "", 10)) == 3


# -- what goes, goes whole


def test_a_deleted_session_leaves_no_token_and_no_space(world: World) -> None:
    session = world.session()
    grant = Grant(role=Role.AGENT, name=world.agent, agent=world.agent, session=session)
    text = world.authority.issue("acme", grant)
    world.seen_by(text, session).space(world.agent, session).write("/f", "x")
    operator = world.authority.issue("acme", Grant(role=Role.OPERATOR, name="op"))
    world.seen_by(operator, session).delete_session(world.agent, session)
    with pytest.raises(NotAuthenticated):
        world.seen_by(text, session)
    with pytest.raises(NotFound):
        world.seen_by(operator, session).space(world.agent, session)
    assert list(world.store.tenant("acme").spaces()) == []


def test_a_deleted_agent_takes_along_all_it_had(world: World) -> None:
    sessions = [world.session() for _ in range(3)]
    other = world.operator.create_agent(Agent(id="", name="other")).id
    kept = world.operator.create_session(Session(id="", agent=other)).id
    world.store.tenant("acme").space("agent", world.agent).write("/m", "x")
    text = world.authority.issue(
        "acme", Grant(role=Role.AGENT, name=world.agent, agent=world.agent)
    )
    world.operator.delete_agent(world.agent)
    with pytest.raises(NotAuthenticated):
        world.seen_by(text, sessions[0])
    assert list(world.store.tenant("acme").spaces()) == [("session", kept)]
    with pytest.raises(NotFound):
        world.operator.delete_agent(world.agent)
    assert [each.id for each in world.operator.agents("", 10)] == [other]


def test_an_agent_with_more_sessions_than_one_step_goes_too(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("keelfs.store.sessions.STEP", 2)
    for _ in range(5):
        world.session()
    world.operator.delete_agent(world.agent)
    assert list(world.store.tenant("acme").spaces()) == []


def test_a_deleted_tenant_has_no_tokens_and_leaves_no_rows(world: World) -> None:
    session = world.session()
    tenant = world.store.tenant("acme")
    text = world.authority.issue("acme", Grant(role=Role.OPERATOR, name="op"))
    text = world.seen_by(text).mint(Grant(role=Role.OPERATOR, name="op", session=session))[0]
    tenant.delete()
    with pytest.raises(NotAuthenticated):
        world.seen_by(text, session)
    world.clock.now += 10_000 * SECOND
    while world.store.sweep().more:
        pass
    for table in ("agents", "sessions", "tokens", "spaces"):
        assert world.opened.select(table, tenant.key) == []


def test_changed_limits_of_a_tenant_reach_its_sessions(world: World) -> None:
    session = world.session()
    world.store.tenant("acme").set_limits(Limits(file_bytes=3))
    text = world.authority.issue("acme", Grant(role=Role.OPERATOR, name="op"))
    space = world.seen_by(text, session).space(world.agent, session)
    assert space.usage().limits.file_bytes == 3
    with pytest.raises(KeelError):
        space.write("/f", "four")


def test_a_store_in_memory_is_not_served() -> None:
    import keelfs

    with keelfs.open("memory:") as store, pytest.raises(Unsupported):
        Authority(store)


# -- confinement


def confined(*bases: str) -> tuple[Workspace, Workspace]:
    from keelfs.clock import SystemClock
    from keelfs.model import UNLIMITED

    whole = MemorySpace(Principal(), UNLIMITED, SystemClock())
    return Workspace(whole), Workspace(Confined(whole, [parse(base) for base in bases]))


def test_a_confined_tree_is_where_it_was_and_nothing_else_is_reached() -> None:
    whole, part = confined("/d", "/e/f")
    for path in ("/d/x", "/e/f/y", "/e/z", "/de/x"):
        whole.write(path, path)
    assert part.read("/d/x") == b"/d/x"
    assert part.read("/e/f/y") == b"/e/f/y"
    assert [entry.name for entry in part.list("/d").items] == ["x"]
    part.move("/d/x", "/d/moved")
    for path in ("/", "/e", "/e/z", "/de", "/de/x", "/none"):
        for call in (part.stat, part.read, part.remove, part.history, part.mkdir):
            with pytest.raises(PermissionDenied):
                call(path)
    for refused in (
        ops.Move("/d/moved", "/e/f/x"), ops.Copy("/d/moved", "/x"), ops.Link("/e/z", "/d/x"),
        ops.ListTrash(), ops.TakeSnapshot("s"), ops.Rollback("s"), ops.Undo(1), ops.Changes(),
        ops.GetUsage(), ops.Untrash("x"), ops.Batch((ops.Write("/d/n", ""), ops.Read("/e/z"))),
    ):  # fmt: skip
        with pytest.raises(PermissionDenied):
            part.perform(refused)
    assert part.batch([ops.Write("/d/n", "n"), ops.Write("/e/f/n", "m")])[1].size == 1
    assert [change.path for change in part.changes("/d").items][-1] == ("n",)


def test_no_link_leads_out_of_a_confined_tree() -> None:
    whole, part = confined("/d")
    whole.write("/secret", "s")
    whole.mkdir("/d")
    whole.symlink("../secret", "/d/up")
    whole.symlink("/secret", "/d/absolute")
    whole.symlink("..", "/d/parent")
    for path in ("/d/up", "/d/absolute", "/d/parent/secret"):
        with pytest.raises(KeelError):
            part.read(path)
    part.symlink("../secret", "/d/own")
    with pytest.raises(KeelError):
        part.read("/d/own")
    # Seen from inside, the way up ends at the directory itself.
    part.write("/d/parent/new", "n")
    assert whole.read("/d/new") == b"n"
    assert sorted(entry.name for entry in whole.entries("/")) == ["d", "secret"]
    assert whole.read("/secret") == b"s"


def test_a_key_is_one_key_also_where_a_tree_is_confined() -> None:
    _, part = confined("/")
    assert part.append("/x", "a", key="k").size == 1
    assert part.append("/x", "a", key="k").size == 1
    whole, part = confined("/d")
    whole.mkdir("/d")
    assert part.append("/d/x", "a", key="k").size == 1
    assert part.append("/d/x", "a", key="k").size == 1


def test_the_verbs_are_those_that_operations_have() -> None:
    assert {"read", "write", "remove", "getstat", "create_agent"} <= VERBS
    assert not {"batch", "within", "once", "judged", "op"} & VERBS
    assert READING < VERBS
    assert not READING & {"write", "remove", "undo"}
