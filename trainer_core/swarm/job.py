"""A training as a Python object: arguments over a config, for clients that start one."""

from __future__ import annotations

import inspect
import subprocess
import sys
from collections.abc import Callable, Mapping
from datetime import datetime
from functools import reduce
from operator import getitem
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Self

from pydantic import ValidationError

from trainer_core.config.explain_error import problems_of
from trainer_core.config.keys import all_keys, suggestion
from trainer_core.config.layers import Layered, merged, read_file
from trainer_core.config.load import as_yaml, resolved_yaml
from trainer_core.config.problems import ConfigError
from trainer_core.config.schema import Config
from trainer_core.types import TrainingError

_BELOW = {
    "": "experiment_dir project_name experiment_name backbone swarm_mode_sample_collection_method",
    "data.": "max_prompt_length max_response_length",
    "rollout.": "num_repeat max_env_worker max_response_length_in_one_turn max_model_len max_num_seqs "
    "gpu_memory_utilization tensor_model_parallel_size ppo_max_token_len_per_gpu compute_madness_checklist",
    "trainer_common.": "nnodes mini_batch_num ppo_epochs total_training_steps use_kl_loss kl_penalty_type "
    "ulysses_sequence_parallel_size val_print_to_markdown_file_path train_print_to_markdown_file_path",
    "trainer_common.algorithm.": "use_kl_in_reward",
    "trainer_common.optim.": "lr",
    "lora.": "lora_rank lora_alpha layered_summon",
    "context_tracker.timeline_merging_policy.": "timeline_compare_level",
}
ARGUMENTS: Mapping[str, str] = {
    "model": "model.path",
    "algorithm": "trainer_common.algorithm.adv_estimator",
    "batch_size": "data.train_batch_size",
    "n_gpu": "trainer_common.n_gpus_per_node",
    "logging": "trainer_common.logger",
    "swarm_mode": "enable_swarm_mode",
    "lora_target_modules": "lora.target_modules",
    "lora_load_format": "lora.load_format",
    **{name: f"{section}{name}" for section, names in _BELOW.items() for name in names.split()},
}
"""Arguments of a job, and the keys below `ajet` that they set."""
_SWARM = {"ajet": {"enable_swarm_mode": True, "rollout": {"max_env_worker": 128}}}
_NO_NAME = (None, "read_yaml_name")


class Settings:
    """A section of a job's config: its keys are attributes, which can be set."""

    def __init__(self, job: AgentJetJob, path: tuple[str, ...]) -> None:
        vars(self).update(_job=job, _path=path)

    def to_dict(self) -> dict[str, Any]:
        """Every key below, with defaults where nothing is set.

        Raises:
            ConfigError: values do not go together.
        """
        found: dict[str, Any] = reduce(getitem, self._path, self._job.checked().model_dump(mode="json"))
        return found

    def __getattr__(self, name: str) -> Any:
        path = (*self._path, name)
        key = all_keys().get(".".join(path))
        if key is None:
            raise AttributeError(_unknown(path))
        return Settings(self._job, path) if key.is_section else self.to_dict()[name]

    def __setattr__(self, name: str, value: Any) -> None:
        path = (*self._path, name)
        if ".".join(path) not in all_keys():
            raise AttributeError(_unknown(path))
        self._job.put(path, value.to_dict() if isinstance(value, Settings) else value, "set in Python")


