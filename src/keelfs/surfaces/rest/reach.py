"""From a request to the tree that it is about: through its context, and on no other way."""

from __future__ import annotations

from keelfs.identity import Context
from keelfs.path import VPath
from keelfs.surfaces.rest.dialect import keeping_reserved, place_of_url
from keelfs.surfaces.rest.request import Request
from keelfs.workspace import Space, Workspace


def files_of(context: Context, request: Request) -> Space:
    """The files of the session that the URL names."""
    return context.space(request.params["agent"], request.params["session"])


def changing(context: Context, request: Request) -> Workspace:
    """The same, where nothing is made under a reserved name."""
    return Workspace(keeping_reserved(files_of(context, request).handler))


def url_place(request: Request) -> VPath:
    return place_of_url(request.params.get("path", ""))
