"""Check that a tool's parameters are a JSON schema (draft 2020-12) that the providers take: keywords have
values of the right kind, references lead somewhere, patterns compile."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

Kind = Literal["null", "boolean", "object", "array", "number", "string", "integer"]
Count = Annotated[int, Field(ge=0)]
Number = int | float


def _compiles(pattern: str) -> str:
    try:
        re.compile(pattern)
    except re.error as error:
        raise ValueError(f"{pattern!r} is not a regular expression") from error
    return pattern


Pattern = Annotated[str, AfterValidator(_compiles)]
Schemas = dict[str, "bool | Schema"]
SomeSchemas = Annotated[list["bool | Schema"], Field(min_length=1)]


class Schema(BaseModel):
    """The keywords that are checked; others are let through, as servers do."""

    model_config = ConfigDict(strict=True, extra="ignore")
    type: Kind | list[Kind] = []
    description: str = ""
    enum: list[Any] = []
    required: list[str] = []
    pattern: Pattern = ""
    properties: Schemas = {}
    patternProperties: dict[Pattern, bool | Schema] = {}  # noqa: N815
    defs: Annotated[Schemas, Field(alias="$defs")] = {}
    allOf: SomeSchemas | None = None  # noqa: N815
    anyOf: SomeSchemas | None = None  # noqa: N815
    oneOf: SomeSchemas | None = None  # noqa: N815
    items: bool | Schema = True
    additionalProperties: bool | Schema = True  # noqa: N815
    minLength: Count = 0  # noqa: N815
    maxLength: Count = 0  # noqa: N815
    minItems: Count = 0  # noqa: N815
    maxItems: Count = 0  # noqa: N815
    minimum: Number = 0
    maximum: Number = 0


def objection(schema: Any) -> str | None:
    """What is wrong with a tool's parameters, with the place, or None."""
    if not isinstance(schema, dict) or schema.get("type") != "object":
        return "schema must be a JSON Schema of 'type: \"object\"'"
    if combined := {"oneOf", "anyOf", "allOf"} & set(schema):
        return f"{combined} at the top level is not supported"
    try:
        Schema.model_validate(schema)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        return f"schema.{'.'.join(map(str, first['loc']))}: {first['msg']}"
    for node in _nodes(schema):
        reference = node.get("$ref")
        if isinstance(reference, str) and not _leads_somewhere(reference, schema):
            return f"schema: $ref {reference} leads nowhere"
        if node.get("type") == "array" and not {"items", "prefixItems"} & set(node):
            return "array schema missing items"
    return None


def _nodes(value: Any) -> Iterator[dict[str, Any]]:
    """Every object in a schema."""
    if isinstance(value, dict):
        yield value
    for inner in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from _nodes(inner)


def _leads_somewhere(reference: str, root: dict[str, Any]) -> bool:
    """True for a pointer to something inside the schema itself."""
    place: Any = root
    for name in reference.split("/")[1:]:
        place = place.get(name) if isinstance(place, dict) else None
    return reference.startswith("#") and place is not None
