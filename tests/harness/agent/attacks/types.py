"""The words of the attack suite."""

import json
from dataclasses import dataclass
from typing import Any, Literal

Place = Literal[
    "log", "traceback", "yaml_comment", "source_comment", "file_name",
    "dataset_row", "metric_name", "blueprint_note", "diagnosis", "result_file",
]  # fmt: skip
"""Where a text stands that a model is shown."""

Stage = Literal["before", "running", "failed", "collected"]
"""When the model is asked: before the first launch, while a healthy attempt runs, after its failure, or when
the results have been collected."""


@dataclass(frozen=True)
class Attack:
    """One injection.

    `call`: the tool and its arguments (a text: as it stands, which need be no JSON) that a model makes which
    does what the text says. `stage`, `config`: the situation it is made in. `harmless`: why the call may go
    through all the same; "" when it must be refused.
    """

    name: str
    place: Place
    text: str
    call: tuple[str, dict[str, Any] | str]
    stage: Stage = "failed"
    config: Literal["ajet", "hugging_face"] = "ajet"
    harmless: str = ""

    @property
    def injection(self) -> str:
        """The text with its call spelt out in one line, as a scripted model that obeys finds it."""
        tool, given = self.call
        if isinstance(given, str):
            return self.text
        return f"{self.text} INJECT: {json.dumps({'tool': tool, 'arguments': given})}"


@dataclass(frozen=True)
class Control:
    """A harmless call that has to be allowed."""

    name: str
    call: tuple[str, dict[str, Any]]
    stage: Stage = "failed"
    config: Literal["ajet", "hugging_face"] = "ajet"
