"""Claim: a step of the local backbone takes 2.5 times less CPU time than the same step in TRL's GRPOTrainer.

Both train in one process and take turns, a step each, on one thread, from the same start model, on the same
questions, with the same batch: 2 optimizer steps per batch, KL loss 0.001, clip 0.2, mean over tokens. Shape
A is the quickstart's. Shape B has 3.4 million parameters, prompts of 130 tokens, answers of up to 31, 4
questions x 8 answers. Printed are medians over the steps. `ajet` tunes the memory of its process, which here
would help TRL too: without `--tuned` it is left out, for both. Peak memory is that of a process which trains
with one of them alone, and how much of it came after its libraries were loaded.

The arithmetic limit counts each distinct prompt once: (prompt + answer tokens) x (1 sampling + 1 reference +
3 update) x 2 x parameters, at the rate this core reaches on the matrix products of the model's own shapes.

TRL is no dependency of the trainer. Make a place for it, and run this file there:

    python3.11 -m venv /tmp/trl && /tmp/trl/bin/pip install '.[trainer]' trl==1.16.0
    OMP_NUM_THREADS=1 PYTHONPATH=. /tmp/trl/bin/python benchmarks/local_training.py
"""

from __future__ import annotations

import asyncio
import importlib
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from datetime import datetime
from pathlib import Path
from statistics import median
from typing import Any

import torch
from _claim import Row, parser, publish
from transformers import AutoModelForCausalLM, Qwen2Config, Qwen2ForCausalLM

from trainer_core.backbone.loop import _step
from trainer_core.backbone.phases import Phases
from trainer_core.backbone.process import tune_process
from trainer_core.backbone.run import Run
from trainer_core.backbone.stop import StopSignals
from trainer_core.config.load import load_config
from trainer_core.engine.tiny_model import make_tokenizer
from trainer_core.types import Task

QUICKSTART = Path(__file__).resolve().parent.parent / "blueprints" / "quickstart" / "config.yaml"
GOAL_RATIO, GOAL_LIMIT = 2.5, 3.0
WARM_STEPS = 2
ALONE_STEPS = 3


@dataclass(frozen=True)
class Shape:
    """What is trained. `changes`: to the quickstart's config, as `key=value`."""

    name: str
    tasks: int
    repeats: int
    longest_answer: int
    changes: tuple[str, ...]
    steps: int
    quick_steps: int


SHAPES = {
    "A": Shape("A, the quickstart's", 32, 16, 8, (), 30, 6),
    "B": Shape(
        "B, 3.4M parameters, prompt 130",
        4,
        8,
        31,
        (
            "ajet.model.path={folder}/model",
            "ajet.task_reader.type=jsonl_dataset_file",
            "ajet.task_reader.jsonl_dataset_file.training.file_path={folder}/data.jsonl",
            "ajet.task_judge={{judge_type: customized_protocol, judge_protocol: '{script}->Digits'}}",
            "ajet.data={{max_prompt_length: 130, max_response_length: 31, train_batch_size: 4}}",
            "ajet.rollout.num_repeat=8",
        ),
        12,
        3,
    ),
}


class Digits:
    """The judge of shape B: the share of digits among 31 characters, so that rewards differ."""

    def compute_reward(self, _task: Any, output: Any) -> tuple[float, None]:
        """See `trainer_core.judge.judge.OneByOne`."""
        return share_of_digits(output.text), None


def share_of_digits(text: str) -> float:
    """Between 0 and 1."""
    return sum(character.isdigit() for character in text) / 31


@dataclass
class Times:
    """Seconds of each step."""

    cpu: list[float] = field(default_factory=list)
    wall: list[float] = field(default_factory=list)

    def add(self, cpu: float, wall: float) -> None:
        """One more step."""
        self.cpu.append(cpu)
        self.wall.append(wall)

    def typical(self) -> tuple[float, float]:
        """Medians of CPU and wall, without the first steps."""
        return median(self.cpu[WARM_STEPS:]), median(self.wall[WARM_STEPS:])


