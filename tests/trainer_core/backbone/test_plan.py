"""What `ajet --dry-run` says a run would do, against runs."""

import json
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from transformers import AutoConfig, AutoModelForCausalLM

from tests.trainer_core.backbone.test_process import start
from trainer_core.backbone.plan import Plan, make_plan, told
from trainer_core.config.schema import Config
from trainer_core.engine.shape import ModelShape, decoder_shape, shape_of_folder
from trainer_core.engine.tiny_model import TinyModel, make_model, make_tokenizer
from trainer_core.types import DataError, TrainingError

TinyConfig = Callable[..., Config]


def jsonl(folder: Path, questions: int, name: str = "train.jsonl", first: int = 0) -> str:
    path = folder / name
    rows = [{"question": f"q{number}", "answer": "1"} for number in range(first, first + questions)]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(path)


def plan_of(ajet: dict[str, Any]) -> Plan:
    base = {"model": {"path": "tiny"}, "task_reader": {"type": "builtin"}}
    return make_plan(Config.model_validate({"ajet": base | ajet}).ajet)


def keys(plan: Plan) -> list[str]:
    return [doubt.key.removeprefix("ajet.") for doubt in plan.doubts]


def peak_memory(pid: int) -> int:
    """Bytes; 0 where it cannot be read. What `wait4` tells counts the process that it was forked from."""
    with suppress(OSError):
        for line in Path(f"/proc/{pid}/status").read_text().splitlines():
            if line.startswith("VmHWM"):
                return int(line.split()[1]) * 1024
    return 0


def test_counts_are_those_of_the_run(tiny_config: TinyConfig, tmp_path: Path) -> None:
    files = {"training": {"file_path": jsonl(tmp_path, 42)}}
    files["validation"] = {"file_path": jsonl(tmp_path, 3, "val.jsonl", first=60)}
    reader = {"type": "jsonl_dataset_file", "jsonl_dataset_file": files}
    config = tiny_config(task_reader=reader, total_training_steps=None, total_epochs=1)
    plan = make_plan(config.ajet)
    process = start(config, tmp_path)
    assert process.stdout is not None
    output, peak = "", 0
    for line in process.stdout:
        output, peak = output + line, max(peak, peak_memory(process.pid))
    assert process.wait() == 0, output
    training, steps = plan.schedule.training_tasks, plan.schedule.total_steps
    assert f"{training} training tasks, {plan.validation_tasks} validation tasks, {steps} steps" in output
    folder = Path(config.ajet.experiment_dir)
    rows = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    assert [row["step"] for row in rows if row["step"]] == list(range(1, (steps or 0) + 1))
    validated = [json.loads(line)["step"] for line in (folder / "validation.jsonl").read_text().splitlines()]
    assert len(set(validated)) == plan.validations
    assert plan.memory is not None
    if sys.platform == "linux":
        assert 0.7 < sum(plan.memory.values()) / peak < 1.4


@pytest.mark.parametrize(("heads", "keys_and_values"), [(4, 4), (4, 2), (8, 1)])
def test_a_tiny_model_is_counted_to_the_parameter(heads: int, keys_and_values: int) -> None:
    tokenizer = make_tokenizer()
    model = make_model(TinyModel("qwen2", 64, 3, heads, keys_and_values, 96, 64, 0), tokenizer)
    tiny = {"hidden_size": 64, "num_hidden_layers": 3, "num_attention_heads": heads, "intermediate_size": 96}
    plan = plan_of({"model": {"path": "tiny", "tiny": tiny | {"num_key_value_heads": keys_and_values}}})
    assert plan.parameters == model.num_parameters()


