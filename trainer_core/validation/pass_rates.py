"""From repeated episodes to pass rates."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

from trainer_core.types import Episode

KS = (1, 2, 4, 8, 16)
"""The k of pass@k that are reported, as far as there are as many repeats."""
KEPT_SAMPLES = 8
"""Tasks of a validation whose texts are written down."""
_LONGEST_TEXT = 4000


@dataclass(frozen=True)
class TaskResult:
    """All episodes of one validation task, in the order of their repeats. `query`, `texts`: what was asked
    and answered, of the few tasks that are kept as samples."""

    task_id: str
    rewards: tuple[float | None, ...]
    """None where the episode failed; such an episode is no success."""
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
        """Episodes per task."""
        return len(self.tasks[0].successes)

    def metrics(self) -> dict[str, float]:
        """The `val/…` metrics.

        `task_pass_rate@1` is the mean success; `@k` for k ≥ 2 the share of tasks solved within their first k
        episodes; `unbiased_pass@k` the estimator over all episodes; `std_reward` the population's standard
        deviation. Episodes that failed are not solved, have no part in mean and deviation of the rewards
        (nan where all failed), and are counted in `failed_episodes` where there are any.
        """
        everything = [reward for task in self.tasks for reward in task.rewards]
        rewards = [reward for reward in everything if reward is not None]
        mean = math.fsum(rewards) / len(rewards) if rewards else math.nan
        deviation = math.fsum((reward - mean) ** 2 for reward in rewards) / max(1, len(rewards))
        ks = [k for k in KS if k <= self.pass_n]
        values: dict[str, float] = {f"val/task_pass_rate@{k}": first_k_pass_rate(self.tasks, k) for k in ks}
        for k in ks[1:]:
            per_task = [unbiased_pass_at_k(self.pass_n, sum(task.successes), k) for task in self.tasks]
            values[f"val/unbiased_pass@{k}"] = math.fsum(per_task) / len(per_task)
        if len(rewards) < len(everything):
            values["val/failed_episodes"] = len(everything) - len(rewards)
        return values | {
            "val/mean_reward": mean,
            "val/std_reward": math.sqrt(deviation) if rewards else math.nan,
            "val/total_tasks": len(self.tasks),
            "val/pass_n": self.pass_n,
            "val/num_all_success_tasks": sum(all(task.successes) for task in self.tasks),
            "val/num_pass_n_tasks": sum(any(task.successes) for task in self.tasks),
        }


def summarize(step: int, episodes: Sequence[Episode]) -> ValidationResult:
    """Group episodes, which lie together per task in the order of their repeats, into results per task."""
    results: list[TaskResult] = []
    for task_id, group in groupby(episodes, key=lambda episode: episode.task.task_id):
        repeats = list(group)
        is_kept = len(results) < KEPT_SAMPLES
        results.append(
            TaskResult(
                task_id,
                rewards=tuple(episode.reward for episode in repeats),
                successes=tuple(episode.is_success for episode in repeats),
                query=repeats[0].task.main_query[:_LONGEST_TEXT] if is_kept else "",
                texts=tuple(episode.output[:_LONGEST_TEXT] for episode in repeats) if is_kept else (),
            )
        )
    return ValidationResult(step, tuple(results))


def first_k_pass_rate(tasks: Sequence[TaskResult], k: int) -> float:
    """k = 1: share of successful episodes. k ≥ 2: share of tasks with a success among their first k."""
    if k == 1:
        return sum(sum(task.successes) for task in tasks) / sum(len(task.successes) for task in tasks)
    return sum(any(task.successes[:k]) for task in tasks) / len(tasks)


def unbiased_pass_at_k(episodes: int, successes: int, k: int) -> float:
    """Probability that k of the episodes, drawn without replacement, hold a success: 1 - C(n - c, k) / C(n,
    k).

    Source: Chen et al., "Evaluating Large Language Models Trained on Code", arXiv 2107.03374, eq. 1.
    """
    return 1.0 - math.comb(episodes - successes, k) / math.comb(episodes, k)
