"""What each backbone does with the keys it does not honour: one table per backbone, and its readers.

`ignored`: the result stays the same kind of result, so the key is reported and the run goes on. `refused`:
leaving the key out of account would change the science, so the run does not start. `doubtful`: done as told,
but hardly what was meant. Only values that differ from the default are reported.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase
from importlib.util import find_spec
from operator import attrgetter
from typing import Any, get_args

from trainer_core.algorithm.names import ESTIMATOR_NAMES
from trainer_core.config import trinity
from trainer_core.config.keys import Key, all_keys
from trainer_core.config.problems import Finding, Verdict
from trainer_core.config.schema import Ajet, Config
from trainer_core.config.section import path_of
from trainer_core.config.tasks import ReaderType

_LEAVE = "Leave it out, or ignore this line."
_LATER = "Leave it out; it is not available in this version."


@dataclass(frozen=True)
class Rule:
    """What becomes of some keys, but for the values the backbone takes."""

    verdict: Verdict
    keys: str
    """Patterns, seen from `ajet`, with blanks between them; the first rule that covers a key counts."""
    why: str
    fix: str = _LEAVE
    takes: tuple[Any, ...] | None = None
    """None: the default."""


_OF_VLLM = (
    "rollout.tensor_model_parallel_size rollout.max_num_seqs rollout.gpu_memory_utilization "
    "rollout.free_cache_engine rollout.vllm_*"
)
_OF_VERL = (
    "trainer_common.nnodes trainer_common.n_gpus_per_node trainer_common.ray trainer_common.fsdp_config.* "
    "trainer_common.strategy trainer_common.megatron.* trainer_common.ulysses_sequence_parallel_size "
    "rollout.name"
)
_TIMEOUT = "trainer_common.worker_timeout"
_OF_TRINITY = "trinity trainer_common.trinity_python"
LOCAL = (
    Rule("refused", "task_reader.type", "`local` has no such reader", "Use another reader.",
         tuple(name for name in get_args(ReaderType) if name != "deep_finance")),
    Rule("refused", "task_judge.rubrics_auto_grader.input_data_type", "examples are files", "Leave it out."),
    Rule("refused", "trainer_common.algorithm.adv_estimator", "`local` has no critic, which gae needs",
         "Write grpo; or reinforce_plus_plus, which gives each token a return of its own too.",
         tuple(name for name in ESTIMATOR_NAMES if name != "gae")),
    Rule("refused", "trainer_common.val_max_num_task_each_validation",
         "`local` validates on every task of the split", "Leave it out; make the validation split smaller."),
    Rule("ignored", "enable_*interchange*", "agents always call the model over HTTP"),
    Rule("refused", "teacher_model opd", "`local` does not distil", _LATER),
    Rule("ignored", "trainer_common.logger", "`local` has no such logger",
         "Read `metrics.jsonl`, or use console, swanlab or wandb.", ("console", "swanlab", "wandb")),
    Rule("ignored", "trainer_common.train_print_to_markdown_file_path",
         "`local` writes training metrics to the console and `metrics.jsonl`",
         "Read `metrics.jsonl` in the output folder."),
    Rule("ignored", "rollout.val_kwargs.num_repeat", "`trainer_common.val_pass_n` decides", "Set that key."),
    Rule("ignored", "*.http_proxy_address", "`local` uses the environment's proxy", "Set HTTPS_PROXY."),
    Rule("ignored", "rollout.multi_turn.*_per_task rollout.multi_turn.expected*", "`local` trains all calls"),
    Rule("ignored", "rollout.force_disable_toolcalls", "`local` offers the model the tools an agent names"),
    Rule("ignored", _OF_VLLM, "there is no vLLM server"),
    Rule("ignored", "rollout.n_vllm_engine", "`local` starts one server"),
    Rule("ignored", _OF_VERL, "`local` trains in one process"),
    Rule("ignored", _TIMEOUT, "`local` trains in one process, and there is no vLLM server"),
    Rule("ignored", "rollout.chat_template_generate_prompt_type",
         "`local` takes the generation prompt from the tokenizer's chat template"),
    Rule("refused", "task_reader.data_generation.query_reader.type", "examples are in files or data sets",
         "Leave it out.", ("jsonl_dataset_file", "huggingface_dat_repo")),
    Rule("ignored", "*.query_reader.env_service.*", "examples are in files or data sets"),
    Rule("ignored", "*.document_reader.[lc]a*", "text is read as it is, anew in each run"),
    Rule("ignored", "task_reader.env_service.env_action_preference", "the environment takes what it takes"),
    Rule("ignored", "*.query_reader.*validation* *.rubrics_auto_grader.*validation*", "training examples do"),
    Rule("ignored", "context_tracker.*ignore_tools context_tracker.fix_* context_tracker.log_* "
         "context_tracker.detect_*", "`local` merges calls whose tokens agree, and keeps them as sampled"),
    Rule("ignored", "trainer_common.val_max_num_task_clip_method", "`local` clips nothing"),
    Rule("ignored", "lora.load_format lora.layered_summon", "`local` samples with the weights it trains"),
    Rule("ignored", "interchange_server.*method interchange_server.[amn]*", "one thread serves it"),
    Rule("ignored", "task_runner.llm_infer_submit_method", "agents call the model over HTTP"),
    Rule("ignored", "execute_test*", "`local` ends no run by a probe"),
    Rule("ignored", "debug.*", "only backbone `debug` reads it"),
    Rule("ignored", "verl", "`local` does not use verl"),
    Rule("ignored", _OF_TRINITY, "`local` does not use trinity"),
    Rule("ignored", "hydra defaults", "no Hydra is needed: defaults come from the schema", "Remove it."),
)  # fmt: skip
DEBUG = (
    Rule("ignored", "debug.debug_max_parallel debug.debug_vllm_port debug.debug_tensor_parallel_size",
         "`debug` plays one task at a time in this process"),
    Rule("ignored", "task_runner.* rollout.max_env_worker", "`debug` runs one episode at a time, at leisure"),
    *(rule for rule in LOCAL if rule.keys != "debug.*" and not rule.keys.startswith("task_runner")),
)  # fmt: skip
"""On the engines of `local`; what is about training has no effect and is not reported."""
_RUNNER = ("ajet.task_runner.wrapper_type", "ajet.task_runner.wrapper_multiprocessing_timeout")
_OF_WORKFLOWS = ("ajet.rollout.max_env_worker", "ajet.rollout.multi_turn.max_steps", *_RUNNER)
VERL = (
    *(rule for rule in LOCAL if rule.keys not in (_OF_VERL, _TIMEOUT, "verl")),
    Rule("ignored", "rollout.name", "`rollout.inference` chooses what samples", "Leave it out.", ("vllm",)),
)
"""Our loop on verl's workers: what `local` does not do, the loop does not either."""
_BY_TRINITY = (
    _OF_VLLM, _OF_VERL, _OF_TRINITY, "rollout.n_vllm_engine", "trainer_common.algorithm.adv_estimator",
    "trainer_common.logger", "rollout.multi_turn.*_per_task rollout.multi_turn.expected*",
)  # fmt: skip
_RAW = "Leave it out; a key of Trinity's own can stand under `trinity:`."
_ALGORITHM = "trainer_common.algorithm"
TRINITY = (
    Rule("refused", f"{_ALGORITHM}.adv_estimator", "Trinity has no such estimator without a critic",
         "Write grpo, rloo or reinforce_plus_plus.", tuple(trinity.ESTIMATORS)),
    Rule("refused", f"{_ALGORITHM}.policy_loss", "Trinity has no such loss, or computes it otherwise",
         "Write ppo, gspo or cispo.", ("ppo", "gspo", "cispo")),
    Rule("refused", f"{_ALGORITHM}.loss_agg_mode", "Trinity has no such mean",
         "Write token-mean or one of its seq-mean-….", trinity.AGGREGATIONS),
    Rule("refused", "trainer_common.kl_loss_type", "Trinity has no such estimator",
         "Write it without `+`.", trinity.KL_NAMES),
    Rule("refused", f"{_ALGORITHM}.norm_adv_by_std", "Trinity divides by the deviation",
         "Write true."),
    Rule("refused", f"{_ALGORITHM}.use_kl_in_reward", "Trinity's estimators leave the KL out of the reward",
         "Write false, and use_kl_loss: true."),
    Rule("refused", f"{_ALGORITHM}.rollout_[ir]s* trainer_common.one_step_off_policy",
         "Trinity has settings of its own for answers of older weights",
         "Leave it out, and set trinity.algorithm.rollout_correction or trinity.synchronizer."),
    Rule("refused", "trainer_common.ppo_epochs trainer_common.mini_batch_num "
         "trainer_common.loss_extra_scale_ratio trainer_common.val_only "
         f"{_ALGORITHM}.shuffle_rewards", "Trinity has nothing like it", _RAW),
    Rule("refused", "trainer_common.resume", "Trinity would begin a new experiment beside the old one",
         "Leave it out, or choose another experiment_name."),
    Rule("refused", "trainer_common.device", "Trinity trains on GPUs", "Write cuda.", ("cuda",)),
    Rule("refused", "trainer_common.model_dtype", "Trinity computes in bfloat16 on float32 weights",
         "Write bf16, or leave it out.", ("bf16",)),
    Rule("refused", "lora.lora_rank", "the endpoint that agents call in Trinity leaves adapters out",
         "Write 0 to train all weights."),
    Rule("refused", "rollout.inference rollout.name", "Trinity samples with vLLM", "Write vllm.", ("vllm",)),
    Rule("refused", "interchange_server.interchange_server_port",
         "each of Trinity's runners serves on a port of its own", "Write auto."),
    Rule("ignored", f"{_ALGORITHM}.kl_ctrl* {_ALGORITHM}.dro_beta {_ALGORITHM}.tau_* "
         "lora.lora_alpha lora.target_modules trainer_common.kl_penalty_type trainer_common.mini_batch_of",
         "nothing here reads it"),
    Rule("ignored", "trainer_common.loss_weight_normalization_episode_level",
         "Trinity weighs sequences, however many an episode became"),
    Rule("ignored", "rollout.vllm_* rollout.free* rollout.deterministic rollout.kv_cache_memory_bytes "
         "rollout.multi_turn.max_sample*", "Trinity starts vLLM itself, and trains all calls"),
    Rule("ignored", "trainer_common.strategy trainer_common.megatron.* "
         "trainer_common.num_threads trainer_common.ref_param_offload "
         "trainer_common.enable_gradient_checkpointing", "Trinity decides"),
    Rule("ignored", "trainer_common.save_trajectory_as_json_file "
         "trainer_common.val_print_to_markdown_file_path", "Trinity keeps records of its own"),
    *(rule for rule in LOCAL if rule.keys not in _BY_TRINITY),
)  # fmt: skip
"""Trinity's loop on Trinity's engines; episodes, judges and sequences are ours."""
TABLES = {"local": LOCAL, "debug": DEBUG, "verl": VERL, "trinity": TRINITY}
"""The backbones there are; a key that no rule covers is honoured."""


