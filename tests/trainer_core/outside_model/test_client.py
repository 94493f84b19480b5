"""Requests to an outside model: keys, retries, and replies of any shape."""

import asyncio
import json
from threading import Event, Lock
from typing import Any

import pytest
from pydantic import BaseModel

from tests.model_server.transport import Delivery
from tests.trainer_core.outside_model.fake import embedded, refused, said, serving
from trainer_core.outside_model.keys import DASHSCOPE, OPENAI, Keys, find_endpoint
from trainer_core.types import TrainingError


class Grade(BaseModel):
    grade: float


def ask(model: Any, **options: Any) -> float:
    return asyncio.run(model.ask("Grade it.", {"answer": "ü"}, Grade, **options)).grade


@pytest.mark.parametrize(
    "reply",
    ['{"grade": 2}', '```json\n{"grade": 2}\n```', '<think>a {"grade": 9}</think>\n {"grade": 2} '],
)
def test_the_json_of_a_reply_is_read(reply: str) -> None:
    with serving(lambda body, key: said(reply)) as fake:
        assert ask(fake.model(max_tokens=7)) == 2.0
    (request,) = fake.asked
    assert request["response_format"] == {"type": "json_object"}
    assert request["max_tokens"] == 7 and request["model"] == "fake"
    assert json.loads(request["messages"][1]["content"]) == {"answer": "ü"}
    assert '"grade"' in request["messages"][0]["content"]


@pytest.mark.parametrize(
    ("reply", "reason"),
    [
        (said("The grade is 2."), "Invalid JSON"),
        (said('{"grade": "high"}'), "grade: Input should be a valid number"),
        (said('{"grade": 5}'), "too high"),
        (said(""), "an empty reply"),
        (said(None), "an empty reply"),
        (said('{"grade": ', "length"), "cut off"),
        (Delivery(frames=(b"<html>busy</html>",)), "."),
        (Delivery(frames=(b'{"choices": []}',)), "an empty reply"),
        (refused(500), "status 500"),
        (refused(429), "status 429"),
        (Delivery(complete=False), "Connection error"),
    ],
)
def test_a_model_that_never_gives_a_usable_answer_is_an_error_that_says_why(
    reply: Delivery, reason: str
) -> None:
    with serving(lambda body, key: reply) as fake:
        with pytest.raises(TrainingError, match=f"fake at {fake.base_url} gave no usable.* 6 .*{reason}"):
            ask(fake.model(), check=lambda found: "too high" if found.grade > 2 else "")
    assert len(fake.asked) == 6
    assert fake.waits == [1, 2, 4, 8, 16]


def test_a_model_is_shown_what_was_wrong_with_its_reply() -> None:
    replies = iter(["no", "still no", '{"grade": 1}'])
    with serving(lambda body, key: said(next(replies))) as fake:
        assert ask(fake.model()) == 1.0
    roles = [[message["role"] for message in body["messages"]] for body in fake.asked]
    assert roles == [["system", "user"], *[["system", "user", "assistant", "user"]] * 2]
    assert fake.asked[2]["messages"][2]["content"] == "still no"


def test_a_server_may_ask_for_a_longer_wait() -> None:
    replies = iter([refused(429, 30), refused(503), said('{"grade": 1}')])
    with serving(lambda body, key: next(replies)) as fake:
        assert ask(fake.model()) == 1.0
    assert fake.waits[0] == 30


def test_a_wrong_request_is_not_repeated() -> None:
    with serving(lambda body, key: refused(404)) as fake:
        with pytest.raises(TrainingError, match=r"refused the request: .*status 404"):
            ask(fake.model())
    assert len(fake.asked) == 1 and fake.waits == []


ONE, TWO, SPARE = KEYS = ["key-one", "key-two", "key-spare"]
ENVIRONMENT = {"DASHSCOPE_API_KEY": f"{ONE}|{TWO}", "DASHSCOPE_API_KEY_BACKUP": SPARE}


