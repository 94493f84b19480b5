"""The config: the trainer takes it, the command reads it, other files that it names parse, its batches
divide, its tracker has a key (which is never shown)."""

import json
import netrc
import re
import tempfile
import tomllib
from collections.abc import Iterable, Iterator
from pathlib import Path

from harness import launching
from harness.blueprint.surroundings import ask_trainer
from harness.command import Call
from harness.config import reader, readings
from harness.doctor.findings import Finding, fine, problem, warning
from harness.doctor.launch import PlannedLaunch
from harness.doctor.settings import Settings, similar

_ROLLOUT = "actor_rollout_ref.rollout"
_ACTOR = "actor_rollout_ref.actor"
_BATCH, _MINI = "data.train_batch_size", f"{_ACTOR}.ppo_mini_batch_size"
_OF_DEEPSPEED = ("train_batch_size", "train_micro_batch_size_per_gpu", "gradient_accumulation_steps")
_MICRO = f"{_ACTOR}.ppo_micro_batch_size_per_gpu"
_LOGGERS = "trainer.logger ajet.trainer_common.logger report_to training.report_to logger log_with"
_THERE = "correct it there"
_QUIET = ("offline", "disabled", "dryrun", "local")
_SETTINGS = (".yaml", ".yml", ".json", ".toml")
_TRACKERS = {"wandb": "api.wandb.ai", "swanlab": "swanlab.cn"}
"""Tracker → a part of its host as it stands in a netrc file."""


def trainer_takes_it(launch: PlannedLaunch) -> Iterator[Finding]:
    """The bundled trainer's own dry run of the config that would be launched."""
    if not launch.is_bundled or not launch.codebase.is_dir() or launch.look.failure:
        return  # the interpreter's own finding says it
    with tempfile.TemporaryDirectory() as folder:
        config = launch.config_path
        if launch.is_drafted and launch.config_text is not None:
            config = Path(folder) / "config.yaml"
            config.write_text(launch.config_text, encoding="utf-8")
        verdict = ask_trainer(launch.python, config, launch.codebase)
    if verdict.failure:
        fix = "install the trainer there, or name another Python under [exp_venv_exe]"
        yield problem(verdict.failure, fix, "module_not_found")
    for text, fix, severity in verdict.remarks:
        made_later = verdict.about_data and launch.prepares
        make = problem if severity == "error" and not made_later else warning
        found = make(text.replace(f"{folder}/", ""), fix, "config_error")
        yield found.fixed_by("correct_path", **meant) if (meant := _meant(launch, text)) else found
    if not verdict.failure and not verdict.remarks:
        yield fine("the trainer's dry run takes the config")


def _meant(launch: PlannedLaunch, remark: str) -> dict[str, str]:
    """What corrects the path of data that the trainer misses; {} where no one file is like it."""
    for key, text in launch.settings.texts():
        if (
            key.endswith("file_path")
            and f"{text}." in f"{remark}."
            and (new := similar(text, launch.codebase))
        ):
            return {"key": key, "old": text, "new": new}
    return {}


def is_read(launch: PlannedLaunch) -> Iterator[Finding]:
    """The command names the config, so that the attempt's own copy is what it reads."""
    if launch.config_path is not None and not launching.uses_config(launch.blueprint):
        yield warning(
            f"the launch command does not name {launch.config_path}: it reads its config by itself, and its "
            "outputs are not pointed into the result folder",
            "name the config file in the command, if the training reads it",
        )


def named_files(calls: Iterable[Call]) -> dict[Path, str]:
    """The settings files that a command names and that are there, with their texts."""
    words = {(call.folder, word.rpartition("=")[2]) for call in calls for word in call.words[1:]}
    named = {folder / word for folder, word in words if folder and word.endswith(_SETTINGS)}
    there = (path for path in sorted(named) if path.is_file() and path.stat().st_size <= reader.MOST_BYTES)
    return {path: path.read_text(encoding="utf-8", errors="replace") for path in there}


def numbers_as_text(
    calls: Iterable[Call], config: Path | None, config_text: str | None
) -> Iterator[tuple[str, str, str, str]]:
    """(file, key, what stands there, how it is written as a number) of numbers in the YAML files that calls
    name, and in the config, that are text to PyYAML."""
    texts = {path.name: text for path, text in named_files(calls).items()}
    if config is not None and config_text is not None:
        texts[config.name] = config_text
    for file, text in texts.items():
        for key, found in readings.numbers_as_text(text).items() if file.endswith((".yaml", ".yml")) else ():
            yield file, key, *found


def numbers_are_numbers(launch: PlannedLaunch) -> Iterator[Finding]:
    """Numbers such as `1e-2` are text to PyYAML; not to OmegaConf (Hydra) and the bundled trainer."""
    if launch.is_bundled or launch.settings.is_of_verl or launch.look.parser == "hydra":
        return
    for file, key, there, number in numbers_as_text(launch.calls, launch.config_path, launch.config_text):
        what = f"{file}: `{key}: {there}` is text to PyYAML, not a number"
        yield warning(what, f"write `{key}: {number}`", "config_error")


def files_parse(launch: PlannedLaunch) -> Iterator[Finding]:
    """YAML, JSON and TOML files that the command names parse, such as a DeepSpeed config."""
    for path, text in named_files(launch.calls).items():
        if path == launch.config_path:
            continue
        if path.suffix == ".toml":
            try:
                tomllib.loads(text)
            except tomllib.TOMLDecodeError as error:
                yield warning(f"{launch.shown(path)} is no TOML: {error}", _THERE, "config_error")
            continue
        try:
            with reader.reading(text):
                json.loads(text) if path.suffix == ".json" else reader.parser().compose(text)
        except reader.UnreadableConfigError as error:
            yield warning(f"{launch.shown(path)} is {error}", _THERE, "config_error")


