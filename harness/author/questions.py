"""What a person is asked on a terminal when no model writes the experiment."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from harness.blueprint.scaffold import DEFAULTS, has_config


@dataclass(frozen=True)
class Question:
    """One answer a person is asked for."""

    key: str
    text: str
    default: str


def questions(name: str, template: str, guessed: Mapping[str, str] | None = None) -> tuple[Question, ...]:
    """What to ask, with the answer that Enter gives; `guessed` are better defaults, by key."""
    asked = [
        Question("purpose", "What should this experiment find out?", f"Find out what {name} changes."),
        Question("codebase_dir", "Folder with the code (the working directory)", "."),
        Question("max_time", "How long may it take at most?", DEFAULTS["max_time"]),
    ]
    if not has_config(template):
        asked += [Question("launch_command", "Command that trains", "python train.py")]
    else:
        asked += [
            Question("model_path", "Model: `tiny`, or the folder of a Hugging Face model", "tiny"),
            Question("training_file", "Training questions (JSONL file; empty: a built-in task)", ""),
            Question("validation_file", "Validation questions (JSONL file; empty: a built-in task)", ""),
            Question("total_training_steps", "Optimizer steps", "240"),
        ]
    better = guessed or {}
    return tuple(replace(question, default=better.get(question.key, question.default)) for question in asked)
