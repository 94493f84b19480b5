"""Waits for ever after some steps."""

import threading

from settled import config, go_on

settings = config()
for step in go_on(settings["max_steps"]):
    if step > settings["after"]:
        threading.Event().wait()
