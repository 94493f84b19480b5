"""Environments that the service serves: what a user's own derive from, and FrozenLake."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

State = str | Sequence[Mapping[str, Any]]
"""What the model sees next: text for the user, or messages."""


class ServedEnvironment:
    """An environment; an instance plays one episode, each call in some thread, one after the other. With a
    ValueError it says that what was asked of it is wrong; whatever else it raises is a failure of its own."""

    name: ClassVar[str] = ""
    """The `env_type` it is asked for by; empty: the class's name."""

    @classmethod
    def tasks(cls, split: str) -> Sequence[str]:
        """The ids of the tasks of a split, such as `train` and `dev`."""
        raise NotImplementedError

    def reset(self, task_id: str) -> State:
        """Begin a task."""
        raise NotImplementedError

    def step(self, action: Mapping[str, Any]) -> tuple[State, float, bool]:
        """What comes of the assistant's message (`role`, `content`): state, reward, is it over."""
        raise NotImplementedError

    def score(self) -> float:
        """What the episode is worth so far; 1 or more is a success."""
        raise NotImplementedError

    def close(self) -> None:
        """Let go of what the instance holds."""


LAKE = ("SFFF", "FHFH", "FFFH", "HFFG")
LETTERS = "LDRU"
MOST_MOVES = 10


class FrozenLake(ServedEnvironment):
    """FrozenLake of gymnasium in text: the model sees the map with itself, A, on it, and says L, D, R or U.
    Each cell of the ice to start from is a task; the corner is for validation."""

    name = "frozen_lake"

    @classmethod
    def tasks(cls, split: str) -> Sequence[str]:
        ice = [f"from-{cell}" for cell, kind in enumerate("".join(LAKE)) if kind in "SF"]
        splits = {"train": ice[1:], "dev": ice[:1]}
        if split not in splits:
            raise ValueError(f"there is no split {split!r}; there are train and dev")
        return splits[split]

    def reset(self, task_id: str) -> State:
        import gymnasium

        if task_id not in (*self.tasks("train"), *self.tasks("dev")):
            raise ValueError(f"there is no task {task_id!r}")
        start = int(task_id.removeprefix("from-"))
        self._ice = "".join(LAKE).replace("S", "F")
        text = self._ice[:start] + "S" + self._ice[start + 1 :]
        lake = [text[row : row + 4] for row in range(0, 16, 4)]
        self._score = 0.0
        self._lake = gymnasium.make(
            "FrozenLake-v1", desc=lake, is_slippery=False, max_episode_steps=MOST_MOVES
        )
        self._cell, _ = self._lake.reset(seed=0)
        return self._seen()

    def step(self, action: Mapping[str, Any]) -> tuple[State, float, bool]:
        said = str(action.get("content")).strip()
        if said not in tuple(LETTERS):
            return self._seen(), 0.0, True
        self._cell, reward, has_ended, is_late, _ = self._lake.step(LETTERS.index(said))
        self._score = float(reward)
        return self._seen(), self._score, bool(has_ended or is_late)

    def score(self) -> float:
        return self._score

    def _seen(self) -> str:
        text = self._ice[: self._cell] + "A" + self._ice[self._cell + 1 :]
        return "\n".join(text[row : row + 4] for row in range(0, 16, 4))
