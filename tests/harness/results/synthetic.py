"""The raw files of a result folder in the common format, without any training."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np

START = 1_760_000_000.0


@dataclass
class Attempt:
    folder: Path

    def exit(self, status: int = 0, reason: str = "exited", seconds: float = 121.4, **more: object) -> Self:
        none = dict.fromkeys(("signal", "prepare_status", "cleanup_status"))
        times = {"started_at": START + 3, "ended_at": START + 3 + seconds}
        record = {"attempt_id": "a", "reason": reason, "status": status, **times, **none, **more}
        (self.folder / "exit.json").write_text(json.dumps(record, indent=1))
        return self

    def config(self, text: str) -> Self:
        (self.folder / "config.yaml").write_text(text)
        return self

    def pane(self, text: str) -> Self:
        (self.folder / "pane.log").write_text(text)
        return self

    def metrics(self, rows: Sequence[tuple[int, Mapping[str, float]]], origin: str = "trainer") -> Self:
        """metrics.jsonl and the file its rows are taken from: `trainer` or `console`."""
        file = "trainer/metrics.jsonl" if origin == "trainer" else "pane.log"
        lines, raw = [], []
        for number, (step, values) in enumerate(rows, start=1):
            shown = " - ".join(f"{key}:{value!r}" for key, value in {"step": step, **values}.items())
            raw.append(json.dumps({"step": step, **values}) if origin == "trainer" else shown)
            source = {"file": file, "line": number}
            lines.append(json.dumps({"step": step, "values": dict(values), "source": source}))
        (self.folder / "metrics.jsonl").write_text("".join(f"{line}\n" for line in lines))
        (self.folder / file).write_text("".join(f"{line}\n" for line in raw))
        return self

    def printed(self, *lines: str, rows: Sequence[Mapping[str, Any]]) -> Self:
        """pane.log, and the rows as a watch writes them: `step`, `epoch`, `values`, and the `line` they come
        from (in order where it is left out)."""
        (self.folder / "pane.log").write_text("".join(f"{line}\n" for line in lines))
        records = []
        for number, row in enumerate(rows, start=1):
            source = {"file": "pane.log", "line": row.get("line", number)}
            if "from" in row:
                source["from"] = row["from"]
            place = {"step": row.get("step"), "epoch": row.get("epoch")}
            records.append(json.dumps({**place, "values": row["values"], "source": source}))
        (self.folder / "metrics.jsonl").write_text("".join(f"{record}\n" for record in records))
        return self

    def validations(self, results: Mapping[int, Mapping[str, Sequence[bool]]]) -> Self:
        """trainer/validation.jsonl from {step: {task: successes}}."""
        with (self.folder / "trainer" / "validation.jsonl").open("w") as file:
            for step, tasks in results.items():
                for task, successes in tasks.items():
                    rewards = [float(success) for success in successes]
                    line = {"step": step, "task_id": task, "rewards": rewards, "successes": list(successes)}
                    file.write(json.dumps(line) + "\n")
        return self


def attempt(result_dir: Path, number: int = 1) -> Attempt:
    folder = result_dir / "attempts" / f"{number:02d}"
    (folder / "trainer").mkdir(parents=True)
    return Attempt(folder)


def draw_successes(rng: np.random.Generator, rate: float, tasks: int, tries: int) -> dict[str, list[bool]]:
    """Successes of every task; tasks differ in how hard they are."""
    difficulty = rng.beta(4 * rate + 0.05, 4 * (1 - rate) + 0.05, size=tasks)
    return {
        f"task-{index:04d}": (rng.random(tries) < chance).tolist() for index, chance in enumerate(difficulty)
    }


def training_rows(rng: np.random.Generator, steps: Sequence[int]) -> list[tuple[int, dict[str, float]]]:
    """Rows as the bundled trainer writes them, reward going up."""
    return [(step, _row(rng, step)) for step in steps]


def _row(rng: np.random.Generator, step: int) -> dict[str, Any]:
    reward = 0.25 + 0.65 * (1 - np.exp(-step / 40))
    return {
        "actor/kl_loss": float(0.0005 * step * rng.uniform(0.8, 1.2)),
        "actor/pg_loss": float(rng.normal(0, 0.02)),
        "actor/entropy": float(1.5 * np.exp(-step / 100) * rng.uniform(0.9, 1.1)),
        "critic/rewards/mean": float(np.clip(rng.normal(reward, 0.04), 0, 1)),
        "response_length/mean": float(rng.normal(6, 0.1)),
        "timing_s/step": float(rng.uniform(0.6, 0.9)),
        "perf/throughput": float(rng.normal(2600, 120)),
    }
