"""Compares the answers to one request. Change: what makes one better.

python reward.py
"""

from collections.abc import Mapping, Sequence
from typing import Any

from trainer_core.swarm.proxy_reward import ProxyAnswer


def compare(request: Mapping[str, Any], answers: Sequence[ProxyAnswer]) -> list[float]:
    """A score for each answer to `request` (the body that the application has sent), in their order.

    Here: short answers that repeat no word.
    """
    return [_score(answer.text) for answer in answers]


def _score(answer: str) -> float:
    words = answer.lower().split()
    if not words:
        return 0.0
    return len(set(words)) / len(words) / (1.0 + len(words) / 100.0)


if __name__ == "__main__":
    tried = ["a short answer", "well well well well", ""]
    print(compare({"messages": []}, [ProxyAnswer(text, {}) for text in tried]))
