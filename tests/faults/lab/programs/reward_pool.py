"""Reward code that divides by the length of an empty answer, in worker processes."""

from concurrent.futures import ProcessPoolExecutor

from training import train


def compute_score(solution: str, truth: str) -> float:
    words = solution.split()
    return sum(word == truth for word in words) / len(words)


if __name__ == "__main__":
    train(3)
    with ProcessPoolExecutor(1) as pool:
        print(sum(pool.map(compute_score, ["four", ""], ["four", "four"])))
