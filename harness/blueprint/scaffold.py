"""A new experiment from the templates: answers in, `blueprint.md` and `config.yaml` out."""

import difflib
import os
import re
import shutil
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness import templating
from harness.blueprint.read import parse
from harness.blueprint.trainer import ask_trainer
from harness.config_edit import ConfigEditError, Scalar, edit

CONFIG_KEYS = {
    "model_path": "ajet.model.path",
    "training_file": "ajet.task_reader.jsonl_dataset_file.training.file_path",
    "validation_file": "ajet.task_reader.jsonl_dataset_file.validation.file_path",
    "task": "ajet.task_reader.builtin.name",
    "total_training_steps": "ajet.trainer_common.total_training_steps",
    "train_batch_size": "ajet.data.train_batch_size",
    "num_repeat": "ajet.rollout.num_repeat",
    "lr": "ajet.trainer_common.optim.lr",
    "kl_loss_coef": "ajet.trainer_common.kl_loss_coef",
    "temperature": "ajet.rollout.temperature",
    "max_prompt_length": "ajet.data.max_prompt_length",
    "max_response_length": "ajet.data.max_response_length",
    "val_pass_n": "ajet.trainer_common.val_pass_n",
    "test_freq": "ajet.trainer_common.test_freq",
    "save_freq": "ajet.trainer_common.save_freq",
    "seed": "ajet.trainer_common.seed",
}
"""Short names of config keys."""

_PATHS = ("codebase_dir", "venv_exe", "result_dir")
_DEFAULTS = {
    "purpose": "",
    "codebase_dir": "",
    "venv_exe": "",
    "launch_command": "",
    "result_dir": "",
    "max_time": "24 hours",
    "first_step": "20 minutes",
    "notes": "",
}
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")


class ScaffoldError(Exception):
    """The experiment cannot be written; the message says why and how to mend it."""


@dataclass(frozen=True)
class Question:
    """One answer a person is asked for."""

    key: str
    text: str
    default: str


def questions(name: str, template: str) -> tuple[Question, ...]:
    """What to ask on a terminal, with the answer that Enter gives."""
    asked = [
        Question("purpose", "What should this experiment find out?", f"Find out what {name} changes."),
        Question("codebase_dir", "Folder with the code (the working directory)", "."),
        Question("max_time", "How long may it take at most?", _DEFAULTS["max_time"]),
    ]
    if not _has_config(template):
        return (*asked, Question("launch_command", "Command that trains", "python train.py"))
    return (
        *asked,
        Question("model_path", "Model: `tiny`, or the folder of a Hugging Face model", "tiny"),
        Question("training_file", "Training questions (JSONL file; empty: a built-in task)", ""),
        Question("validation_file", "Validation questions (JSONL file; empty: a built-in task)", ""),
        Question("total_training_steps", "Optimizer steps", "240"),
    )


def write_experiment(
    name: str, folder: Path, answers: Mapping[str, str], template: str = "grpo", cwd: Path | None = None
) -> Path:
    """Write `folder/name/blueprint.md` and, where the template has one, `config.yaml`; returns the
    blueprint's path.

    `answers` are texts by name: sections of the blueprint without `exp_`, short config names, or dotted
    config keys (values are YAML). Relative paths of sections start at `cwd`, those in the config at the
    codebase. Nothing is ever overwritten: the folder appears whole or not at all. Raises ScaffoldError.
    """
    cwd = cwd or Path.cwd()
    target = Path(os.path.abspath(cwd / folder / name))  # noqa: PTH100 - keeps symbolic links
    _check_name(name, target)
    _check_template(template)
    blueprint_values, config_values = _sort_answers(answers, template)
    text, codebase = _blueprint_text(name, template, blueprint_values, target, cwd)
    config = _config_text(name, template, config_values) if _has_config(template) else None
    target.parent.mkdir(parents=True, exist_ok=True)
    staging = Path(tempfile.mkdtemp(prefix=f".{name}.", dir=target.parent))
    try:
        (staging / "blueprint.md").write_text(text, encoding="utf-8")
        if config is not None:
            (staging / "config.yaml").write_text(config, encoding="utf-8")
            _ask_trainer(staging / "config.yaml", codebase)
        staging.chmod(0o755)
        staging.rename(target)
    except OSError as error:
        raise ScaffoldError(f"{target} cannot be written: {error.strerror}") from error
    finally:
        shutil.rmtree(staging, ignore_errors=True)
    return target / "blueprint.md"


def default_config(name: str) -> str:
    """The config of an experiment that names none: GRPO on a built-in task."""
    return _config_text(name, "grpo", {})


def _has_config(template: str) -> bool:
    return template in templating.template_names("configs")


def _check_name(name: str, target: Path) -> None:
    if not _NAME.fullmatch(name):
        slug = re.sub(r"[^A-Za-z0-9_.-]+", "-", name).strip("-.") or "my-experiment"
        raise ScaffoldError(
            f"{name!r} is no experiment name: use letters, digits, `-`, `_`, such as {slug[:64]}"
        )
    if os.path.lexists(target) and (not target.is_dir() or any(target.iterdir())):
        raise ScaffoldError(
            f"{target} is already there and is not overwritten: choose another name, or --dir"
        )