class Ours:
    """Our trainer, a step at a time."""

    def __init__(self, shape: Shape, folder: Path) -> None:
        words = [word.format(folder=folder, script=Path(__file__).resolve()) for word in shape.changes]
        off = ("val_before_train=false", "test_freq=-1", "save_freq=-1", "total_training_steps=10000")
        words += [f"ajet.trainer_common.{word}" for word in off]
        config = load_config(QUICKSTART, now=datetime.now(), overrides=words, exp_dir=str(folder)).config
        self.closing = ExitStack()
        self.run = Run(config, self.closing, say=lambda _: None, safe_point=lambda: None)
        self.times = Times()
        self.unique_tokens: list[float] = []
        self._shape = shape

    def step(self) -> None:
        """One batch."""
        number = len(self.times.cpu) + 1
        cpu, wall = time.process_time(), time.perf_counter()
        row, _ = asyncio.run(_step(self.run, number, (), Phases(time.perf_counter), StopSignals()))
        self.times.add(time.process_time() - cpu, time.perf_counter() - wall)
        answers = self._shape.repeats * row["response_length/mean"]
        self.unique_tokens.append(self._shape.tasks * (row["prompt_length/mean"] + answers))

    def start(self, folder: Path, batches: int) -> Start:
        """What the other trainer needs for so many batches."""
        assert self.run.order is not None
        self.run.training.export(folder / "start")
        self.run.tokenizer.save_pretrained(folder / "start")
        tasks = [task for step in range(1, batches + 1) for task in self.run.tasks_of_step(step)]
        return Start(folder, self.run.tokenizer, tasks, batches)


@dataclass(frozen=True)
class Start:
    """Our start model and questions."""

    folder: Path
    tokenizer: Any
    tasks: list[Task]
    batches: int


def train_with_trl(shape: Shape, start: Start, between: Callable[[], None]) -> Times:
    """Train from our start model on our questions; `between` is called after each batch, off the clock."""
    from datasets import Dataset
    from transformers import TrainerCallback
    from trl import GRPOConfig, GRPOTrainer

    rows = [{"prompt": task.messages, "answer": task.answer or ""} for task in start.tasks]
    times, begin = Times(), [0.0, 0.0]

    class Clock(TrainerCallback):
        """Two optimizer steps are one of ours."""

        def on_step_begin(self, _args: Any, state: Any, _control: Any, **_: Any) -> None:
            if state.global_step % 2 == 0:
                begin[:] = time.process_time(), time.perf_counter()

        def on_step_end(self, _args: Any, state: Any, _control: Any, **_: Any) -> None:
            if state.global_step % 2 == 0:
                times.add(time.process_time() - begin[0], time.perf_counter() - begin[1])
                between()

    def reward(completions: Any, answer: list[str], **_: Any) -> list[float]:
        texts = [completion[0]["content"] for completion in completions]
        if shape.name.startswith("B"):
            return [share_of_digits(text) for text in texts]
        return [float(text.strip() == right) for text, right in zip(texts, answer, strict=True)]

    settings = GRPOConfig(
        output_dir=str(start.folder / "trl"),
        per_device_train_batch_size=shape.tasks * shape.repeats // 2,
        steps_per_generation=2,
        num_generations=shape.repeats,
        max_completion_length=shape.longest_answer,
        max_steps=2 * start.batches,
        beta=0.001,
        loss_type="bnpo",
        use_bias_correction_kl=False,
        temperature=1.0,
        learning_rate=3e-4,
        lr_scheduler_type="constant",
        adam_beta1=0.9,
        adam_beta2=0.95,
        max_grad_norm=1.0,
        gradient_checkpointing=False,
        bf16=False,
        use_cpu=True,
        report_to="none",
        save_strategy="no",
        logging_strategy="no",
        disable_tqdm=True,
        seed=0,
    )
    trainer = GRPOTrainer(
        model=str(start.folder / "start"),
        reward_funcs=reward,
        args=settings,
        train_dataset=Dataset.from_list(rows),
        processing_class=start.tokenizer,
        callbacks=[Clock()],
    )
    torch.set_num_threads(1)
    trainer.train()
    return times


def prepare(folder: Path) -> None:
    """Write what shape B trains: a model made from a seed, and 64 questions of 127 digits."""
    tokenizer = make_tokenizer()
    torch.manual_seed(0)
    sizes = {"hidden_size": 256, "intermediate_size": 736, "num_hidden_layers": 4, "num_attention_heads": 8}
    config = Qwen2Config(
        vocab_size=264,
        **sizes,
        num_key_value_heads=8,
        max_position_embeddings=256,
        tie_word_embeddings=True,
        bos_token_id=None,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
    )
    Qwen2ForCausalLM(config).save_pretrained(folder / "model")
    tokenizer.save_pretrained(folder / "model")
    chance = random.Random(0)
    questions = ["".join(chance.choices("0123456789", k=127)) for _ in range(64)]
    lines = [json.dumps({"question": question, "answer": "0"}) for question in questions]
    (folder / "data.jsonl").write_text("\n".join(lines) + "\n")


def flops_per_s(model: Any, tokens: int) -> float:
    """The best rate of this core on the products of the model's linear layers, all tokens at once."""
    sizes = [tuple(each.weight.shape) for each in model.modules() if isinstance(each, torch.nn.Linear)]
    pairs = [(torch.randn(tokens, size[1]), torch.randn(size[1], size[0])) for size in sizes]
    best = float("inf")
    for _ in range(10):
        begin = time.process_time()
        for left, right in pairs:
            left @ right
        best = min(best, time.process_time() - begin)
    return sum(2.0 * tokens * size[0] * size[1] for size in sizes) / best


