"""Which tool parameters are JSON schemas."""

from typing import Any

import pydantic
import pytest

from tests.model_server.tool_schema import objection


class Change(pydantic.BaseModel):
    key: str = pydantic.Field(description="The key to change", pattern="^[a-z.]+$")
    value: int | float | bool | str | None = None
    reasons: list[str] = pydantic.Field(default_factory=list, max_length=4)


class Repair(pydantic.BaseModel):
    changes: list[Change] = pydantic.Field(min_length=1)
    wait_s: float = pydantic.Field(gt=0, default=1.0)


def test_what_pydantic_writes_is_taken() -> None:
    assert objection(Repair.model_json_schema()) is None


@pytest.mark.parametrize(
    "wrong",
    [
        {"properties": {"a": {"type": "int"}}},
        {"properties": {"a": "string"}},
        {"properties": {"a": {"$ref": "#/$defs/Missing"}}},
        {"properties": {"a": {"type": "string", "pattern": "("}}},
        {"properties": {"a": {"type": "string", "minLength": -1}}},
        {"properties": {"a": {"type": "number", "exclusiveMinimum": True}}},
        {"properties": {"a": {"type": "array", "items": [{"type": "string"}]}}},
        {"properties": {"a": {"enum": "x"}}},
        {"properties": {"a": {"anyOf": []}}},
        {"properties": {"a": {"type": "string", "required": True}}},
        {"properties": ["a"]},
        {"required": ["a", "a"]},
        {"description": 3},
    ],
)
def test_what_is_no_schema_is_named_with_its_place(wrong: dict[str, Any]) -> None:
    fault = objection({"type": "object", **wrong})
    assert fault is not None
    assert fault.startswith("schema")
