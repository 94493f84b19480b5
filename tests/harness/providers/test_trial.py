"""The small request that shows whether a model can be asked."""

import asyncio
from pathlib import Path

import pytest

from harness.providers import chat, trial
from tests.harness.providers.test_model import BUSY, PRICE, REPLY, Bench


@pytest.mark.parametrize(
    ("answer", "trouble"),
    [
        (REPLY, ""),
        (chat.RejectedError("fake:m answered 400: max_tokens must be at least 32"), ""),
        (chat.NoAccessError("fake:m answered 401: bad key"), "answered 401: bad key"),
        (BUSY, "answered 429"),
    ],
)
async def test_a_model_is_tried_with_one_try_of_a_few_tokens(
    tmp_path: Path, answer: object, trouble: str
) -> None:
    made = Bench(tmp_path, answer, BUSY)
    found = await trial.trouble_of(made.model, made.spending())
    assert trouble in found and bool(found) == bool(trouble)
    assert made.spending().calls == 1 and made.clock.waits == []
    (request,) = made.provider.asked
    assert request.size < 100 and request.max_output_tokens == 16


async def test_a_model_that_is_silent_does_not_hold_up_the_launch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def hang() -> chat.Reply:
        await asyncio.Event().wait()
        return REPLY

    monkeypatch.setattr(trial, "TRIAL_S", 0.01)
    made = Bench(tmp_path, hang)
    assert "loading" in await trial.trouble_of(made.model, made.spending())
    assert made.last["cost_usd"] <= 100 * PRICE.output / 1e6 and made.last["is_estimated"]
