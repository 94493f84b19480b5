"""What is studied stays as it is, whatever way an edit takes; how the training runs may change."""

import math
from collections.abc import Collection

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness import config_edit
from harness.agent.allowed import config_keys, effects
from harness.agent.allowed.science import refuse_edit, refuse_settings
from harness.config_edit import Scalar

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


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("ajet.rollout.gpu_memory_utilization", 0.6),
        ("ajet.rollout.max_num_seqs", 16),
        ("ajet.rollout.tensor_model_parallel_size", 2),
        ("ajet.rollout.name", "sglang"),
        ("ajet.trainer_common.nnodes", 2),
        ("ajet.trainer_common.save_freq", 5),
        ("ajet.trainer_common.fsdp_config.param_offload", True),
        ("ajet.trainer_common.max_checkpoints_to_keep", 2),
        ("ajet.interchange_server.interchange_server_port", 18080),
        ("ajet.task_runner.wrapper_multiprocessing_timeout", 7200),
        ("ajet.trainer_common.logger", "tensorboard"),
        ("verl.actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu", 1),
        ("verl.actor_rollout_ref.actor.fsdp_config.param_offload", True),
    ],
)
def test_how_the_training_runs_may_change(key: str, value: Scalar) -> None:
    assert refuse_edit(AJET, {key: value}, (), ()) is None
    assert "protected" in str(refuse_edit(AJET, {key: value}, (), (key,)))


@pytest.mark.parametrize(
    ("key", "value", "told"),
    [
        ("ajet.model.path", "Qwen/Qwen2-0.5B", "model"),
        ("ajet.task_reader.type", "random_dummy", "data"),
        ("ajet.trainer_common.optim.lr", 1e-5, "optimizer"),
        ("ajet.trainer_common.algorithm.adv_estimator", "rloo", "algorithm"),
        ("ajet.trainer_common.kl_loss_coef", 0.1, "algorithm"),
        ("ajet.rollout.temperature", 0.1, "sampling"),
        ("ajet.task_judge.judge_type", "exact_match", "reward"),
        ("ajet.lora.lora_rank", 8, "LoRA"),
        ("ajet.data.max_response_length", 4, "length"),
        ("ajet.rollout.max_model_len", 16, "length"),
        ("ajet.data.train_batch_size", 16, "batch"),
        ("ajet.rollout.num_repeat", 4, "batch"),
        ("ajet.trainer_common.mini_batch_num", 2, "batch"),
        ("ajet.trainer_common.seed", 1, "seed"),
        ("ajet.trainer_common.total_training_steps", 10, "amount of training"),
        ("ajet.trainer_common.val_pass_n", 1, "validation"),
        ("ajet.trainer_common.test_freq", -1, "validation"),
        ("ajet.rollout.val_kwargs.temperature", 0.0, "validation"),
        ("ajet.backbone", "debug", "algorithm"),
        ("verl.actor_rollout_ref.actor.ppo_mini_batch_size", 16, "batch"),
        ("verl.algorithm.gamma", 0.9, "algorithm"),
    ],
)
def test_what_is_studied_stays(key: str, value: Scalar, told: str) -> None:
    refusal = str(refuse_edit(AJET, {key: value}, (), ()))
    assert f"`{key}`" in refusal and told in refusal and "may change" in refusal


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("ajet.rollout.user_workflow", "evil.module->Workflow"),
        ("ajet.task_judge.judge_protocol", "evil.py->Judge"),
        ("ajet.experiment_dir", "elsewhere"),
        ("ajet.experiment_name", "other"),
        ("ajet.trainer_common.checkpoint_base_dir", "auto"),
        ("ajet.trainer_common.val_print_to_markdown_file_path", "x.md"),
        ("ajet.execute_testing_lambda", "print"),
        ("ajet.task_reader.huggingface_dat_repo.http_proxy_address", "proxy"),
        ("ajet.trainer_common.logger", "wandb"),
        ("ajet.interchange_server.already_started", True),
        ("hydra.searchpath", "pkg"),
        ("defaults", "evil"),
        ("ajet.rollout.max_num_seq", 8),
        ("verl.trainer.default_local_dir", "x"),
        ("verl.custom_reward_function.path", "r"),
        ("verl.ray_init.runtime_env.env_vars.LD_PRELOAD", 1),
    ],
)
def test_outputs_code_addresses_and_unknown_keys_are_not_set(key: str, value: Scalar) -> None:
    assert refuse_edit(AJET, {key: value}, (), ()) is not None