@pytest.mark.parametrize("kind", ["qwen2", "llama", "gpt2", "mixtral"])
def test_the_parameters_of_a_folder_are_read_off_its_weights(kind: str, tmp_path: Path) -> None:
    sizes = {"vocab_size": 99, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4}
    config = AutoConfig.for_model(kind, **sizes, bos_token_id=None, eos_token_id=1, pad_token_id=0)
    model = AutoModelForCausalLM.from_config(config)
    model.save_pretrained(tmp_path)
    shape = shape_of_folder(tmp_path)
    assert isinstance(shape, ModelShape)
    assert shape.parameters == model.num_parameters()
    assert (shape.hidden_size, shape.layers, shape.vocabulary) == (32, 2, 99)


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"hidden_size": "x"}', "\x00", '{"hidden_size": 1e400}'])
def test_a_config_json_that_says_nothing_gives_no_estimate(text: str, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(text)
    assert shape_of_folder(tmp_path) is None
    config = Config.model_validate(
        {"ajet": {"model": {"path": str(tmp_path)}, "task_reader": {"type": "builtin"}}}
    )
    assert any("not estimated" in line for line in told(make_plan(config.ajet), config.ajet))


@pytest.mark.parametrize("where", ["user_workflow", "judge_protocol"])
def test_code_of_the_users_is_loaded(where: str, tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text("class Mine: pass\n")
    named = {where: f"{tmp_path / 'mine.py'}->Yours"}
    key = "rollout" if where == "user_workflow" else "task_judge"
    with pytest.raises(TrainingError, match=f"{where}: .*mine.py has no class 'Yours'; it has Mine"):
        plan_of({key: named})


def test_the_largest_part_is_named_first() -> None:
    plan = plan_of({"data": {"train_batch_size": 256}, "rollout": {"ppo_max_token_len_per_gpu": 200_000}})
    assert plan.memory is not None
    assert list(plan.memory.values()) == sorted(plan.memory.values(), reverse=True)
    assert next(iter(plan.memory)) == "activations"
    assert "reference copy" in plan.memory
    without = plan_of({"trainer_common": {"use_kl_loss": False}})
    assert without.memory is not None
    assert "reference copy" not in without.memory


def test_memory_follows_the_keys_that_save_it() -> None:
    def memory(**ajet: Any) -> dict[str, int]:
        return plan_of(ajet).memory or {}

    full = memory()
    halved = memory(trainer_common={"model_dtype": "bf16"})
    assert [halved[part] * 2 for part in ("weights", "activations")] == [
        full[part] for part in ("weights", "activations")
    ]
    assert halved["optimizer"] == full["optimizer"] and halved["float32 weights"] == full["weights"]
    adapted = memory(lora={"lora_rank": 2})
    assert adapted["optimizer"] < full["optimizer"] / 4 and "reference copy" not in adapted
    recomputed = memory(trainer_common={"enable_gradient_checkpointing": True})
    assert recomputed["activations"] < full["activations"]
    assert memory(rollout={"kv_cache_memory_bytes": 10**7})["KV cache"] <= 10**7


def test_a_text_model_inside_another_is_found() -> None:
    inner = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "vocab_size": 50}
    assert decoder_shape({"text_config": inner}) == decoder_shape(inner)


def test_fewer_groups_than_mini_batches_are_told() -> None:
    batch = {"data": {"train_batch_size": 4}, "rollout": {"num_repeat": 4}}
    common = {"mini_batch_num": 8, "mini_batch_of": "group"}
    plan = plan_of(batch | {"trainer_common": common})
    assert (plan.schedule.mini_batches, plan.schedule.samples_per_mini_batch) == (4, 4)
    assert keys(plan) == ["trainer_common.mini_batch_num"]
    assert keys(plan_of(batch | {"trainer_common": {"mini_batch_num": 8}})) == []


@pytest.mark.parametrize("common", [{"total_training_steps": 5}, {"total_epochs": 1}])
def test_a_warm_up_beyond_the_last_step_is_told(common: dict[str, int], tmp_path: Path) -> None:
    """By the steps asked for, or by those that the tasks give: 20 of 4."""
    files = {"training": {"file_path": jsonl(tmp_path, 20)}}
    reader = {"type": "jsonl_dataset_file", "jsonl_dataset_file": files}
    ajet = {"task_reader": reader, "data": {"train_batch_size": 4}}
    trainer = common | {"test_freq": -1}
    assert keys(plan_of(ajet | {"trainer_common": trainer | {"optim": {"lr_warmup_steps": 5}}})) == [
        "trainer_common.optim.lr_warmup_steps"
    ]
    assert keys(plan_of(ajet | {"trainer_common": trainer | {"optim": {"lr_warmup_steps": 4}}})) == []


def test_tasks_left_out_and_questions_in_both_splits_are_told(tmp_path: Path) -> None:
    files = {
        "training": {"file_path": jsonl(tmp_path, 50)},
        "validation": {"file_path": jsonl(tmp_path, 3, "val.jsonl", first=48)},
    }
    plan = plan_of({"task_reader": {"type": "jsonl_dataset_file", "jsonl_dataset_file": files}})
    assert (plan.schedule.steps_per_epoch, plan.schedule.tasks_left_out) == (1, 18)
    assert keys(plan) == ["data.train_batch_size", "task_reader.type"]
    assert "2 validation questions are also trained on" in plan.doubts[1].why


def test_a_batch_that_the_data_does_not_fill_cannot_be_trained(tmp_path: Path) -> None:
    files = {"training": {"file_path": jsonl(tmp_path, 3)}}
    reader = {"type": "jsonl_dataset_file", "jsonl_dataset_file": files}
    with pytest.raises(DataError, match="only 3 training tasks"):
        plan_of({"task_reader": reader, "trainer_common": {"test_freq": -1}})


def test_more_memory_than_the_machine_has_is_told() -> None:
    plan = plan_of({"rollout": {"ppo_max_token_len_per_gpu": 10**9, "num_repeat": 10**5}})
    assert "trainer_common.enable_gradient_checkpointing" in keys(plan)


def test_a_saved_data_set_is_counted_and_its_splits_are_known(tmp_path: Path) -> None:
    import datasets

    rows = [{"question": "q", "answer": "a"}]
    saved = {name: datasets.Dataset.from_list(rows * count) for name, count in (("train", 70), ("test", 9))}
    datasets.DatasetDict(saved).save_to_disk(tmp_path / "saved")
    repo = {"dataset_path": str(tmp_path / "saved"), "validation_split": "test"}
    judge = {"task_judge": {"judge_type": "exact_match"}}
    plan = plan_of({"task_reader": {"huggingface_dat_repo": repo}} | judge)
    assert (plan.schedule.training_tasks, plan.schedule.steps_per_epoch, plan.validation_tasks) == (70, 2, 9)
    with pytest.raises(DataError, match="no split 'validation'; it has train, test"):
        plan_of({"task_reader": {"huggingface_dat_repo": repo | {"validation_split": "validation"}}} | judge)


def test_tasks_that_a_model_will_write_are_counted_without_asking_it(tmp_path: Path) -> None:
    (tmp_path / "notes.md").write_text("Ada was born in 1815.")
    generation = {"document_reader": {"document_path": [str(tmp_path / "notes.md")]}, "task_num": 100}
    reader = {"type": "data_generation", "data_generation": generation}
    ajet = {"task_reader": reader, "model": {"path": "tiny"}}
    plan = plan_of(ajet)
    assert (plan.schedule.training_tasks, plan.schedule.steps_per_epoch, plan.validation_tasks) == (70, 2, 30)
    assert not plan.tasks_are_written
    line = next(told(plan, Config.model_validate({"ajet": ajet}).ajet))
    assert line.endswith("at most 70 training tasks, 30 validation tasks; qwen-long has yet to write those "
                         "that are not cached")  # fmt: skip
    generation["document_reader"] = {"document_path": [str(tmp_path / "nothing.md")]}
    with pytest.raises(DataError, match=r"cannot read .*nothing\.md"):
        plan_of(ajet)


def test_a_data_set_in_the_cache_of_the_hub_is_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_DATASETS_CACHE", str(tmp_path))
    info = tmp_path / "openai___gsm8k" / "main" / "0.0.0" / "abc" / "dataset_info.json"
    info.parent.mkdir(parents=True)
    splits = {"train": {"num_examples": 7473}, "test": {"num_examples": 1319}}
    info.write_text(json.dumps({"splits": splits}))
    repo = {"dataset_path": "openai/gsm8k", "dataset_name": "main", "validation_split": "test"}
    judge = {"judge_type": "exact_match"}
    plan = plan_of({"task_reader": {"huggingface_dat_repo": repo}, "task_judge": judge})
    assert (plan.schedule.steps_per_epoch, plan.validation_tasks) == (233, 1319)
    with pytest.raises(DataError, match=r"there is no .*/nowhere"):
        plan_of({"task_reader": {"huggingface_dat_repo": {"dataset_path": "./nowhere"}}, "task_judge": judge})
    file = {"dataset_path": jsonl(tmp_path, 3)}
    with pytest.raises(DataError, match="is one data file"):
        plan_of({"task_reader": {"huggingface_dat_repo": file}, "task_judge": judge})
    unknown = plan_of({"task_reader": {"huggingface_dat_repo": {"dataset_path": "a/b"}}, "task_judge": judge})
    assert (unknown.schedule.total_steps, unknown.validations) == (None, None)
