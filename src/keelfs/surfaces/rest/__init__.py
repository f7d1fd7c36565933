"""The store over HTTP: one table of routes, one application that serves it.

`application` reads requests, finds their route and context, and sends answers; each other module
holds the handlers of one group of routes. A handler decodes, calls one verb and encodes; it holds
no rule of the filesystem.
"""
