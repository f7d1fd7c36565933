"""The description of the REST surface: complete, valid, and true where an example can show it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
from jsonschema import Draft202012Validator
from openapi_spec_validator import validate

from keelfs.errors import KeelError
from keelfs.surfaces.outcomes import OUTCOMES
from keelfs.surfaces.rest import description
from keelfs.surfaces.rest.examples import EXAMPLES, PARAMETERS
from keelfs.surfaces.rest.routes import ROUTES
from keelfs.surfaces.rest.table import Table
from serving import Served

DOCUMENT: Any = msgspec.json.decode(msgspec.json.encode(description.of(ROUTES)))


def operations() -> Iterator[tuple[str, Any]]:
    for path, methods in DOCUMENT["paths"].items():
        for method, operation in methods.items():
            yield f"{method.upper()} {path}", operation


def contents() -> Iterator[tuple[str, str, Any]]:
    """Every body that is described: where, its media type, what is said of it."""
    for name, operation in operations():
        sent = operation.get("requestBody", {"content": {}})["content"]
        for media, said in sent.items():
            yield f"{name} sent", media, said
        for status, answer in operation["responses"].items():
            for media, said in answer.get("content", {}).items():
                yield f"{name} {status}", media, said
    for name, answer in DOCUMENT["components"]["responses"].items():
        for media, said in answer["content"].items():
            yield name, media, said


def complaints(schema: Any, value: Any) -> list[str]:
    """What is wrong with a value; references lead into the document."""
    whole = {"components": DOCUMENT["components"], **schema}
    found = Draft202012Validator(
        whole, format_checker=Draft202012Validator.FORMAT_CHECKER
    ).iter_errors(value)
    return [error.message for error in found]


def test_it_is_valid() -> None:
    validate(DOCUMENT)
    assert DOCUMENT["openapi"].startswith("3.1")


def test_every_route_is_in_it_and_nothing_else() -> None:
    served = {f"{route.method} {description.address(route)}" for route in ROUTES}
    assert {name for name, _ in operations()} == served
    assert len(served) == len(ROUTES), "two routes of one address: one would never be served"


def test_every_route_is_found_where_it_is_described() -> None:
    table = Table(ROUTES)
    for route in ROUTES:
        place = description.address(route).format_map(PARAMETERS)
        found = table.find(tuple(place.split("/")[1:]))
        assert found is not None
        assert found[0][route.method] is route


def test_operations_have_names_of_their_own() -> None:
    names = [operation["operationId"] for _, operation in operations()]
    assert len(set(names)) == len(names)


def test_every_json_body_has_examples_that_fit() -> None:
    seen = 0
    for where, media, said in contents():
        if not media.endswith("json") or where.startswith("GET /v1/openapi.json"):
            continue
        assert said["examples"], where
        for name, example in said["examples"].items():
            assert not complaints(said["schema"], example["value"]), (where, name)
            seen += 1
    assert seen > 100


def test_every_example_of_a_parameter_fits() -> None:
    for where, operation in operations():
        for parameter in operation["parameters"]:
            if "example" in parameter:
                found = complaints(parameter["schema"], parameter["example"])
                assert not found, (where, parameter["name"])


def test_no_model_is_without_an_example() -> None:
    """Models inside of others are shown there."""
    for route in ROUTES:
        for model in (*description.answers(route), *([route.body] if route.body else [])):
            assert description.example_of(model)
    assert all(type(example) is model for model, example in EXAMPLES.items() if type(model) is type)


def test_what_does_not_fit_is_noticed() -> None:
    schema = {"$ref": "#/components/schemas/NewFile"}
    assert not complaints(schema, {"content": "x"})
    assert complaints(schema, {"content": 1})
    assert complaints(schema, {"contents": "x"})


@pytest.mark.parametrize("kind", OUTCOMES, ids=lambda kind: kind.__name__)
def test_every_error_is_shown_under_its_status(kind: type[KeelError]) -> None:
    shown = DOCUMENT["components"]["responses"][f"Error{OUTCOMES[kind].status}"]
    body = shown["content"]["application/problem+json"]["examples"][kind.__name__]["value"]
    assert (body["code"], body["remedy"]) == (kind.code, kind.remedy)


def test_anybody_may_read_it(served: Served) -> None:
    answer = served.client().get("/v1/openapi.json")
    assert (answer.status, answer.json) == (200, DOCUMENT)