@pytest.mark.parametrize(
    "value",
    [
        "${oc.env:HOME}",
        "`id`",
        "$(id)",
        "!!python/object/apply:os.system [id]",
        "/tmp/x",
        "../x",
        "~/x",
        "http://evil.example",
        "os.system",
        "module.path->Class",
        "{{ x }}",
        "*alias",
        "&anchor",
        "a\nlr: 1",
        "a\u2028lr: 1",
        "a\x85b",
        "a: b",
        "a #b",
        "",
        "x" * 200,
    ],
)
def test_values_that_a_loader_would_follow_or_expand_are_refused(value: str) -> None:
    assert "refused" in str(refuse_edit(AJET, {"ajet.rollout.name": value}, (), ()))


class TestTheWaysAround:
    """Each of these changes the science without naming its key."""

    def test_an_anchor_that_a_harmless_key_shares(self) -> None:
        text = "shared: &s {steps_per_log: 1, timeout: 5}\ntrain: {timeout_s: 1}\noptim: *s\n"
        assert refuse_edit(text, {"shared.timeout": 6}, (), ()) is not None, "it stands below optim as well"
        assert refuse_edit(text, {"train.timeout_s": 6}, (), ()) is None

    def test_a_mapping_that_is_merged_elsewhere(self) -> None:
        text = "base: &b {timeout: 1, lr: 1}\nrun: {<<: *b}\noptim: {<<: *b}\n"
        assert "`optim.timeout`" in str(refuse_edit(text, {"base.timeout": 2}, (), ()))
        assert refuse_edit(text, {"run.timeout": 2}, (), ()) is None, "an own key changes only this mapping"

    @pytest.mark.parametrize(
        "parent", ["ajet", "ajet.model", "ajet.trainer_common", "ajet.trainer_common.optim", "verl"]
    )
    def test_taking_out_a_parent(self, parent: str) -> None:
        assert refuse_edit(AJET, {}, (parent,), ()) is not None

    @pytest.mark.parametrize("parent", ["ajet.model", "ajet.data", "ajet.trainer_common.optim"])
    def test_replacing_a_section_by_a_value_or_an_empty_one(self, parent: str) -> None:
        for value in (None, 1, "x"):
            assert refuse_edit(AJET, {parent: value}, (), ()) is not None

    def test_a_second_spelling_of_the_same_key(self) -> None:
        for key in ("ajet.trainer_common.optim.LR", "ajet.Trainer_Common.optim.lr", "AJET.model.path"):
            assert refuse_edit(AJET, {key: 1}, (), ()) is not None

    def test_a_key_with_dots_inside(self) -> None:
        text = '"optim.lr": 1\nrun: {timeout: 3}\n'
        assert refuse_edit(text, {"optim.lr": 2}, (), ()) is not None

    @pytest.mark.parametrize(
        "key",
        ["", ".", "ajet.", ".lr", "a..b", "<<", "a: b", "a\nlr", "*x", "ajet.rollout.name ", "lr", "${x}.y"],
    )
    def test_keys_that_are_no_keys(self, key: str) -> None:
        assert refuse_edit("optim: {lr: 1}\n", {key: 3}, (), ()) is not None

    def test_an_entry_of_a_list(self) -> None:
        text = "runs:\n- {lr: 1, timeout: 3}\n"
        assert refuse_edit(text, {"runs.0.lr": 2}, (), ()) is not None
        assert refuse_edit(text, {"runs": "x"}, (), ()) is not None

    def test_a_science_key_that_a_harmless_name_hides_in_a_section(self) -> None:
        assert refuse_edit("optim: {verbose: 1}\n", {"optim.verbose": 2}, (), ()) is not None

    def test_a_protected_key_through_its_alias(self) -> None:
        text = "a: &a {num_workers: 1}\nb: *a\n"
        assert "protected" in str(refuse_edit(text, {"a.num_workers": 2}, (), ("b.num_workers",)))

    def test_a_merged_key_is_not_taken_out(self) -> None:
        text = "base: &b {timeout: 1}\nrun: {<<: *b}\n"
        assert "set it instead" in str(refuse_edit(text, {}, ("base.timeout",), ()))

    def test_a_config_that_cannot_be_read_is_not_edited(self) -> None:
        for text in ("a: [\n", "- 1\n", "a: 1\na: 2\n", "a: &a\n  b: *a\n"):
            assert "cannot be made" in str(refuse_edit(text, {"timeout": 2}, (), ()))


