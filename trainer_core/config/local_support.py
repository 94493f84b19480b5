"""What the `local` backbone does with keys that were made for other backbones.

`ignored`: the result stays the same kind of result, so the key is reported and the run goes on. `refused`:
leaving the key out of account would change the science, so the run does not start. `doubtful`: done as told,
but hardly what was meant. Only values that differ from the default are reported.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Literal

from trainer_core.config.keys import Key, all_keys
from trainer_core.config.schema import Ajet, Config

Verdict = Literal["ignored", "doubtful", "refused"]


@dataclass(frozen=True)
class Rule:
    """What becomes of keys that match `pattern`, but for the values `local` takes (None: the default)."""

    pattern: str
    verdict: Verdict
    why: str
    fix: str
    takes: tuple[Any, ...] | None = None


@dataclass(frozen=True)
class Finding:
    """One key of one config that `local` does not honour."""

    key: str
    value: Any
    verdict: Verdict
    why: str
    fix: str


_GPUS = "`local` trains in one process on this machine's CPU"
_ONE_TURN = "`local` asks the model once per episode"
_NO_MATTER = "Leave it out, or ignore this line."
_LATER = "Leave it out; it is not available in this version."

RULES: tuple[Rule, ...] = (
    Rule("ajet.rollout.user_workflow", "refused", _ONE_TURN, _LATER),
    Rule(
        "ajet.rollout.compute_madness_checklist", "refused", "`local` has no such checks", "Write [].", ([],)
    ),
    Rule("ajet.rollout.agent_madness_*", "ignored", "`local` has no checks for abnormal answers", _NO_MATTER),
    Rule("ajet.rollout.multi_turn.*", "ignored", _ONE_TURN, _NO_MATTER),
    Rule(
        "ajet.rollout.force_disable_toolcalls", "ignored", "`local` offers no tools to the model", _NO_MATTER
    ),
    Rule(
        "ajet.rollout.max_env_worker", "ignored", "`local` samples a batch of episodes together", _NO_MATTER
    ),
    Rule("ajet.rollout.tensor_model_parallel_size", "ignored", _GPUS, _NO_MATTER),
    Rule("ajet.rollout.n_vllm_engine", "ignored", _GPUS, _NO_MATTER),
    Rule("ajet.rollout.max_num_seqs", "ignored", _GPUS, _NO_MATTER),
    Rule("ajet.rollout.name", "ignored", _GPUS, _NO_MATTER),
    Rule("ajet.rollout.gpu_memory_utilization", "ignored", _GPUS, _NO_MATTER),
    Rule("ajet.rollout.ppo_max_token_len_per_gpu", "ignored", _GPUS, _NO_MATTER),
    Rule(
        "ajet.rollout.chat_template_generate_prompt_type",
        "ignored",
        "`local` takes the generation prompt from the tokenizer's chat template",
        _NO_MATTER,
    ),
    Rule(
        "ajet.rollout.val_kwargs.num_repeat",
        "ignored",
        "`ajet.trainer_common.val_pass_n` decides",
        "Set that key instead.",
    ),
    Rule(
        "ajet.task_reader.type",
        "refused",
        "`local` has no such reader",
        "Use huggingface_dat_repo, jsonl_dataset_file or builtin.",
        ("huggingface_dat_repo", "jsonl_dataset_file", "builtin"),
    ),
    Rule(
        "ajet.task_reader.huggingface_dat_repo.http_proxy_address",
        "ignored",
        "`local` uses the proxy of the environment",
        "Set the environment variable HTTPS_PROXY.",
    ),
    Rule("ajet.task_reader.env_service.*", "ignored", "`local` has no such reader", _NO_MATTER),
    Rule("ajet.task_reader.data_generation.*", "ignored", "`local` has no such reader", _NO_MATTER),
    Rule(
        "ajet.task_judge.judge_type",
        "refused",
        "`local` has no such judge",
        "Use exact_match, or customized_protocol with a judge_protocol.",
        ("exact_match", "customized_protocol"),
    ),
    Rule("ajet.task_judge.alien_llm_*", "ignored", "`local` hands no outside model to a judge", _NO_MATTER),
    Rule("ajet.task_judge.rubrics_auto_grader.*", "ignored", "`local` has no rubrics grader", _NO_MATTER),
    Rule("ajet.context_tracker.*", "ignored", f"{_ONE_TURN}, so there is nothing to merge", _NO_MATTER),
    Rule("ajet.debug.*", "ignored", "only backbone `debug` reads it", _NO_MATTER),
    Rule(
        "ajet.trainer_common.algorithm.adv_estimator",
        "refused",
        "`local` knows the estimator grpo",
        "Write grpo.",
    ),
    Rule(
        "ajet.trainer_common.algorithm.use_kl_in_reward",
        "refused",
        "`local` applies KL in the loss only",
        "Write false, and set use_kl_loss and kl_loss_coef.",
    ),
    Rule("ajet.trainer_common.kl_penalty_type", "ignored", "`local` applies KL in the loss only", _NO_MATTER),
    Rule(
        "ajet.trainer_common.loss_extra_scale_ratio", "refused", "`local` does not scale the loss", "Write 1."
    ),
    Rule(
        "ajet.trainer_common.*_episode_level",
        "ignored",
        "an episode of `local` is one sample, so it makes no difference",
        _NO_MATTER,
    ),
    Rule(
        "ajet.trainer_common.optim.lr_scheduler_type",
        "refused",
        "`local` keeps the rate constant after its warm-up",
        "Write constant.",
    ),
    Rule(
        "ajet.trainer_common.val_max_num_task_each_validation",
        "refused",
        "`local` validates on every task of the split",
        "Leave it out, and make the validation split smaller.",
    ),
    Rule("ajet.trainer_common.val_max_num_task_clip_method", "ignored", "`local` clips nothing", _NO_MATTER),
    Rule("ajet.trainer_common.nnodes", "ignored", _GPUS, _NO_MATTER),
    Rule("ajet.trainer_common.n_gpus_per_node", "ignored", _GPUS, _NO_MATTER),
    Rule("ajet.trainer_common.fsdp_config.*", "ignored", _GPUS, _NO_MATTER),
    Rule("ajet.trainer_common.ulysses_sequence_parallel_size", "ignored", _GPUS, _NO_MATTER),
    Rule(
        "ajet.trainer_common.logger",
        "ignored",
        "`local` has no such logger",
        "Read `metrics.jsonl`, or use console, swanlab or wandb.",
        ("console", "swanlab", "wandb"),
    ),
    Rule(
        "ajet.trainer_common.train_print_to_markdown_file_path",
        "ignored",
        "`local` writes training metrics to the console and `metrics.jsonl`",
        "Read `metrics.jsonl` in the output folder.",
    ),
    Rule(
        "ajet.trainer_common.save_trajectory_as_json_file", "ignored", "`local` keeps no episodes", _NO_MATTER
    ),
    Rule("ajet.lora.lora_rank", "refused", "`local` trains all weights", "Write 0."),
    Rule("ajet.lora.*", "ignored", "`local` trains all weights", _NO_MATTER),
    Rule("ajet.enable_*", "refused", "`local` serves no endpoint", "Write false."),
    Rule("ajet.interchange_server.*", "ignored", "`local` serves no endpoint", _NO_MATTER),
    Rule("ajet.swarm_mode_*", "ignored", "`local` runs its episodes itself", _NO_MATTER),
    Rule("ajet.task_runner.*", "ignored", "`local` runs no workflows", _NO_MATTER),
    Rule("ajet.execute_test*", "ignored", "`local` ends no run by a probe", _NO_MATTER),
    Rule("ajet.teacher_model", "refused", "`local` does not distil", _LATER),
    Rule("ajet.opd", "refused", "`local` does not distil", _LATER),
    Rule("verl", "ignored", "`local` does not use verl", _NO_MATTER),
    Rule("trinity", "ignored", "`local` does not use trinity", _NO_MATTER),
    Rule("hydra", "ignored", "no Hydra is needed: defaults come from the schema", "Remove it."),
    Rule("defaults", "ignored", "no Hydra is needed: defaults come from the schema", "Remove it."),
)


def rule_for(path: str) -> Rule | None:
    """The rule that covers a key; None if `local` honours it."""
    return next((rule for rule in RULES if fnmatchcase(path, rule.pattern)), None)


def note(key: Key) -> str:
    """What `local` makes of a key, in words: honoured, ignored and why, or the values it does not refuse."""
    rule = rule_for(key.path)
    if rule is None:
        return "honoured"
    if rule.verdict == "ignored":
        return f"ignored: {rule.why}"
    taken = [value if isinstance(value, str) else json.dumps(value) for value in _taken(rule, key)]
    return f"only {', '.join(taken)}: {rule.why}"


def findings(config: Config) -> tuple[Finding, ...]:
    """Everything in `config` that backbone `local` refuses or ignores, in the order of the schema."""
    backbone = config.ajet.backbone
    if backbone != "local":
        why = "this backbone is not available in this version"
        return (Finding("ajet.backbone", backbone, "refused", why, "Use `local`."),)
    return (*_from_rules(config), *_start_model(config.ajet), *_judge(config.ajet), *_sampling(config.ajet))


def _from_rules(config: Config) -> Iterator[Finding]:
    for key in all_keys().values():
        rule = rule_for(key.path)
        if key.is_section or rule is None:
            continue
        value = value_at(config, key)
        if value not in _taken(rule, key):
            yield Finding(key.path, value, rule.verdict, rule.why, rule.fix)


def _taken(rule: Rule, key: Key) -> tuple[Any, ...]:
    return (key.default,) if rule.takes is None else rule.takes


def value_at(config: Config, key: Key) -> Any:
    """What stands at `key` in `config`."""
    value: Any = config
    for part in key.path.split("."):
        value = getattr(value, part)
    return value


def _start_model(ajet: Ajet) -> Iterator[Finding]:
    path = ajet.model.path
    if path == "placeholder":
        fix = "Write the folder or name of a model, or `tiny` for a small one made on the spot."
        yield Finding("ajet.model.path", path, "refused", "no model is chosen", fix)
    elif path.startswith(("/", "./", "../", "~")) and not Path(path).expanduser().is_dir():
        fix = "Check the path; it is seen from the working directory."
        yield Finding("ajet.model.path", path, "refused", "there is no such folder", fix)


def _judge(ajet: Ajet) -> Iterator[Finding]:
    judge = ajet.task_judge
    is_default = judge.judge_protocol == all_keys()["ajet.task_judge.judge_protocol"].default
    if judge.judge_type == "customized_protocol" and is_default:
        yield Finding(
            "ajet.task_judge.judge_protocol",
            judge.judge_protocol,
            "refused",
            "`local` has no environment service to ask for rewards",
            "Set ajet.task_judge.judge_type: exact_match, or judge_protocol to a class of your own.",
        )


def _sampling(ajet: Ajet) -> Iterator[Finding]:
    attempts, sampling = ajet.trainer_common.val_pass_n, ajet.rollout.val_kwargs
    if attempts > 1 and (sampling.temperature == 0 or not sampling.do_sample):
        why = "every attempt at a validation task gets the same answer, so pass rates @2 and up mean nothing"
        fix = "Set ajet.rollout.val_kwargs.temperature: 1.0 and do_sample: true, or write 1."
        yield Finding("ajet.trainer_common.val_pass_n", attempts, "doubtful", why, fix)
    if ajet.rollout.num_repeat == 1:
        why = "a group of one has nothing to compare with, so its advantage is the bare reward"
        yield Finding("ajet.rollout.num_repeat", 1, "doubtful", why, "Write 2 or more.")
