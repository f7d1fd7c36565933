"""The OpenAPI description of the surface, made from the table of routes and its models.

Nothing is said here that the table does not say: schemas come from the models, examples from
`examples`, errors from the outcomes. Who calls: the route that serves it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, get_args, get_origin

import msgspec

from keelfs import errors
from keelfs.errors import KeelError
from keelfs.surfaces.outcomes import OUTCOMES
from keelfs.surfaces.rest.bodies import Listing
from keelfs.surfaces.rest.examples import EXAMPLES, PARAMETERS
from keelfs.surfaces.rest.problems import SENTENCES, ProblemBody, body_of
from keelfs.surfaces.rest.request import HttpRefusal
from keelfs.surfaces.rest.table import Route

_REF: Final = "#/components/schemas/{name}"
_OCTETS: Final = "application/octet-stream"
_PROBLEM: Final = "application/problem+json"
_SESSION: Final = "{session}"
Json = dict[str, Any]

#: What HTTP itself refuses, with an example of what is said.
_REFUSALS: Final[Mapping[int, str]] = {
    400: "entity tags are written in quotes",
    404: "there is nothing under this address",
    405: "here one can only GET, HEAD",
    408: "the body did not arrive in time",
    413: "a JSON body may have 10485760 bytes",
    414: "the query is too long",
    415: "send JSON, with Content-Type: application/json",
    416: "the file has no such bytes",
    421: "this server does not answer under this name",
    431: "there are too many headers, or they are too long",
}
_ANYWHERE: Final = (400, 401, 403, 404, 405, 414, 415, 421, 429, 431, 500, 503)
_OF_BODIES: Final = (408, 413)
_OF_TREES: Final = (409, 410, 412, 413, 416, 422, 507)

_HEADERS: Final[Mapping[str, tuple[str, str]]] = {
    "accept": ("application/json", "Media types that are wanted; bytes are sent as they are."),
    "idempotency-key": ("4f6a8c22", "A repeat under the same key is given the first answer."),
    "if-match": ('"01993b0c7d107e8aa1b23c4d5e6f7a33-1"', "Entity tags of which one must fit."),
    "if-none-match": ("*", "Entity tags of which none may fit; `*` is anything at all."),
    "range": ("bytes=0-99", "The bytes that are wanted."),
    "if-range": ('"01993b0c7d107e8aa1b23c4d5e6f7a33-1"', "The tag for which the range is meant."),
    "last-event-id": ("42", "The id of the last event that was seen."),
}


def of(routes: Iterable[Route]) -> Json:
    """The whole description."""
    routes = tuple(routes)
    models = [model for route in routes for model in _models(route)]
    _, schemas = msgspec.json.schema_components([*models, ProblemBody], ref_template=_REF)
    paths: Json = {}
    names = Counter[str]()
    for route in routes:
        names[route.name] += 1
        again = names[route.name]
        operation = _operation(route, f"{route.name}_{again}" if again > 1 else route.name)
        paths.setdefault(address(route), {})[route.method.lower()] = operation
    return {
        "openapi": "3.1.0",
        "jsonSchemaDialect": "https://json-schema.org/draft/2020-12/schema",
        "info": {
            "title": "Keelfs",
            "version": "1",
            "summary": "The session filesystem: files of agents, by path.",
            "description": "Names in a path may hold any character but `/`, percent-encoded; "
            "`{path}` stands for all names that follow, with slashes between them.",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": "/"}],
        "security": [{"token": []}],
        "paths": paths,
        "components": {
            # Defaults are values of Python until they have been JSON once.
            "schemas": msgspec.json.decode(msgspec.json.encode(schemas)),
            "responses": {f"Error{status}": _error(status) for status in _statuses()},
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
    }


def address(route: Route) -> str:
    """The route's template as OpenAPI writes it."""
    return route.template.replace("...}", "}")


def example_of(model: Any) -> Any:
    """What an instance of the model looks like as JSON."""
    if get_origin(model) is Listing:
        return {"data": [example_of(get_args(model)[0])]}
    return msgspec.to_builtins(EXAMPLES[model])


def answers(route: Route) -> tuple[Any, ...]:
    """The models of its answers."""
    if route.answer is None:
        return ()
    given: Any = route.answer if isinstance(route.answer, tuple) else (route.answer,)  # pyright: ignore
    several: tuple[Any, ...] = given
    return several


def _models(route: Route) -> Iterator[Any]:
    yield from answers(route)
    if route.body is not None:
        yield route.body


# -- one operation


