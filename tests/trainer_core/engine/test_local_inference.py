"""Many asyncio callers of one model thread: what they get, in which order, and what becomes of them when
something goes wrong.
"""

import asyncio
import random
import subprocess
import sys
import threading
import time
from collections.abc import AsyncIterator
from contextlib import ExitStack
from dataclasses import replace
from typing import Any

import pytest
import pytest_asyncio
import torch

from trainer_core.engine.decoding import Decoder
from trainer_core.engine.local_inference import LocalInference
from trainer_core.engine.protocols import Generation, Request
from trainer_core.types import FinishReason, Sampling, TrainingError

PROMPT = [4, 20, 21, 22, 1, 5]
ENDLESS = Request(PROMPT, Sampling(), 50, seed=1)
"""With the fixture `endless`: 50 tokens."""


@pytest_asyncio.fixture
async def engine(model: Any, tokenizer: Any) -> AsyncIterator[LocalInference]:
    made = LocalInference(model, tokenizer, deterministic=False, cache_bytes=2**30)
    yield made
    await made.close()


@pytest.fixture
def endless(model: Any) -> None:
    """No token ends an answer, as the tokenizer's end token is made impossible; a token takes 4 ms, so that
    the test's side has time to act before 50 are written."""
    model.generation_config.eos_token_id = None
    hide = torch.zeros(model.config.vocab_size)
    hide[1] = -torch.inf

    def without_end(module: Any, inputs: Any, output: Any) -> Any:
        time.sleep(0.004)
        output.logits = output.logits + hide
        return output

    model.register_forward_hook(without_end)


def of(task: int, call: int = 0, **changes: Any) -> Request:
    prompt = [4, *random.Random(task * 100 + call).choices(range(20, 40), k=2 + (task + call) % 5), 5]
    return replace(
        Request(prompt, Sampling(), 12, seed=task * 100 + call, session=(task, 0, call)), **changes
    )


async def test_256_callers_at_once_get_what_each_gets_alone(
    engine: LocalInference, model: Any, tokenizer: Any
) -> None:
    requests = [of(task, sampling=Sampling(temperature=0.0)) for task in range(256)]

    async def later(request: Request) -> list[Generation]:
        await asyncio.sleep(random.random() * 0.05)
        return await engine.generate(request)

    answers = await asyncio.gather(*map(later, requests))
    alone = Decoder(model, tokenizer, cache_bytes=2**30)
    assert len(answers) == 256
    for request, (answer,) in list(zip(requests, answers, strict=True))[::8]:
        assert answer.ids == alone.generate([request])[0][0].ids


async def test_requests_of_one_turn_are_computed_together(engine: LocalInference, model: Any) -> None:
    await engine.generate(of(0))  # the trial run of the cache is behind us
    await engine.pause()  # its thread rests now, and does not look up between two of the requests
    await engine.resume()
    await asyncio.sleep(0.2)
    rows: list[int] = []
    model.register_forward_pre_hook(
        lambda module, _, inputs: rows.append(len(inputs["input_ids"])), with_kwargs=True
    )
    await asyncio.gather(*(engine.generate(of(task)) for task in range(20)))
    assert rows[0] == 20 and rows == sorted(rows, reverse=True)


async def test_a_short_call_does_not_wait_for_a_long_one(endless: None, engine: LocalInference) -> None:
    long = asyncio.ensure_future(engine.generate(ENDLESS))
    for call in range(3):
        await engine.generate(replace(of(1, call), max_tokens=2))
    assert not long.done()
    assert len((await long)[0].ids) == 50


async def episode(engine: LocalInference, task: int, delays: random.Random) -> list[Generation]:
    """Some calls, with work in between."""
    answers: list[Generation] = []
    for call in range(1 + task % 3):
        await asyncio.sleep(delays.random() * 0.01)
        request = of(task, call)
        context = [*request.prompt_ids, *(n for a in answers for n in a.ids)][:40]
        answers += await engine.generate(replace(request, prompt_ids=context, n=1 + task % 2))
    return answers