class AgentJetJob:
    """A training: `AgentJetJob(model="tiny", batch_size=4, …)`, with the arguments of `ARGUMENTS`. One that
    is None, or left out, leaves what `base_yaml_config` says, or the default.

    `config` has every key, below `config.ajet`, to read and to set.
    """

    def __init__(
        self,
        base_yaml_config: str | Path | None = None,
        *,
        ensure_new_experiment: bool = False,
        **arguments: Any,
    ) -> None:
        """
        Args:
            base_yaml_config: a config file; None: the defaults, and 128 episodes at a time.
            ensure_new_experiment: add the time to the experiment's name.

        Raises:
            TypeError: there is no such argument.
            ConfigError: a value cannot be used; it names the argument.
        """
        self._layered = Layered(merged({}, _SWARM), {}, "AgentJetJob")
        if base_yaml_config is not None:
            self._layer(Path(base_yaml_config))
        for name, value in arguments.items():
            if name not in ARGUMENTS:
                raise TypeError(f"AgentJetJob has no argument {name!r}; it has {', '.join(ARGUMENTS)}")
            if value is not None:
                value = list(value) if isinstance(value, tuple) else value
                self.put(("ajet", *ARGUMENTS[name].split(".")), value, f"AgentJetJob({name}=…)")
        if ensure_new_experiment:
            name = self._layered.value(("ajet", "experiment_name"))
            new = f"{'swarm' if name in _NO_NAME else name}_{datetime.now():%Y%m%d-%H%M%S}"
            self.put(("ajet", "experiment_name"), new, "ensure_new_experiment")
        self.checked()

    @property
    def config(self) -> Settings:
        """All settings."""
        return Settings(self, ())

    def __getattr__(self, name: str) -> Any:
        if name not in ARGUMENTS:
            raise AttributeError(f"AgentJetJob has no attribute {name!r}")
        return reduce(getattr, ARGUMENTS[name].split("."), self.config.ajet)

    def put(self, path: tuple[str, ...], value: Any, origin: str) -> None:
        """Set a key; `origin` is told where it turns out to be wrong."""
        self._layered = self._layered.with_value(path, value, origin)

    def checked(self) -> Config:
        """The whole config, with its defaults.

        Raises:
            ConfigError: it cannot be used; every problem names its key, and where it was set.
        """
        try:
            return Config.model_validate(self._layered.tree)
        except ValidationError as error:
            raise ConfigError(*problems_of(error, self._layered)) from None

    def as_yaml(self) -> str:
        """What differs from the defaults of the server, which fills in the rest.

        Raises:
            ConfigError: it cannot be used.
        """
        self.checked()
        return as_yaml(self._layered.tree)

    def dump_job_as_yaml(self, yaml_path: str | Path) -> str:
        """Write the config with every default to a file, and return its path.

        Raises:
            ConfigError: it cannot be used. OSError: it cannot be written.
        """
        path = Path(yaml_path)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(resolved_yaml(self.checked()), encoding="utf-8")
        return str(path)

    def build_job_from_yaml(self, yaml_path: str | Path) -> Self:
        """Let a config file decide every key that stands in it.

        Raises:
            ConfigError: it cannot be read or used.
        """
        self._layer(Path(yaml_path))
        self.checked()
        return self

    def set_workflow(self, workflow: str | Callable[..., Any]) -> Self:
        """The agent, for `tune`: a class or function, or `module->Class` or `file.py->Class`."""
        if not isinstance(workflow, str):
            module = workflow.__module__
            module = str(Path(inspect.getfile(workflow)).resolve()) if module == "__main__" else module
            workflow = f"{module}->{workflow.__qualname__}"
        self.config.ajet.rollout.user_workflow = workflow
        return self

    def set_data(
        self,
        type: str,
        dataset_path: str | None = None,
        training_split: str = "train",
        validation_split: str = "test",
    ) -> Self:
        """The tasks, for `tune`: `huggingface_dat_repo` (also `hf`, `huggingface`), `jsonl_dataset_file` with
        `dataset_path` to train on, or `random_dummy`; another `type` is set as it is."""
        reader = self.config.ajet.task_reader
        reader.type = {"hf": "huggingface_dat_repo", "huggingface": "huggingface_dat_repo",
                       "jsonl": "jsonl_dataset_file", "dummy": "random_dummy"}.get(type, type)  # fmt: skip
        if reader.type == "jsonl_dataset_file":
            reader.jsonl_dataset_file.training.file_path = dataset_path
        elif dataset_path is not None:
            reader.huggingface_dat_repo.dataset_path = dataset_path
            reader.huggingface_dat_repo.training_split = training_split
            reader.huggingface_dat_repo.validation_split = validation_split
        return self

    def tune(self) -> None:
        """Train here, without a swarm, as `ajet --conf` does; return when it is done.

        Raises:
            TrainingError: it failed; what it printed says why.
        """
        with TemporaryDirectory() as folder:
            conf = Path(folder, "job.yaml")
            tree = self._layered.with_value(("ajet", "enable_swarm_mode"), False, "tune").tree
            conf.write_text(as_yaml(tree), encoding="utf-8")
            command = [sys.executable, "-m", "trainer_core.cli", "--conf", str(conf)]
            if status := subprocess.run(command, check=False).returncode:
                raise TrainingError(f"the training ended with exit status {status}")

    def _layer(self, path: Path) -> None:
        file = read_file(path)
        tree, origins = merged(self._layered.tree, file.tree), self._layered.origins | file.origins
        self._layered = Layered(tree, origins, file.name)


_own = [each for each in inspect.signature(AgentJetJob).parameters.values() if each.name != "arguments"]
_named = [inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None) for name in ARGUMENTS]
AgentJetJob.__signature__ = inspect.Signature(_own + _named)  # type: ignore[attr-defined]


def _unknown(path: tuple[str, ...]) -> str:
    return f"{'.'.join(path)} is not a key of the trainer. {suggestion('.'.join(path))}"
