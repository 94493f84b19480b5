"""Its data is not where the config says."""

from pathlib import Path

from settled import config, go_on

settings = config()
Path(settings["train_file"]).read_text()
for _ in go_on(settings["max_steps"]):
    pass
