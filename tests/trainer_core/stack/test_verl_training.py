"""verl's workers against the local engine: the same numbers, from one process and from two ranks."""

from __future__ import annotations

import copy
import importlib.util
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from tests.trainer_core.stack.conftest import config_of, random_batch
from trainer_core.backbone.verl import look, make_engines
from trainer_core.config.schema import Config
from trainer_core.engine.local_training import LocalTraining
from trainer_core.engine.protocols import TrainingEngine
from trainer_core.engine.start_model import load_model
from trainer_core.types import Batch, Loss, TaskSplits, TrainingError

if importlib.util.find_spec("verl") is None:  # to import it here would be too early for its environment
    pytest.skip("needs verl; `make test-stack` brings it", allow_module_level=True)

NO_TASKS = TaskSplits((), (), ())
CLOSE = 1e-6
"""Relative, of sums of float32."""


def engine(config: Config, closing: ExitStack) -> TrainingEngine:
    return make_engines(config, NO_TASKS, closing, say=lambda _: None, safe_point=lambda: None).training


def local(model: str, temperature: float = 0.9) -> LocalTraining:
    loaded = load_model(model).model
    return LocalTraining(loaded, copy.deepcopy(loaded), temperature=temperature)


@pytest.fixture(scope="module", params=[1, 2], ids=["one process", "two ranks on Ray"])
def verl(request: pytest.FixtureRequest, model: str) -> Iterator[TrainingEngine]:
    """In the order of the tests below the same engine goes on: each compares it with a local one."""
    with ExitStack() as closing:
        yield engine(config_of(model, trainer_common={"n_gpus_per_node": request.param}), closing)


def whole(batch: Batch, training: TrainingEngine) -> Batch:
    """With log-probabilities near those of the policy."""
    old = training.forward(batch) + batch.old_logprobs * batch.trained
    return replace(batch, old_logprobs=old, reference_logprobs=training.forward(batch, "reference"))


def test_the_same_steps(verl: TrainingEngine, model: str, tmp_path: Path) -> None:
    own, batch = local(model), random_batch()
    assert (verl.forward(batch) - own.forward(batch)).abs().max() < 2e-6
    batch = whole(batch, own)
    for name in ("ppo", "gspo", "cispo", "sapo", "dro", "importance_sampling", "cross_entropy"):
        loss = Loss(name, kl_coef=0.01)  # type: ignore[arg-type]
        expected = own.forward_backward(batch, loss) | own.optim_step(1e-3, 1.0)
        found = verl.forward_backward(batch, loss) | verl.optim_step(1e-3, 1.0)
        assert found == pytest.approx(expected, rel=CLOSE, abs=CLOSE), name
        assert (verl.forward(batch) - own.forward(batch)).abs().max() < 5e-6, name
    assert (verl.forward(batch, "reference") - batch.reference_logprobs).abs().max() < 2e-6
    verl.export(tmp_path)
    assert (local(str(tmp_path)).forward(batch) - verl.forward(batch)).abs().max() < 2e-6


def test_parts_add_up(verl: TrainingEngine) -> None:
    batch = whole(random_batch(seed=2), verl)
    verl.forward_backward(batch, Loss())
    together = verl.optim_step(0.0, 1.0)
    for keep in (torch.arange(7) < 3, torch.arange(7) >= 3):
        verl.forward_backward(batch.select(keep), Loss())
    assert verl.optim_step(0.0, 1.0) == pytest.approx(together, rel=1e-5)


def test_a_checkpoint_goes_on_exactly(verl: TrainingEngine, tmp_path: Path) -> None:
    batch = whole(random_batch(seed=3), verl)
    verl.save(tmp_path)
    before = verl.forward(batch)
    first = verl.forward_backward(batch, Loss()) | verl.optim_step(1e-3, 1.0)
    after = verl.forward(batch)
    verl.load(tmp_path)
    assert torch.equal(verl.forward(batch), before)
    assert verl.forward_backward(batch, Loss()) | verl.optim_step(1e-3, 1.0) == first
    assert torch.equal(verl.forward(batch), after)
    for shard in (tmp_path / "verl").glob("model_*"):
        shard.write_bytes(shard.read_bytes()[:1000])
    with pytest.raises(TrainingError, match="is damaged or of another model"):
        verl.load(tmp_path)