def rule_for(path: str, backbone: str = "local") -> Rule | None:
    """The rule that covers a key; None if the backbone honours it."""
    short = path.removeprefix("ajet.")
    covers = (
        rule for rule in TABLES[backbone] if any(fnmatchcase(short, each) for each in rule.keys.split())
    )
    return next(covers, None)


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
    """Everything in `config` that its backbone refuses or ignores, in the order of the schema."""
    backbone = config.ajet.backbone
    if backbone == "verl" and find_spec("verl") is None:
        why = "verl is not installed here"
        fix = "Type: pip install '.[trainer,verl]', or without a GPU: make cpu-stack; or use `local`."
        return (Finding("ajet.backbone", backbone, "refused", why, fix),)
    doubtful = () if backbone == "debug" else _numbers(config.ajet)
    has_agents = config.ajet.rollout.user_workflow or config.ajet.enable_swarm_mode
    alone = () if has_agents else _without_workflow(config)
    return (*_from_table(config), *_start_model(config.ajet), *alone, *_by_device(config.ajet), *doubtful)


def _from_table(config: Config) -> Iterator[Finding]:
    backbone = config.ajet.backbone
    for key in all_keys().values():
        rule = None if key.is_section else rule_for(key.path, backbone)
        if rule is None or (rule.keys in (_OF_VLLM, _TIMEOUT) and config.ajet.rollout.asks_vllm):
            continue
        if (value := attrgetter(key.path)(config)) not in _taken(rule, key):
            why = rule.why.replace("`local`", f"`{backbone}`")
            yield Finding(key.path, value, rule.verdict, why, rule.fix)


