"""From a YAML file and a command line to a checked `Config`.

Layers, weakest first: the schema's defaults, the user's YAML, `key=value` words, flags.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from io import StringIO
from pathlib import Path
from typing import Any

from pydantic import ValidationError
from ruamel.yaml import YAML

from trainer_core.config.explain_error import problems_of
from trainer_core.config.layers import COMMAND_LINE, Layered, read_file, with_overrides
from trainer_core.config.problems import ConfigError, Finding, Problem
from trainer_core.config.schema import Config
from trainer_core.config.support import findings

DEFAULT_EXP_DIR = "./launcher_record"


@dataclass(frozen=True)
class Loaded:
    """A config that can be trained with, and what will not be honoured in it."""

    config: Config
    warnings: tuple[Problem, ...]
    layered: Layered
    """What the user wrote, and where."""

    @property
    def name(self) -> str:
        """The file."""
        return self.layered.name

    def problem(self, finding: Finding) -> Problem:
        """A finding, with the line that it is about."""
        what = {"refused": "is refused", "ignored": "is not honoured", "doubtful": "is doubtful"}
        message = f"{what[finding.verdict]}: {finding.why}."
        return replace(self.layered.problem(finding.key, message, finding.fix), value=finding.value)


def load_config(
    path: Path,
    *,
    now: datetime,
    overrides: Sequence[str] = (),
    backbone: str | None = None,
    ray: str | None = None,
    exp_dir: str | None = None,
) -> Loaded:
    """Read, layer, check and complete a config.

    `overrides` are `key=value` words. `now` becomes part of the name of a run that has none. An `exp_dir`
    puts the output into `{exp_dir}/{experiment_name}` whatever the file says; `backbone` and `ray` are keys.

    Raises ConfigError with every problem found.
    """
    layered = with_overrides(read_file(path), overrides)
    if backbone is not None:
        layered = layered.with_value(("ajet", "backbone"), backbone, COMMAND_LINE)
    if ray is not None:
        layered = layered.with_value(("ajet", "trainer_common", "ray"), ray, COMMAND_LINE)
    _refuse_interpolation(layered)
    layered = _with_names(layered, path, exp_dir, now)
    try:
        config = Config.model_validate(layered.tree)
    except ValidationError as error:
        raise ConfigError(*problems_of(error, layered)) from error
    loaded, found = Loaded(config, (), layered), findings(config)
    if refused := [loaded.problem(finding) for finding in found if finding.verdict == "refused"]:
        raise ConfigError(*refused)
    return replace(loaded, warnings=tuple(map(loaded.problem, found)))


def resolved_yaml(config: Config) -> str:
    """The whole config as YAML 1.2 with every default, but for an unnamed judge; reads back the same."""
    unnamed = {"judge_type", "judge_protocol"} - config.ajet.task_judge.model_fields_set
    dumped = config.model_dump(mode="json", exclude={"ajet": {"task_judge": unnamed}})
    tree = {name: section for name, section in dumped.items() if section}
    for boilerplate in ("hydra", "defaults"):
        tree.pop(boilerplate, None)
    return as_yaml(tree)


def as_yaml(tree: Mapping[str, Any]) -> str:
    """A tree as YAML 1.2, in its own order."""
    emitter = YAML(typ="safe", pure=True)
    emitter.default_flow_style = False
    emitter.sort_base_mapping_type_on_output = False  # type: ignore[assignment]
    emitter.width = 10_000
    text = StringIO()
    emitter.dump(tree, text)
    return text.getvalue()


def _refuse_interpolation(layered: Layered) -> None:
    told = ("refers to another value, which is not resolved here.", "Write the value, or pass `key=value`.")
    set_here = {path: layered.value(path) for path in layered.origins if path[0] == "ajet"}
    found = [path for path, value in set_here.items() if "${" in str(value) and not isinstance(value, dict)]
    if found:
        raise ConfigError(*(layered.problem(".".join(path), *told) for path in found))


def _with_names(layered: Layered, path: Path, exp_dir: str | None, now: datetime) -> Layered:
    """Fill in the run's name and output folder."""
    if not isinstance(layered.tree.get("ajet"), dict | None):
        return layered
    name = layered.value(("ajet", "experiment_name"))
    name = f"{path.stem}_{now:%Y%m%d_%H%M}" if name in (None, "read_yaml_name") else name
    if not isinstance(name, str):
        return layered
    name = name.replace("|", "-")
    named = layered.with_value(("ajet", "experiment_name"), name, layered.where(("ajet", "experiment_name")))
    folder = layered.value(("ajet", "experiment_dir"))
    if exp_dir is None and folder not in (None, "auto"):
        return named
    where = COMMAND_LINE if exp_dir is not None else layered.where(("ajet", "experiment_dir"))
    return named.with_value(("ajet", "experiment_dir"), str(Path(exp_dir or DEFAULT_EXP_DIR) / name), where)
