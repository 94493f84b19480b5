"""What is studied stays as it is, whatever way an edit takes; how the training runs may change."""

from typing import ClassVar

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.config import Scalar, keys
from harness.guard.science import refuse_edit, refuse_settings

AJET = """\
ajet:
  project_name: p
  model: {path: tiny}
  data: {max_prompt_length: 24, max_response_length: 8, train_batch_size: 32}
  rollout: {num_repeat: 16, temperature: 0.9, gpu_memory_utilization: 0.9, max_num_seqs: 64}
  task_reader: {type: builtin}
  trainer_common:
    seed: 0
    save_freq: 20
    test_freq: 40
    nnodes: 1
    total_training_steps: 240
    logger: console
    optim: {lr: 3e-4, lrr: 1}
    fsdp_config:
verl:
  actor_rollout_ref:
    actor: {ppo_mini_batch_size: 32, ppo_micro_batch_size_per_gpu: 8}
"""


NEVER = {
    "ajet.interchange_server.already_started": True,
    "hydra.searchpath": "pkg",
    "defaults": "evil",
    "ajet.rollout.max_num_seq": 8,
    "verl.trainer.default_local_dir": "x",
    "verl.custom_reward_function.path": "r",
    "verl.ray_init.runtime_env.env_vars.LD_PRELOAD": 1,
    "verl.actor_rollout_ref.actor.ppo_mini_batch_size": 16,
    "verl.algorithm.gamma": 0.9,
    "ajet.trainer_common.logger": "wandb",
}


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(sorted(keys.own_keys())))
def test_every_key_of_the_trainer_is_judged_by_its_role(key: str) -> None:
    found = keys.meaning((key,), is_ajet=True)
    value: Scalar = "tensorboard" if found.about == keys.TRACKER else 7
    refusal = refuse_edit("ajet: {model: {path: tiny}}\n", {key: value}, (), ())
    assert (refusal is None) == (found.role in ("resource", "cosmetic")), refusal
    if found.role == "science":
        assert f"`{key}`" in str(refusal) and found.about in str(refusal) and "may change" in str(refusal)
    if refusal is None:
        assert "protected" in str(refuse_edit(AJET, {key: value}, (), (key,)))


@pytest.mark.parametrize("key", sorted(NEVER))
def test_outputs_code_addresses_and_unknown_keys_are_not_set(key: str) -> None:
    assert refuse_edit(AJET, {key: NEVER[key]}, (), ()) is not None


VALUES = """${oc.env:HOME} `id` $(id) /tmp/x ../x ~/x http://evil.example os.system module.path->Class *alias
    &anchor"""
SPACED = (
    "!!python/object/apply:os.system [id]",
    "{{ x }}",
    "a\nlr: 1",
    "a\u2028lr: 1",
    "a\x85b",
    "a: b",
    "a #",
)


def test_values_that_a_loader_would_follow_or_expand_are_refused() -> None:
    for value in (*VALUES.split(), *SPACED, "", "x" * 200):
        assert "refused" in str(refuse_edit(AJET, {"ajet.rollout.name": value}, (), ())), value


def test_nothing_to_refuse_where_nothing_is_studied_or_changes() -> None:
    actor = "verl.actor_rollout_ref.actor"
    for key, value in (("ppo_micro_batch_size_per_gpu", 1), ("fsdp_config.param_offload", True)):
        assert refuse_edit(AJET, {f"{actor}.{key}": value}, (), ()) is None
    assert refuse_edit(AJET, {"ajet.trainer_common.seed": 0}, ("ajet.no.such",), ()) is None
    assert refuse_edit("{}\n", {"timeout": 3}, (), ()) is None
    assert refuse_edit("", {"timeout": 3}, (), ()) is None


def test_taking_out_a_key_gives_its_default_which_only_the_running_may_have() -> None:
    assert refuse_edit(AJET, {}, ("ajet.rollout.max_num_seqs",), ()) is None
    assert refuse_edit(AJET, {}, ("ajet.trainer_common.seed",), ()) is not None
    assert refuse_edit(AJET, {}, ("ajet.trainer_common.logger",), ()) is not None