def deepspeed_batches(launch: PlannedLaunch) -> Iterator[Finding]:
    """DeepSpeed's rule: the batch is the micro-batch × accumulation × processes."""
    for path, text in named_files(launch.calls).items():
        try:
            given = json.loads(text) if path.suffix == ".json" else {}
        except ValueError:
            continue  # the check of other configs says so
        sizes = Settings(given if isinstance(given, dict) else {})
        batch, micro, accumulation = (sizes.whole(key) for key in _OF_DEEPSPEED)
        if batch is None or micro is None or accumulation is None:
            continue
        is_alone = all(program.launcher == "python" for program in launch.programs)
        world = launch.workers or (1 if is_alone else 0)
        shown = f"{launch.shown(path)}: train_batch_size {batch} is not {micro} × {accumulation}"
        fix = "leave out train_batch_size, which DeepSpeed works out, or make the product right"
        if batch % (micro * accumulation):
            yield problem(f"{shown} × any number of processes", fix, "batch_divisibility")
        elif world and batch != micro * accumulation * world:
            yield warning(f"{shown} × {world} process(es)", fix, "batch_divisibility")


def generations_divide(launch: PlannedLaunch) -> Iterator[Finding]:
    """TRL's rule: the generations of a prompt divide the rows that are generated at once."""
    settings = launch.settings
    repeats, rows = settings.whole("num_generations"), settings.whole("per_device_train_batch_size")
    if not repeats or not rows or settings.is_of_verl:
        return
    steps = settings.whole("steps_per_generation") or settings.whole("gradient_accumulation_steps") or 1
    at_once = settings.whole("generation_batch_size") or rows * steps * (launch.workers or 1)
    if at_once % repeats:
        text = f"num_generations {repeats} does not divide the {at_once} rows that are generated at once"
        fix = (
            "make per_device_train_batch_size × processes × steps_per_generation (or accumulation) a multiple"
        )
        yield warning(text, fix, "batch_divisibility")


def batches_divide(launch: PlannedLaunch) -> Iterator[Finding]:
    """Batches divide as verl asserts: prompts × repeats per GPU, micro-batches per mini-batch."""
    settings = launch.settings
    batch, mini, micro = (settings.whole(key) for key in (_BATCH, _MINI, _MICRO))
    is_megatron = settings.get(f"{_ACTOR}.strategy") == "megatron"  # its parallel sizes count otherwise
    if not settings.is_of_verl or batch is None or is_megatron:
        return
    dynamic = settings.get(f"{_ACTOR}.use_dynamic_bsz") is True
    repeats = settings.whole(f"{_ROLLOUT}.n") or 1
    world = (settings.whole("trainer.n_gpus_per_node") or 8) * (settings.whole("trainer.nnodes") or 1)
    parts = world // (settings.whole(f"{_ACTOR}.ulysses_sequence_parallel_size") or 1) or 1
    per_gpu = mini * repeats // parts if mini else None
    found = []
    if batch * repeats % parts:
        found.append(_indivisible(f"{_BATCH} × {_ROLLOUT}.n", batch * repeats, "data-parallel GPUs", parts))
    if mini and mini > batch and not dynamic:
        text = f"{_MINI} {mini} is larger than {_BATCH} {batch}"
        found.append(problem(text, "a mini-batch is a part of the batch: lower it", "batch_divisibility"))
    if per_gpu == 0:
        text = f"{_MINI} {mini} × {repeats} repeats leave nothing for each of {parts} GPUs"
        fix = "use fewer GPUs, or have the experiment's author raise it"
        found.append(problem(text, fix, "batch_divisibility"))
    if per_gpu and micro and not dynamic and per_gpu % micro:
        found.append(_indivisible("the mini-batch of a GPU", per_gpu, _MICRO, micro))
    yield from found or [fine("batch sizes divide")]


def _indivisible(what: str, value: int, by: str, divisor: int) -> Finding:
    below = max(divisor, value - value % divisor)
    fix = f"choose numbers that divide (the nearest multiples of {divisor} are {below} and {below + divisor})"
    return problem(f"{what} = {value} cannot be divided by {by} = {divisor}", fix, "batch_divisibility")


def trackers_have_keys(launch: PlannedLaunch) -> Iterator[Finding]:
    """A tracker that is written to over the network has a key."""
    variables = launch.environment
    value = launch.settings.get(*_LOGGERS.split())
    words = value if isinstance(value, list | tuple) else re.split(r"[\s,\[\]'\"]+", str(value or ""))
    for name in _TRACKERS:
        key, mode = f"{name.upper()}_API_KEY", f"{name.upper()}_MODE"
        if name not in words or variables.get(mode, "").lower() in _QUIET:
            continue
        if variables.get(key) or _is_logged_in(name, Path(variables.get("HOME") or "~").expanduser()):
            yield fine(f"{name} has a key")
            continue
        brings_one = f"{name} login" in (launch.blueprint.launch_command or "")
        make = warning if launch.prepares or brings_one or (launch.codebase / ".env").exists() else problem
        text = f"the config asks for {name}, and there is no key for it: it would ask for one"
        fix = f"run `{name} login` or export {key}; without a network set {mode}=offline"
        yield make(text, fix, "auth")


def _is_logged_in(name: str, home: Path) -> bool:
    for place in (home / ".netrc", home / f".{name}" / ".netrc"):
        try:
            hosts = netrc.netrc(place).hosts
        except (OSError, netrc.NetrcParseError):
            continue
        if any(_TRACKERS[name] in host for host in hosts):
            return True
    return False
