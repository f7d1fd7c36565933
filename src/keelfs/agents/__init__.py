"""The tree one agent sees: its session, itself, its user, its artifacts and skills, nothing else.

What is mounted where, and what is shown to a model, is decided here; how operations are routed,
judged and stored is not. `docs/agent-tree.md` describes the tree. Who calls: `Tenant.agent_tree`.
"""

from keelfs.agents.tree import AgentTree

__all__ = ["AgentTree"]
