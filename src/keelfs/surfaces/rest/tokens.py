"""Tokens: what one's own allows, making narrower ones, taking them back."""

from __future__ import annotations

from msgspec import UNSET, UnsetType

from keelfs.errors import InvalidArgument
from keelfs.grant import Grant, Role, Token
from keelfs.identity import Context
from keelfs.path import VPath
from keelfs.surfaces.rest.answer import Answer, json
from keelfs.surfaces.rest.bodies import Deleted, Listing, NewToken, Redeemed, TokenBody, time_of
from keelfs.surfaces.rest.dialect import place
from keelfs.surfaces.rest.request import Request


def show_token(context: Context, request: Request) -> Answer:
    """What the token of this request allows."""
    del request
    return json(_token(context, context.token))


def create_token(context: Context, request: Request) -> Answer:
    """A narrower token; only this answer shows its text."""
    body: NewToken = request.body
    own = context.grant
    expires_ns = None if body.expires_in_s is None else request.now_ns + body.expires_in_s * 10**9
    grant = Grant(
        role=body.role, name=_name(body), owner=body.name if body.role is Role.USER else body.user,
        agent=body.agent_id, session=body.session_id,
        paths=None if body.paths is None else tuple(place(path).parts for path in body.paths),
        verbs=body.verbs, expires_ns=own.expires_ns if expires_ns is None else expires_ns,
    )  # fmt: skip
    text, token = context.mint(grant, body.label)
    return json(_token(context, token, text), 201)


def redeem(context: Context, request: Request) -> Answer:
    """Exchanges the token of a one-time link for an operator's, once."""
    del request
    return json(Redeemed(context.redeem()), 201)


def list_tokens(context: Context, request: Request) -> Answer:
    """An operator sees all tokens of the tenant, others what was made from their own."""
    query = request.query
    found = context.tokens(query.after, query.limit + 1)
    page = [_token(context, each) for each in found[: query.limit]]
    return json(Listing(page, page[-1].id if len(found) > query.limit else UNSET))


def delete_token(context: Context, request: Request) -> Answer:
    """Takes a token back, with all that were made from it."""
    context.revoke(request.params["token"])
    return json(Deleted(True))


def _name(body: NewToken) -> str:
    match body.role:
        case Role.OPERATOR:
            return body.name or "operator"
        case Role.USER if body.name is not None:
            return body.name
        case Role.AGENT if body.agent_id is not None:
            return body.agent_id
        case _:
            raise InvalidArgument("a user's token needs name, an agent's needs agent_id")


def _token(context: Context, token: Token, text: str | UnsetType = UNSET) -> TokenBody:
    grant = token.grant
    return TokenBody(
        token.id, context.tenant, grant.role.value, grant.name, grant.owner, grant.agent,
        grant.session,
        None if grant.paths is None else [str(VPath(names)) for names in grant.paths],
        None if grant.verbs is None else sorted(grant.verbs),
        None if grant.expires_ns is None else time_of(grant.expires_ns),
        token.label, time_of(token.created_ns), text,
    )  # fmt: skip