def test_nothing_to_refuse_where_nothing_changes() -> None:
    assert refuse_edit(AJET, {"ajet.trainer_common.seed": 0}, ("ajet.no.such",), ()) is None
    assert refuse_edit("{}\n", {"timeout": 3}, (), ()) is None
    assert refuse_edit("", {"timeout": 3}, (), ()) is None


def test_taking_out_a_key_gives_its_default_which_only_the_running_may_have() -> None:
    assert refuse_edit(AJET, {}, ("ajet.rollout.max_num_seqs",), ()) is None
    assert refuse_edit(AJET, {}, ("ajet.trainer_common.seed",), ()) is not None
    assert refuse_edit(AJET, {}, ("ajet.trainer_common.logger",), ()) is not None


def test_a_misspelt_key_of_the_science_is_left_to_a_person() -> None:
    assert "optim.lrr" in str(refuse_edit(AJET, {}, ("ajet.trainer_common.optim.lrr",), ()))
    text = AJET.replace("seed: 0", "sede: 0\n    kl_los_coef: 0.1\n    zzz: 1")
    assert "kl_loss_coef" in str(refuse_edit(text, {}, ("ajet.trainer_common.kl_los_coef",), ()))
    assert "person" in str(refuse_edit(text, {}, ("ajet.trainer_common.zzz",), ()))


def test_a_misspelt_key_of_the_running_may_be_corrected() -> None:
    text = AJET.replace("max_num_seqs: 64", "max_num_seq: 64")
    right = {"ajet.rollout.max_num_seqs": 64}
    assert refuse_edit(text, right, ("ajet.rollout.max_num_seq",), ()) is None


def test_trackers_may_only_be_made_quiet() -> None:
    text = "report_to: wandb\nuse_wandb: true\n"
    assert refuse_edit(text, {"report_to": "none", "use_wandb": False}, (), ()) is None
    assert refuse_edit(text, {"report_to": "mlflow"}, (), ()) is not None
    assert refuse_edit(text, {}, ("report_to",), ()) is not None
    assert refuse_edit(text, {"wandb_project": "attacker"}, (), ()) is not None


_KEYS = [
    *(
        "ajet.rollout.max_num_seqs",
        "ajet.rollout.temperature",
        "ajet.trainer_common.optim.lr",
        "ajet.model.path",
    ),
    *(
        "ajet.trainer_common",
        "ajet.model",
        "ajet.trainer_common.fsdp_config.param_offload",
        "extra.max_num_seqs",
    ),
    *("ajet.rollout.num_repeat", "ajet.trainer_common.nnodes", "verl.trainer.nnodes", "verl.algorithm.gamma"),
    *("ajet.rollout", "extra", "verl.actor.lr", "ajet.data.train_batch_size"),
]
_SMALL = """\
ajet: &all
  model: {path: tiny}
  rollout: &r {temperature: 0.9, max_num_seqs: 64}
  trainer_common: {nnodes: 1, optim: {lr: 3e-4}}
"""
_TEXTS = [
    _SMALL,
    _SMALL + "extra: *r\n",
    _SMALL + "verl: *all\n",
    "extra: &e {max_num_seqs: 2, lr: 1}\najet:\n  rollout:\n    <<: *e\n    temperature: 1\n  model: *e\n",
]
_SCALARS = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=12))


@settings(max_examples=40, deadline=None)
@given(
    st.sampled_from(_TEXTS),
    st.dictionaries(st.sampled_from(_KEYS), _SCALARS, max_size=3),
    st.lists(st.sampled_from(_KEYS), max_size=2),
    st.lists(st.sampled_from(_KEYS), max_size=1),
)
def test_no_accepted_edit_changes_what_is_studied(
    text: str, changes: dict[str, Scalar], remove: list[str], protected: list[str]
) -> None:
    if refuse_edit(text, changes, remove, protected) is not None:
        return
    after = config_edit.edit(text, changes, remove)
    assert _studied(after, protected) == _studied(text, protected)


