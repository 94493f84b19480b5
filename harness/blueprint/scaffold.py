"""A new experiment from the templates: answers in, `blueprint.md` and `config.yaml` out."""

import os
import re
import shutil
import tempfile
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness import templating
from harness.blueprint.reader import parse
from harness.blueprint.surroundings import ask_own_trainer
from harness.blueprint.types import Blueprint
from harness.config.edit import ConfigEditError, edit
from harness.config.keys import short_names
from harness.config.values import Scalar
from harness.errors import UserError
from harness.wording import did_you_mean

_READER = "ajet.task_reader.type"
_PATHS = ("codebase_dir", "venv_exe", "result_dir")
_LISTS = ("metrics", "protected_keys")
DEFAULTS = {
    **dict.fromkeys(("purpose", "codebase_dir", "venv_exe", "launch_command", "result_dir"), ""),
    "max_time": "24 hours",
    "first_step": "20 minutes",
    **dict.fromkeys(("metrics", "protected_keys", "notes"), ""),
}
"""What a blueprint's templates are filled with; `metrics` and `protected_keys` are one entry per line."""

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")


class ScaffoldError(UserError):
    """The experiment cannot be written; the message says why and how to fix it."""


@dataclass(frozen=True)
class Composed:
    """The texts of a new experiment, before they are written. `config`: None where the template has none."""

    blueprint: str
    config: str | None
    codebase: Path

    @property
    def files(self) -> dict[str, str]:
        """Texts by file name."""
        config = {} if self.config is None else {"config.yaml": self.config}
        return {"blueprint.md": self.blueprint, **config}


def write_experiment(name: str, folder: Path, answers: Mapping[str, str], template: str = "grpo") -> Path:
    """Write `folder/name/blueprint.md` and, where the template has one, `config.yaml`; returns the
    blueprint's path.

    `answers` are texts by name: sections of the blueprint without `exp_`, short config names, or dotted
    config keys (values are YAML). Relative paths of sections start here, those in the config at the codebase.
    Nothing is ever overwritten: the folder appears whole or not at all. Raises ScaffoldError.
    """
    cwd = Path.cwd()
    target = place_for(name, folder, cwd)
    sections, settings = sort_answers(answers, template)
    composed = compose(name, target, sections, settings, template, cwd)
    if composed.config is not None:
        _ask_trainer(composed.config, composed.codebase)
    publish(target, composed.files)
    return target / "blueprint.md"


def place_for(name: str, folder: Path, cwd: Path, may_be_taken: bool = False) -> Path:
    """The folder that a new experiment gets. Raises ScaffoldError for a bad name or one that is taken."""
    if not _NAME.fullmatch(name):
        slug = re.sub(r"[^A-Za-z0-9_.-]+", "-", name).strip("-.") or "my-experiment"
        rule = f"use letters, digits, `-`, `_`, such as {slug[:64]}"
        raise ScaffoldError(f"{name!r} is no experiment name: {rule}")
    target = Path(os.path.abspath(cwd / folder / name))  # noqa: PTH100 - keeps symbolic links
    if not may_be_taken and os.path.lexists(target) and (not target.is_dir() or any(target.iterdir())):
        taken = f"{target} is already there and is not overwritten"
        raise ScaffoldError(f"{taken}: choose another name, or --dir")
    return target


def compose(
    name: str,
    target: Path,
    sections: Mapping[str, str],
    settings: Mapping[str, Scalar],
    template: str,
    cwd: Path,
) -> Composed:
    """The texts of the experiment whose folder will be `target`; `sections` by names in DEFAULTS, `settings`
    by short names or dotted keys. Writes nothing. Raises ScaffoldError."""
    text, codebase = _blueprint_text(name, template, sections, target, cwd)
    if not has_config(template):
        return Composed(text, None, codebase)
    return Composed(text, _config_text(name, template, dotted(settings)), codebase)


def publish(target: Path, files: Mapping[str, str], private: Collection[str] = ()) -> None:
    """Make the folder `target` with these files, all at once and only if nothing is there; the `private` ones
    are for their owner alone. Raises ScaffoldError."""
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        staging = Path(tempfile.mkdtemp(prefix=f".{target.name}.", dir=target.parent))
    except OSError as error:
        raise ScaffoldError(f"{target} cannot be written: {error.strerror}") from error
    try:
        for name, text in files.items():
            (staging / name).touch(mode=0o600 if name in private else 0o666)
            (staging / name).write_text(text, encoding="utf-8")
        staging.chmod(0o755)
        staging.rename(target)
    except (OSError, UnicodeEncodeError) as error:
        why = error.strerror if isinstance(error, OSError) else error
        raise ScaffoldError(f"{target} cannot be written: {why}") from error
    finally:
        shutil.rmtree(staging, ignore_errors=True)


def render_config(name: str, settings: Mapping[str, Scalar]) -> str:
    """The config of an experiment that names none: GRPO, on a built-in task unless settings say else.
    `settings`: short names or dotted keys to values. Raises ScaffoldError for a name that does not exist."""
    return _config_text(name, "grpo", dotted(settings))


def dotted(settings: Mapping[str, Scalar]) -> dict[str, Scalar]:
    """Settings with their keys written out. Raises ScaffoldError for a name that does not exist."""
    return {_dotted(key): value for key, value in settings.items()}


def _dotted(key: str) -> str:
    dotted = short_names().get(key, key)
    if not re.fullmatch(r"(?:ajet|verl|trinity)\.[\w.]*\w", dotted):
        raise ScaffoldError(f"there is no setting {key!r}{did_you_mean(key, [*DEFAULTS, *short_names()])}")
    return dotted


