"""What a script is shown of a request, the same for both protocols."""

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class SeenCall:
    """A call the model made earlier; `arguments` is JSON text."""

    id: str
    name: str
    arguments: str


@dataclass(frozen=True)
class SeenTurn:
    """One turn: `role` is user or assistant. `results`: what a user's turn says came of calls."""

    role: str
    text: str = ""
    calls: tuple[SeenCall, ...] = ()
    results: tuple[str, ...] = ()


@dataclass(frozen=True)
class Seen:
    """One request. `number` counts from 1; `tools`: descriptions by name; `headers` have lower-case names."""

    number: int
    system: str
    tools: dict[str, str]
    turns: tuple[SeenTurn, ...]
    body: dict[str, Any]
    headers: dict[str, str]

    @property
    def texts(self) -> list[str]:
        """Every text that the model did not write itself, in the order of the prompt."""
        said = [self.system] if self.system else []
        for turn in self.turns:
            if turn.role == "user":
                said += [*turn.results, *([turn.text] if turn.text else [])]
        return said

    @property
    def text(self) -> str:
        """All of it as one text."""
        return "\n\n".join(self.texts)

    @property
    def calls(self) -> list[SeenCall]:
        """The calls the model has made so far in this conversation."""
        return [call for turn in self.turns for call in turn.calls]
