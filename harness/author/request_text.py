"""What code can tell from a request in words, without a model, and what a person is asked without one.

In: the words as they were typed. Out: whether they are a request at all, a name, answers that are safe to
propose, whether a value stands in them, and the questions of a terminal.
"""

import re
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass, replace

from harness.blueprint import durations
from harness.blueprint.scaffold import DEFAULTS, has_config
from harness.wording import exact_duration

_NAME = re.compile(r"[A-Za-z0-9_.-]+")
_FILLERS = frozenset((
    "a", "an", "and", "are", "at", "be", "by", "can", "could", "do", "does", "for", "from", "how", "i", "if",
    "in", "is", "it", "my", "of", "on", "or", "our", "please", "should", "that", "the", "their", "then",
    "this", "to", "train", "use", "want", "we", "what", "when", "whether", "which", "will", "with", "would",
))  # fmt: skip
_LONGEST_SLUG = 40
_NUMBER = re.compile(r"(?<![\w.-])\d+(?:,\d{3})*(?:\.\d+)?(?:e[-+]?\d+)?(?!\w|\.\d)", re.IGNORECASE)
_STEPS = re.compile(r"(?<![\w.,-])(\d+(?:,\d{3})*) (?:optimi[sz]er |training |update )?(?:steps|updates)\b")
_PATH_CHARACTERS = r"\w./~-"


def is_request(text: str) -> bool:
    """True for a request in words; a single word of plain characters is (meant as) a name."""
    return not _NAME.fullmatch(text) and (any(map(str.isspace, text.strip())) or not text.isascii())


def slug(text: str) -> str:
    """A name for an experiment, from the words that say something."""
    plain = unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode().lower()
    words = [word.strip("-_.") for word in re.findall(r"[a-z0-9][a-z0-9_.-]*", plain)]
    kept = [word for word in words if word and word not in _FILLERS] or ["my-experiment"]
    name = kept[0][:_LONGEST_SLUG]
    for word in kept[1:]:
        if len(name) + 1 + len(word) > _LONGEST_SLUG:
            break
        name += f"-{word}"
    return name.strip("-_.")


def guesses(text: str) -> dict[str, str]:
    """Answers by question that the words leave no doubt about: the purpose, one length of time, one number
    of steps."""
    found = {"purpose": " ".join(text.split())}
    plain = durations.normalise(text)
    lengths = durations.find(plain)
    if len(lengths) == 1 and lengths[0].seconds > 0 and not durations.is_open(plain):
        found["max_time"] = exact_duration(lengths[0].seconds)
    steps = {match.replace(",", "") for match in _STEPS.findall(text)}
    if len(steps) == 1:
        found["total_training_steps"] = steps.pop()
    return found


def names_path(text: str, path: str) -> bool:
    """True if the words name this very path."""
    wanted = path.rstrip("/").removeprefix("./")
    if not re.search(r"\w", wanted):  # `/` and `~` stand between words, too
        return False
    edge = rf"(?<![{_PATH_CHARACTERS}])(?:\./)?{re.escape(wanted)}/?(?![\w/~-]|\.\w)"
    return re.search(edge, text) is not None


def states(text: str, value: object) -> bool:
    """True if the words contain this value: a number, a length of time, a name or its last part."""
    if isinstance(value, bool) or value is None:
        return False
    if isinstance(value, int | float):
        return any(float(match.replace(",", "")) == value for match in _NUMBER.findall(text))
    wanted = str(value).strip()
    lengths = durations.find(durations.normalise(wanted))
    if len(lengths) == 1 and lengths[0].text.strip() == wanted:
        said = durations.find(durations.normalise(text))
        return any(length.seconds == lengths[0].seconds for length in said)
    return any(
        re.search(rf"(?<!\w){re.escape(part)}(?!\w)", text, re.IGNORECASE)
        for part in (wanted, wanted.rstrip("/").rpartition("/")[2])
        if part
    )


@dataclass(frozen=True)
class Question:
    """One answer a person is asked for; `default` is what Enter gives."""

    key: str
    text: str
    default: str


def questions(name: str, template: str, guessed: Mapping[str, str] | None = None) -> tuple[Question, ...]:
    """What a terminal is asked when no model writes; `guessed` are better defaults, by key."""
    asked = [Question("purpose", "What should this experiment find out?", f"Find out what {name} changes.")]
    if not has_config(template):
        asked += [Question("launch_command", "Command that trains", "python train.py")]
    asked += [
        Question("codebase_dir", "Folder with the code, where the command runs", "."),
        Question("max_time", "How long may it take at most?", DEFAULTS["max_time"]),
    ]
    if has_config(template):
        asked += [
            Question("model_path", "Model: `tiny`, or the folder of a Hugging Face model", "tiny"),
            Question("training_file", "Training questions (JSONL file; empty: a built-in task)", ""),
            Question("validation_file", "Validation questions (JSONL file; empty: a built-in task)", ""),
            Question("total_training_steps", "Optimizer steps", "240"),
        ]
    better = guessed or {}
    return tuple(replace(question, default=better.get(question.key, question.default)) for question in asked)
