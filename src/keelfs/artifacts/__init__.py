"""Artifacts: the files that a conversation keeps, and how agents write and read them in text.

What is kept lies in the space of kind `artifacts` with the conversation's id, which the tree of an
agent shows at `/artifacts`; memory entries link to it. Who calls: `Tenant.artifacts`,
`Tenant.memory` and `Tenant.conversation`, which make these.
"""

from keelfs.artifacts.collection import Artifacts
from keelfs.artifacts.memory import Memory
from keelfs.artifacts.turn import Conversation, FileEvent, Turn

__all__ = ["Artifacts", "Conversation", "FileEvent", "Memory", "Turn"]
