"""Opens all shards of its data."""

from contextlib import ExitStack
from pathlib import Path

from settled import config, go_on

settings = config()
with ExitStack() as opened:
    for number in range(settings["shards"]):
        path = Path(f"shard_{number:04d}.bin")
        path.touch()
        opened.enter_context(path.open("rb"))
    for _ in go_on(settings["max_steps"]):
        pass
