"""Processes, threads, ports and open files of this machine, and services that a training can do without."""

import re

from harness.command import plain, read_or_empty
from harness.config.keys import parameter
from harness.config.packages import package_of
from harness.repair.remedies.settings import Setting
from harness.repair.remedies.situation import Edits, Repair, Situation

_OF_DATA = re.compile(
    r"(.*_)?(data|dataset|datasets|loader|loaders|dataloader|dataloaders|datamodule|loading)"
)
_THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS")
_LISTENS = re.compile(r"(^|[._])(master|main_process|rendezvous|rdzv|listen|bind|serve|server|dashboard)[._]")
_HOST_WORD = r"(host|hostname|url|uri|address|addr|ip|endpoint|server|bind|domain|node)"
_HOST = rf"(.*[_-])?{_HOST_WORD}"
_THIS_MACHINE = re.compile(
    r"(\w+://)?(localhost|127(\.\d{1,3}){3}|0\.0\.0\.0|\[?::1?\]?|\*)(:\d+)?(/.*)?", re.IGNORECASE
)
_TORCHRUN = re.compile(r"\btorchrun\b|torch\.distributed\.(run|launch)|\baccelerate\s+launch\b")
_RENDEZVOUS = re.compile(r"TCPStore|rendezvous|rdzv|c10d|init_process_group|MASTER_PORT", re.IGNORECASE)
_ENGINE = re.compile(r"vllm", re.IGNORECASE)
_HUB_NAME = re.compile(r"[A-Za-z0-9][\w.-]{0,95}/[A-Za-z0-9][\w.-]{0,95}")
_TRACKERS = {"wandb": "WANDB_MODE", "swanlab": "SWANLAB_MODE"}


