"""A real vLLM server behind the engine's Protocol, with a local engine that trains."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import psutil
import pytest
import torch

from tests.trainer_core.stack.conftest import config_of
from trainer_core.backbone.inference import on_vllm
from trainer_core.engine.local_training import LocalTraining
from trainer_core.engine.protocols import Generation, Request
from trainer_core.engine.start_model import load_model
from trainer_core.engine.vllm.inference import VllmInference
from trainer_core.types import Batch, FinishReason, Loss, Sampling, TrainingError


class Stage:
    """A server, and the engine whose weights it gets."""

    def __init__(self, model: str, python: str, folder: Path, closing: ExitStack) -> None:
        self.config = config_of(
            model,
            backbone="local",
            experiment_dir=str(folder),
            rollout={"inference": "vllm", "vllm_python": python},
        )
        self.training = LocalTraining(load_model(model).model, None)
        engine = on_vllm(self.config.ajet, model, self.training, closing, say=lambda _: None)
        assert isinstance(engine, VllmInference)
        self.engine = engine

    @property
    def pids(self) -> list[int]:
        process = self.engine._server._process
        assert process is not None
        return [each.pid for each in psutil.Process(process.pid).children(recursive=True)]


@pytest.fixture(scope="module")
def stage(model: str, vllm_python: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    with ExitStack() as closing:
        made = Stage(model, vllm_python, tmp_path_factory.mktemp("vllm"), closing)
        yield made
        running = [psutil.Process(pid) for pid in made.pids]
    assert not psutil.wait_procs(running, timeout=10.0)[1]


def request(seed: int = 0, **more: Any) -> Request:
    return replace(Request([65 + seed % 20, 66, 67], Sampling(1.0), 12, n=4, seed=seed), **more)


def batch_of(answers: Sequence[tuple[Request, Generation]]) -> Batch:
    rows = [[*asked.prompt_ids, *answer.ids] for asked, answer in answers]
    segment = torch.repeat_interleave(torch.arange(len(rows)), torch.tensor([len(row) for row in rows]))
    logprobs = [[0.0] * len(asked.prompt_ids) + list(answer.logprobs) for asked, answer in answers]
    trained = torch.tensor([value != 0.0 for row in logprobs for value in row])
    return Batch(
        torch.tensor([token for row in rows for token in row]),
        torch.cat([torch.arange(len(row)) for row in rows]),
        segment,
        trained,
        torch.tensor([value for row in logprobs for value in row]),
        torch.where(trained, torch.randn(len(rows))[segment], 0.0),
        trained.float() / trained.sum(),
    )


def test_it_samples_from_the_weights_that_are_trained(stage: Stage) -> None:
    async def steps() -> None:
        for version in range(4):
            await stage.engine.pause()
            await stage.engine.update_weights(version)
            await stage.engine.resume()
            asked = [request(seed) for seed in range(8)]
            answers = await asyncio.gather(*map(stage.engine.generate, asked))
            pairs = [(one, each) for one, group in zip(asked, answers, strict=True) for each in group]
            assert {answer.weight_version for _, answer in pairs} == {version}
            batch = batch_of(pairs)
            found = stage.training.forward_backward(batch, Loss())
            assert found["training/rollout_probs_diff_max"] < 1e-5
            stage.training.optim_step(1e-2, 1.0)
        stale = stage.training.forward_backward(batch_of(pairs), Loss())
        assert stale["training/rollout_probs_diff_max"] > 1e-4

    asyncio.run(steps())


def test_seeds_limits_and_alternatives(stage: Stage) -> None:
    async def ask() -> None:
        first, second, other = await asyncio.gather(
            *map(stage.engine.generate, (request(3), request(3), request(4)))
        )
        assert [each.ids for each in first] == [each.ids for each in second]
        assert len({each.ids for each in first}) == 4 and first[0].ids != other[0].ids
        told: list[tuple[int, int]] = []
        (greedy,) = await stage.engine.generate(
            request(
                sampling=Sampling(0.0),
                n=1,
                top_logprobs=3,
                on_token=lambda index, token: told.append((index, token)),
            )
        )
        assert told == [(0, token) for token in greedy.ids]
        assert all(tops[0][0] == token for tops, token in zip(greedy.top_logprobs, greedy.ids, strict=True))
        assert greedy.finish_reason is FinishReason.LENGTH and len(greedy.ids) == 12
        end = greedy.ids[4]
        (cut,) = await stage.engine.generate(request(sampling=Sampling(0.0), n=1, stop_ids=(end,)))
        assert cut.ids == greedy.ids[: greedy.ids.index(end) + 1] and cut.finish_reason is FinishReason.STOP
        with pytest.raises(TrainingError, match="vLLM answers 400"):
            await stage.engine.generate(request(prompt_ids=[65] * 1000))

    asyncio.run(ask())


def test_nothing_starts_while_it_is_paused_and_who_gives_up_leaves(stage: Stage) -> None:
    async def hold() -> None:
        await stage.engine.pause()
        waiting, leaving = (asyncio.create_task(stage.engine.generate(request())) for _ in range(2))
        await asyncio.sleep(0.5)
        leaving.cancel()
        await asyncio.gather(leaving, return_exceptions=True)
        assert not waiting.done()
        await stage.engine.resume()
        assert len(await waiting) == 4
        given_up = asyncio.create_task(stage.engine.generate(request(max_tokens=100, n=32)))
        await asyncio.sleep(0.05)
        given_up.cancel()
        await asyncio.gather(given_up, return_exceptions=True)
        await asyncio.wait_for(stage.engine.pause(), 5.0)  # nothing is under way
        await stage.engine.resume()

    asyncio.run(hold())


def test_a_server_that_is_killed_comes_back_with_its_weights(stage: Stage) -> None:
    async def kill() -> None:
        await stage.engine.update_weights(9)
        before = await stage.engine.generate(request(sampling=Sampling(0.0), n=1))
        running = [psutil.Process(pid) for pid in stage.pids]
        asked = [
            asyncio.create_task(stage.engine.generate(request(seed, max_tokens=100))) for seed in range(16)
        ]
        await asyncio.sleep(0.1)
        for process in running[:2]:
            process.kill()
        answers = await asyncio.gather(*asked)
        assert all(len(group) == 4 for group in answers)
        again = await stage.engine.generate(request(sampling=Sampling(0.0), n=1))
        assert again[0].ids == before[0].ids and again[0].weight_version == 9
        assert again[0].logprobs == pytest.approx(before[0].logprobs, abs=1e-5)
        assert not psutil.wait_procs(running, timeout=10.0)[1]

    asyncio.run(kill())


def test_one_that_is_stopped_is_given_up_with_its_stacks(stage: Stage) -> None:
    server = stage.engine._server
    server.timeout_s, before = 8.0, server.computed()

    async def ask(request: Request) -> str:
        try:
            return str(await stage.engine.generate(request))
        except TrainingError as error:
            return str(error)

    assert before is not None and "ids=" in asyncio.run(ask(request()))
    assert server.computed() == before + 4 * (3 + 12)  # tokens that it reads and writes
    engine = next(
        each for each in map(psutil.Process, stage.pids) if "EngineCore" in " ".join(each.cmdline())
    )
    engine.suspend()
    try:
        assert "vLLM has computed no token for trainer_common.worker_timeout = 8 s" in asyncio.run(
            ask(request())
        )
        with pytest.raises(TrainingError, match="computed no token"):
            asyncio.run(stage.engine.update_weights(9))
    finally:
        engine.resume()
    assert "most recent call first" in server.log.read_text()


def test_what_cannot_be_started_is_said(model: str, vllm_python: str, tmp_path: Path) -> None:
    def start(**rollout: Any) -> None:
        config = config_of(
            model, experiment_dir=str(tmp_path), rollout={"vllm_python": vllm_python, **rollout}
        )
        with ExitStack() as closing:
            on_vllm(config.ajet, model, cast(Any, None), closing, say=lambda _: None)

    with pytest.raises(TrainingError, match="vllm_python: there is no interpreter /no/such/python"):
        start(vllm_python="/no/such/python")
    with pytest.raises(TrainingError, match="kv_cache_memory_bytes: one conversation of max_model_len"):
        start(max_model_len=10**8)
    with pytest.raises(TrainingError, match=r"vLLM ended at its start:(.|\n)*--no-such-flag"):
        start(vllm_arguments=["--no-such-flag"])
