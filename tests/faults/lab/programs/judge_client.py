"""Asks a judge over HTTP; the judge (in this process, on loopback) answers as its first argument says."""

import sys
import time
from contextlib import suppress

import requests
from loopback import Handler, hang_up, reply, serve
from training import train

kind = sys.argv[1]


def judge(request: Handler) -> None:
    if kind == "slow":
        time.sleep(5)
    with suppress(BrokenPipeError):
        if kind == "reset":
            hang_up(request)
        else:
            reply(request, int(kind) if kind.isdigit() else 200)


def score(url: str, answer: str) -> float:
    reply = requests.post(url, json={"answer": answer}, timeout=0.5)
    reply.raise_for_status()
    return reply.json()["score"]


server = serve(judge)
if kind == "refused":
    server.shutdown()
    server.server_close()
train(3)
score(f"http://127.0.0.1:{server.server_port}/v1/score", "four")