def fewer_loader_workers(now: Situation) -> Edits:
    """Half as many processes that load data; of one, none. The order of the data stays. A plain `num_workers`
    counts only where it stands below the data: elsewhere it may be how many collect experience."""
    needs_one = any(each.value for each in now.settings.of("only_with_workers"))
    below = [each for each in now.settings.of("plain_workers") if any(map(_OF_DATA.fullmatch, each.above))]
    edits: Edits = {}
    for each in [*now.settings.of("loader_workers"), *below]:
        least = 1 if needs_one or each.key.endswith("num_proc") else 0
        if each.whole is not None and each.whole > least:
            edits[each.key] = max(least, each.whole // 2)
    return edits


def fewer_threads(now: Situation) -> Repair | None:
    """Two threads for each numerical library and process; then one."""
    wanted = "2" if now.machine.cpu_count() > 2 else "1"
    if all(now.environment.get(name) in ("1", "2") for name in _THREADS):
        wanted = "1"
    changed = {name: wanted for name in _THREADS if now.environment.get(name) != wanted}
    return Repair(environment=changed) if changed else None


def raise_open_files(now: Situation) -> Repair | None:
    """Only where the limit that was met may be raised without anybody's permission."""
    soft, hard = now.machine.open_files()
    return Repair() if soft < hard else None


def free_port(now: Situation) -> Repair | Edits | None:
    """A free port at the key that holds the taken one, else in the variable that the program reads. Not where
    the key is about another machine, or an address of the config names the same port."""
    taken = int(now.captured("port")) if re.fullmatch(r"[0-9]{1,5}", now.captured("port")) else _evident(now)
    ports = [each for each in now.settings.of("port") if taken is not None and each.whole == taken]
    named = [each for each in ports if _is_here(now, each)]
    if named:
        if _is_in_an_address(now, str(taken)):
            return None
        port = now.machine.free_port()
        return {each.key: port for each in named}
    if ports:
        return None
    variable = _variable(now, str(taken or ""))
    return Repair(environment={variable: str(now.machine.free_port())}) if variable else None


def _evident(now: Situation) -> int | None:
    """The port that must be meant where the log names none: the only one of the config, at a key that says
    that the training listens there, and taken. That of a judge or a database is taken, and should be."""
    found = now.settings.of("port")
    port = found[0].whole if len(found) == 1 else None
    if port is None or not 0 < port < 65536 or not _LISTENS.search(plain(found[0].key)):
        return None
    return port if now.machine.is_taken(port) else None


def _is_here(now: Situation, port: Setting) -> bool:
    """True if no host or address that stands beside the port is another machine's."""
    of_port = plain(port.name).removesuffix("port").rstrip("_")
    for each in (each for each in now.settings.all if re.fullmatch(_HOST, each.name)):
        of_host = re.sub(f"{_HOST_WORD}$", "", plain(each.name)).rstrip("_")
        is_beside = each.above == port.above and (of_host == of_port or not of_host or not of_port)
        if is_beside and isinstance(each.value, str) and not _THIS_MACHINE.fullmatch(each.value.strip()):
            return False
    return True


def _is_in_an_address(now: Situation, port: str) -> bool:
    """True if another value of the config leads to this port."""
    texts = [value for value in now.settings.values.values() if isinstance(value, str)]
    return any(re.search(rf":{port}(?!\d)", text) for text in texts)


def _variable(now: Situation, taken: str) -> str | None:
    """The variable that the taken port comes from, or that the program takes one from."""
    if re.search(r"--(master|main_process|rdzv)[-_](port|endpoint)", now.command):
        return None  # the command line decides
    for name in ("MASTER_PORT", "VLLM_PORT", "PET_MASTER_PORT"):
        if taken and now.environment.get(name) == taken:
            return name
    if _RENDEZVOUS.search(now.said):
        return "PET_MASTER_PORT" if _TORCHRUN.search(now.command) else "MASTER_PORT"
    return "VLLM_PORT" if _ENGINE.search(now.said) else None


def hub_offline(now: Situation) -> Repair | None:
    """Only where the very revision of each model that would be used is complete on this machine."""
    settings = [each for each in now.settings.of("model") if _HUB_NAME.fullmatch(str(each.value))]
    models = [(str(each.value), _revision(now, each)) for each in settings]
    if not models and _HUB_NAME.fullmatch(now.captured("model")):
        models = [(now.captured("model"), _revision(now, None))]
    is_here = bool(models) and all(now.machine.is_cached(name, revision) for name, revision in models)
    return now.variable("HF_HUB_OFFLINE", "1") if is_here else None


def _revision(now: Situation, model: Setting | None) -> str:
    """The revision that is asked for beside a model, `main` where none is."""
    named = read_or_empty(now.command).plain.items()
    given = next((value for key, value in named if parameter("revision").is_at(key)), None)
    beside = [each for each in now.settings.of("revision") if model is None or each.above == model.above]
    return given or next((str(each.value) for each in beside if each.value), "main")


def tracker_offline(now: Situation) -> Repair | Edits | None:
    """The tracker writes to this machine only; one that knows no such mode is left out."""
    said, found = now.said.lower(), now.settings.of("tracker")
    used = [name for name in _TRACKERS if name in said or any(each.value == name for each in found)]
    if used:
        variable = _TRACKERS[used[0]]
        return None if now.environment.get(variable) else Repair(environment={variable: "offline"})
    named = [each for each in found if isinstance(each.value, str) and each.value.lower() in said]
    return {
        each.key: "none" if each.key.endswith(("report_to", "log_with")) else "console"
        for each in named
        if each.value not in ("none", "console")
    }


def install_package(now: Situation) -> Repair | None:
    """The package of a missing module, with permission only. What stands before a dot was found: then another
    version is wanted, or it is shadowed."""
    module = now.captured("module").strip("'\"` ")
    package = package_of(module) or package_of(now.captured("package"))
    may_install = "." not in module and package is not None and now.machine.may_install(package)
    return Repair(package=package or "") if may_install else None