def _taken(rule: Rule, key: Key) -> tuple[Any, ...]:
    return (key.default,) if rule.takes is None else rule.takes


def _start_model(ajet: Ajet) -> Iterator[Finding]:
    path = ajet.model.path
    if path == "placeholder":
        fix = "Write the folder or name of a model, or `tiny` for a small one made on the spot."
        yield Finding("ajet.model.path", path, "refused", "no model is chosen", fix)
    elif path.startswith(("/", "./", "../", "~")) and not path_of(path).is_dir():
        fix = "Check the path; it is seen from the working directory."
        yield Finding("ajet.model.path", path, "refused", "there is no such folder", fix)
    elif (folder := path_of(path)).is_dir() and not (folder / "config.json").is_file():
        fix = "Name the folder of a Hugging Face model, with config.json, weights and tokenizer."
        yield Finding("ajet.model.path", path, "refused", "there is no config.json in that folder", fix)


def _without_workflow(config: Config) -> Iterator[Finding]:
    for key in map(all_keys().__getitem__, _OF_WORKFLOWS):
        if (value := attrgetter(key.path)(config)) != key.default and not rule_for(
            key.path, config.ajet.backbone
        ):
            yield Finding(key.path, value, "ignored", "there is no user_workflow to run", _LEAVE)
    judge = config.ajet.task_judge
    is_default = judge.judge_protocol == all_keys()["ajet.task_judge.judge_protocol"].default
    asks = {"environment": "judge_type", "customized_protocol": "judge_protocol" if is_default else ""}
    if name := asks.get(judge.judge_type, ""):
        why = "there is no workflow or environment that gives a reward"
        fix = "Set ajet.task_judge.judge_type: exact_match, or judge_protocol to a class of your own."
        yield Finding(f"ajet.task_judge.{name}", getattr(judge, name), "refused", why, fix)


