"""Reward code that never comes to an end."""

from training import train


def compute_score(answer: str) -> float:
    """Strip brackets, however many there are."""
    return compute_score(answer.strip("("))


train(3)
compute_score("(4)")
