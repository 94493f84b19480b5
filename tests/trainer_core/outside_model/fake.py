"""An OpenAI-compatible server on loopback whose replies a test decides."""

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from tests.model_server.transport import Delivery, Loopback, refusal
from trainer_core.outside_model import OutsideModel


@dataclass
class Fake:
    """The server, and what it was asked."""

    base_url: str = ""
    asked: list[dict[str, Any]] = field(default_factory=list)
    keys: list[str] = field(default_factory=list)
    waits: list[float] = field(default_factory=list)

    async def sleep(self, seconds: float) -> None:
        """Remember a wait and do not wait."""
        self.waits.append(seconds)

    def model(self, **options: Any) -> OutsideModel:
        """A client of this server."""
        environment = options.pop("environment", {}) | {"OPENAI_BASE_URL": self.base_url}
        return OutsideModel("fake", environment=environment, sleep=self.sleep, **options)

    def data(self, number: int) -> Any:
        """What the model was to work on in a request."""
        return json.loads(self.asked[number]["messages"][1]["content"])


def said(text: str | None, finish: str = "stop") -> Delivery:
    """A reply of the model."""
    message = {"role": "assistant", "content": text}
    choice = {"index": 0, "message": message, "finish_reason": finish}
    body = {"id": "1", "object": "chat.completion", "created": 0, "model": "fake", "choices": [choice]}
    return Delivery(frames=(json.dumps(body).encode(),))


def embedded(vectors: Iterable[Sequence[float]]) -> Delivery:
    """A vector for each text, the last one first."""
    data = [{"object": "embedding", "index": place, "embedding": each} for place, each in enumerate(vectors)]
    usage = {"prompt_tokens": 1, "total_tokens": 1}
    body = {"object": "list", "model": "fake", "data": data[::-1], "usage": usage}
    return Delivery(frames=(json.dumps(body).encode(),))


def refused(status: int, retry_after_s: float | None = None) -> Delivery:
    """An error of the server."""
    return refusal(status, {"error": {"message": f"status {status}"}}, retry_after_s)


@contextmanager
def serving(respond: Callable[[dict[str, Any], str], Delivery]) -> Iterator[Fake]:
    """A server that asks `respond(body, key)`."""
    fake = Fake()

    def answer(path: str, headers: dict[str, str], body: bytes) -> Delivery:
        lowered = {name.lower(): value for name, value in headers.items()}
        key = lowered.get("authorization", "").removeprefix("Bearer ")
        fake.keys.append(key)
        fake.asked.append(json.loads(body))
        return respond(fake.asked[-1], key)

    server = Loopback(answer)
    server.start()
    fake.base_url = f"{server.url}/v1"
    try:
        yield fake
    finally:
        server.close()
