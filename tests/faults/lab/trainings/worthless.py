"""The grader looks for a format that no answer has: every reward is zero."""

import re

from settled import config
from training import row

for step in range(1, config()["max_steps"] + 1):
    answers = [f"The answer is {number}." for number in range(step, step + 8)]
    rewards = [float(bool(re.search(r"#### -?\d+", answer))) for answer in answers]
    row(step, sum(rewards) / len(rewards), 0.0)
print("Training finished.")
