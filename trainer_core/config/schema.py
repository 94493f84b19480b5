"""The root of the schema: the one source of every key, its meaning and its default.

In: a plain tree of mappings. Out: a frozen `Config`, with the defaults that depend on other keys filled in
and the rules that tie several keys together checked.
"""

from typing import Annotated, Any, Literal

from pydantic import model_validator
from pydantic_core import PydanticCustomError

from trainer_core.config.model import Model
from trainer_core.config.rollout import Data, Rollout
from trainer_core.config.rules import violations
from trainer_core.config.section import Empty, OpenMapping, Section, key, section
from trainer_core.config.services import (
    Companion,
    ContextTracker,
    Debug,
    InterchangeServer,
    Lora,
    TaskRunner,
)
from trainer_core.config.tasks import TaskJudge, TaskReader
from trainer_core.config.trainer import TrainerCommon

RULE_BROKEN = "rule_broken"
_ENVIRONMENTS = "trainer_core.environments"
_PLAYED_BY = {
    "verifiers": f"{_ENVIRONMENTS}.verifiers->PlayVerifiers",
    "env_service": f"{_ENVIRONMENTS}.env_service->PlayEnvService",
    "openenv": f"{_ENVIRONMENTS}.openenv->PlayOpenEnv",
}
"""Workflows of readers whose tasks come with their environment."""


