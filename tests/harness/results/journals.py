"""Journals made by hand: what was decided in a run; and whole runs, raw files with their journal."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from math import exp
from pathlib import Path
from typing import Any, Self

import numpy as np

from harness.attempt import Evidence
from harness.journal import Entry
from harness.journal.model_events import LlmRetried
from harness.pending_changes import Change
from harness.results.narrative.findings import Section
from harness.state import fold
from tests.harness.results.synthetic import START, attempt, draw_successes, training_rows
from tests.harness.runs import event_of, missing_before


def section(
    *findings: Mapping[str, Any], words: str = "", name: str = "findings", **more: Any
) -> dict[str, Any]:
    written = {"section": name, "findings": findings, "interpretation": words, **more}
    return Section.model_validate(written).as_json()


@dataclass
class Story:
    """A journal made by hand; times go on by a minute from entry to entry."""

    identity: str = "7f3a12c4d5e6"
    entries: list[Entry] = field(default_factory=list)

    def add(self, kind: str, **data: Any) -> Self:
        event = event_of(kind, data)
        for each in (*missing_before(event, fold(self.entries)), event):
            number = len(self.entries) + 1
            self.entries.append(Entry(number, START + 60.0 * (number - 1), each))
        return self

    def created(self, policy: str = "llm", called: str = "sort_digits", **plan: Any) -> Self:
        words = {"purpose": "Does it learn?", "path": "/b/blueprint.md", "max_time_s": 86400.0, **plan}
        about = {"experiment_id": self.identity, "name": called, "policy": policy}
        return self.add("created", **about, deadline_at=START + 86400.0, plan=words)

    def act(self, action: str, args: Mapping[str, Any] | None = None, **outcome: Any) -> Self:
        self.add("intent", action=action, args=dict(args or {}))
        return self.add("outcome", action=action, intent=len(self.entries), **outcome)

    def change(self, action: str, why: str, made: Iterable[Change], **args: Any) -> Self:
        told = [{**vars(change), "why": why} for change in made]
        return self.act(action, {**args, "why": why}, changes=told, text="")

    def edit(self, why: str, **changed: tuple[Any, Any]) -> Self:
        """Config keys from old to new; `__` stands for the dot."""
        made = [Change("config", name.replace("__", "."), *values, "") for name, values in changed.items()]
        wanted = {change.what: change.new for change in made}
        return self.change("edit_config", why, made, changes=wanted, remove=[])

    def remove(self, why: str, key: str, old: Any) -> Self:
        made = [Change("removed", key, old, None, "")]
        return self.change("edit_config", why, made, changes={}, remove=[key])

    def variable(self, why: str, name: str, value: str) -> Self:
        made = [Change("environment", name, None, value, "")]
        return self.change("set_environment", why, made, name=name, value=value)

    def patch(self, why: str, path: str, old: str, new: str) -> Self:
        made = [Change("code", path, old, new, "")]
        return self.change("patch_code", why, made, path=path, old=old, new=new)

    def render(self, why: str, **settings: Any) -> Self:
        made = [Change("config", name, None, value, "") for name, value in settings.items()]
        return self.change("render_config", why, made, settings=settings)

    def attempt(
        self, number: int, cause: str = "", checkpoint: str | None = None, why: str = "first", **found: Any
    ) -> Self:
        """A launch, its end, and with a cause its diagnosis (`found`: what else it says)."""
        args = {"attempt": number, "session": f"ajet_x-{number:02d}", "attempt_id": f"a-{number}", "why": why}
        launched = self.entries[-1].time if self.entries else START
        self.act("launch", args, launched_at=launched, command="python train.py", checkpoint=checkpoint)
        end = {"status": 1 if cause else 0, "complete": not cause, "ended_at": launched + 600.0}
        self.act("wait", reason="exited", detail="", ended={"reason": "exited", **end})
        diagnosis = {"family": "memory", "cause": cause, **found}
        return self.act("diagnose", diagnosis=diagnosis) if cause else self

    def asked(self, call: int, cost: float | None = 0.0125, model: str = "acme:wise-1") -> Self:
        tokens = {"input_tokens": 1200, "cache_read_tokens": 9000, "output_tokens": 300}
        reserved = None if cost is None else 0.05
        if not isinstance(self.entries[-1].event, LlmRetried):
            self.add("llm_reserved", call=call, reserved_usd=reserved, model=model, request="x")
        told = {"cost_usd": cost, "usage": tokens, "stop": "tool_call", "text": "", "calls": []}
        return self.add("llm_settled", call=call, **told)

    def ended(self, outcome: str = "succeeded", reason: str = "attempt 3 ran to its end") -> Self:
        return self.act("collect", outcome=outcome, reason=reason)

    def write(self, result_dir: Path) -> list[Entry]:
        (result_dir / "journal.jsonl").write_bytes(b"".join(entry.to_line() for entry in self.entries))
        return self.entries


def ended(outcome: str = "succeeded", reason: str = "attempt 1 ran to its end") -> list[Entry]:
    return Story().created("playbook").attempt(1).ended(outcome, reason).entries


def successful_run(result_dir: Path, tasks: int = 256) -> list[Entry]:
    """A run like the quickstart: 120 steps, validation before training and every 40 steps."""
    rng = np.random.default_rng(7)
    made = attempt(result_dir).exit().config("ajet:\n  lr: 1e-6\n  seed: 0\n")
    made.metrics(training_rows(rng, range(1, 121)))
    rates = {0: 0.28, 40: 0.66, 80: 0.84, 120: 0.91}
    made.validations({step: draw_successes(rng, rate, tasks, 4) for step, rate in rates.items()})
    return Story().created("playbook").attempt(1).ended().write(result_dir)


def retried_run(result_dir: Path) -> list[Entry]:
    """Two attempts: the first dies in step 60, the second goes on from step 41 with another setting."""
    rng = np.random.default_rng(8)
    text = "loading\n" * 80 + 'Traceback (most recent call last):\n  File "train.py", line 9\n'
    text += "\x1b[31mConnectionResetError: [Errno 104] peer\x1b[0m\n"
    config = "ajet:\n  rollout:\n    timeout: {}\n  key: attempts/0{}/trainer\n"
    for number, steps in ((1, range(1, 61)), (2, range(41, 91))):
        made = attempt(result_dir, number).exit(1, seconds=60 + number).pane(text)
        made.config(config.format(number * 30, number)).metrics(training_rows(rng, steps))
    lines = text.splitlines()
    found = {
        "family": "network",
        "evidence": [Evidence("pane.log", 83, "ConnectionResetError: [Errno 104] peer")],
        "last_lines": [Evidence("pane.log", line, lines[line - 1]) for line in (81, 82)],
    }
    story = Story().created("playbook").attempt(1, "The connection was reset.", **found)
    story.attempt(2, "The connection was reset.", why="the failure may pass", **found)
    return story.ended("failed", "the same failure came back").entries


def foreign_run(result_dir: Path) -> list[Entry]:
    """Somebody's own train.py: loss and accuracy from console lines, no config, no validation files."""
    rows = [
        (step, {"loss": 2 * exp(-step / 50), "val_accuracy": 1 - exp(-step / 60), "lr": 3e-4})
        for step in range(0, 200, 5)
    ]
    attempt(result_dir).exit(seconds=4000.0).metrics(rows, origin="console")
    return ended()