def test_what_is_not_finite_ends_it_and_leaves_the_weights(verl: TrainingEngine) -> None:
    batch = whole(random_batch(seed=4), verl)
    before = verl.forward(batch)
    broken = replace(batch, advantage=batch.advantage * float("inf"))
    with pytest.raises(TrainingError, match="diverged"):
        verl.forward_backward(broken, Loss())
    assert torch.equal(verl.forward(batch), before)
    good = verl.forward_backward(batch, Loss()) | verl.optim_step(0.0, 1.0)
    assert good["actor/grad_norm"] > 0


def test_an_adapter_without_which_it_is_the_start_model(model: str, tmp_path: Path) -> None:
    batch = random_batch(seed=5)
    with ExitStack() as closing:
        training = engine(config_of(model, lora={"lora_rank": 4}), closing)
        start = training.forward(batch)
        batch = replace(batch, old_logprobs=start)
        for _ in range(3):
            training.forward_backward(batch, Loss())
            training.optim_step(1e-2, 1.0)
        assert torch.equal(training.forward(batch, "reference"), start)
        assert (training.forward(batch) - start).abs().max() > 1e-3
        training.export(tmp_path)
        merged = local(str(tmp_path)).forward(batch)
        assert (merged - training.forward(batch)).abs().max() < 2e-6
        before = training.forward(batch)
        training.save(tmp_path / "saved")
        training.forward_backward(batch, Loss())
        training.optim_step(1e-2, 1.0)
        training.load(tmp_path / "saved")
        assert torch.equal(training.forward(batch), before)


def test_the_tree_is_verls(model: str) -> None:
    set_there = look(config_of(model))
    assert set_there["actor_rollout_ref.actor.optim.lr"] == 1e-3
    config = config_of(model).model_copy(
        update={"verl": {"actor_rollout_ref": {"actor": {"fsdp_config": {"fsdp_sise": 2}}}}}
    )
    with pytest.raises(TrainingError, match=r"is no key of verl .*nearest is verl\..*fsdp_config\.fsdp_size"):
        look(config)
    ours = config.model_copy(update={"verl": {"actor_rollout_ref": {"actor": {"optim": {"lr": 0.5}}}}})
    with pytest.raises(TrainingError, match=r"optim\.lr is set by ajet\.trainer_common\.optim\.lr"):
        look(ours)
    wrong = config.model_copy(
        update={"verl": {"actor_rollout_ref": {"actor": {"fsdp_config": {"strategy": "nonsense"}}}}}
    )
    with pytest.raises(TrainingError, match="nonsense"):
        look(wrong)


def test_megatrons_tree_and_objects_are_verls(model: str) -> None:
    from trainer_core.engine.verl.settings import check, verl_tree, worker_settings

    sizes = {"tensor_model_parallel_size": 2, "pipeline_model_parallel_size": 2}
    common = {"strategy": "megatron", "megatron": sizes, "device": "cuda", "model_dtype": "bf16"}
    own = {"use_distributed_optimizer": False}
    config = config_of(model, trainer_common={**common, "n_gpus_per_node": 8}).model_copy(
        update={"verl": {"actor_rollout_ref": {"actor": {"megatron": own}}}}
    )
    assert look(config)["actor_rollout_ref.actor.megatron.tensor_model_parallel_size"] == 2
    settings = worker_settings(tree := verl_tree(config))
    engine, optimizer = settings.engine_config, settings.optimizer_config
    assert (type(engine).__name__, type(optimizer).__name__) == ("McoreEngineConfig", "McoreOptimizerConfig")
    assert engine.pipeline_model_parallel_size == 2 and engine.param_offload
    assert not engine.use_distributed_optimizer and engine.sequence_parallel
    assert (optimizer.lr, optimizer.optimizer, optimizer.clip_grad) == (1e-3, "adam", 1.0)
    ours = config.model_copy(
        update={"verl": {"actor_rollout_ref": {"actor": {"megatron": {"param_offload": False}}}}}
    )
    with pytest.raises(TrainingError, match=r"param_offload is set by ajet\.trainer_common\.fsdp_config"):
        look(ours)
    if importlib.util.find_spec("megatron") is None:
        with pytest.raises(TrainingError, match="megatron-core is not installed here"):
            check(tree, starts=True, is_hybrid=False)


def test_more_workers_than_the_machine_has_places_for_are_refused(model: str) -> None:
    config = config_of(model, trainer_common={"ray": "cluster"})
    with ExitStack() as closing, pytest.raises(TrainingError, match="there is no Ray cluster at"):
        engine(config, closing)
