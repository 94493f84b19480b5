import asyncio
from collections.abc import Iterator

import pytest

from tests.harness.providers.loopback import Loopback, loopback


@pytest.fixture
def server() -> Iterator[Loopback]:
    with loopback() as running:
        yield running


@pytest.fixture(autouse=True)
def no_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    """No key, address or proxy of the person who runs the tests."""
    for name in ("API_KEY", "AUTH_TOKEN", "BASE_URL", "CUSTOM_HEADERS", "ORG_ID", "PROJECT_ID", "ADMIN_KEY"):
        monkeypatch.delenv(f"ANTHROPIC_{name}", raising=False)
        monkeypatch.delenv(f"OPENAI_{name}", raising=False)
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)


class FakeClock:
    """Time that passes only by waiting. `waits` are the seconds asked for; after `set_after` of them the
    waited-for event is set."""

    def __init__(self) -> None:
        self.now = 1_000_000.0
        self.waits: list[float] = []
        self.set_after = 0

    def time(self) -> float:
        return self.now

    async def wait(self, event: asyncio.Event, seconds: float) -> None:
        await asyncio.sleep(0)
        self.waits.append(seconds)
        self.now += seconds
        if self.set_after == len(self.waits):
            event.set()
