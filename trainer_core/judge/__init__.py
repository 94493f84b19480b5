"""From an outcome to a reward.

A judge is any object with `compute_reward(task, output) -> (reward, is_success)`; `is_success` None means
"reward is 1 or more".
"""
