"""Backbone `trinity`: Trinity-RFT trains and samples in processes of its own, our agents play inside it.

`look` renders the configuration for a dry run; `train` writes it and the tasks into the run's folder, starts
Ray and Trinity, and ends both with this process.
"""

from __future__ import annotations

import json
import os
import secrets
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from trainer_core.backbone.schedule import schedule, validates
from trainer_core.child_process import ChildProcess
from trainer_core.companion import companions
from trainer_core.config.load import as_yaml, resolved_yaml
from trainer_core.config.section import path_of
from trainer_core.config.trinity import rendered, tasks_folder
from trainer_core.environments.verifiers import VerifiersEnvironments
from trainer_core.tasks.reader import read_tasks
from trainer_core.types import Task, TaskSplits, TrainingError

if TYPE_CHECKING:
    from trainer_core.config.schema import Ajet, Config

_ROOT = Path(__file__).parents[2]
_CHECKS_IN_S, _RAY_STARTS_IN_S, _RAY_ANSWERS_IN_S, _LOOK_S = 600.0, 300.0, 30.0, 0.5
_RAY_WITH_TOKENS = [2, 52]
"""The first version that lets in who has a token."""
_INSTALL = (
    "Make an environment with `pip install 'trinity-rft[vllm]==0.6.0'` and in it, in the checkout of "
    "ajet-harness, `pip install '.[trainer]'`; name its interpreter in ajet.trainer_common.trinity_python"
)


def look(config: Config, total_steps: int | None) -> dict[str, Any]:
    """Trinity's configuration, and what Trinity says to it.

    Raises:
        TrainingError: Trinity refuses it.
    """
    tree = rendered(config, total_steps=total_steps)
    python = _python(config.ajet)
    if python is None:
        named = config.ajet.trainer_common.trinity_python
        return {"config": tree, "checked": f"not validated: there is no interpreter {named}"}
    with TemporaryDirectory() as folder:
        found = _checked(python, Path(folder, "trinity.yaml"), tree)
    if found["version"] is None:
        return {
            "config": tree,
            "checked": f"not validated: trinity is not installed at {python}: {found['problem']}",
        }
    if found["problem"]:
        raise TrainingError(f"Trinity-RFT {found['version']} refuses the configuration: {found['problem']}")
    return {"config": tree, "checked": f"validated by Trinity-RFT {found['version']} at {python}"}


def train(config: Config, say: Callable[[str], None], safe_point: Callable[[], None]) -> None:
    """Train from the first step or the last checkpoint to the last step.

    Raises:
        TrainingError: something that it needs is missing, or Trinity failed.
    """
    ajet, folder = config.ajet, Path(config.ajet.experiment_dir)
    file = folder / "trinity.yaml"
    tree = rendered(config, total_steps=None)
    python = _ready(ajet, file, tree)
    with ExitStack() as closing:
        closing.enter_context(companions(ajet.companions, folder, say, safe_point))
        environments = closing.enter_context(VerifiersEnvironments(ajet.task_reader.environments, folder))
        tasks = read_tasks(
            ajet.task_reader, environments, validates=validates(ajet), say=say, safe_point=safe_point
        )
        write(config, tasks, say, safe_point)
        environment = {"PYTHONPATH": _module_path()}
        if ajet.trainer_common.ray != "cluster":
            environment = _start_ray(python, folder, environment, closing, safe_point)
        say(f"Trinity starts, on {python}; it prints here and to {folder / 'trinity.log'}")
        command = [python, "-m", "trainer_core.backbone.run_trinity", "run", str(file.absolute())]
        log = folder / "trinity.log"
        trinity = closing.enter_context(ChildProcess(command, "Trinity", log, environment, grace_s=60.0))
        _follow(trinity, log, safe_point)
        if trinity.exit_status != 0:
            raise TrainingError(f"Trinity failed; the end of {log}:\n{trinity.tail()}")


def write(
    config: Config, tasks: TaskSplits, say: Callable[[str], None], safe_point: Callable[[], None]
) -> None:
    """Write what Trinity and our agents in it read: `trinity.yaml`, `tasks/`, `config.resolved.yaml`.

    Raises:
        TrainingError: the tasks do not fill a batch, or cannot be written.
    """
    ajet, folder = config.ajet, Path(config.ajet.experiment_dir)
    for name, split in (("train", tasks.training), ("test", tasks.validation)):
        _write_tasks(tasks_folder(ajet) / f"{name}.jsonl", split)
    tree = rendered(config, total_steps=schedule(ajet, len(tasks.training)).total_steps)
    if ajet.model.path == "tiny":
        from trainer_core.backbone.local import start_folder

        tree["model"]["model_path"] = start_folder(ajet, tasks, say=say, safe_point=safe_point)
    (folder / "trinity.yaml").write_text(as_yaml(tree), encoding="utf-8")
    (folder / "config.resolved.yaml").write_text(resolved_yaml(config), encoding="utf-8")


