"""A judge's reply that is not what the parser expects."""

import json

from training import train


def parse_judge_reply(reply: str) -> float:
    return float(json.loads(reply)["score"])


def reward(answer: str) -> float:
    return parse_judge_reply(f"The answer {answer} deserves 7 out of 10.")


train(3)
reward("4")