def _operation(route: Route, name: str) -> Json:
    operation: Json = {
        "operationId": name,
        "summary": route.says,
        "tags": [_tag(route)],
        "parameters": list(_parameters(route)),
        "responses": _responses(route),
    }
    if route.intake != "none":
        operation["requestBody"] = {"required": True, "content": _body(route)}
    if route.public:
        operation["security"] = []
    return operation


def _tag(route: Route) -> str:
    return "files" if "/fs" in route.template else "management"


def _parameters(route: Route) -> Iterator[Json]:
    for piece in address(route).split("/"):
        if piece.startswith("{"):
            name = piece[1:-1]
            yield {
                "name": name, "in": "path", "required": True, "example": PARAMETERS[name],
                "schema": {"type": "string", "minLength": 1},
            }  # fmt: skip
    if route.query is not None:
        yield from _of_query(route.query)
    for name in route.heeds:
        example, says = _HEADERS[name]
        yield {
            "name": name, "in": "header", "required": False, "description": says,
            "example": example, "schema": {"type": "string"},
        }  # fmt: skip


def _of_query(model: Any) -> Iterator[Json]:
    (_,), components = msgspec.json.schema_components([model], ref_template=_REF)
    schema = msgspec.json.decode(msgspec.json.encode(components[model.__name__]))
    for name, each in schema["properties"].items():
        yield {
            "name": name, "in": "query", "required": name in schema.get("required", ()),
            "schema": _present(each),
        }  # fmt: skip


def _present(schema: Json) -> Json:
    """The schema of a parameter, which is left out where a body has null."""
    kinds: list[Json] = [each for each in schema.get("anyOf", ()) if each != {"type": "null"}]
    if len(kinds) != 1:
        return schema
    return kinds[0] | {name: schema[name] for name in ("description",) if name in schema}


def _body(route: Route) -> Json:
    content: Json = {}
    if route.body is not None:
        content["application/json"] = _shown(route.body)
    if route.intake in {"stream", "either"}:
        content[_OCTETS] = {"schema": {}}
    return content


def _shown(model: Any) -> Json:
    (schema,), _ = msgspec.json.schema_components([model], ref_template=_REF)
    return {"schema": schema, "examples": {"example": {"value": example_of(model)}}}


# -- what comes back


def _responses(route: Route) -> Json:
    found: Json = {str(route.status): _success(route)}
    for status in route.also:
        found[str(status)] = _success(route) if status != 304 else _UNCHANGED
    refused: set[int] = {*_ANYWHERE}
    if route.intake != "none":
        refused.update(_OF_BODIES)
    if _SESSION in route.template:
        refused.update(_OF_TREES)
    for status in sorted(refused):
        found[str(status)] = {"$ref": f"#/components/responses/Error{status}"}
    return found


_UNCHANGED: Final[Json] = {"description": "What is there is what the client has."}


def _success(route: Route) -> Json:
    content: Json = {media: {"schema": {}} for media in route.media}
    models = answers(route)
    if len(models) == 1:
        content["application/json"] = _shown(models[0])
    elif models:
        shown = [_shown(model) for model in models]
        content["application/json"] = {
            "schema": {"anyOf": [each["schema"] for each in shown]},
            "examples": {
                f"example {number}": each["examples"]["example"]
                for number, each in enumerate(shown, 1)
            },
        }
    return {"description": route.says, "content": content}


# -- errors


def _statuses() -> list[int]:
    return sorted({*_ANYWHERE, *_OF_BODIES, *_OF_TREES})


def _error(status: int) -> Json:
    examples = {
        name: {"summary": error.message, "value": _problem(error, route)}
        for name, error, route in _errors()
        if body_of(error, "", route).status == status
    }
    if status in _REFUSALS:
        refusal = HttpRefusal(status, _REFUSALS[status])
        examples["http"] = {"summary": refusal.message, "value": _problem(refusal, "")}
    return {
        "description": next(iter(examples.values()))["summary"],
        "content": {_PROBLEM: {"schema": {"$ref": _REF.format(name="ProblemBody")},
                               "examples": examples}},
    }  # fmt: skip


def _errors() -> Iterator[tuple[str, KeelError, str]]:
    """Every error as the table of outcomes has it, then as routes say it."""
    for kind in OUTCOMES:
        yield kind.__name__, kind(), ""
    for route, said in SENTENCES.items():
        for kind in said:
            yield f"{kind.__name__} of {route}", kind(), route


def _problem(error: KeelError, route: str) -> Json:
    if not isinstance(error, HttpRefusal | errors.Unavailable | errors.Broken):
        error.path, error.to = "/notes/plan.md", "/notes/done.md" if route in _TWO else None
    body: Json = msgspec.to_builtins(body_of(error, "9f86d081884c7d65", route))
    return body


_TWO: Final = frozenset({"move", "copy"})
