"""Journals made by hand: what was decided in a run, and a whole run that a language model repaired."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from harness.journal import Entry
from harness.journal.model_events import LlmRetried
from harness.pending_changes import Change
from harness.results.summary import run_summary
from harness.results.types import RunSummary
from harness.state import fold
from tests.harness.results.narrative.written import section
from tests.harness.results.synthetic import START, attempt, draw_successes, training_rows
from tests.harness.runs import event_of, missing_before


@dataclass
class Story:
    """A journal made by hand; times go on by a minute from entry to entry."""

    identity: str = "7f3a12c4d5e6"
    entries: list[Entry] = field(default_factory=list)

    def add(self, kind: str, **data: Any) -> Story:
        event = event_of(kind, data)
        for each in (*missing_before(event, fold(self.entries)), event):
            number = len(self.entries) + 1
            self.entries.append(Entry(number, START + 60.0 * (number - 1), each))
        return self

    def created(self, policy: str = "llm", **plan: Any) -> Story:
        words = {"purpose": "Does it learn?", "path": "/b/blueprint.md", "max_time_s": 86400.0}
        return self.add(
            *("created",),
            **{"experiment_id": self.identity, "name": "sort_digits", "policy": policy},
            **{"deadline_at": START + 86400.0, "plan": {**words, **plan}},
        )

    def act(self, action: str, args: Mapping[str, Any] | None = None, **outcome: Any) -> Story:
        """An intent with its outcome."""
        self.add("intent", action=action, args=dict(args or {}))
        return self.add("outcome", action=action, intent=len(self.entries), **outcome)

    def change(self, action: str, why: str, made: Iterable[Change], **args: Any) -> Story:
        """An action that prepares these changes."""
        told = [{**vars(change), "why": why} for change in made]
        return self.act(action, {**args, "why": why}, changes=told, text="")

    def edit(self, why: str, **changed: tuple[Any, Any]) -> Story:
        """Config keys from old to new; `__` stands for the dot."""
        made = [Change("config", name.replace("__", "."), *values, "") for name, values in changed.items()]
        wanted = {change.what: change.new for change in made}
        return self.change("edit_config", why, made, changes=wanted, remove=[])

    def remove(self, why: str, key: str, old: Any) -> Story:
        return self.change(
            "edit_config", why, [Change("removed", key, old, None, "")], changes={}, remove=[key]
        )

    def variable(self, why: str, name: str, value: str) -> Story:
        made = [Change("environment", name, None, value, "")]
        return self.change("set_environment", why, made, name=name, value=value)

    def patch(self, why: str, path: str, old: str, new: str) -> Story:
        return self.change(
            "patch_code", why, [Change("code", path, old, new, "")], path=path, old=old, new=new
        )

    def render(self, why: str, **settings: Any) -> Story:
        made = [Change("config", name, None, value, "") for name, value in settings.items()]
        return self.change("render_config", why, made, settings=settings)

    def attempt(
        self, number: int, cause: str = "", checkpoint: str | None = None, why: str = "first"
    ) -> Story:
        """A launch, its end, and with a cause its diagnosis."""
        args = {"attempt": number, "session": f"ajet_x-{number:02d}", "attempt_id": f"a-{number}", "why": why}
        launched = self.entries[-1].time if self.entries else START
        self.act("launch", args, launched_at=launched, command="python train.py", checkpoint=checkpoint)
        ended = {
            **{"reason": "exited", "status": 1 if cause else 0, "complete": not cause},
            **{"ended_at": launched + 600.0},
        }
        self.act("wait", reason="exited", detail="", ended=ended)
        if cause:
            diagnosis = {"family": "memory", "cause": cause, "evidence": [], "last_lines": []}
            self.act("diagnose", diagnosis=diagnosis)
        return self

    def asked(self, call: int, cost: float | None = 0.0125, **usage: int) -> Story:
        """One call to the model, answered."""
        tokens = usage or {"input_tokens": 1200, "cache_read_tokens": 9000, "output_tokens": 300}
        reserved = None if cost is None else 0.05
        if not isinstance(self.entries[-1].event, LlmRetried):
            self.add("llm_reserved", call=call, reserved_usd=reserved, model="acme:wise-1", request="x")
        return self.add(
            "llm_settled", call=call, cost_usd=cost, usage=tokens, stop="tool_call", text="", calls=[]
        )

    def ended(self, outcome: str = "succeeded", reason: str = "attempt 3 ran to its end") -> Story:
        return self.act("collect", outcome=outcome, reason=reason)

    def write(self, result_dir: Path) -> RunSummary:
        """Write journal.jsonl; returns what is folded from it."""
        (result_dir / "journal.jsonl").write_bytes(b"".join(entry.to_line() for entry in self.entries))
        return run_summary(self.entries)


NARRATIVE = (
    section(
        {"kind": "change", "metric": "val/task_pass_rate@1"},
        {"kind": "failure", "attempt": 1},
        words="# Findings\nIt *learns*: [[key/pass_rate_end]], see [a](http://evil.example/x).\n- `kl` low",
    ),
    section({"kind": "attempt", "attempt": 3}, name="what_happened"),
    section(
        words="One seed. ![](http://evil.example/pixel.png) <img src=x onerror=alert()>", name="limitations"
    ),
)


def repaired_run(result_dir: Path) -> RunSummary:
    """Three attempts, two of them repaired by a language model, which also wrote the narrative."""
    rng = np.random.default_rng(11)
    config = "ajet:\n  rollout:\n    n_vllm_engine: {}\n    port: {}\n  key: attempts/0{}/trainer\n"
    for number, steps, engines, port in ((1, range(1, 21), 4, 8000), (2, range(1, 3), 2, 8000)):
        made = attempt(result_dir, number).exit(1, seconds=600.0)
        made.config(config.format(engines, port, number)).pane("loading\n")
        made.metrics(training_rows(rng, steps))
    made = attempt(result_dir, 3).exit(seconds=600.0).config(config.format(2, 8101, 3)).pane("loading\n")
    made.metrics(training_rows(rng, range(1, 61)))
    made.validations({step: draw_successes(rng, rate, 64, 4) for step, rate in ((0, 0.28), (60, 0.66))})
    story = Story().created().act("prepare").add("consult", topic="config:1", why="the blueprint names none")
    story.asked(1).render("as the purpose says", model_path="tiny", lr=1e-6, num_repeat=8)
    story.add("consulted", topic="config:1", why="it has been acted on")
    story.attempt(1, "CUDA out of memory while vLLM started.")
    story.add("consult", topic="failure:1", why="no built-in repair for attempt 1").asked(2)
    story.act("note", {"text": "x"}, text="Four engines take 60 GB each; <b>two</b> fit.")
    story.add(
        "refused", action="edit_config", args={"changes": {"lr": 1e-7}, "why": "x"}, why="lr is studied"
    )
    story.edit("two engines fit into the memory", ajet__rollout__n_vllm_engine=(4, 2))
    story.variable("less fragmentation", "PYTORCH_CUDA_ALLOC_CONF", "expandable_segments:True")
    story.add("consulted", topic="failure:1", why="it has been acted on")
    story.attempt(2, "The port 8000 is in use.", why="with two engines it should fit")
    story.add("consult", topic="failure:2", why="no built-in repair for attempt 2")
    story.add("llm_reserved", call=3, reserved_usd=0.05, model="acme:wise-1", request="x")
    story.add("llm_retried", call=3, error="acme is overloaded", cost_usd=0.0, reserved_usd=0.05)
    story.asked(3).edit("8000 is taken", ajet__rollout__port=(8000, 8101))
    story.patch("the port was fixed in the code", "serve.py", "port = 8000\n", "port = config.port\n")
    story.add("consulted", topic="failure:2", why="it has been acted on")
    story.add("approval_asked", action="launch", args={}).add("approved", action="launch", by="ada")
    story.attempt(3, checkpoint="step_000020", why="the port is free").ended()
    story.add("consult", topic="results:1", why="the results are to be read").asked(4)
    for written in NARRATIVE:
        story.act("write_report_section", written, written=written, left_out=[])
    return story.add("consulted", topic="results:1", why="the findings are written").write(result_dir)
