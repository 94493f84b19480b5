"""Saves a checkpoint of a megabyte after each step, and keeps as many as the config says."""

from pathlib import Path

from settled import config, go_on

settings = config()
folder = Path("outputs")


def save_checkpoint(step: int) -> None:
    kept = sorted(folder.glob("checkpoint-*.pt"), key=lambda path: int(path.stem.partition("-")[2]))
    for path in kept[: max(0, len(kept) + 1 - settings["save_total_limit"])]:
        path.unlink()
    (folder / f"checkpoint-{step}.pt").write_bytes(b"w" * (1 << 20))


for number in go_on(settings["max_steps"]):
    save_checkpoint(number)
