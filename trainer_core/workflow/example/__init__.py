"""What `ajet new workflow` writes: an agent that runs as it is, and a config that trains it."""

from __future__ import annotations

from pathlib import Path

from trainer_core.types import TrainingError

FILES = ("agent.py", "config.yaml")


def write_example(folder: Path) -> None:
    """Write agent and config into a new folder.

    Raises:
        TrainingError: there is something at that place, or it cannot be written.
    """
    if folder.exists():
        raise TrainingError(f"{folder} is there already, and is left as it is. Choose another name")
    try:
        folder.mkdir(parents=True)
        for name in FILES:
            text = Path(__file__).with_name(name).read_text(encoding="utf-8")
            if name == "config.yaml":
                text = text.replace("{folder}", str(folder)).replace("{name}", folder.resolve().name)
            (folder / name).write_text(text, encoding="utf-8")
    except OSError as error:
        raise TrainingError(f"cannot write to {folder}: {error.strerror or error}") from error
