"""Trees that a server holds, with the verbs of a tree that is at hand.

Begin with `keelfs.connect(url, token=...)`; it gives a server, a server gives sessions, and a
session is a workspace. Every verb is one operation, sent as a value and performed over there,
behind the gates of the token.
"""

from keelfs.client.server import Agent, Server, Session, connect

__all__ = ["Agent", "Server", "Session", "connect"]
