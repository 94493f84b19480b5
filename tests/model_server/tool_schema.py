"""Whether a tool's parameters are a JSON schema (draft 2020-12) that the providers take.

Structural: keywords have values of the right kind, references lead somewhere, patterns compile. `objection`
gives the first fault as text, or None.
"""

import re
from collections.abc import Iterator
from typing import Any

from tests.model_server.bad_request import whole_number

TYPES = {"null", "boolean", "object", "array", "number", "string", "integer"}
SCHEMAS_BY_NAME = ("properties", "patternProperties", "$defs", "definitions", "dependentSchemas")
SCHEMA_LISTS = ("allOf", "anyOf", "oneOf", "prefixItems")
ONE_SCHEMA = (
    *("items", "additionalProperties", "not", "if", "then", "else", "contains", "propertyNames"),
    *("unevaluatedItems", "unevaluatedProperties"),
)
COUNTS = ("minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties", "minContains")
NUMBERS = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf")
TEXTS = ("title", "description", "$schema", "$id", "$ref", "$anchor", "$comment", "format")


def objection(schema: Any) -> str | None:
    """What is wrong with a tool's parameters, with the place, or None."""
    if not isinstance(schema, dict) or schema.get("type") != "object":
        found = schema.get("type") if isinstance(schema, dict) else type(schema).__name__
        return f"schema must be a JSON Schema of 'type: \"object\"', got 'type: \"{found}\"'"
    return next(_faults(schema, "schema", schema), None)


def objects_left_open(schema: Any, where: str = "schema") -> Iterator[str]:
    """Object schemas that allow further properties or leave some optional, unlike `strict` tools."""
    if isinstance(schema, dict):
        if schema.get("type") == "object":
            if schema.get("additionalProperties") is not False:
                yield f"{where}: 'additionalProperties' is required to be supplied and to be false"
            if missing := sorted(set(schema.get("properties", {})) - set(schema.get("required", []))):
                yield f"{where}: 'required' must name every property; missing {missing}"
        for key, value in schema.items():
            yield from objects_left_open(value, f"{where}.{key}")
    elif isinstance(schema, list):
        for index, value in enumerate(schema):
            yield from objects_left_open(value, f"{where}[{index}]")


def arrays_without_items(schema: Any, where: str = "schema") -> Iterator[str]:
    """Array schemas that do not say of what, which OpenAI does not take."""
    if isinstance(schema, dict):
        if schema.get("type") == "array" and not {"items", "prefixItems"} & set(schema):
            yield f"{where}: array schema missing items"
        for key, value in schema.items():
            yield from arrays_without_items(value, f"{where}.{key}")
    elif isinstance(schema, list):
        for index, value in enumerate(schema):
            yield from arrays_without_items(value, f"{where}[{index}]")


def _faults(schema: Any, where: str, root: dict[str, Any]) -> Iterator[str]:
    if isinstance(schema, bool):
        return
    if not isinstance(schema, dict):
        yield f"{where}: a schema is an object or a boolean, not {type(schema).__name__}"
        return
    yield from _faulty_words(schema, where, root)
    yield from _faulty_limits(schema, where)
    for key in SCHEMAS_BY_NAME:
        named = schema.get(key, {})
        if not isinstance(named, dict):
            yield f"{where}.{key}: must be an object of schemas"
            continue
        for name, inner in named.items():
            yield from _faults(inner, f"{where}.{key}.{name}", root)
    for key in SCHEMA_LISTS:
        if key in schema and not (isinstance(schema[key], list) and schema[key]):
            yield f"{where}.{key}: must be a non-empty array of schemas"
            continue
        for index, inner in enumerate(schema.get(key, [])):
            yield from _faults(inner, f"{where}.{key}[{index}]", root)
    for key in ONE_SCHEMA:
        if key in schema:
            yield from _faults(schema[key], f"{where}.{key}", root)


def _faulty_words(schema: dict[str, Any], where: str, root: dict[str, Any]) -> Iterator[str]:
    types = schema.get("type", [])
    for one in types if isinstance(types, list) else [types]:
        if not isinstance(one, str) or one not in TYPES:
            yield f"{where}.type: {one!r} is not one of {sorted(TYPES)}"
    for key in TEXTS:
        if not isinstance(schema.get(key, ""), str):
            yield f"{where}.{key}: must be a string"
    required = schema.get("required", [])
    if not isinstance(required, list) or not all(isinstance(name, str) for name in required):
        yield f"{where}.required: must be an array of strings"
    elif len(set(required)) < len(required):
        yield f"{where}.required: has non-unique elements"
    if not isinstance(schema.get("enum", []), list):
        yield f"{where}.enum: must be an array"
    patterns = [schema.get("pattern", "")]
    if isinstance(schema.get("patternProperties"), dict):
        patterns += schema["patternProperties"]
    for pattern in patterns:
        try:
            re.compile(pattern)
        except (re.error, TypeError):
            yield f"{where}: {pattern!r} is not a regular expression"
    reference = schema.get("$ref")
    if isinstance(reference, str) and not _leads_somewhere(reference, root):
        yield f"{where}.$ref: {reference} leads nowhere"


def _faulty_limits(schema: dict[str, Any], where: str) -> Iterator[str]:
    for key in COUNTS:
        if key in schema and not (whole_number(schema[key]) and schema[key] >= 0):
            yield f"{where}.{key}: must be a non-negative integer"
    for key in NUMBERS:
        if key in schema and (isinstance(schema[key], bool) or not isinstance(schema[key], int | float)):
            yield f"{where}.{key}: must be a number"


def _leads_somewhere(reference: str, root: dict[str, Any]) -> bool:
    """Whether a `$ref` is a pointer to something inside the schema itself."""
    if not reference.startswith("#"):
        return False
    place: Any = root
    for part in reference[1:].split("/")[1:]:
        name = part.replace("~1", "/").replace("~0", "~")
        if isinstance(place, list) and name.isdigit() and int(name) < len(place):
            place = place[int(name)]
        elif isinstance(place, dict) and name in place:
            place = place[name]
        else:
            return False
    return True
