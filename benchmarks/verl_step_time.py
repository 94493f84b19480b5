"""Claim: a step of `ajet --backbone verl` takes less wall and CPU time than one of verl's own `main_ppo`.

Both train the quickstart's model on a CPU, on the same questions in the same order: 16 questions x 8 answers
of up to 8 tokens, sampled by a vLLM server of the same settings through the same HTTP client, 2 optimizer
steps, KL loss to the start model, FSDP2 in float32, ratios to the probabilities that were sampled with, the
same rate and loss. They take turns. A step is the time from one metric row to the next; CPU seconds are of
all processes together, vLLM's and Ray's too. Printed are medians over the steps after the first three.

What differs is how they work. Ours trains in its own process and asks for all answers to a question in one
request. Stock trains in a Ray worker, asks for each answer on its own, hands every batch from process to
process through TransferQueue, and looks every 2 s whether a batch is there, for which there is no key; in
`stock, polls` a sampler looks every 20 ms. verl's own adapter has vLLM in its Ray actor, which wants both in
one environment; here stock's requests go over HTTP as ours do, so that what vLLM and its client take counts
against it more than on a GPU. `stock_verl.yaml` and `_stock_verl.py` are what it needs on a CPU.

    cd benchmarks && OMP_NUM_THREADS=1 PYTHONPATH=.. ../.venv-stack/verl/bin/python verl_step_time.py
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from datetime import datetime
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

import psutil
from _claim import Row, parser, publish
from ruamel.yaml import YAML

if TYPE_CHECKING:
    from trainer_core.config.schema import Config

HERE = Path(__file__).resolve().parent
CONFIG = HERE.parent / "blueprints" / "quickstart-verl" / "config.yaml"
VLLM_PYTHON = HERE.parent / ".venv-stack" / "vllm" / "bin" / "python"
WARM_STEPS, STEPS, QUICK_STEPS, REPEATS = 3, 12, 4, 3
LOOK_S = 0.005
CHANGES = ("val_before_train=false", "test_freq=-1", "save_freq=-1", "optim.lr_warmup_steps=0")
"""To the quickstart's `trainer_common`."""
SYSTEMS = ("ours", "stock", "stock, polls")
SHOWN = {
    "step": ("wall",),
    "  rollout": ("timing_s/gen",),
    "  reference and update": ("timing_s/ref", "timing_s/update_actor"),
    "  neither rollout nor verl's workers nor new weights": ("rest",),
    "CPU a step": ("cpu",),
    "  of it vLLM": ("cpu vLLM",),
    "  stock's client of it": ("cpu ray::Server",),
}
"""Lines of the table, and what is added up in each."""
Steps = list[dict[str, float]]


def ours(folder: Path, overrides: list[str]) -> Steps:
    """Train with our loop."""
    command = [sys.executable, str(HERE / "_timed_ajet.py"), "--conf", str(CONFIG), "--backbone", "verl"]
    command += ["--exp-dir", str(folder), *overrides]
    parts = ("timing_s/gen", "benchmark/workers", "benchmark/vllm_loads")
    return watched(command, {}, folder, folder / "quickstart-verl" / "metrics.jsonl", parts)


def stock(folder: Path, config: Config, *, polls: bool) -> Steps:
    """Train with verl's own loop, on a vLLM server of ours."""
    from trainer_core.backbone.local import start_folder
    from trainer_core.config.verl import leaves
    from trainer_core.engine.vllm.server import VllmServer
    from trainer_core.tasks.reader import read_tasks

    ajet, silent = config.ajet, lambda *_: None
    tasks = read_tasks(ajet.task_reader, None, validates=False, say=silent, safe_point=silent)
    model = start_folder(ajet, tasks, say=silent, safe_point=silent)
    write_tasks(folder / "tasks.parquet", config, tasks.training)
    keys = leaves(stock_keys(folder, config, model, polls=polls))
    command = [sys.executable, "-m", "verl.trainer.main_ppo", f"hydra.run.dir={folder}"]
    command += [f"++{path}={json.dumps(value)}" for path, value in keys]
    with ExitStack() as closing:
        weights = closing.enter_context(tempfile.TemporaryDirectory(dir="/dev/shm"))
        server = VllmServer(ajet, model, folder / "vllm.log", Path(weights))
        closing.callback(server.close)
        server.start()
        own = {
            "STOCK_SOCKET": server.socket,
            "STOCK_WEIGHTS": weights,
            "STOCK_LONGEST": str(ajet.data.max_response_length),
            "VERL_USE_EXTERNAL_MODULES": f"{os.environ['VERL_USE_EXTERNAL_MODULES']},_stock_verl",
            "VERL_FILE_LOGGER_PATH": str(folder / "metrics.jsonl"),
        }
        parts = [f"timing_s/{phase}" for phase in ("gen", "ref", "update_actor", "update_weights")]
        return watched(command, own, folder, folder / "metrics.jsonl", parts)


def write_tasks(path: Path, config: Config, tasks: Any) -> None:
    """The questions in the order in which our trainer asks them."""
    import pandas

    from trainer_core.tasks.order import TaskOrder

    common = config.ajet.trainer_common
    order = TaskOrder(tasks, config.ajet.data.train_batch_size, common.seed)
    rows = [
        {
            "prompt": [dict(message) for message in task.messages],
            "reward_model": {"style": "rule", "ground_truth": task.answer},
            "data_source": "sort_digits",
            "extra_info": {"index": task.task_id},
        }
        for step in range(1, (common.total_training_steps or 0) + 1)
        for task in order.tasks_of_step(step)
    ]
    pandas.DataFrame(rows).to_parquet(path)


