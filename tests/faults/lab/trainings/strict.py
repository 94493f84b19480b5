"""Takes no key that it does not know."""

import difflib

from settled import config, go_on

KNOWN = {"max_steps", "learning_rate", "seed", "dataloader_num_workers", "logging_steps"}


class UnknownKeyError(ValueError):
    """A key of the config that means nothing here."""


settings = config()
for key in settings:
    if key not in KNOWN:
        near = difflib.get_close_matches(key, KNOWN, 1)
        raise UnknownKeyError(f"unknown config key '{key}', did you mean '{near[0]}'?")
for _ in go_on(settings["max_steps"]):
    pass
