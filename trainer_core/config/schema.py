"""The root of the schema: the one source of every key, its meaning and its default.

In: a plain tree of mappings. Out: a frozen `Config`, with the defaults that depend on other keys filled in
and the rules that tie several keys together checked.
"""

from typing import Any, Literal

from pydantic import Field, model_validator
from pydantic_core import PydanticCustomError

from trainer_core.config.model import Model
from trainer_core.config.rollout import Data, Rollout
from trainer_core.config.rules import Violation, violations
from trainer_core.config.section import Section
from trainer_core.config.services import ContextTracker, Debug, InterchangeServer, Lora, TaskRunner
from trainer_core.config.tasks import TaskJudge, TaskReader
from trainer_core.config.trainer import TrainerCommon

RULE_BROKEN = "rule_broken"


class Ajet(
    Section,
    concerns="data",
    but={
        "name or output folder of the run": "project_name experiment_name experiment_dir",
        "algorithm": "backbone opd",
        "how the training runs": "swarm_mode_sample_collection_max_cached_episodes",
        "amount of training": "execute_test",
        "code that would be loaded": "execute_testing_lambda",
        "model": "teacher_model",
    },
):
    """Everything the trainer reads."""

    project_name: str = Field(
        default="ajet_default_project",
        min_length=1,
        description="Project that experiment trackers file the run under.",
    )
    experiment_name: str = Field(
        default="read_yaml_name",
        min_length=1,
        description="Name of the run. `read_yaml_name`: the config file's name and the time of the start.",
    )
    experiment_dir: str = Field(
        default="auto", min_length=1, description="Output folder. `auto`: `{exp-dir}/{experiment_name}`."
    )
    backbone: Literal["local", "verl", "trinity", "debug"] = Field(
        default="local", description="What trains: `local` works on any machine, `verl` on GPUs and clusters."
    )
    model: Model = Field(default_factory=Model, description="The start model.")
    data: Data = Field(default_factory=Data, description="Sizes of batches and sequences.")
    rollout: Rollout = Field(default_factory=Rollout, description="How episodes are run and sampled.")
    task_reader: TaskReader = Field(default_factory=TaskReader, description="Where tasks come from.")
    task_judge: TaskJudge = Field(default_factory=TaskJudge, description="How answers are rewarded.")
    context_tracker: ContextTracker = Field(
        default_factory=ContextTracker, description="From recorded calls to training samples."
    )
    debug: Debug = Field(default_factory=Debug, description="Settings of the debug backbone.")
    trainer_common: TrainerCommon = Field(
        default_factory=TrainerCommon, description="Schedule, algorithm, optimizer, output."
    )
    lora: Lora = Field(default_factory=Lora, description="Low-rank adapters instead of full training.")
    enable_interchange_server: bool = Field(
        default=False, description="Serve the endpoint that agents talk to."
    )
    enable_experimental_interchange_server: bool = Field(
        default=False, description="Older name of `enable_interchange_server`."
    )
    enable_swarm_mode: bool = Field(default=False, description="Let remote clients run the episodes.")
    interchange_server: InterchangeServer = Field(
        default_factory=InterchangeServer, description="The endpoint that agents talk to."
    )
    swarm_mode_sample_collection_method: Literal[
        "rollout_until_finish_enough_tasks",
        "rollout_until_finish_enough_episodes",
        "rollout_until_finish_enough_non_dummy_tasks",
        "rollout_until_any_client_agree_sync_weight",
        "rollout_until_all_clients_agree_sync_weight",
    ] = Field(default="rollout_until_finish_enough_tasks", description="When a swarm batch is complete.")
    swarm_mode_sample_collection_max_cached_episodes: int = Field(
        default=9999, gt=0, description="Most finished episodes kept while a swarm batch is collected."
    )
    task_runner: TaskRunner = Field(default_factory=TaskRunner, description="How workflows are executed.")
    execute_test: bool = Field(
        default=False, description="End a run whose reward stays below a probe's thresholds."
    )
    execute_testing_lambda: str = Field(default="", description="The probe that `execute_test` uses.")
    teacher_model: dict[str, Any] = Field(
        default_factory=dict, description="Teacher of on-policy distillation; passed through unchecked."
    )
    opd: dict[str, Any] = Field(
        default_factory=dict, description="On-policy distillation; passed through unchecked."
    )

    @model_validator(mode="after")
    def _complete(self) -> "Ajet":
        self._fill_dependent_defaults()
        broken = violations(self)
        if broken:
            raise PydanticCustomError(RULE_BROKEN, "{text}", {"text": _told(broken), "violations": broken})
        return self

    def _fill_dependent_defaults(self) -> None:
        """Set the keys nobody set whose default depends on other keys."""
        data, rollout, trainer = self.data, self.rollout, self.trainer_common
        longest = data.max_prompt_length + data.max_response_length
        _set_if_unset(rollout, "max_model_len", longest)
        _set_if_unset(rollout, "max_response_length_in_one_turn", min(4096, data.max_response_length))
        _set_if_unset(rollout.val_kwargs, "temperature", 1.0 if trainer.val_pass_n > 1 else 0.0)
        _set_if_unset(rollout.val_kwargs, "do_sample", rollout.val_kwargs.temperature > 0)
        if self.backbone == "local":
            _set_if_unset(rollout, "compute_madness_checklist", [])
        judge = self.task_judge
        has_answers = self.task_reader.type in ("builtin", "jsonl_dataset_file")
        if has_answers and "judge_protocol" not in judge.model_fields_set:
            _set_if_unset(judge, "judge_type", "exact_match")
        if trainer.checkpoint_base_dir == "auto" and self.experiment_dir != "auto":
            _set(trainer, "checkpoint_base_dir", f"{self.experiment_dir}/checkpoints")


class Config(Section):
    """A whole config file."""

    ajet: Ajet = Field(default_factory=Ajet, description="Everything the trainer reads.")
    verl: dict[str, Any] = Field(default_factory=dict, description="Raw verl keys, handed to verl untouched.")
    trinity: dict[str, Any] = Field(
        default_factory=dict, description="Raw trinity keys, handed to trinity untouched."
    )
    hydra: dict[str, Any] = Field(
        default_factory=dict, description="Boilerplate of configs written for Hydra; ignored."
    )
    defaults: list[Any] | dict[str, Any] = Field(
        default_factory=list, description="Boilerplate of configs written for Hydra; ignored."
    )


def _told(broken: tuple[Violation, ...]) -> str:
    return "; ".join(f"{violation.key}: {violation.message} {violation.fix}" for violation in broken)


def _set_if_unset(section: Section, name: str, value: Any) -> None:
    if name not in section.model_fields_set:
        _set(section, name, value)


def _set(section: Section, name: str, value: Any) -> None:
    """Fill a field of a section still under construction, which is frozen for everybody else."""
    object.__setattr__(section, name, value)
