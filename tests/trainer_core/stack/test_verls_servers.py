"""Sampling through verl's own rollout: its hybrid workers, server manager and client, with a real vLLM behind
the plug-in of `benchmarks/_stock_verl.py`, as verl's own adapter for vLLM needs a GPU."""

from __future__ import annotations

import asyncio
import importlib.util
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

if importlib.util.find_spec("verl") is None:
    pytest.skip("needs verl; `make test-stack` brings it", allow_module_level=True)

from tests.trainer_core.stack.conftest import config_of
from tests.trainer_core.stack.test_vllm import batch_of, request
from trainer_core.backbone.verl import look, make_engines, prepare
from trainer_core.config.schema import Config
from trainer_core.engine.protocols import Engines, InferenceEngine
from trainer_core.engine.vllm.server import VllmServer
from trainer_core.types import FinishReason, Loss, Sampling, TaskSplits, TrainingError

PLUG_IN = {"actor_rollout_ref": {"model": {"external_lib": "benchmarks._stock_verl"}}}


def hybrid(model: str, workers: int, **raw: Any) -> Config:
    common = {"n_gpus_per_node": workers, "use_kl_loss": False}
    config = config_of(model, rollout={"inference": "verl", "temperature": 1.0}, trainer_common=common)
    return config.model_copy(update={"verl": raw or PLUG_IN})


def test_what_verl_cannot_do_here_is_refused(model: str) -> None:
    """The first one here: the plug-in stays in this process."""
    with pytest.raises(TrainingError, match="verl cannot start vllm from this environment"):
        look(hybrid(model, 1, trainer={"balance_batch": True}))
    rollout = {"checkpoint_engine": {"backend": "nccl"}}
    with pytest.raises(TrainingError, match="backend is nccl, but servers on the GPUs that train"):
        look(hybrid(model, 1, actor_rollout_ref={"rollout": rollout}))


class Client:
    """Stands for verl's, and answers when it is let."""

    def __init__(self) -> None:
        self.lets = asyncio.Event()
        self.asked: list[tuple[str, Any]] = []

    async def generate(self, request_id: str, *, prompt_ids: list[int], sampling_params: Any) -> Any:
        self.asked.append((request_id, sampling_params))
        await self.lets.wait()
        return SimpleNamespace(
            token_ids=[7], log_probs=[-0.5], stop_reason="completed", extra_fields={"global_steps": 3}
        )


def engine_of(model: str, client: Client, slept: list[int], limit_s: float = 60.0) -> InferenceEngine:
    prepare(hybrid(model, 1))
    from trainer_core.engine.verl.inference import VerlInference

    settings = SimpleNamespace(
        generation_config=SimpleNamespace(eos_token_id=[7]), tokenizer=SimpleNamespace(eos_token_id=None)
    )
    return VerlInference(
        client, lambda: slept.append(1), lambda _: None, settings, max_length=50, limit_s=limit_s
    )


def test_servers_sleep_when_all_that_was_asked_is_answered_also_what_nobody_waits_for(model: str) -> None:
    async def ask() -> None:
        client, slept = Client(), list[int]()
        engine = engine_of(model, client, slept)
        asked = [asyncio.create_task(engine.generate(request(5, session=("t", k, 0)))) for k in range(2)]
        await asyncio.sleep(0.05)
        asked[0].cancel()
        pause = asyncio.create_task(engine.pause())
        await asyncio.sleep(0.05)
        assert not slept and not pause.done()
        client.lets.set()
        await pause
        assert slept == [1] and asked[0].cancelled()
        (first, *_) = await asked[1]
        assert (first.ids, first.finish_reason, first.weight_version) == ((7,), FinishReason.STOP, 3)
        assert {name for name, _ in client.asked} == {"t-0", "t-1"}
        assert [each["seed"] for _, each in client.asked[:4]] == [5, 6, 7, 8]

    asyncio.run(ask())


def test_servers_that_answer_nothing_are_given_up(model: str) -> None:
    async def ask() -> None:
        with pytest.raises(TrainingError, match=r"answered nothing for .*worker_timeout = 0\.1 s"):
            await engine_of(model, Client(), [], limit_s=0.1).generate(request())

    asyncio.run(ask())


