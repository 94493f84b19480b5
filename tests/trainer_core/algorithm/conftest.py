"""What verl computed (`benchmarks/oracles.py --freeze`), and the batch it computed it on, laid out flat."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch

from trainer_core.algorithm.advantages import Outcomes


@dataclass(frozen=True)
class Frozen:
    """verl's batch of B sequences of R places, as T tokens: one token of prompt, then the R places."""

    table: dict[str, Any]

    def verl(self, name: str) -> list[torch.Tensor]:
        return [torch.tensor(each, dtype=torch.float64) for each in self.table["results"][name]]

    def given(self, name: str) -> torch.Tensor:
        dtype = {"mask": torch.bool, "groups": torch.int64}.get(name, torch.float64)
        return torch.tensor(self.table["batch"][name], dtype=dtype)

    def flat(self, name: str) -> torch.Tensor:
        """[B, R] → [T]; NaN on prompts and where not trained: it must not matter."""
        values, mask = self.given(name), self.given("mask")
        prompt = torch.full((len(values), 1), torch.nan, dtype=torch.float64)
        return torch.cat([prompt, torch.where(mask, values, torch.nan)], dim=1).reshape(-1)

    def padded(self, tokens: torch.Tensor) -> torch.Tensor:
        """[T] → [B, R]; what is not trained must be exactly 0."""
        assert not tokens[~self.trained].any()
        return tokens.reshape(len(self.alone), -1)[:, 1:]

    @property
    def trained(self) -> torch.Tensor:
        return torch.nn.functional.pad(self.given("mask"), (1, 0)).reshape(-1)

    @property
    def segment(self) -> torch.Tensor:
        return self.alone.repeat_interleave(self.given("mask").shape[1] + 1)

    @property
    def alone(self) -> torch.Tensor:
        """[S] each sequence is an episode."""
        return torch.arange(len(self.given("mask")))

    def outcomes(self, **more: Any) -> Outcomes:
        return Outcomes(
            self.given("rewards"), self.given("groups"), self.trained, self.segment, self.alone, **more
        )


@pytest.fixture
def frozen() -> Frozen:
    return Frozen(json.loads(Path(__file__).with_name("oracle.json").read_text()))


def close(got: torch.Tensor, expected: Any, at_most: float = 1e-6) -> None:
    expected = torch.as_tensor(expected, dtype=torch.float64)
    torch.testing.assert_close(got.detach().double(), expected, atol=at_most, rtol=0)