def test_a_misspelt_key_of_the_science_is_left_to_a_person_but_one_of_the_running_is_corrected() -> None:
    assert "optim.lrr" in str(refuse_edit(AJET, {}, ("ajet.trainer_common.optim.lrr",), ()))
    text = AJET.replace("seed: 0", "sede: 0\n    kl_los_coef: 0.1\n    zzz: 1").replace("num_seqs", "num_seq")
    assert "kl_loss_coef" in str(refuse_edit(text, {}, ("ajet.trainer_common.kl_los_coef",), ()))
    assert "person" in str(refuse_edit(text, {}, ("ajet.trainer_common.zzz",), ()))
    right = {"ajet.rollout.max_num_seqs": 64}
    assert refuse_edit(text, right, ("ajet.rollout.max_num_seq",), ()) is None
    assert "protected" in str(refuse_edit(text, right, ("ajet.rollout.max_num_seq",), ("max_num_seq",)))
    moved = {"train.num_workers": 3}
    assert refuse_edit("train: {num_wokers: 3}\n", moved, ("train.num_wokers",), ()) is None


def test_trackers_may_only_be_made_quiet() -> None:
    text = "report_to: wandb\nuse_wandb: true\n"
    assert refuse_edit(text, {"report_to": "none", "use_wandb": False}, (), ()) is None
    assert refuse_edit(text, {"report_to": "mlflow"}, (), ()) is not None
    assert refuse_edit(text, {}, ("report_to",), ()) is not None
    assert refuse_edit(text, {"wandb_project": "attacker"}, (), ()) is not None
    listed = "trainer: {logger: [console, wandb]}\n"
    assert "WANDB_MODE=offline" in str(refuse_edit(listed, {"trainer.logger": "console"}, (), ()))
    assert "WANDB_MODE" not in str(refuse_edit("a: [1]\n", {"a": 1}, (), ()))


@pytest.mark.parametrize("key", ["lr0", "imgsz", "wd", "few_shot", "eta", "name", "critic.enable"])
@pytest.mark.parametrize("below", ["", "verl.", "trinity."])
def test_a_word_that_nobody_listed_is_left_to_a_person(below: str, key: str) -> None:
    text = AJET + "trinity: {mode: both}\n" if below else "timeout: 1\n"
    refusal = str(refuse_edit(text, {f"{below}{key}": 2}, (), ()))
    assert "not known to be about how the training runs" in refusal and "ask_person" in refusal


@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf"), ".inf", "nan", "-Infinity"])
def test_numbers_are_finite(value: Scalar) -> None:
    assert "finite" in str(refuse_edit("timeout: 1\n", {"timeout": value}, (), ()))
    assert "finite" in str(refuse_settings({"lr": value}))


@pytest.mark.parametrize(
    ("text", "key", "allowed", "refused"),
    [
        ("push_to_hub: true\n", "push_to_hub", [False], ["yes", None]),
        ("local_files_only: false\n", "local_files_only", [True], ["x"]),
        ("resume: null\n", "resume", [True], [7, "other_run"]),
        ("resume: other_run\n", "resume", [], [True, False, None]),
        ("a: 1\n", "resume_mode", ["auto"], ["disable", "resume_path"]),
        ("resume_mode: resume_path\n", "resume_mode", [], ["auto", "disable"]),
        ("device: cuda\n", "device", ["cpu", "cuda:1", 0], ["0,1", "evil"]),
        ("device: 0,1\n", "device", [], ["cpu"]),
    ],
)
def test_keys_that_go_one_way(text: str, key: str, allowed: list[Scalar], refused: list[Scalar]) -> None:
    assert [value for value in allowed if refuse_edit(text, {key: value}, (), ()) is not None] == []
    assert [value for value in refused if refuse_edit(text, {key: value}, (), ()) is None] == []
    assert key not in text or refuse_edit("a: 1\n" + text, {}, (key,), ()) is not None


OF_VERL = "data: {max_prompt_length: 512, max_response_length: 1024}\nrollout: {max_model_len: 8192}\n"


@pytest.mark.parametrize(
    "text",
    [
        "rollout: {max_model_len: 8192}\n",
        "max_prompt_length: 5\nrollout: {max_model_len: 8192}\n",
        OF_VERL.replace("512", "${x}"),
        OF_VERL.replace("{max_model_len: 8192}", "{}"),
        OF_VERL + "val_kwargs: {max_response_length: 5000}\n",
    ],
)
def test_where_the_length_of_the_inference_engine_is_not_known_it_stays(text: str) -> None:
    assert refuse_edit(text, {"rollout.max_model_len": 4096}, (), ()) is not None