def stock_keys(folder: Path, config: Config, model: str, *, polls: bool) -> dict[str, Any]:
    """verl's keys by path: what our config becomes there, and what its loop and a CPU need beyond that."""
    from trainer_core.config.verl import leaves, translated

    ajet, data = config.ajet, str(folder / "tasks.parquet")
    steps, parts = ajet.trainer_common.total_training_steps, ajet.trainer_common.mini_batch_num
    sampler = {"path": "pkg://_stock_verl", "name": "polling"} if polls else {}
    return {
        **translated(ajet),
        **dict(leaves(YAML(typ="safe").load(HERE / "stock_verl.yaml"))),
        "data.train_files": data,
        "data.val_files": data,
        "actor_rollout_ref.model.path": model,
        "actor_rollout_ref.actor.ppo_mini_batch_size": ajet.data.train_batch_size // parts,
        "actor_rollout_ref.actor.optim.total_training_steps": steps,
        "trainer.total_training_steps": steps,
        **{f"trainer.v1.sampler.custom_sampler.{name}": value for name, value in sampler.items()},
    }


def watched(
    command: list[str], own: Mapping[str, str], folder: Path, metrics: Path, parts: Sequence[str]
) -> Steps:
    """The rows that a training writes, each with the wall and CPU seconds since the one before it, and as
    `rest` the wall seconds that are in none of the parts."""
    path = os.pathsep.join([str(HERE.parent), str(HERE)])
    log, found, then, used = folder / "printed.log", Steps(), 0.0, dict[str, float]()
    with log.open("w") as printed:
        environment = {**os.environ, **own, "PYTHONPATH": path}
        process = subprocess.Popen(command, env=environment, cwd=folder, stdout=printed, stderr=printed)
    for line in lines_of(metrics, process):
        now, use, row = time.perf_counter(), cpu_seconds(), json.loads(line)
        row = row.get("data", row)  # verl's own
        rest = now - then - sum(row[part] for part in parts)
        cpu = {f"cpu {name}": use[name] - used.get(name, 0.0) for name in use}
        found.append({**row, "wall": now - then, "rest": rest, "cpu": sum(cpu.values()), **cpu})
        then, used = now, use
    if process.wait() != 0:
        raise SystemExit(f"{command[2]} ended with {process.returncode}:\n{log.read_text()[-5000:]}")
    return found[WARM_STEPS:]


def lines_of(path: Path, process: subprocess.Popen[bytes]) -> Iterator[str]:
    """Each line of a file, as soon as it is written, until the process ends."""
    rest, read = "", 0
    while True:
        is_over = process.poll() is not None
        if path.exists():
            with path.open() as file:
                file.seek(read)
                rest += file.read()
                read = file.tell()
        *whole, rest = rest.split("\n")
        yield from whole
        if is_over:
            return
        time.sleep(LOOK_S)


def cpu_seconds() -> dict[str, float]:
    """Of the processes below this one, by what they are."""
    seconds: dict[str, float] = defaultdict(float)
    for each in psutil.Process().children(recursive=True):
        try:
            words = each.cmdline()
            is_vllm = any("ajet_vllm.py" in word or word.startswith("VLLM::") for word in words)
            seconds["vLLM" if is_vllm else Path(words[0].strip()).name] += sum(each.cpu_times()[:2])
        except (psutil.Error, IndexError):  # it has just ended
            continue
    return seconds


def middle(repeats: list[Steps], keys: tuple[str, ...]) -> float:
    """The median of a figure, or of the sum of several, over all steps of all repeats."""
    return median(sum(each.get(key, 0.0) for key in keys) for steps in repeats for each in steps)


def line(measured: Mapping[str, list[Steps]], what: str, keys: tuple[str, ...]) -> Row:
    """A line of the table."""
    told = {name: f"{middle(repeats, keys):.2f}" for name, repeats in measured.items()}
    return Row(what, told.pop("ours", ""), "", "  ·  ".join(told.values()))


def main() -> None:
    """Measure in turns and publish."""
    from trainer_core.backbone.verl import prepare
    from trainer_core.config.load import load_config

    options = parser(__doc__, quick=f"{QUICK_STEPS} steps, once each")
    options.add_argument("--vllm-python", default=str(VLLM_PYTHON), help="the interpreter with vLLM")
    options.add_argument("--systems", nargs="+", choices=SYSTEMS, default=SYSTEMS, help="only these")
    options.add_argument("--repeats", type=int, default=REPEATS, help="of each, in turns")
    chosen = options.parse_args()
    total = WARM_STEPS + (QUICK_STEPS if chosen.quick else STEPS)
    changed = [f"ajet.trainer_common.{each}" for each in (*CHANGES, f"total_training_steps={total}")]
    changed.append(f"ajet.rollout.vllm_python={chosen.vllm_python}")
    measured: dict[str, list[Steps]] = {name: [] for name in chosen.systems}
    loads: list[float] = []
    for name in list(measured) * (1 if chosen.quick else chosen.repeats):
        with tempfile.TemporaryDirectory(prefix="ajet-benchmark-") as place:
            now, to = datetime.now(), Path(place)
            config = load_config(CONFIG, now=now, overrides=changed, backbone="verl", exp_dir=place).config
            prepare(config)
            steps = ours(to, changed) if name == "ours" else stock(to, config, polls=name != "stock")
        measured[name].append(steps)
        loads.append(os.getloadavg()[0])
        print(f"{name}: {middle([steps], ('wall',)):.2f} s a step, load {loads[-1]:.1f}", flush=True)
    publish(
        f"seconds of a step on verl; the peers are {' · '.join(name for name in measured if name != 'ours')}",
        [line(measured, what, keys) for what, keys in SHOWN.items()],
        chosen,
        {"loads": loads, "steps": measured},
    )


if __name__ == "__main__":
    main()
