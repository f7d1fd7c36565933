"""Who asks, and what they may: tokens become contexts, and a context is the only way to a tree.

Who calls: surfaces, which know a token and nothing else of whoever sent it.
"""

from keelfs.identity.authority import Authority
from keelfs.identity.context import Context
from keelfs.identity.rights import AGENT_VERBS, MANAGING, READING, REDEEM, VERBS

__all__ = ["AGENT_VERBS", "MANAGING", "READING", "REDEEM", "VERBS", "Authority", "Context"]