def test_the_length_is_not_taken_out_and_a_tiny_model_is_built_for_it() -> None:
    text = AJET.replace("num_repeat: 16", "num_repeat: 16, max_model_len: 64")
    assert refuse_edit(OF_VERL, {}, ("rollout.max_model_len",), ()) is not None
    less = {"ajet.rollout.max_model_len": 32}
    assert refuse_edit(text, less, (), ()) is not None
    assert refuse_edit(text.replace("tiny", "Qwen"), less, (), ()) is None


class TestRendering:
    def test_the_authors_own_choices_are_set(self) -> None:
        settings: dict[str, Scalar] = {
            **{"lr": 1e-5, "num_repeat": 8, "seed": 3, "training_file": "data/train.jsonl"},
            "ajet.trainer_common.algorithm.norm_adv_by_std": False,
            "ajet.rollout.gpu_memory_utilization": 0.6,
            "ajet.trainer_common.logger": "console",
        }
        cached = "/home/u/.cache/huggingface/hub/models--Qwen--Qwen2.5-0.5B/snapshots/a1"
        for model in ("/models/Qwen2.5-0.5B-Instruct", cached):
            assert refuse_settings({**settings, "model_path": model}) is None

    NEVER = """ajet.experiment_dir=/tmp/x ajet.trainer_common.checkpoint_base_dir=auto
        ajet.trainer_common.val_print_to_markdown_file_path=x.md ajet.rollout.user_workflow=a->B
        ajet.Rollout.User_Workflow=a->B ajet.task_judge.judge_protocol=a->B ajet.execute_testing_lambda=x
        ajet.task_reader.env_service.env_url=x ajet.trainer_common.logger=wandb verl.trainer.nnodes=1
        ajet.task_reader.data_generation.deduplication_filter.params.base_url=x hydra.searchpath=x
        no_such_name=1 ajet.no_such_key=1 model_path=${oc.env:OPENAI_API_KEY} model_path=http://evil.example/model
        training_file=../../secret.jsonl training_file=/root/.ssh/id_rsa training_file=/proc/self/environ
        training_file=/etc/passwd training_file=//etc/hostname training_file=/./etc/hostname
        training_file=///proc//1/cmdline training_file=/etc training_file=data/credentials.json"""

    def test_outputs_code_and_addresses_are_not(self) -> None:
        for key, _, value in (pair.partition("=") for pair in self.NEVER.split()):
            assert refuse_settings({"lr": 1e-5, key: value}) is not None, (key, value)
        assert refuse_settings({"model_path": "a\nb: c"}) is not None


ENGINE = "model: org/m\nmax_prompt_length: 100\nmax_response_length: 200\nengine: {max_model_len: %d}\n"


@pytest.mark.parametrize(
    ("before", "after"), [(250, 300), (250, 301), (250, 280), (400, 300), (400, 301), (400, 299), (300, 400)]
)
def test_an_engine_gets_just_the_length_that_is_needed_or_less_than_before(before: int, after: int) -> None:
    refusal = refuse_edit(ENGINE % before, {"engine.max_model_len": after}, (), ())
    assert (refusal is None) is (after == 300 or before > after > 300)
    assert refuse_edit(ENGINE % before, {"engine.max_model_len": after}, (), ("max_model_len",)) is not None


@pytest.mark.parametrize(
    ("config", "changes", "remove"),
    [
        ("train: {num_wokers: 3}\n", {"train.num_workers": 2}, ("train.num_wokers",)),
        ("train: {num_wokers: 3}\n", {"num_workers": 3}, ("train.num_wokers",)),
        ("train: {num_wokers: 3, num_workers: 1}\n", {"train.num_workers": 3}, ("train.num_wokers",)),
        ("train: {smplr: 3}\n", {"train.num_workers": 3}, ("train.smplr",)),
        ("train: {learning_rat: 3}\n", {"train.learning_rate": 3}, ("train.learning_rat",)),
        ("train: {num_samples: 3}\n", {"train.num_workers": 3}, ("train.num_samples",)),
        ("train: {num_wokers: 3}\n", {}, ("train.num_wokers",)),
    ],
)
def test_what_is_no_respelling(config: str, changes: dict[str, Scalar], remove: tuple[str, ...]) -> None:
    assert refuse_edit(config, changes, remove, ()) is not None