@pytest.fixture(scope="module")
def server(model: str, vllm_python: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """A vLLM that the plug-in finds."""
    folder = tmp_path_factory.mktemp("weights")
    own = config_of(model, rollout={"inference": "vllm", "vllm_python": vllm_python})
    running = VllmServer(own.ajet, model, folder / "vllm.log", folder)
    try:
        running.start()
        with pytest.MonkeyPatch.context() as patched:
            patched.setenv("STOCK_SOCKET", running.socket)
            patched.setenv("STOCK_WEIGHTS", str(folder))
            patched.setenv("PYTHONPATH", str(Path(__file__).parents[3]))
            yield
    finally:
        running.close()


@pytest.fixture(scope="module", params=[1, 2], ids=["one worker", "two workers"])
def engines(request: pytest.FixtureRequest, model: str, server: None) -> Iterator[Engines]:
    with ExitStack() as closing:
        yield make_engines(
            hybrid(model, request.param),
            TaskSplits((), (), ()),
            closing,
            say=lambda _: None,
            safe_point=lambda: None,
        )


def test_every_update_reaches_the_servers(engines: Engines) -> None:
    training, inference = engines.training, engines.inference

    async def steps() -> None:
        await inference.update_weights(0)
        for version in range(6):
            asked = [request(seed, session=(f"task {seed}", 0, seed)) for seed in range(8)]
            answers = await asyncio.gather(*map(inference.generate, asked))
            pairs = [(one, each) for one, group in zip(asked, answers, strict=True) for each in group]
            assert {answer.weight_version for _, answer in pairs} == {version}
            assert all(len({each.ids for each in group}) == 4 for group in answers)
            await inference.pause()
            waiting = asyncio.create_task(inference.generate(request()))
            found = training.forward_backward(batch_of(pairs), Loss())
            print(f"update {version}: {found['training/rollout_probs_diff_max']:.1e}")
            assert found["training/rollout_probs_diff_max"] < 1e-5
            training.optim_step(1e-2, 1.0)
            assert not waiting.done()
            await inference.update_weights(version + 1)
            await inference.resume()
            assert {each.weight_version for each in await waiting} == {version + 1}
        stale = training.forward_backward(batch_of(pairs), Loss())
        assert stale["training/rollout_probs_diff_max"] > 1e-4

    asyncio.run(steps())


def test_seeds_ends_and_limits(engines: Engines) -> None:
    ask = engines.inference.generate

    async def answers() -> None:
        first, second = await asyncio.gather(ask(request(3)), ask(request(3)))
        assert [each.ids for each in first] == [each.ids for each in second]
        told: list[tuple[int, int]] = []
        greedy = {"sampling": Sampling(0.0), "n": 1}
        (whole,) = await ask(request(**greedy, on_token=lambda *token: told.append(token)))
        assert told == [(0, token) for token in whole.ids] and whole.finish_reason is FinishReason.LENGTH
        (cut,) = await ask(request(**greedy, stop_ids=(whole.ids[4],)))
        assert cut.ids == whole.ids[: whole.ids.index(whole.ids[4]) + 1]
        (last,) = await ask(request(**greedy, max_tokens=len(cut.ids), stop_ids=(whole.ids[4],)))
        assert {cut.finish_reason, last.finish_reason} == {FinishReason.STOP}
        with pytest.raises(TrainingError, match=r"rollout\.max_model_len = 116 no room is left"):
            await ask(request(prompt_ids=[65] * 116))
        with pytest.raises(TrainingError, match="tell no top_logprobs"):
            await ask(request(top_logprobs=1))

    asyncio.run(answers())


def test_a_server_that_dies_ends_the_run_in_words(engines: Engines) -> None:
    import ray

    ray.kill(ray.get_actor("benchmark-server-0"))

    async def fail() -> None:
        with pytest.raises(TrainingError, match=r"a server of verl failed .ActorDiedError"):
            await asyncio.gather(*(engines.inference.generate(request()) for _ in range(4)))
        with pytest.raises(TrainingError, match="a server or worker of verl failed"):
            await engines.inference.pause()

    asyncio.run(fail())