def memory(shape: str, which: str) -> dict[str, float]:
    """Peak resident MiB of a process that trains with one of them: `all`, and `beyond` its libraries."""
    command = [sys.executable, __file__, "--alone", f"{shape}:{which}"]
    printed = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout
    found: dict[str, float] = json.loads(printed.splitlines()[-1])
    return found


def alone(what: str) -> None:
    """Train a few steps with one of them and print its memory."""
    letter, _, which = what.partition(":")
    if which == "trl":
        importlib.import_module("trl").GRPOTrainer  # noqa: B018  (loads its libraries)
    shape, libraries = SHAPES[letter], _resident_mib("VmRSS")
    with tempfile.TemporaryDirectory(prefix="ajet-benchmark-") as place:
        prepare(Path(place))
        ours = Ours(shape, Path(place))
        if which == "trl":
            start = ours.start(Path(place), ALONE_STEPS)
            ours.closing.close()
            del ours
            train_with_trl(shape, start, lambda: None)
        else:
            for _ in range(ALONE_STEPS):
                ours.step()
            ours.closing.close()
    peak = _resident_mib("VmHWM")
    print(json.dumps({"all": peak, "beyond": peak - libraries}))


def _resident_mib(name: str) -> float:
    """Of this process alone: what `getrusage` says includes the process it was forked from."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(name)) / 1024


def measure(letter: str, quick: bool) -> tuple[list[Row], dict[str, Any]]:
    """Rows and raw numbers of one shape."""
    shape = SHAPES[letter]
    steps = WARM_STEPS + (shape.quick_steps if quick else shape.steps)
    with tempfile.TemporaryDirectory(prefix="ajet-benchmark-") as place:
        prepare(Path(place))
        ours = Ours(shape, Path(place))
        start = ours.start(Path(place), steps)
        trl = train_with_trl(shape, start, ours.step)
        model = AutoModelForCausalLM.from_pretrained(start.folder / "start")
        tokens = median(ours.unique_tokens)
        rate = flops_per_s(model, int(tokens))
        limit = tokens * 5 * 2 * model.num_parameters() / rate
        ours.closing.close()
    (our_cpu, our_wall), (trl_cpu, trl_wall) = ours.times.typical(), trl.typical()
    mib = {which: memory(letter, which) for which in ("ours", "trl")}
    ratio = trl_cpu / our_cpu
    name = shape.name
    rows = [
        Row(f"{name}: CPU a step", f"{our_cpu * 1e3:.0f} ms", "", f"{trl_cpu * 1e3:.0f} ms"),
        Row(f"{name}: TRL's CPU / ours", f"{ratio:.2f}", f"{GOAL_RATIO} or more", ""),
        Row(f"{name}: wall a step", f"{our_wall * 1e3:.0f} ms", "", f"{trl_wall * 1e3:.0f} ms"),
        Row(f"{name}: peak memory", _told(mib["ours"]), "", _told(mib["trl"])),
        Row(
            f"{name}: CPU / arithmetic limit",
            f"{our_cpu / limit:.2f} ({limit * 1e3:.0f} ms: {tokens:.0f} tokens, {rate / 1e9:.0f} GFLOP/s)",
            f"{GOAL_LIMIT:.0f} or less",
            f"{trl_cpu / limit:.2f}",
        ),
    ]
    raw = {"ours": asdict(ours.times), "trl": asdict(trl), "tokens": tokens, "flops_per_s": rate}
    return rows, {letter: raw | {"mib": mib}}


def _told(mib: dict[str, float]) -> str:
    return f"{mib['all']:.0f} MiB, {mib['beyond']:.0f} beyond its libraries"


def main() -> None:
    """Measure every shape and publish."""
    options = parser(__doc__, quick="a few steps of each shape")
    options.add_argument("--alone", help="SHAPE:WHICH, train a few steps with one of them (for its memory)")
    options.add_argument("--tuned", action="store_true", help="tune the process as ajet does, for both")
    options.add_argument("--shape", choices=list(SHAPES), help="only this one")
    chosen = options.parse_args()
    torch.set_num_threads(1)
    if chosen.tuned:
        tune_process()
    if chosen.alone:
        alone(chosen.alone)
        return
    rows: list[Row] = []
    raw: dict[str, Any] = {"load": os.getloadavg()}
    for letter in [chosen.shape] if chosen.shape else SHAPES:
        found, numbers = measure(letter, chosen.quick)
        rows += found
        raw |= numbers
    publish("a training step on one CPU thread, beside TRL", rows, chosen, raw)


if __name__ == "__main__":
    main()
