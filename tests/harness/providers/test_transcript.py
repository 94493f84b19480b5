"""What is written can be read a year later, holds no secret, and can be replayed."""

import json
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from harness.providers import chat
from harness.providers.transcript import Transcript, redacted_reply, redacted_request, request_hash
from harness.redaction import NO_SECRETS, Secrets

TOOL = chat.Tool("wait", "Waits.", {"type": "object", "properties": {}})
REQUEST = chat.Request("Be brief.", (TOOL,), (chat.UserTurn("Go on?"),))

KEYS = ["api_key=hunter2hunter2", 'say "password": "x\\"y"', "sk-abcdefghijklmnop", "Bearer abcdefgh.ij"]
TEXTS = st.one_of(st.text(), st.sampled_from(KEYS))
OBJECTS = st.dictionaries(TEXTS, TEXTS).map(json.dumps)
CALLS = st.builds(chat.ToolCall, TEXTS, TEXTS, TEXTS | OBJECTS)
TURNS: st.SearchStrategy[chat.Turn] = st.one_of(
    st.builds(chat.UserTurn, TEXTS),
    st.builds(chat.AssistantTurn, TEXTS, st.none() | CALLS),
    st.builds(chat.ToolResultTurn, TEXTS, TEXTS, st.booleans()),
)
REQUESTS = st.builds(chat.Request, TEXTS, st.just((TOOL,)), st.lists(TURNS, max_size=4).map(tuple))


@given(REQUESTS)
def test_redaction_twice_is_once_and_keeps_the_hash(request: chat.Request) -> None:
    once = redacted_request(request)
    assert redacted_request(once) == once
    assert request_hash(redacted_request(once)) == request_hash(once)


def redacted_calls(arguments: str, *secrets: str) -> list[str]:
    reply = chat.Reply("", (chat.ToolCall("", "", arguments),), chat.StopReason.TOOL_CALL, chat.Usage())
    return [call.arguments for call in redacted_reply(reply, Secrets(secrets)).calls]


@given(OBJECTS)
def test_arguments_stay_json(arguments: str) -> None:
    (found,) = redacted_calls(arguments, 'x"y', "hunter2")
    assert isinstance(json.loads(found), dict)
    assert "hunter2" not in found and 'x\\"y' not in found


def test_a_private_key_leaves_the_arguments_readable() -> None:
    arguments = json.dumps({"text": "-----BEGIN RSA PRIVATE KEY-----\nabc", "why": "x"})
    (found,) = redacted_calls(arguments)
    assert json.loads(found) == {"text": "[redacted]", "why": "x"}


def test_the_hash_is_of_what_the_model_sees() -> None:
    same = chat.Request("Be brief.", (TOOL,), (chat.UserTurn("Go on?"),), max_output_tokens=9)
    assert request_hash(same) == request_hash(REQUEST)
    others = [
        chat.Request("Be brief!", (TOOL,), REQUEST.turns),
        chat.Request("Be brief.", (), REQUEST.turns),
        chat.Request("Be brief.", (TOOL,), (chat.AssistantTurn("Go on?"),)),
        chat.Request("Be brief.", (TOOL,), (chat.ToolResultTurn("", "Go on?"),)),
    ]
    assert len({request_hash(other) for other in [REQUEST, *others]}) == 5


def test_system_and_tools_are_written_once(tmp_path: Path) -> None:
    transcript = Transcript(tmp_path / "t.jsonl", Secrets(("battery-staple",)))
    for number in (1, 2):
        transcript.request(number, "anthropic:m", REQUEST, 10.0)
    changed = chat.Request("It is battery-staple", (TOOL,), (chat.UserTurn("sk-abcdefghijklmnop \udc80"),))
    transcript.request(3, "anthropic:m", changed, 11.0)
    text = transcript.path.read_bytes()
    assert b"battery-staple" not in text and b"sk-abc" not in text
    assert transcript.path.stat().st_mode & 0o777 == 0o600
    written = [json.loads(line) for line in text.decode().splitlines()]
    assert ["system" in line for line in written] == [True, False, True]
    assert ["tools" in line for line in written] == [True, False, False]
    assert written[0]["system_sha256"] == written[1]["system_sha256"] != written[2]["system_sha256"]


def test_a_torn_line_stays_by_itself(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    path.write_bytes(b'{"kind":"request","ha')
    Transcript(path, NO_SECRETS).request(2, "m", REQUEST, 11.0)
    assert json.loads(path.read_text().splitlines()[1])["hash"] == request_hash(REQUEST)