def collected_run(folder: Path) -> Path:
    """A run of a language model whose results were collected: attempt 1 failed, attempt 2 went to its end."""
    folder.mkdir()
    (folder / "blueprint.md").write_text("## [exp_purpose]\nDoes it learn?\n")
    attempt(folder).exit(1, seconds=60.0).config("lr: 1e-4\n").pane("loading\n")
    made = attempt(folder, 2).exit(seconds=597.0).config("lr: 1e-4\n").pane("loading\n")
    made.metrics(training_rows(np.random.default_rng(3), range(1, 13)))
    tries = {0: "1000", 6: "xxxx", 12: "11x1"}  # x: of every other task
    outcomes = {f"t{task}": {"1": True, "0": False, "x": task % 2 == 0} for task in range(24)}
    made.validations(
        {
            step: {task: [of[each] for each in row] for task, of in outcomes.items()}
            for step, row in tries.items()
        }
    )
    story = Story().created(protected_keys=[], code_changes=[]).act("prepare")
    story.attempt(1, "CUDA out of memory.").edit("less memory", ajet__batch=(8, 4)).attempt(2)
    story.ended(reason="attempt 2 ran to its end").write(folder)
    return folder


NARRATIVE = (
    section(
        {"kind": "change", "metric": "val/task_pass_rate@1"},
        {"kind": "failure", "attempt": 1},
        words="# Findings\nIt *learns*: [[key/pass_rate_end]], see [a](http://evil.example/x).\n- `kl` low",
    ),
    section({"kind": "attempt", "attempt": 3}, name="what_happened"),
    section(name="limitations", words="One seed. ![](http://evil.example/x.png) <img src=x onerror=alert()>"),
)


def repaired_run(result_dir: Path) -> list[Entry]:
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
    edit = {"action": "edit_config", "args": {"changes": {"lr": 1e-7}, "why": "x"}}
    story.add("refused", **edit, why="lr is studied")
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
        story.act("write_sections", {}, written={written["section"]: written}, left_out=[])
    return story.add("consulted", topic="results:1", why="the findings are written").write(result_dir)
