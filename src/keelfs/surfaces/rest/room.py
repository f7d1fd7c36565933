"""How much is used, and how much may be."""

from __future__ import annotations

import msgspec

from keelfs.identity import Context
from keelfs.model import Limits
from keelfs.surfaces.rest.answer import Answer, json
from keelfs.surfaces.rest.dialect import place
from keelfs.surfaces.rest.reach import files_of
from keelfs.surfaces.rest.request import Request


def usage(context: Context, request: Request) -> Answer:
    """What a session uses, and its limits; of another directory, what lies below it."""
    return json(files_of(context, request).usage(place(request.query.path)))


def show_limits(context: Context, request: Request) -> Answer:
    """The limits that are in force for a session."""
    return json(files_of(context, request).usage().limits)


def set_limits(context: Context, request: Request) -> Answer:
    """Narrows a session's limits within those of its tenant; answers those now in force."""
    space = files_of(context, request)
    context.may_set_limits()
    space.set_limits(msgspec.convert(msgspec.structs.asdict(request.body), Limits))
    return json(space.usage().limits)


def tenant_usage(context: Context, request: Request) -> Answer:
    """What all sessions of the tenant use together, and its limits."""
    del request
    return json(context.tenant_usage())