def has_config(template: str) -> bool:
    """True if experiments of this template come with a config."""
    return template in templating.template_names("configs")


def sort_answers(answers: Mapping[str, str], template: str) -> tuple[dict[str, str], dict[str, Scalar]]:
    """Split the answers into the blueprint's and the config's. Raises ScaffoldError for an unknown name."""
    sections: dict[str, str] = {}
    config: dict[str, Scalar] = {}
    for key, value in answers.items():
        section = key.strip("[]").removeprefix("exp_")
        if section in DEFAULTS:
            sections[section] = value.strip()
            continue
        full_key = _dotted(key)
        if not has_config(template):
            raise ScaffoldError(
                f"{key} is a setting of the bundled trainer: leave it out for a command of your own"
            )
        if value.strip() or key not in short_names():
            config[full_key] = _scalar(key, value)
    return sections, config


def _scalar(key: str, value: str) -> Scalar:
    from harness.config import reader

    try:
        with reader.reading(value):
            parsed = reader.parser().load(value)
    except reader.UnreadableConfigError as error:
        raise ScaffoldError(f"the value of {key}, {value!r}, is no YAML; put quotes inside it") from error
    if not isinstance(parsed, str | int | float | bool | None):
        why = f"the value of {key}, {value!r}, is not a single value"
        raise ScaffoldError(f"{why}: edit config.yaml afterwards")
    return parsed


def _blueprint_text(
    name: str, template: str, given: Mapping[str, str], target: Path, cwd: Path
) -> tuple[str, Path]:
    """The rendered blueprint and its codebase. Read back, what was given must be what is understood."""
    values: dict[str, Any] = {**DEFAULTS, **given}
    for key in _PATHS:
        if values[key]:
            values[key] = os.path.normpath(cwd / Path(values[key]).expanduser())
    if not has_config(template) and not values["launch_command"]:
        raise ScaffoldError("there is no command: give one, as --command 'python train.py'")
    values["codebase_dir"] = values["codebase_dir"] or os.path.relpath(cwd, target)
    purpose = values["purpose"] or f"Find out what {name} changes."
    values["purpose"] = "\n".join(filter(None, map(str.strip, purpose.split("\n"))))
    values["notes"] = values["notes"].strip()
    for key in _LISTS:
        values[key] = [line.strip() for line in values[key].split("\n") if line.strip()]
    text = templating.render(f"blueprints/{template}.md.j2", name=name, **values)
    understood = parse(text, target / "blueprint.md", cwd)
    if understood.errors:
        raise ScaffoldError(understood.errors)
    _compare(values, understood, given)
    return text, understood.codebase_dir


def _compare(values: Mapping[str, Any], understood: Blueprint, given: Mapping[str, str]) -> None:
    """Refuse words that would be read back as something else, such as a heading inside the notes."""
    as_read = {
        **understood.as_json(),
        "launch_command": understood.launch_command or "",
        "metrics": list(understood.metrics.patterns) if understood.metrics else [],
    }
    meant = {key: values[key] for key in ("purpose", "notes", *_LISTS)}
    meant |= {key: values[key] for key in (*_PATHS, "launch_command") if given.get(key)}
    meant |= dict.fromkeys(("prepare_command", "evaluate_command", "cleanup_command", "host"))
    for key, value in meant.items():
        if as_read[key] != value:
            fix = "say it in simpler words, or write the blueprint by hand"
            raise ScaffoldError(f"{key} {value!r} would be read back as {as_read[key]!r}: {fix}")


def _config_text(name: str, template: str, config: Mapping[str, Scalar]) -> str:
    files = [config.get(short_names()[key]) for key in ("training_file", "validation_file")]
    if any(files) and not all(files):
        raise ScaffoldError("training_file and validation_file go together: name both files, or neither")
    text = templating.render(
        f"configs/{template}.yaml.j2",
        name=name,
        model_path=config.get(short_names()["model_path"], "tiny"),
        training_file=files[0],
        validation_file=files[1],
    )
    changes = dict(config)
    is_foreign = not files[0] and changes.get(_READER, "builtin") != "builtin"
    _keep_lengths(changes, is_foreign)
    try:
        return edit(text, changes, ["ajet.task_reader.builtin"] if is_foreign else [])
    except ConfigEditError as error:
        raise ScaffoldError(str(error)) from error


def _keep_lengths(changes: dict[str, Scalar], is_foreign: bool) -> None:
    """Longer prompts or answers need room: the lengths that were not given follow those that were. Data that
    the template does not know (`is_foreign`) is longer than the digits of its built-in task."""
    if is_foreign:
        for part in ("prompt", "response"):
            changes.setdefault(short_names()[f"max_{part}_length"], 1024)
    prompt, response = (changes.get(short_names()[f"max_{part}_length"]) for part in ("prompt", "response"))
    if isinstance(response, int):
        changes.setdefault("ajet.rollout.max_response_length_in_one_turn", response)
    if isinstance(prompt, int) or isinstance(response, int):
        room = sum(length if isinstance(length, int) else 1024 for length in (prompt, response))
        changes.setdefault("ajet.rollout.max_model_len", room)


def _ask_trainer(config: str, codebase: Path) -> None:
    """Refuse what the trainer would refuse, with its own words; data may still come."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "config.yaml"
        file.write_text(config, encoding="utf-8")
        verdict = ask_own_trainer(file, codebase)
    refused = [
        f"{text.split(': ', 1)[-1]} — {fix}" for text, fix, severity in verdict.remarks if severity == "error"
    ]
    if refused and not verdict.about_data:
        raise ScaffoldError("the trainer refuses this config: " + "; ".join(refused))
    if verdict.failure:
        raise ScaffoldError(verdict.failure)