async def rollout(engine: LocalInference, order: list[int], at_once: int) -> dict[int, list[Generation]]:
    """Episodes as a rollout runs them: sessions of those that start together opened first, a successor's
    before its predecessor's is closed."""
    delays = random.Random(str(order))
    left, running, results = list(order), {}, {}
    with ExitStack() as all_sessions:
        sessions = {}
        for task in sorted(order)[:at_once]:
            sessions[task] = all_sessions.enter_context(ExitStack())
            sessions[task].enter_context(engine.session((task, 0)))
        first = [task for task in left if task in sessions]
        waiting = sorted(set(order) - set(first))
        running = {asyncio.ensure_future(episode(engine, task, delays)): task for task in first}
        while running:
            done, _ = await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
            for future in done:
                task = running.pop(future)
                results[task] = future.result()
                if waiting:
                    successor = waiting.pop(0)
                    sessions[successor] = all_sessions.enter_context(ExitStack())
                    sessions[successor].enter_context(engine.session((successor, 0)))
                    running[asyncio.ensure_future(episode(engine, successor, delays))] = successor
                sessions[task].close()
    return results


@pytest.mark.parametrize(("at_once", "cache_bytes"), [(12, 2**30), (5, 2**30), (12, 60_000)])
async def test_same_digits_whatever_the_order_of_arrival(
    model: Any, tokenizer: Any, at_once: int, cache_bytes: int
) -> None:
    engine = LocalInference(model, tokenizer, deterministic=True, cache_bytes=cache_bytes)
    orders = [random.Random(seed).sample(range(12), 12) for seed in range(6)]
    results = [await rollout(engine, order, at_once) for order in orders]
    await engine.close()
    assert all(result == results[0] for result in results)  # to the last bit of each log-probability


async def test_a_deterministic_engine_waits_for_every_open_session(model: Any, tokenizer: Any) -> None:
    engine = LocalInference(model, tokenizer, deterministic=True, cache_bytes=2**30)
    with engine.session((0, 0)):
        with engine.session((1, 0)):
            waiting = asyncio.ensure_future(engine.generate(of(0)))
            await asyncio.sleep(0.05)
            assert not waiting.done()
            await asyncio.gather(engine.generate(of(1)), waiting)
            waiting = asyncio.ensure_future(engine.generate(of(0, 1)))
            cancelled = asyncio.ensure_future(engine.generate(of(2)))
            await asyncio.sleep(0.01)
            cancelled.cancel()
        await waiting  # closing the session was enough
        with pytest.raises(TrainingError, match="open already"), engine.session((0, 0)):
            pass
    await engine.generate(of(3))  # belongs to no session
    await engine.close()


async def test_a_cancelled_caller_leaves_the_batch(endless: None, engine: LocalInference) -> None:
    gone = [asyncio.ensure_future(engine.generate(replace(ENDLESS, n=8))) for _ in range(4)]
    stays = asyncio.ensure_future(engine.generate(ENDLESS))
    await engine.generate(replace(ENDLESS, max_tokens=3))
    for future in gone:
        future.cancel()
    outcomes = await asyncio.gather(*gone, return_exceptions=True)
    assert all(isinstance(outcome, asyncio.CancelledError) for outcome in outcomes)
    await engine.generate(replace(ENDLESS, max_tokens=2))
    assert not stays.done()
    assert len(engine._decoder.rows) == 1 and len(engine._jobs) == 1
    assert len((await stays)[0].ids) == 50


async def test_pausing_lets_go_of_the_model(endless: None, engine: LocalInference, model: Any) -> None:
    running = asyncio.ensure_future(engine.generate(ENDLESS))
    await engine.generate(replace(ENDLESS, max_tokens=1))
    await engine.pause()
    assert running.done() or len((await running)[0].ids) == 50  # what was being generated has ended
    calls: list[int] = []
    model.register_forward_pre_hook(lambda *_: calls.append(1))
    held = [asyncio.ensure_future(engine.generate(ENDLESS)) for _ in range(3)]
    await engine.pause()
    await asyncio.sleep(0.05)
    assert not calls
    model.train()
    model(torch.tensor([PROMPT])).logits.sum().backward()  # training has the model to itself
    await engine.update_weights(7)
    await engine.resume()
    assert [(await each)[0].weight_version for each in held] == [7, 7, 7]
    assert (await running)[0].weight_version == 0


async def test_rows_that_had_no_room_are_held_back_by_a_pause(
    endless: None, model: Any, tokenizer: Any
) -> None:
    two_rows = 2 * (len(PROMPT) + 50) * 256  # bytes of keys and values per token
    engine = LocalInference(model, tokenizer, deterministic=False, cache_bytes=two_rows)
    await engine.generate(replace(ENDLESS, max_tokens=1))
    started, loop = asyncio.Event(), asyncio.get_running_loop()

    def begun(*_: Any) -> None:
        loop.call_soon_threadsafe(started.set)

    model.register_forward_pre_hook(begun)
    limits = [50, 5, 5]
    running = [asyncio.ensure_future(engine.generate(replace(ENDLESS, max_tokens=limit))) for limit in limits]
    await started.wait()
    await engine.pause()
    await engine.update_weights(1)
    await engine.resume()
    assert [(await each)[0].weight_version for each in running] == [0, 0, 1]
    await engine.close()