class Ajet(
    Section,
    concerns="data",
    but={
        "name or output folder of the run": "project_name experiment_name experiment_dir",
        "algorithm": "backbone opd",
        "how the training runs": "swarm_mode_sample_collection_max_cached_episodes swarm_mode_late_episodes",
        "amount of training": "execute_test",
        "code that would be loaded": "execute_testing_lambda companions",
        "model": "teacher_model",
    },
):
    """Everything the trainer reads."""

    project_name: str = key(
        "ajet_default_project", "Project that experiment trackers file the run under.", min_length=1
    )
    experiment_name: str = key(
        "read_yaml_name",
        "Name of the run. `read_yaml_name`: the config file's name and the time of the start.",
        min_length=1,
    )
    experiment_dir: str = key("auto", "Output folder. `auto`: `{exp-dir}/{experiment_name}`.", min_length=1)
    backbone: Literal["local", "verl", "trinity", "debug"] = key(
        "local",
        "What trains: `local` works on any machine, `verl` and `trinity` on GPUs and clusters; `debug` plays "
        "a few tasks and trains nothing.",
    )
    model: Model = section(Model, "The start model.")
    data: Data = section(Data, "Sizes of batches and sequences.")
    rollout: Rollout = section(Rollout, "How episodes are run and sampled.")
    task_reader: TaskReader = section(TaskReader, "Where tasks come from.")
    task_judge: TaskJudge = section(TaskJudge, "How answers are rewarded.")
    context_tracker: ContextTracker = section(ContextTracker, "From recorded calls to training samples.")
    debug: Debug = section(Debug, "Settings of the debug backbone.")
    trainer_common: TrainerCommon = section(TrainerCommon, "Schedule, algorithm, optimizer, output.")
    lora: Lora = section(Lora, "Low-rank adapters instead of full training.")
    enable_interchange_server: bool = key(False, "Serve the endpoint that agents talk to.")
    enable_experimental_interchange_server: bool = key(False, "Older name of `enable_interchange_server`.")
    enable_swarm_mode: bool = key(False, "Clients run the episodes; set by the swarm server.")
    interchange_server: InterchangeServer = section(InterchangeServer, "The endpoint that agents talk to.")
    swarm_mode_sample_collection_method: Literal[
        "rollout_until_finish_enough_tasks",
        "rollout_until_finish_enough_episodes",
        "rollout_until_finish_enough_non_dummy_tasks",
        "rollout_until_any_client_agree_sync_weight",
        "rollout_until_all_clients_agree_sync_weight",
    ] = key("rollout_until_finish_enough_tasks", "When a batch is complete.")
    swarm_mode_sample_collection_max_cached_episodes: int = key(9999, "Most episodes kept.", gt=0)
    swarm_mode_late_episodes: Literal["drain", "keep", "refuse"] = key(
        "drain",
        "Episodes that run when a batch is complete: it waits for them, they go into the next batch, or they "
        "are taken away.",
    )
    task_runner: TaskRunner = section(TaskRunner, "How workflows are executed.")
    companions: list[Companion] = section(
        list, "Programs that run beside it: command, ready_pattern, health_url, starts_in_s, max_restarts."
    )
    execute_test: bool = key(False, "End a run whose reward stays below a probe's thresholds.")
    execute_testing_lambda: str = key("", "The probe that `execute_test` uses.")
    teacher_model: OpenMapping = section(dict, "Teacher of on-policy distillation; passed through unchecked.")
    opd: OpenMapping = section(dict, "On-policy distillation; passed through unchecked.")

    @model_validator(mode="after")
    def _complete(self) -> "Ajet":
        self._fill_dependent_defaults()
        broken = violations(self)
        if broken:
            raise PydanticCustomError(
                RULE_BROKEN, "{text}", {"text": "; ".join(map(" ".join, broken)), "violations": broken}
            )
        return self

    def _fill_dependent_defaults(self) -> None:
        """Set the keys nobody set whose default depends on other keys."""
        data, rollout, trainer = self.data, self.rollout, self.trainer_common
        longest = data.max_prompt_length + data.max_response_length
        _set_if_unset(rollout, "max_model_len", longest)
        _set_if_unset(rollout, "max_response_length_in_one_turn", min(4096, data.max_response_length))
        _set_if_unset(rollout.val_kwargs, "temperature", 1.0 if trainer.val_pass_n > 1 else 0.0)
        _set_if_unset(rollout.val_kwargs, "do_sample", rollout.val_kwargs.temperature > 0)
        if self.backbone in ("verl", "trinity"):
            _set_if_unset(rollout, "inference", "vllm")
            _set_if_unset(trainer, "device", "cuda")
            takes_turns = rollout.inference == "verl" and trainer.device == "cuda"
            _set_if_unset(rollout, "free_cache_engine", takes_turns)
            if trainer.device == "cpu":
                _set_if_unset(trainer, "n_gpus_per_node", 1)
        if self.enable_swarm_mode:
            _set_if_unset(rollout, "deterministic", False)  # nobody knows who asks next
            if "type" not in self.task_reader.model_fields_set:  # a warm-up needs tasks
                _set_if_unset(self.model.warmup, "enabled", False)
            for name, value in (("val_before_train", False), ("val_only", False), ("test_freq", -1)):
                _set(trainer, name, value)  # clients evaluate, with episodes of their own
        if self.backbone == "trinity":
            _set_if_unset(trainer, "model_dtype", "bf16")
        else:
            _set_if_unset(rollout, "compute_madness_checklist", [])
        reader, judge = self.task_reader, self.task_judge
        if reader.type in _PLAYED_BY:
            _set_if_unset(rollout, "user_workflow", _PLAYED_BY[reader.type])
            _set_if_unset(self.task_runner, "wrapper_type", "asyncio")
        has_answers = reader.type not in ("huggingface_dat_repo", "deep_finance", *_PLAYED_BY)
        if has_answers and "judge_protocol" not in judge.model_fields_set:
            is_countdown = (reader.type, reader.builtin.name) == ("builtin", "countdown")
            _set_if_unset(judge, "judge_type", "countdown" if is_countdown else "exact_match")
        if trainer.checkpoint_base_dir == "auto" and self.experiment_dir != "auto":
            _set(trainer, "checkpoint_base_dir", f"{self.experiment_dir}/checkpoints")


class Config(Section):
    """A whole config file."""

    ajet: Ajet = section(Ajet, "Everything the trainer reads.")
    verl: OpenMapping = section(dict, "Raw verl keys, handed to verl untouched.")
    trinity: OpenMapping = section(dict, "Raw trinity keys, handed to trinity untouched.")
    hydra: OpenMapping = section(dict, "Boilerplate of configs written for Hydra; ignored.")
    defaults: Annotated[list[Any] | dict[str, Any], Empty] = section(
        list, "Boilerplate of configs written for Hydra; ignored."
    )


def _set_if_unset(section: Section, name: str, value: Any) -> None:
    if name not in section.model_fields_set:
        _set(section, name, value)


def _set(section: Section, name: str, value: Any) -> None:
    """Fill a field of a section still under construction, which is frozen for everybody else."""
    object.__setattr__(section, name, value)
