"""The reward code divides by zero for an empty answer."""

from settled import config, go_on


def compute_score(solution: str, truth: str) -> float:
    words = solution.split()
    return sum(word == truth for word in words) / len(words)


for step in go_on(config()["max_steps"]):
    compute_score("four" if step < 4 else "", "four")
