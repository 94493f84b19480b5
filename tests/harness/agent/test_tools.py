"""Actions as tools: schemas that every server takes, and errors that a model can fix."""

import json

import pytest

from harness.actions import OFFERED, EditConfig, Launch
from harness.providers.chat import ToolCall
from harness.providers.tools import CallError, action_of, tools_of
from harness.sweep.proposal import ProposeSweep
from tests.model_server.tool_schema import objection

FILLED = {"launch": {"attempt": 2, "session": "ajet_x-02", "attempt_id": "x-02"}}


def call(name: str, arguments: str = "{}") -> ToolCall:
    return ToolCall("c1", name, arguments)


def test_a_tool_says_what_it_is_for_and_hides_what_code_fills_in() -> None:
    for tool in tools_of(OFFERED):
        assert 60 < len(tool.description) <= 1024, tool.name
        text = json.dumps(tool.parameters)
        assert "$ref" not in text and "kind" not in tool.parameters["properties"]
        assert not {"attempt_id", "session", "outcome"} & set(tool.parameters["properties"])
        assert objection(tool.parameters) is None


def test_what_an_argument_is_for_is_said_beside_a_type_that_is_described_elsewhere() -> None:
    (tool,) = tools_of((ProposeSweep,))
    assert "Give vary, design, seeds" in tool.parameters["properties"]["sweep"]["description"]


def test_a_call_becomes_an_action_with_what_code_fills_in() -> None:
    action = action_of(call("launch", '{"why": "again"}'), OFFERED, FILLED)
    assert isinstance(action, Launch) and (action.attempt, action.session) == (2, "ajet_x-02")
    changes = '{"changes": {"a": true, "b": 1, "c": 0.5, "d": "1e-6"}, "why": "w"}'
    edit = action_of(call("edit_config", changes), OFFERED)
    assert isinstance(edit, EditConfig)
    types = {"a": bool, "b": int, "c": float, "d": str}
    assert {key: type(value) for key, value in edit.changes.items()} == types


@pytest.mark.parametrize(
    ("name", "arguments", "said"),
    [
        ("lunch", "{}", "Did you mean launch?"),
        ("run_bash", '{"command": "rm -rf /"}', "There is no tool 'run_bash'"),
        ("launch", '{"why": "again"', "not valid JSON"),
        ("launch", "[]", "must be a JSON object"),
        ("launch", "{}", "why: Field required"),
        ("launch", '{"why": "x", "attempt": 9}', "no argument attempt"),
        ("launch", '{"why": "x", "force": true}', "force: Extra inputs are not permitted"),
        ("search_log", '{"pattern": ""}', "pattern: String should have at least 1 character"),
        ("set_environment", '{"name": "A B", "value": "1", "why": "w"}', "name: String should match pattern"),
        ("launch", "[" * 100_000, "not valid JSON"),
    ],
)  # fmt: skip
def test_a_wrong_call_is_told_how_to_mend_it(name: str, arguments: str, said: str) -> None:
    with pytest.raises(CallError) as error:
        action_of(call(name, arguments), OFFERED, FILLED)
    assert said in str(error.value)
    assert len(str(error.value)) < 1200
