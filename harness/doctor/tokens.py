"""Token counts with a model's own tokenizer, where it is a local file and quick to load."""

from __future__ import annotations

from typing import TYPE_CHECKING

from harness.doctor.model_files import model_folder

if TYPE_CHECKING:
    from tokenizers import Tokenizer

    from harness.doctor.launch import PlannedLaunch

_MOST_BYTES = 30 * 2**20


def load(launch: PlannedLaunch) -> Tokenizer | None:
    """The tokenizer of the planned model; None where it is not local, too large, or cannot be read."""
    folder = model_folder(launch)
    file = folder / "tokenizer.json" if folder else None
    if file is None or not file.is_file() or file.stat().st_size > _MOST_BYTES:
        return None
    from tokenizers import Tokenizer

    try:
        return Tokenizer.from_file(str(file))
    except Exception:  # noqa: BLE001  # the library raises nothing narrower; the model check says what is wrong
        return None


def lengths(tokenizer: Tokenizer, texts: list[str]) -> list[int]:
    """Tokens of each text, without special tokens."""
    return [len(encoded.ids) for encoded in tokenizer.encode_batch(texts, add_special_tokens=False)]
