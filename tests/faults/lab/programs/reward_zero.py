"""The grader looks for an answer format that the prompt never asked for: every reward is zero."""

import re

from training import row

for step in range(1, 41):
    answers = [f"The answer is {number}." for number in range(step, step + 8)]
    rewards = [float(bool(re.search(r"#### -?\d+", answer))) for answer in answers]
    row(step, sum(rewards) / len(rewards), 0.0)
print("Training finished.")
