"""The model a run starts from: a folder of the user's, or a tiny one made from its recipe and cached for
later runs.

A cache entry is a Hugging Face model folder plus `recipe.json` (what it was made from, the checksum of every
file). It is built in a folder beside its place and renamed into it, so that a reader never sees half an
entry and two processes may build at once.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from safetensors import SafetensorError
from transformers import AutoModelForCausalLM, AutoTokenizer

from trainer_core.engine.tiny_model import TinyModel, make_model, make_tokenizer
from trainer_core.engine.warmup import warm_up
from trainer_core.types import TaskSplits, TrainingError

if TYPE_CHECKING:
    from trainer_core.config.model import Warmup

_FORMAT = 2
"""Goes into every key; counts up when the code that makes a start model changes what it makes."""


@dataclass(frozen=True)
class StartModel:
    """A policy before reinforcement learning."""

    model: Any
    tokenizer: Any
    folder: str
    """Where it was read from, a folder or a name of the hub; "" where it was made for a look."""
    cache_key: str | None = None
    """Names the cache entry of a tiny model; None for a model of the user's."""


def load_model(folder: str) -> StartModel:
    """Load a Hugging Face causal language model and its tokenizer, in float32.

    Raises:
        TrainingError: there is no usable model there.
    """
    tokenizer = load_tokenizer(folder)
    with _told(folder):
        model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    return StartModel(model.eval(), tokenizer, folder)


def load_tokenizer(folder: str) -> Any:
    """Load the tokenizer of a Hugging Face model.

    Raises:
        TrainingError: there is none that can be used.
    """
    with _told(folder):
        return AutoTokenizer.from_pretrained(folder)


@contextmanager
def _told(folder: str) -> Iterator[None]:
    try:
        yield
    except (OSError, ValueError, KeyError, RuntimeError, SafetensorError) as error:
        raise TrainingError(
            f"model.path: cannot load a causal language model from {folder!r}: {error}. Give a folder with "
            "config.json, weights and tokenizer, or `tiny` for a model made on the spot"
        ) from error


def tiny_start_model(
    recipe: TinyModel,
    warmup: Warmup | None,
    tasks: TaskSplits,
    cache_root: Path,
    *,
    is_for_a_look: bool = False,
    say: Callable[[str], None],
    safe_point: Callable[[], None],
) -> StartModel:
    """The tiny model of this recipe, from the cache or built (and then cached).

    Args:
        warmup: None leaves the warm-up out.
        cache_root: `$XDG_CACHE_HOME/ajet/start_models`; created when missing.
        is_for_a_look: where the cache has none, take one without warm-up and write nothing.

    Raises:
        TrainingError: the recipe cannot be built, or the cache folder cannot be written.
    """
    description = _describe(recipe, warmup, tasks)
    key = hashlib.sha256(json.dumps(description, sort_keys=True).encode()).hexdigest()[:24]
    entry = cache_root / key
    if _is_intact(entry):
        say(f"start model {key} taken from the cache")
    else:
        tokenizer = make_tokenizer()
        model = make_model(recipe, tokenizer)
        if is_for_a_look:
            say("the start model is not in the cache: these answers are of one without warm-up")
            return StartModel(model.eval(), tokenizer, "")
        outcome = None
        if warmup:
            say(f"making a start model of {model.num_parameters():,} parameters")
            outcome = warm_up(
                model, tokenizer, tasks, warmup, seed=recipe.seed, say=say, safe_point=safe_point
            )
            if outcome.pass_rate < warmup.until_pass_rate:
                say(f"warm-up ended at pass rate {outcome.pass_rate:.3f}, below {warmup.until_pass_rate}")
        try:
            _write(entry, model, tokenizer, description | {"outcome": outcome and asdict(outcome)})
        except OSError as error:
            raise TrainingError(
                f"cannot write the start model to {entry}: {error.strerror or error}. Free some space there, "
                "or set XDG_CACHE_HOME to a folder that can be written"
            ) from error
    # also after building, so that a first and a later run start from the same bits
    return replace(load_model(str(entry)), cache_key=key)


def weights_digest(model: Any) -> str:
    """SHA-256 over the names and values of all weights: tells whether two start models are the same."""
    digest = hashlib.sha256()
    for name, tensor in sorted(model.state_dict().items()):
        digest.update(name.encode())
        digest.update(tensor.detach().reshape(-1).view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()


def _describe(recipe: TinyModel, warmup: Warmup | None, tasks: TaskSplits) -> dict[str, Any]:
    questions = hashlib.sha256()
    for task in (*tasks.training, None, *tasks.warmup):
        questions.update(json.dumps([task.main_query, task.answer] if task else None).encode())
    return {
        "format": _FORMAT,
        "model": asdict(recipe),
        "warmup": {**warmup.model_dump(exclude={"enabled"}), "seed": recipe.seed} if warmup else None,
        "tasks": questions.hexdigest() if warmup else None,
        "threads": torch.get_num_threads(),
        "versions": {name: version(name) for name in ("torch", "transformers", "tokenizers")},
    }


def _write(entry: Path, model: Any, tokenizer: Any, recipe: dict[str, Any]) -> None:
    """Move a finished draft into place, unless another process has put an intact entry there meanwhile."""
    draft = entry.with_name(f".draft-{entry.name}-{uuid.uuid4().hex[:8]}")
    try:
        draft.mkdir(parents=True)
        model.save_pretrained(draft)
        tokenizer.save_pretrained(draft)
        sums = {path.name: _checksum(path) for path in sorted(draft.iterdir())}
        (draft / "recipe.json").write_text(json.dumps({**recipe, "files": sums}, indent=2), encoding="utf-8")
        try:
            draft.rename(entry)
        except OSError:
            if not _is_intact(entry):
                broken = draft.with_name(f"{draft.name}-broken")
                entry.rename(broken)
                shutil.rmtree(broken, ignore_errors=True)
                draft.rename(entry)
    finally:
        shutil.rmtree(draft, ignore_errors=True)


def _is_intact(entry: Path) -> bool:
    """True when every file of the entry is there with the checksum it was written with."""
    try:
        files = json.loads((entry / "recipe.json").read_text(encoding="utf-8"))["files"]
        return all(_checksum(entry / name) == expected for name, expected in files.items())
    except (OSError, ValueError, KeyError, TypeError):
        return False


def _checksum(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()