def _by_device(ajet: Ajet) -> Iterator[Finding]:
    """Keys that were set and mean nothing on this device."""
    common, rollout = ajet.trainer_common, ajet.rollout
    is_vllm, offload = rollout.asks_vllm, common.fsdp_config
    if common.device == "cpu":
        why = "on `device: cpu` everything is in main memory"
        for name in offload.model_fields_set if ajet.backbone == "verl" else ():
            if getattr(offload, name):
                yield Finding(f"ajet.trainer_common.fsdp_config.{name}", True, "ignored", why, _LEAVE)
        if common.ref_param_offload:
            yield Finding("ajet.trainer_common.ref_param_offload", True, "ignored", why, _LEAVE)
        for name in ("tensor_model_parallel_size", "gpu_memory_utilization"):
            if is_vllm and name in rollout.model_fields_set:
                value, why = getattr(rollout, name), "on `device: cpu` vLLM has no GPU to share"
                yield Finding(f"ajet.rollout.{name}", value, "ignored", why, _LEAVE)
    elif is_vllm and "kv_cache_memory_bytes" in rollout.model_fields_set:
        why = "on a GPU vLLM takes what `rollout.gpu_memory_utilization` leaves it"
        value = rollout.kv_cache_memory_bytes
        yield Finding("ajet.rollout.kv_cache_memory_bytes", value, "ignored", why, "Set that key.")


def _numbers(ajet: Ajet) -> Iterator[Finding]:
    attempts, sampling = ajet.trainer_common.val_pass_n, ajet.rollout.val_kwargs
    if attempts > 1 and (sampling.temperature == 0 or not sampling.do_sample):
        why = "every attempt at a validation task gets the same answer, so pass rates @2 and up mean nothing"
        fix = "Set ajet.rollout.val_kwargs.temperature: 1.0 and do_sample: true, or write 1."
        yield Finding("ajet.trainer_common.val_pass_n", attempts, "doubtful", why, fix)
    if ajet.rollout.num_repeat == 1:
        why = "a group of one has nothing to compare with, so its advantage is the bare reward"
        yield Finding("ajet.rollout.num_repeat", 1, "doubtful", why, "Write 2 or more.")