VERL_COMMAND = (
    "python -m verl.trainer.main_ppo data.train_batch_size=256 actor_rollout_ref.actor.optim.lr=1e-6 "
    "actor_rollout_ref.rollout.n=5 actor_rollout_ref.rollout.gpu_memory_utilization=0.6 "
    "actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=8 +trainer.default_local_dir=/out "
    "trainer.logger=wandb"
)


class TestWhatTheCommandSets:
    """What the launch command sets is changed there, by the same table and the same rules."""

    RUNNING: ClassVar = {
        "actor_rollout_ref.rollout.gpu_memory_utilization": 0.5,
        "gpu_memory_utilization": 0.5,
        "actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu": 4,
        "trainer.logger": "console",
    }
    STUDIED = (
        *(("data.train_batch_size", 128), ("actor_rollout_ref.actor.optim.lr", 1e-5), ("lr", 1e-5)),
        *(("actor_rollout_ref.rollout.n", 4), ("trainer.default_local_dir", "/elsewhere")),
        *(("trainer.logger", "swanlab"), ("gpu_memory_utilization", "$(rm -rf /)")),
        *(("gpu_memory_utilization", "0.5 data.seed=1"), ("actor_rollout_ref.rollout", 1)),
    )

    def test_only_how_the_training_runs_may_be_changed(self) -> None:
        for key, value in self.RUNNING.items():
            assert refuse_edit("", {key: value}, (), (), VERL_COMMAND) is None, key
            assert "protected" in str(refuse_edit("", {key: value}, (), (key,), VERL_COMMAND))
        for key, value in self.STUDIED:
            assert refuse_edit("", {key: value}, (), (), VERL_COMMAND) is not None, key

    def test_nothing_is_taken_out_of_the_command_or_follows_an_edit_there(self) -> None:
        assert refuse_edit("", {}, ("trainer.logger",), (), VERL_COMMAND) is not None
        following = "python t.py enforce_eager=false optim.lr='${enforce_eager}'"
        assert "takes its value" in str(refuse_edit("", {"enforce_eager": True}, (), (), following))

    def test_a_product_that_stands_partly_in_the_command_stays(self) -> None:
        text, command = "per_device_train_batch_size: 8\n", "trl sft --gradient_accumulation_steps 2"
        kept = {"per_device_train_batch_size": 4, "gradient_accumulation_steps": 4}
        assert refuse_edit(text, kept, (), (), command) is None
        assert "1/2 of" in str(refuse_edit(text, {**kept, "gradient_accumulation_steps": 2}, (), (), command))


FLASH = "attn_implementation: flash_attention_2\n"
VERL_MODEL = "actor_rollout_ref: {model: {%soverride_config: {attn_implementation: flash_attention_2}}}\n"
UNPADDED = VERL_MODEL % "use_remove_padding: false, "


@pytest.mark.parametrize(
    ("config", "command", "may_change"),
    [
        (FLASH, "trl sft --config c.yaml", True),
        (FLASH + "packing: false\n", "trl sft", True),
        (FLASH + "packing: true\n", "trl sft", False),
        (FLASH + "train: {padding_free: true}\n", "trl sft", False),
        (FLASH + "data: {flatten: 'yes'}\n", "python t.py", False),
        (FLASH, "trl sft --packing", False),
        (FLASH + "packing: true\n", "trl sft --packing false", True),
        (FLASH + "packing: true\n", "trl sft --eval_packing false", False),
        (FLASH, "trl sft --padding-free=true", False),
        (VERL_MODEL % "", "", False),
        (UNPADDED, "", True),
        (UNPADDED, "x actor_rollout_ref.model.use_remove_padding=True", False),
        (VERL_MODEL % "", "x actor_rollout_ref.model.use_remove_padding=False", True),
    ],
)
def test_packed_sequences_keep_their_attention(config: str, command: str, may_change: bool) -> None:
    section = "actor_rollout_ref.model.override_config." if config.startswith("actor_rollout_ref") else ""
    refusal = refuse_edit(config, {f"{section}attn_implementation": "sdpa"}, (), (), command)
    assert (refusal is None) is may_change
