"""The judge of `training.py`: rewards that differ, whatever a model with random weights writes."""

from typing import Any


class Digits:
    """The share of digits in an answer."""

    def compute_reward(self, _task: Any, output: Any) -> tuple[float, None]:
        """See `trainer_core.judge.judge.OneByOne`."""
        text = output.text
        return sum(character.isdigit() for character in text) / max(1, len(text)), None
