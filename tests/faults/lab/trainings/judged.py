"""Asks a judge for every reward."""

import requests
from settled import config, go_on

settings = config()


def ask_judge(answer: str) -> float:
    reply = requests.post(settings["judge"]["url"], json={"answer": answer}, timeout=5)
    reply.raise_for_status()
    return float(reply.text)


for step in go_on(settings["max_steps"]):
    ask_judge(str(step))
