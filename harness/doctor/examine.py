"""The examination: every check, run side by side, each with its own time limit.

In: a blueprint and where its results go. Out: findings, in the order of the checks. A check that fails or
takes too long becomes a warning that says so; none stops another.
"""

import asyncio
import os
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future
from concurrent.futures import TimeoutError as NotReadyError
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from harness.blueprint.surroundings import TIMEOUT_S
from harness.blueprint.types import Blueprint
from harness.doctor import configs, data, model, paths, program, resources
from harness.doctor.findings import Finding, fine, warning
from harness.doctor.launch import LIMIT_S, PlannedLaunch, planned, this_machine
from harness.environment import known_secrets
from harness.options import RunOptions
from harness.redaction import redact
from monitors.sandbox import PROBE_S

if TYPE_CHECKING:
    from harness.providers.choice import LlmConfig

_LOOK_S = LIMIT_S + 5.0


@dataclass(frozen=True)
class Check:
    """One thing to examine: a function that yields what it finds, and nothing where it does not apply.

    `limit_s`: how long it may take. `of_machine`: it makes sense without a blueprint.
    """

    name: str
    examine: Callable[[PlannedLaunch], Iterable[Finding]]
    limit_s: float = 10.0
    of_machine: bool = False


CHECKS = (
    Check("surroundings", paths.surroundings),
    Check("interpreter", program.runs, _LOOK_S),
    Check("modules", program.modules, _LOOK_S),
    Check("start", program.starts, _LOOK_S),
    Check("dry run", configs.trainer_takes_it, TIMEOUT_S + _LOOK_S),
    Check("config is read", configs.is_read),
    Check("other configs", configs.files_parse),
    Check("numbers", configs.numbers_are_numbers, _LOOK_S),
    Check("programs", paths.programs),
    Check("inputs", paths.inputs, _LOOK_S),
    Check("data", data.rows_parse),
    Check("model config", model.config_is_whole),
    Check("model weights", model.weights_are_whole),
    Check("hub", model.can_be_had),
    Check("batches", configs.batches_divide),
    Check("batches", configs.deepspeed_batches),
    Check("batches", configs.generations_divide),
    Check("disk", resources.disk_of_results, of_machine=True),
    Check("home", resources.state_folder, of_machine=True),
    Check("secrets", resources.secrets),
    Check("metric formats", resources.metric_formats, of_machine=True),
    Check("checkpoints", resources.checkpoints),
    Check("memory", resources.memory, 45.0, of_machine=True),
    Check("shared memory", resources.shared_memory),
    Check("open files", resources.open_files, of_machine=True),
    Check("ports", resources.free_ports),
    Check("GPUs", resources.enough_gpus, 45.0),
    Check("accelerator", resources.accelerator, 45.0),
    Check("GPUs free", resources.free_gpus, 45.0),
    Check("trackers", configs.trackers_have_keys),
    Check("sandbox", resources.changed_code, 2 * PROBE_S),
    Check("tmux", resources.tmux, of_machine=True),
)


def examine(
    blueprint: Blueprint | None,
    result_dir: Path,
    draft: str | None = None,
    repairs: Mapping[str, str] | None = None,
    variables: Mapping[str, str] | None = None,
    moved: Callable[[str], str | None] | None = None,
) -> list[Finding]:
    """Examine one launch; without a blueprint the machine alone, as seen from `result_dir`.

    `draft`: the config that would be used, where it is not the blueprint's own. `repairs`: variables that
    repairs have set. `variables`: of the run, None for those of this shell. `moved`: where a source lies in
    the private copy that is launched, and only read here: code that a model changed is not started outside of
    its sandbox.
    """
    if blueprint is None:
        return run([check for check in CHECKS if check.of_machine], this_machine(result_dir))
    return run(CHECKS, planned(blueprint, result_dir, draft, repairs, variables, moved))


def of_paths(blueprint: Blueprint) -> list[Finding]:
    """Whether the programs and files that the blueprint names are there."""
    named = [check for check in CHECKS if check.name in ("programs", "inputs")]
    return run(named, planned(blueprint, blueprint.result_dir))


def run(checks: Iterable[Check], launch: PlannedLaunch) -> list[Finding]:
    """The findings of these checks, run side by side, without what looks like a secret."""
    started, known = time.monotonic(), known_secrets(launch.result_dir)
    running = [(check, _begun(check, launch)) for check in checks]
    return [
        replace(each, check=check.name, text=redact(each.text, known), fix=redact(each.fix, known))
        for check, answer in running
        for each in _result(check, answer, started + check.limit_s - time.monotonic())
    ]


def _begun(check: Check, launch: PlannedLaunch) -> Future[list[Finding]]:
    """The check in a thread of its own, which may be left alone when it hangs."""
    answer: Future[list[Finding]] = Future()

    def work() -> None:
        try:
            answer.set_result(list(check.examine(launch)))
        except Exception as error:  # noqa: BLE001  # a broken check must not stop a launch
            text = f"the check of {check.name} broke: {type(error).__name__}: {error}"
            answer.set_result([warning(text, "the launch goes on without it; please report it")])

    threading.Thread(target=work, name=f"check {check.name}", daemon=True).start()
    return answer


def _result(check: Check, answer: Future[list[Finding]], patience_s: float) -> list[Finding]:
    try:
        return answer.result(max(0.0, patience_s))
    except NotReadyError:
        text = f"the check of {check.name} was not done within {check.limit_s:g} s"
        return [warning(text, "look at it yourself: a disk or a program there does not answer")]


def of_language_model(cwd: Path) -> Iterator[Finding]:
    """What was found of the model that runs started in `cwd` would ask; nothing where none is configured."""
    from harness.providers.choice import configured
    from harness.providers.settings import ConfigurationError

    try:
        config = configured(None, cwd, os.environ)
        if config is None:
            return
        trouble = asyncio.run(_trouble_of(config))
    except ConfigurationError as error:
        yield warning(str(error), "until then the playbook decides")
        return
    if trouble:
        yield warning(f"{config.word.text} does not answer: {trouble}", "until it does the playbook decides")
    else:
        yield fine(f"{config.word.text} answers")


async def _trouble_of(config: "LlmConfig") -> str:
    from harness.providers.choice import limits_of, open_model
    from harness.providers.conversation import Account
    from harness.providers.trial import trouble_of

    account, options = Account(), RunOptions(max_cost_usd=config.max_cost_usd, max_calls=config.max_calls)
    with tempfile.TemporaryDirectory() as folder:
        transcript = Path(folder) / "transcript.jsonl"
        model = open_model(config, limits_of(options, config), account.record, transcript)
        try:
            return await trouble_of(model, account.spending)
        finally:
            await model.close()