def _check_template(template: str) -> None:
    known = templating.template_names("blueprints")
    if template not in known:
        raise ScaffoldError(
            f"there is no template {template!r}{_did_you_mean(template, known)}: use {', '.join(known)}"
        )


def _sort_answers(answers: Mapping[str, str], template: str) -> tuple[dict[str, str], dict[str, Scalar]]:
    """Split the answers into the blueprint's and the config's; an unknown name is refused."""
    sections: dict[str, str] = {}
    config: dict[str, Scalar] = {}
    for key, value in answers.items():
        section = key.strip("[]").removeprefix("exp_")
        dotted = CONFIG_KEYS.get(key, key)
        if section in _DEFAULTS:
            sections[section] = value.strip()
        elif not re.fullmatch(r"(?:ajet|verl|trinity)\.[\w.]*\w", dotted):
            raise ScaffoldError(
                f"there is no setting {key!r}{_did_you_mean(key, [*_DEFAULTS, *CONFIG_KEYS])}"
            )
        elif not _has_config(template):
            raise ScaffoldError(
                f"the template {template} has no config, so {key} has no meaning; leave it out"
            )
        elif value.strip() or key not in CONFIG_KEYS:
            config[dotted] = _scalar(key, value)
    return sections, config


def _scalar(key: str, value: str) -> Scalar:
    from ruamel.yaml import YAML
    from ruamel.yaml.error import YAMLError

    try:
        parsed = YAML(typ="safe", pure=True).load(value)
    except YAMLError as error:
        raise ScaffoldError(f"the value of {key}, {value!r}, is no YAML; put quotes inside it") from error
    if not isinstance(parsed, str | int | float | bool | None):
        raise ScaffoldError(
            f"the value of {key}, {value!r}, is not a single value: edit config.yaml afterwards"
        )
    return parsed


def _blueprint_text(
    name: str, template: str, given: Mapping[str, str], target: Path, cwd: Path
) -> tuple[str, Path]:
    """The rendered blueprint and its codebase. Read back, what was given must be what is understood."""
    values: dict[str, Any] = {**_DEFAULTS, **given}
    for key in _PATHS:
        if values[key]:
            values[key] = os.path.normpath(cwd / Path(values[key]).expanduser())
    values["codebase_dir"] = values["codebase_dir"] or os.path.relpath(cwd, target)
    values["purpose"] = values["purpose"] or f"Find out what {name} changes."
    if not _has_config(template) and not values["launch_command"]:
        raise ScaffoldError(
            f"the template {template} needs a command: --set launch_command='python train.py'"
        )
    text = templating.render(f"blueprints/{template}.md.j2", name=name, **values)
    understood = parse(text, target / "blueprint.md", cwd)
    errors = [problem for problem in understood.problems if problem.severity == "error"]
    if errors:
        raise ScaffoldError("; ".join(f"{error.message} — {error.mend}" for error in errors))
    as_read = {**understood.as_json(), "launch_command": understood.launch_command or ""}
    for key in ("purpose", *(key for key in _PATHS if given.get(key))):
        if str(as_read[key]) != values[key]:
            raise ScaffoldError(
                f"{key} {values[key]!r} would be read back as {as_read[key]!r}: say it in simpler words, or "
                "write the blueprint by hand"
            )
    return text, understood.codebase_dir


def _config_text(name: str, template: str, config: Mapping[str, Scalar]) -> str:
    files = [config.get(CONFIG_KEYS[key]) for key in ("training_file", "validation_file")]
    if any(files) and not all(files):
        raise ScaffoldError(
            "training_file and validation_file go together: name both JSONL files, or neither"
        )
    text = templating.render(
        f"configs/{template}.yaml.j2",
        name=name,
        model_path=config.get(CONFIG_KEYS["model_path"], "tiny"),
        training_file=files[0],
        validation_file=files[1],
    )
    changes = dict(config)
    _keep_lengths(changes)
    try:
        return edit(text, changes)
    except ConfigEditError as error:
        raise ScaffoldError(str(error)) from error


def _keep_lengths(changes: dict[str, Scalar]) -> None:
    """Longer prompts or answers need room: the lengths that were not given follow those that were."""
    prompt, response = (changes.get(CONFIG_KEYS[f"max_{part}_length"]) for part in ("prompt", "response"))
    if isinstance(response, int):
        changes.setdefault("ajet.rollout.max_response_length_in_one_turn", response)
    if isinstance(prompt, int) or isinstance(response, int):
        room = sum(length if isinstance(length, int) else 1024 for length in (prompt, response))
        changes.setdefault("ajet.rollout.max_model_len", room)


def _ask_trainer(config: Path, codebase: Path) -> None:
    """Refuse what the trainer would refuse, with its own words."""
    verdict = ask_trainer(Path(sys.executable), config, codebase)
    refused = [
        f"{text.split(': ', 1)[-1]} — {mend}"
        for text, mend, severity in verdict.remarks
        if severity == "error"
    ]
    if refused:
        raise ScaffoldError("the trainer refuses this config: " + "; ".join(refused))
    if verdict.failure:
        raise ScaffoldError(verdict.failure)


def _did_you_mean(word: str, known: Any) -> str:
    close = difflib.get_close_matches(word, list(known), n=1, cutoff=0.5)
    return f" (did you mean {close[0]}?)" if close else ""
