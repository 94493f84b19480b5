"""From what came of the episodes of a group to what each earned.

A judge is any object with `async score(task, episodes) -> scores`: it sees all tries at a task together.
One with `compute_reward(task, output) -> (reward, is_success)` sees one answer at a time; both forms can be
named in `task_judge.judge_protocol`. `is_success` None means "reward is 1 or more".
"""
