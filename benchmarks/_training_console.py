"""A training that does not run: what its console has shown at any moment, perhaps with a failure on the way.

In: a `Training` and a time, in seconds from the first launch. Out: lines, the same for the same moment, so
that everybody who watches it sees the same console.
"""

from __future__ import annotations

import random
from dataclasses import dataclass

HOUR_S = 3600.0
START_UP_S = 90.0
START_UP = """\
INFO attempt started, pid 4711
INFO config read from config.yaml
INFO tokenizer loaded, 151936 tokens
INFO model loaded in bfloat16, 1543714304 parameters
INFO data read: 7473 tasks for training, 1319 for validation
INFO engine started, 16384 tokens per batch, prefix caching on
step:0 - val/task_pass_rate@1:0.412 - val/mean_reward:0.412 - timing_s/validation:41.20
""".splitlines()
BREAKAGE = """\
Traceback (most recent call last):
  File "/opt/training/trainer/main.py", line 214, in <module>
    main()
  File "/opt/training/trainer/main.py", line 187, in main
    trainer.fit()
  File "/opt/training/trainer/fit.py", line 402, in fit
    loss = self.update(batch)
  File "/opt/training/trainer/update.py", line 96, in update
    logits = self.model(batch.input_ids, attention_mask=batch.attention_mask).logits
torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.32 GiB. GPU 0 has a total capacity of \
79.10 GiB of which 1.17 GiB is free. Process 4711 has 77.92 GiB memory in use.
""".splitlines()


@dataclass(frozen=True)
class Training:
    """One training from launch to its deadline; with `breaks_at_s` it needs a second launch on the way."""

    name: str
    lasts_s: float
    step_s: float = 60.0
    progress_lines: int = 4
    breaks_at_s: float | None = None


def launches(training: Training) -> list[tuple[float, float]]:
    """When each launch begins and ends, in seconds from the first."""
    if training.breaks_at_s is None:
        return [(0.0, training.lasts_s)]
    return [(0.0, training.breaks_at_s), (training.breaks_at_s, training.lasts_s)]


def console(training: Training, launch: int, at_s: float, lines: int) -> list[str]:
    """The last lines of one launch's console at a moment counted from the first launch."""
    begin, end = launches(training)[launch]
    broken = at_s >= end and launch < len(launches(training)) - 1
    shown = BREAKAGE[-lines:] if broken else []
    steps = (min(at_s, end) - begin - START_UP_S) / training.step_s
    step = int(steps) if steps > 0 else 0
    if steps > 0:
        parts = int((steps - step) * training.progress_lines)
        shown = [*_progress(step + 1, parts, training), *shown]
    while step > 0 and len(shown) < lines:
        shown = [*_progress(step, training.progress_lines, training), _metrics(step), *shown]
        step -= 1
    if len(shown) < lines:
        started = START_UP if steps > 0 else START_UP[: int(len(START_UP) * (at_s - begin) / START_UP_S)]
        shown = [*started, *shown]
    return shown[-lines:]


def _progress(step: int, parts: int, training: Training) -> list[str]:
    """The first lines of a step's rollout."""
    shares = [part / training.progress_lines for part in range(1, parts + 1)]
    return [
        f"INFO step {step}: rollout {512 * share:.0f}/512 episodes, {0.7 * training.step_s * share:.0f} s, "
        "0 given up, longest answer 1024 tokens"
        for share in shares
    ]


def _metrics(step: int) -> str:
    """A metric line of verl's shape; the numbers are made up, the same for the same step."""
    dice = random.Random(step)
    rise = step / (step + 300)
    metrics = {
        "actor/kl_loss": f"{0.002 * dice.random():.5f}",
        "actor/pg_loss": f"{dice.gauss(0, 0.02):.4f}",
        "critic/rewards/mean": f"{0.41 + 0.4 * rise + dice.gauss(0, 0.02):.3f}",
        "response_length/mean": f"{300 + 200 * rise + dice.gauss(0, 8):.1f}",
        "timing_s/step": f"{dice.gauss(60, 2):.2f}",
    }
    return " - ".join([f"step:{step}", *(f"{name}:{value}" for name, value in metrics.items())])


TRAININGS = [
    Training("8 hours, nothing happens", 8 * HOUR_S),
    Training("24 hours, one failure", 24 * HOUR_S, breaks_at_s=9.4 * HOUR_S),
]