async def test_new_weights_are_seen(engine: LocalInference, model: Any) -> None:
    request = of(0, n=8)
    before = await engine.generate(request)
    await engine.pause()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(0.5)
    await engine.update_weights(1)
    await engine.resume()
    after = await engine.generate(request)
    assert [answer.ids for answer in after] != [answer.ids for answer in before]


async def test_an_error_of_the_model_reaches_every_caller(engine: LocalInference, model: Any) -> None:
    def fail(*_: Any) -> None:
        raise RuntimeError("out of memory")

    hook = model.register_forward_pre_hook(fail)
    callers = [engine.generate(of(task)) for task in range(5)]
    outcomes = await asyncio.wait_for(asyncio.gather(*callers, return_exceptions=True), timeout=10)
    assert all(isinstance(outcome, RuntimeError) for outcome in outcomes)
    hook.remove()
    assert (await engine.generate(of(0)))[0].finish_reason in FinishReason


async def test_an_error_while_others_generate(endless: None, engine: LocalInference, model: Any) -> None:
    """Whoever shares the batch gets it too; whoever comes later does not."""
    running = asyncio.ensure_future(engine.generate(ENDLESS))
    await engine.generate(replace(ENDLESS, max_tokens=3))
    hook = model.register_forward_pre_hook(lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        await running
    hook.remove()
    assert len((await engine.generate(ENDLESS))[0].ids) == 50


async def test_a_request_that_cannot_be_computed_disturbs_nobody(engine: LocalInference) -> None:
    with pytest.raises(TrainingError, match="64 tokens"):
        await engine.generate(replace(of(0), prompt_ids=[4] * 64))
    assert await engine.generate(of(0))


async def test_closing_ends_the_thread_and_all_waiting(endless: None, model: Any, tokenizer: Any) -> None:
    engine = LocalInference(model, tokenizer, deterministic=True, cache_bytes=2**30)
    with engine.session((0, 0)):  # nobody asks in it: both wait
        waiting = [asyncio.ensure_future(engine.generate(of(task))) for task in (1, 2)]
        await asyncio.sleep(0)
        await engine.close()
    for future in waiting:
        with pytest.raises(TrainingError, match="closed"):
            await future
    with pytest.raises(TrainingError, match="closed"):
        await engine.generate(of(0))
    await engine.pause()
    await engine.close()
    assert not engine._thread.is_alive()


async def test_callers_in_several_event_loops(engine: LocalInference) -> None:
    expected = [answer.ids for answer in await engine.generate(of(0, n=4))]
    results: list[Any] = []

    def other_loop() -> None:
        results.append(asyncio.run(engine.generate(of(0, n=4))))

    threads = [threading.Thread(target=other_loop) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        await asyncio.to_thread(thread.join)
    assert [[answer.ids for answer in result] for result in results] == [expected] * 4


async def test_the_threads_numbers_are_the_callers(engine: LocalInference, model: Any) -> None:
    """Same digits need the same number of threads, wherever the model runs."""
    seen: list[int] = []
    model.register_forward_pre_hook(lambda *_: seen.append(torch.get_num_threads()))
    await engine.generate(of(0))
    assert set(seen) == {torch.get_num_threads()}


UNCLOSED = """
import asyncio, torch
from tests.trainer_core.engine.conftest import RECIPE
from trainer_core.engine.local_inference import LocalInference
from trainer_core.engine.protocols import Request
from trainer_core.engine.tiny_model import make_model, make_tokenizer
from trainer_core.types import Sampling

torch.set_num_threads(1)
tokenizer = make_tokenizer()
engine = LocalInference(make_model(RECIPE, tokenizer), tokenizer, deterministic=False, cache_bytes=2**20)
print(len(asyncio.run(engine.generate(Request([4, 5], Sampling(), 3, n=2)))))
"""


def test_a_process_ends_with_its_engine_open() -> None:
    ended = subprocess.run(
        [sys.executable, "-c", UNCLOSED], capture_output=True, text=True, timeout=60, check=False
    )
    assert (ended.returncode, ended.stdout) == (0, "2\n"), ended.stderr