@pytest.mark.parametrize(
    ("refusals", "tried"),
    [
        ({}, [ONE, TWO, ONE]),
        ({ONE: 401}, [ONE, TWO, TWO, TWO]),  # left out from then on
        ({ONE: 429, TWO: 429}, [ONE, TWO, SPARE, TWO, ONE, SPARE]),
    ],
)
def test_keys_take_turns_and_make_way_for_others(refusals: dict[str, int], tried: list[str]) -> None:
    async def run(model: Any) -> None:
        while len(fake.keys) < len(tried):
            await model.ask("Grade it.", {}, Grade)

    def respond(body: Any, key: str) -> Delivery:
        return refused(refusals[key]) if key in refusals else said('{"grade": 1}')

    with serving(respond) as fake:
        asyncio.run(run(fake.model(environment=ENVIRONMENT)))
    assert fake.keys == tried
    assert fake.waits == []


def test_no_key_left_is_said_without_telling_a_key() -> None:
    def repeat(body: Any, key: str) -> Delivery:
        return Delivery(401, (json.dumps({"error": {"message": f"bad {key}"}}).encode(),))

    with serving(repeat) as fake:
        with pytest.raises(TrainingError, match="refuses every key") as caught:
            ask(fake.model(environment=ENVIRONMENT))
    assert fake.keys == KEYS
    assert "key-" not in str(caught.value)


def test_requests_at_once_are_bounded() -> None:
    running, most = 0, 0
    lock = Lock()

    def slow(body: Any, key: str) -> Delivery:
        nonlocal running, most
        with lock:
            running += 1
            most = max(most, running)
        together.wait(0.05)
        with lock:
            running -= 1
        return said('{"grade": 1}')

    together = Event()

    async def run(model: Any) -> None:
        await asyncio.gather(*(model.ask("Grade it.", {}, Grade) for _ in range(6)))

    with serving(slow) as fake:
        asyncio.run(run(fake.model(at_once=2)))
    assert most == 2 and len(fake.asked) == 6


def vectors(body: dict[str, Any], key: str) -> Delivery:
    return embedded([float(text)] for text in body["input"])


def test_embeddings_that_are_not_finite_are_none() -> None:
    with serving(vectors) as fake, pytest.raises(TrainingError, match="not of finite numbers"):
        asyncio.run(fake.model().embed(["1", "nan"]))


def test_embeddings_come_in_the_order_of_the_texts() -> None:
    with serving(vectors) as fake:
        found = asyncio.run(fake.model().embed([str(number) for number in range(23)]))
    assert found == [[float(number)] for number in range(23)]
    assert sorted(len(body["input"]) for body in fake.asked) == [3, 10, 10]


@pytest.mark.parametrize(
    ("environment", "url", "keys"),
    [
        ({"DASHSCOPE_API_KEY": "a|b", "OPENAI_API_KEY": "o"}, DASHSCOPE, ["a", "b"]),
        ({"OPENAI_API_KEY": "o"}, OPENAI, ["o"]),
        ({"OPENAI_BASE_URL": "http://x", "DASHSCOPE_API_KEY": "a", "OPENAI_API_KEY": "o"}, "http://x", ["o"]),
        ({"OPENAI_BASE_URL": "http://x", "DASHSCOPE_API_KEY": " a | "}, "http://x", ["a"]),
        ({"OPENAI_BASE_URL": "http://x"}, "http://x", ["none"]),
    ],
)
def test_the_environment_names_the_endpoint(environment: dict[str, str], url: str, keys: list[str]) -> None:
    base_url, found = find_endpoint(environment)
    assert (base_url, found.turn()) == (url, keys)


def test_an_environment_without_endpoint_is_refused() -> None:
    with pytest.raises(TrainingError, match="Set OPENAI_BASE_URL"):
        find_endpoint({"DASHSCOPE_API_KEY_BACKUP": "b"})


def test_only_the_backup_may_be_left() -> None:
    keys = Keys("a", "b|c")
    keys.drop("a")
    assert keys.turn() == ["b", "c"]