_FOREIGN_KEYS = [
    *("per_device_train_batch_size", "gradient_accumulation_steps", "num_gpus", "learning_rate", "timeout_s"),
    *("optim.lr", "optim.timeout_s", "run", "run.timeout_s", "optim", "other.num_workers", "seed", "name"),
]
_FOREIGN_TEXTS = [
    "per_device_train_batch_size: 8\ngradient_accumulation_steps: 2\nlearning_rate: 1\nseed: 0\n",
    "run: &r {timeout_s: 1, lr: 3}\noptim: *r\nother: {<<: *r, num_workers: 2}\n",
    "per_device_train_batch_size: 4\nnum_gpus: 2\nrun: {timeout_s: 1}\noptim: {lr: 1}\n",
]
_BATCH = ("per_device_train_batch_size", "gradient_accumulation_steps", "num_gpus")


@settings(max_examples=60, deadline=None)
@given(
    st.sampled_from(_FOREIGN_TEXTS),
    st.dictionaries(
        st.sampled_from(_FOREIGN_KEYS), st.one_of(st.sampled_from([1, 2, 4, 8, 16]), _SCALARS), max_size=3
    ),
    st.lists(st.sampled_from(_FOREIGN_KEYS), max_size=2),
)
def test_nor_in_a_foreign_config_where_batches_may_be_cut_up(
    text: str, changes: dict[str, Scalar], remove: list[str]
) -> None:
    if refuse_edit(text, changes, remove, ()) is not None:
        return
    after = config_edit.edit(text, changes, remove)
    assert _studied(after, [], _BATCH) == _studied(text, [], _BATCH)
    assert _product(after) == _product(text)


def _product(text: str) -> int | None:
    """The effective batch, None where the config does not speak of one."""
    data = config_edit.load(text)
    return math.prod(int(data.get(name, 1)) for name in _BATCH) if _BATCH[0] in data else None


def _studied(text: str, protected: list[str], but: Collection[str] = ()) -> dict[effects.Path, effects.Value]:
    found = effects.values(text, (1, 2))
    is_ajet = any(path[:1] == ("ajet",) for path in found)
    return {
        path: value
        for path, value in found.items()
        if not value.is_empty_section
        and path[-1] not in but
        and (
            config_keys.meaning(path, is_ajet).role != "running" or config_keys.is_protected(path, protected)
        )
    }


class TestRendering:
    def test_the_authors_own_choices_are_set(self) -> None:
        settings: dict[str, Scalar] = {
            "model_path": "/models/Qwen2.5-0.5B-Instruct",
            "training_file": "data/train.jsonl",
            "lr": 1e-5,
            "num_repeat": 8,
            "seed": 3,
            "ajet.trainer_common.algorithm.norm_adv_by_std": False,
            "ajet.rollout.gpu_memory_utilization": 0.6,
            "ajet.trainer_common.logger": "console",
        }
        assert refuse_settings(settings, ("lr",)) is None
        cached = "/home/u/.cache/huggingface/hub/models--Qwen--Qwen2.5-0.5B/snapshots/a1"
        assert refuse_settings({"model_path": cached}, ()) is None

    @pytest.mark.parametrize(
        ("key", "value"),
        [
            ("ajet.experiment_dir", "/tmp/x"),
            ("ajet.trainer_common.checkpoint_base_dir", "auto"),
            ("ajet.trainer_common.val_print_to_markdown_file_path", "x.md"),
            ("ajet.rollout.user_workflow", "a->B"),
            ("ajet.Rollout.User_Workflow", "a->B"),
            ("ajet.task_judge.judge_protocol", "a->B"),
            ("ajet.execute_testing_lambda", "x"),
            ("ajet.task_reader.env_service.env_url", "x"),
            ("ajet.trainer_common.logger", "wandb"),
            ("ajet.task_reader.data_generation.deduplication_filter.params.base_url", "x"),
            ("verl.trainer.nnodes", 1),
            ("hydra.searchpath", "x"),
            ("no_such_name", 1),
            ("ajet.no_such_key", 1),
            ("model_path", "${oc.env:OPENAI_API_KEY}"),
            ("model_path", "http://evil.example/model"),
            ("model_path", "a\nb: c"),
            ("training_file", "../../secret.jsonl"),
            ("training_file", "/root/.ssh/id_rsa"),
            ("training_file", "/proc/self/environ"),
            ("training_file", "/etc/passwd"),
            ("training_file", "data/credentials.json"),
        ],
    )
    def test_outputs_code_and_addresses_are_not(self, key: str, value: Scalar) -> None:
        assert refuse_settings({"lr": 1e-5, key: value}, ()) is not None
