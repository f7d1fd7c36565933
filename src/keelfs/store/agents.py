"""The agents of a tenant, as rows."""

from __future__ import annotations

from typing import Final

import msgspec

from keelfs.errors import NotFound
from keelfs.grant import Agent
from keelfs.store.database import Row, Statement, Tx

_COLUMNS: Final = """id, name, description, system_prompt, default_model_id, tags, capabilities,
       status, created_ns, updated_ns"""

NEW_AGENT: Final = Statement(
    f"""INSERT INTO agents (tenant, {_COLUMNS})
       VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)"""
)
AGENT: Final = Statement(f"SELECT {_COLUMNS} FROM agents WHERE tenant = ?1 AND id = ?2")
AGENTS: Final = Statement(
    f"SELECT {_COLUMNS} FROM agents WHERE tenant = ?1 AND id > ?2 ORDER BY id LIMIT ?3"
)
DELETE_AGENT: Final = Statement("DELETE FROM agents WHERE tenant = ?1 AND id = ?2")


def add_agent(tx: Tx, agent: Agent) -> None:
    tx.do(
        NEW_AGENT, agent.id, agent.name, agent.description, agent.system_prompt,
        agent.default_model_id, listed(agent.tags), listed(agent.capabilities), agent.status,
        agent.created_ns, agent.updated_ns,
    )  # fmt: skip


def find_agent(tx: Tx, id_: str) -> Agent:
    row = tx.one(AGENT, id_)
    if row is None:
        raise NotFound("there is no such agent")
    return _agent(row)


def list_agents(tx: Tx, after: str, limit: int) -> list[Agent]:
    """By id, which is by age."""
    return [_agent(row) for row in tx.all(AGENTS, after, limit)]


def _agent(row: Row) -> Agent:
    return Agent(
        id=row[0], name=row[1], description=row[2], system_prompt=row[3],
        default_model_id=row[4], tags=unlisted(row[5]), capabilities=unlisted(row[6]),
        status=row[7], created_ns=row[8], updated_ns=row[9],
    )  # fmt: skip


def listed(texts: tuple[str, ...]) -> str:
    """Texts as one column keeps them."""
    return msgspec.json.encode(texts).decode()


def unlisted(text: str) -> tuple[str, ...]:
    return () if text == "[]" else msgspec.json.decode(text, type=tuple[str, ...])
