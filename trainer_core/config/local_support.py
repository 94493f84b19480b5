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
    """What becomes of keys that match one of `patterns`, but for the values `local` takes (None: the
    default)."""

    patterns: tuple[str, ...]
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


def _refused(pattern: str, why: str, fix: str, *takes: Any) -> Rule:
    return Rule((pattern,), "refused", why, fix, takes or None)


def _ignored(why: str, *patterns: str, fix: str = "Leave it out, or ignore this line.") -> Rule:
    return Rule(patterns, "ignored", why, fix)


_ROLLOUT, _TRAINER, _READER = "ajet.rollout", "ajet.trainer_common", "ajet.task_reader"
_ONE_TURN = "`local` asks the model once per episode"
_LATER = "Leave it out; it is not available in this version."
_NO_HYDRA = "no Hydra is needed: defaults come from the schema"
_KL_IN_LOSS = "`local` applies KL in the loss only"

RULES: tuple[Rule, ...] = (
    _refused(f"{_ROLLOUT}.user_workflow", _ONE_TURN, _LATER),
    _refused(f"{_ROLLOUT}.compute_madness_checklist", "`local` has no such checks", "Write [].", []),
    _ignored("`local` has no checks for abnormal answers", f"{_ROLLOUT}.agent_madness_*"),
    _ignored(_ONE_TURN, f"{_ROLLOUT}.multi_turn.*"),
    _ignored("`local` offers no tools to the model", f"{_ROLLOUT}.force_disable_toolcalls"),
    _ignored("`local` samples a batch of episodes together", f"{_ROLLOUT}.max_env_worker"),
    _ignored(
        "`local` trains in one process on this machine's CPU",
        f"{_ROLLOUT}.tensor_model_parallel_size",
        f"{_ROLLOUT}.n_vllm_engine",
        f"{_ROLLOUT}.max_num_seqs",
        f"{_ROLLOUT}.name",
        f"{_ROLLOUT}.gpu_memory_utilization",
        f"{_ROLLOUT}.ppo_max_token_len_per_gpu",
        f"{_TRAINER}.nnodes",
        f"{_TRAINER}.n_gpus_per_node",
        f"{_TRAINER}.fsdp_config.*",
        f"{_TRAINER}.ulysses_sequence_parallel_size",
    ),
    _ignored(
        "`local` takes the generation prompt from the tokenizer's chat template",
        f"{_ROLLOUT}.chat_template_generate_prompt_type",
    ),
    _ignored(
        f"`{_TRAINER}.val_pass_n` decides", f"{_ROLLOUT}.val_kwargs.num_repeat", fix="Set that key instead."
    ),
    _refused(
        f"{_READER}.type",
        "`local` has no such reader",
        "Use huggingface_dat_repo, jsonl_dataset_file or builtin.",
        *("huggingface_dat_repo", "jsonl_dataset_file", "builtin"),
    ),
    _ignored(
        "`local` uses the proxy of the environment",
        f"{_READER}.huggingface_dat_repo.http_proxy_address",
        fix="Set the environment variable HTTPS_PROXY.",
    ),
    _ignored("`local` has no such reader", f"{_READER}.env_service.*", f"{_READER}.data_generation.*"),
    _refused(
        "ajet.task_judge.judge_type",
        "`local` has no such judge",
        "Use exact_match, or customized_protocol with a judge_protocol.",
        *("exact_match", "customized_protocol"),
    ),
    _ignored("`local` hands no outside model to a judge", "ajet.task_judge.alien_llm_*"),
    _ignored("`local` has no rubrics grader", "ajet.task_judge.rubrics_auto_grader.*"),
    _ignored(f"{_ONE_TURN}, so there is nothing to merge", "ajet.context_tracker.*"),
    _ignored("only backbone `debug` reads it", "ajet.debug.*"),
    _refused(f"{_TRAINER}.algorithm.adv_estimator", "`local` knows the estimator grpo", "Write grpo."),
    _refused(
        f"{_TRAINER}.algorithm.use_kl_in_reward",
        _KL_IN_LOSS,
        "Write false, and set use_kl_loss and kl_loss_coef.",
    ),
    _ignored(_KL_IN_LOSS, f"{_TRAINER}.kl_penalty_type"),
    _refused(f"{_TRAINER}.loss_extra_scale_ratio", "`local` does not scale the loss", "Write 1."),
    _ignored("an episode of `local` is one sample, so it makes no difference", f"{_TRAINER}.*_episode_level"),
    _refused(
        f"{_TRAINER}.optim.lr_scheduler_type",
        "`local` keeps the rate constant after its warm-up",
        "Write constant.",
    ),
    _refused(
        f"{_TRAINER}.val_max_num_task_each_validation",
        "`local` validates on every task of the split",
        "Leave it out, and make the validation split smaller.",
    ),
    _ignored("`local` clips nothing", f"{_TRAINER}.val_max_num_task_clip_method"),
    Rule(
        (f"{_TRAINER}.logger",),
        "ignored",
        "`local` has no such logger",
        "Read `metrics.jsonl`, or use console, swanlab or wandb.",
        ("console", "swanlab", "wandb"),
    ),
    _ignored(
        "`local` writes training metrics to the console and `metrics.jsonl`",
        f"{_TRAINER}.train_print_to_markdown_file_path",
        fix="Read `metrics.jsonl` in the output folder.",
    ),
    _ignored("`local` keeps no episodes", f"{_TRAINER}.save_trajectory_as_json_file"),
    _refused("ajet.lora.lora_rank", "`local` trains all weights", "Write 0."),
    _ignored("`local` trains all weights", "ajet.lora.*"),
    _refused("ajet.enable_*", "`local` serves no endpoint", "Write false."),
    _ignored("`local` serves no endpoint", "ajet.interchange_server.*"),
    _ignored("`local` runs its episodes itself", "ajet.swarm_mode_*"),
    _ignored("`local` runs no workflows", "ajet.task_runner.*"),
    _ignored("`local` ends no run by a probe", "ajet.execute_test*"),
    _refused("ajet.teacher_model", "`local` does not distil", _LATER),
    _refused("ajet.opd", "`local` does not distil", _LATER),
    _ignored("`local` does not use verl", "verl"),
    _ignored("`local` does not use trinity", "trinity"),
    _ignored(_NO_HYDRA, "hydra", "defaults", fix="Remove it."),
)


def rule_for(path: str) -> Rule | None:
    """The rule that covers a key; None if `local` honours it."""
    return next((rule for rule in RULES if any(fnmatchcase(path, each) for each in rule.patterns)), None)


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