def _ready(ajet: Ajet, file: Path, tree: dict[str, Any]) -> str:
    """The interpreter, when all that Trinity needs is there.

    Raises:
        TrainingError: it names everything that is missing.
    """
    common, python = ajet.trainer_common, _python(ajet)
    if python is None:
        raise TrainingError(f"ajet.trainer_common.trinity_python: there is no interpreter "
                            f"{common.trinity_python}. {_INSTALL}")  # fmt: skip
    found, missing = _checked(python, file, tree), []
    if found["version"] is None:
        missing.append(f"trinity is not installed at {python} ({found['problem']}). {_INSTALL}")
    elif found["problem"]:
        raise TrainingError(f"Trinity-RFT {found['version']} refuses {file}: {found['problem']}")
    elif not found["vllm"]:
        missing.append(
            f"vLLM is not installed at {python}. Type there: pip install 'trinity-rft[vllm]==0.6.0'"
        )
    if not Path(python).with_name("ray").is_file():
        missing.append(
            f"there is no `ray` beside {python}. Install it there: pip install 'ray[default]>=2.52'"
        )
    elif common.ray == "cluster" and not _ray_answers(python, {}):
        address = os.environ.get("RAY_ADDRESS", "auto")
        missing.append(f"no Ray answers at RAY_ADDRESS={address}. Type `ray start --head`, or leave "
                       "--with-ray-cluster out")  # fmt: skip
    if common.ray != "cluster" and found["gpus"] < common.n_gpus_per_node:
        missing.append(
            f"trainer_common.n_gpus_per_node asks for {common.n_gpus_per_node} GPUs and {found['gpus']} are "
            "visible. Trinity takes two or more, or one for both training and sampling: lower it, set "
            "CUDA_VISIBLE_DEVICES, or join a cluster with --with-ray-cluster"
        )
    if common.ray != "cluster" and found["ray"] is not None and found["ray"] < _RAY_WITH_TOKENS:
        missing.append(f"Ray at {python} is too old to ask for a token. Type there: pip install 'ray>=2.52'")
    if common.ray != "cluster" and common.nnodes > 1:
        missing.append("several machines (trainer_common.nnodes) need --with-ray-cluster")
    if ajet.task_reader.type == "verifiers" and common.nnodes > 1:
        missing.append("environments of verifiers run on one machine alone: write trainer_common.nnodes: 1")
    if missing:
        told = "".join(f"\n  {number}. {each}" for number, each in enumerate(missing, 1))
        raise TrainingError(f"Trinity cannot be started here:{told}\nThe configuration is in {file}")
    return python


def _python(ajet: Ajet) -> str | None:
    given = ajet.trainer_common.trinity_python or sys.executable
    return shutil.which(str(path_of(given)) if "/" in given else given)


def _checked(python: str, file: Path, tree: dict[str, Any]) -> dict[str, Any]:
    """What `run_trinity.check` finds in that interpreter; the configuration stays in `file`."""
    file.write_text(as_yaml(tree), encoding="utf-8")
    command = [python, "-m", "trainer_core.backbone.run_trinity", "check", str(file)]
    environment = {**os.environ, "PYTHONPATH": _module_path()}
    try:
        done = subprocess.run(
            command, env=environment, capture_output=True, text=True, check=True, timeout=_CHECKS_IN_S
        )
        found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    except (subprocess.SubprocessError, IndexError, ValueError) as error:
        told = getattr(error, "stderr", None) or str(error)
        raise TrainingError(f"{python} could not check {file}: {str(told).strip()[-500:]}") from error
    return found


def _module_path() -> str:
    """Where Trinity's processes find the user's code, and us where this is a checkout: beside an installed
    package lie others, which Trinity has in versions of its own."""
    own = str(_ROOT) if (_ROOT / "pyproject.toml").is_file() else None
    return os.pathsep.join(filter(None, (own, str(Path.cwd()), os.environ.get("PYTHONPATH"))))


def _write_tasks(file: Path, tasks: Sequence[Task]) -> None:
    """A row for each, its fields as one text: what a task holds need not have one schema."""
    file.parent.mkdir(parents=True, exist_ok=True)
    try:
        rows = [json.dumps({"task": json.dumps(asdict(task), ensure_ascii=False)}) for task in tasks]
    except TypeError as error:
        raise TrainingError(f"task_reader: a task cannot be handed to Trinity as JSON: {error}") from error
    file.write_text("".join(f"{row}\n" for row in rows), encoding="utf-8")


def read_task(text: str) -> Task:
    """A task from such a text."""
    fields: dict[str, Any] = json.loads(text)
    lists = {name: tuple(value) for name, value in fields.items() if isinstance(value, list)}
    return Task(**{**fields, **lists})


def _start_ray(
    python: str,
    folder: Path,
    environment: Mapping[str, str],
    closing: ExitStack,
    safe_point: Callable[[], None],
) -> dict[str, str]:
    """Start a Ray of this run's own, which `closing` ends; the environment to reach it with."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    own = {**environment, "RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(32)}
    words = ["--head", "--block", f"--port={port}", "--disable-usage-stats", "--include-dashboard=false"]
    command = [str(Path(python).with_name("ray")), "start", *words]
    ray = closing.enter_context(ChildProcess(command, "Ray", folder / "ray.log", own, grace_s=30.0))
    own["RAY_ADDRESS"] = f"127.0.0.1:{port}"
    ray.wait_until(lambda: _ray_answers(python, own), _RAY_STARTS_IN_S, safe_point)
    return own


def _ray_answers(python: str, environment: Mapping[str, str]) -> bool:
    command = [str(Path(python).with_name("ray")), "status"]
    own = {**os.environ, **environment}
    try:
        subprocess.run(command, env=own, capture_output=True, check=True, timeout=_RAY_ANSWERS_IN_S)
    except subprocess.SubprocessError:
        return False
    return True


def _follow(process: ChildProcess, log: Path, safe_point: Callable[[], None]) -> None:
    """Print what it prints, until it ends or `safe_point` raises."""
    with log.open("r", encoding="utf-8", errors="replace") as printed:
        printed.seek(0, os.SEEK_END)
        while True:
            is_running = process.is_running
            sys.stdout.write(printed.read())
            sys.stdout.flush()
            if not is_running:
                return
            safe_point()
            time.sleep(_LOOK_S)
