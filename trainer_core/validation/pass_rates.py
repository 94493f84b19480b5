"""From attempts to pass rates."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

KS = (1, 2, 4, 8, 16)
"""The k of pass@k that are reported, as far as there are as many attempts."""


@dataclass(frozen=True)
class TaskResult:
    """All attempts at one validation task, in their order. `query`, `texts`: what was asked and answered, of
    the few tasks that are kept as samples."""

    task_id: str
    rewards: tuple[float, ...]
    successes: tuple[bool, ...]
    query: str = ""
    texts: tuple[str, ...] = ()


@dataclass(frozen=True)
class ValidationResult:
    """One validation: every task tried `pass_n` times."""

    step: int
    tasks: tuple[TaskResult, ...]

    @property
    def pass_n(self) -> int:
        """Attempts per task."""
        return len(self.tasks[0].successes)

    def metrics(self) -> dict[str, float]:
        """The `val/…` metrics.

        `task_pass_rate@1` is the mean success; `@k` for k ≥ 2 the share of tasks solved within their first k
        attempts; `unbiased_pass@k` the estimator over all attempts; `std_reward` the population's standard
        deviation over all attempts.
        """
        rewards = [reward for task in self.tasks for reward in task.rewards]
        mean = math.fsum(rewards) / len(rewards)
        values: dict[str, float] = {}
        for k in KS:
            if k <= self.pass_n:
                values[f"val/task_pass_rate@{k}"] = first_k_pass_rate(self.tasks, k)
        for k in KS[1:]:
            if k <= self.pass_n:
                per_task = [unbiased_pass_at_k(self.pass_n, sum(task.successes), k) for task in self.tasks]
                values[f"val/unbiased_pass@{k}"] = math.fsum(per_task) / len(per_task)
        return values | {
            "val/mean_reward": mean,
            "val/std_reward": math.sqrt(math.fsum((reward - mean) ** 2 for reward in rewards) / len(rewards)),
            "val/total_tasks": len(self.tasks),
            "val/pass_n": self.pass_n,
            "val/num_all_success_tasks": sum(all(task.successes) for task in self.tasks),
            "val/num_pass_n_tasks": sum(any(task.successes) for task in self.tasks),
        }


def first_k_pass_rate(tasks: Sequence[TaskResult], k: int) -> float:
    """k = 1: share of successful attempts. k ≥ 2: share of tasks with a success among their first k."""
    if k == 1:
        return sum(sum(task.successes) for task in tasks) / sum(len(task.successes) for task in tasks)
    return sum(any(task.successes[:k]) for task in tasks) / len(tasks)


def unbiased_pass_at_k(attempts: int, successes: int, k: int) -> float:
    """Probability that k of the attempts, drawn without replacement, hold a success: 1 - C(n - c, k) / C(n,
    k).

    Source: Chen et al., "Evaluating Large Language Models Trained on Code", arXiv 2107.03374, eq. 1.
    """
    return 1.0 - math.comb(attempts - successes, k) / math.comb(attempts, k)
