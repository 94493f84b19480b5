"""A model that says what a test wrote down, and calls that make a sound experiment."""

import asyncio
import json
from pathlib import Path
from typing import Any

from harness.author.draft import Brief
from harness.author.draft_session import DraftSession
from harness.providers.chat import Reply, Request, StopReason, ToolCall, Usage
from harness.providers.conversation import Account, Ended, talk
from harness.providers.cost import Spending

WORDS = "does a higher KL coefficient stop reward hacking? sort_digits, 2 hours, 20 steps"
Said = tuple[str, dict[str, Any]] | Reply | Exception | str


class FakeModel:
    """Answers from a list; `requests` keeps what it was shown."""

    def __init__(self, said: list[Said]) -> None:
        self.said = said
        self.requests: list[Request] = []

    async def ask(self, request: Request, spending: Spending, **options: Any) -> Reply:
        self.requests.append(request)
        said = self.said.pop(0)
        if isinstance(said, Exception):
            raise said
        if isinstance(said, Reply):
            return said
        if isinstance(said, str):
            return Reply(said, (), StopReason.END, Usage())
        name, arguments = said
        return replied(StopReason.TOOL_CALL, name, json.dumps(arguments), f"c{len(self.requests)}")


def replied(stop: StopReason, name: str = "", arguments: str = "", id: str = "c") -> Reply:
    """A reply without words, with or without a call."""
    return Reply("", (ToolCall(id, name, arguments),) if name else (), stop, Usage())


def blueprint(**changes: Any) -> Said:
    asked: dict[str, Any] = {
        "name": "kl-low",
        "template": "grpo",
        "purpose": "Does a higher KL coefficient stop reward hacking?\nHypothesis: it does.",
        "max_time": "2 hours",
        "protected_keys": ["ajet.trainer_common.kl_loss_coef"],
        "notes": "A sweep would vary `ajet.trainer_common.kl_loss_coef`.",
        "said": ["max_time"],
    }
    return "render_blueprint", {**asked, **changes}


def config(*said: str, **settings: Any) -> Said:
    return "render_config", {"settings": settings, "said": list(said)}


CHECK: Said = ("check", {})
FINISH: Said = ("finish", {"assumptions": ["One seed is enough to begin with."], "look_at": ["the lr"]})


async def author(folder: Path, said: list[Said], **brief: Any) -> tuple[DraftSession, Ended, FakeModel]:
    """The conversation about WORDS in `folder`, to its end."""
    session = DraftSession(Brief(**{"words": WORDS, "cwd": folder, **brief}))
    model = FakeModel(said)
    return session, await talk(session, model, Account(), asyncio.Event()), model


def names_in(folder: Path) -> list[str]:
    """What lies in a folder."""
    return sorted(entry.name for entry in folder.iterdir())


def told(model: FakeModel) -> list[str]:
    """The answers that the last request holds, in order."""
    return [turn.text for turn in model.requests[-1].turns[1:] if not hasattr(turn, "call")]
