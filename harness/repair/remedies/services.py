"""Remedies, each by its name, about processes, threads, ports and open files of this machine, services that a
training can do without, packages that it lacks, and keys that it does not know."""

import difflib
import re
from pathlib import Path

from harness.command import calls, plain, python_programs, read_or_empty
from harness.config import keys
from harness.config.keys import parameter
from harness.config.packages import package_of
from harness.repair.remedies.situation import Edits, Repair, Setting, Situation

_OF_DATA = re.compile(
    r"(.*_)?(data|dataset|datasets|loader|loaders|dataloader|dataloaders|datamodule|loading)"
)
_THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS")
_LISTENS = re.compile(r"(^|[._])(master|main_process|rendezvous|rdzv|listen|bind|serve|server|dashboard)[._]")
_HOST = re.compile(r"(.*_)?(host|hostname|url|uri|address|addr|ip|endpoint|server|bind|domain|node)")
_THIS_MACHINE = re.compile(
    r"(\w+://)?(localhost|127(\.\d{1,3}){3}|0\.0\.0\.0|\[?::1?\]?|\*)(:\d+)?(/.*)?", re.IGNORECASE
)
_PORTS = ("MASTER_PORT", "VLLM_PORT", "PET_MASTER_PORT")
_OF_PYTORCH = 29500
"""The port that PyTorch's ranks meet at unless they are told another one."""
_TORCHRUN = frozenset(("torchrun", "accelerate"))
_HUB_NAME = re.compile(r"[A-Za-z0-9][\w.-]{0,95}/[A-Za-z0-9][\w.-]{0,95}")
_TRACKERS = {"wandb": "WANDB_MODE", "swanlab": "SWANLAB_MODE"}
_LIKENESS = 0.8
_NO_PACKAGES = frozenset(("python", "cuda", "version", "driver", "glibc", "gcc", "library", "package"))


def fewer_loader_workers(now: Situation) -> Edits:
    """Half as many processes that load data; of one, none. The order of the data stays. A plain `num_workers`
    counts only where it stands below the data: elsewhere it may be how many collect experience."""
    needs_one = any(each.value for each in now.settings.of("only_with_workers"))
    below = [each for each in now.changeable("plain_workers") if any(map(_OF_DATA.fullmatch, each.above))]
    edits: Edits = {}
    for each in [*now.changeable("loader_workers"), *below]:
        least = 1 if needs_one or each.key.endswith("num_proc") else 0
        if each.whole is not None and each.whole > least:
            edits[each.key] = max(least, each.whole // 2)
    return edits


def fewer_threads(now: Situation) -> Repair | None:
    """Two threads for each numerical library and process; then one."""
    is_small = all(now.environment.get(name) in ("1", "2") for name in _THREADS)
    wanted = "1" if is_small or now.machine.cpu_count() <= 2 else "2"
    return now.variables(dict.fromkeys(_THREADS, wanted))


def raise_open_files(now: Situation) -> Repair | None:
    """Only where the limit that was met may be raised without anybody's permission."""
    soft, hard = now.machine.open_files()
    return Repair() if soft < hard else None


def free_port(now: Situation) -> Repair | Edits | None:
    """A free port at the key that holds the taken one, else in the variable that the program reads. Not where
    the key is about another machine, or an address of the config names the same port."""
    taken = now.count("port") or _evident(now)
    addresses = [value for value in now.settings.values.values() if isinstance(value, str)]
    if taken is None or any(re.search(rf":{taken}(?!\d)", text) for text in addresses):
        return None
    if any(each.whole == taken for each in now.settings.of("port")):
        here = [each for each in now.changeable("port") if each.whole == taken and _is_here(now, each)]
        port = now.machine.free_port() if here else 0
        return {each.key: port for each in here}
    set_there = [name for name in _PORTS if now.environment.get(name) == str(taken)]
    launchers = {each.launcher for each in python_programs(calls(now.command, Path(), {}))}
    of_ranks = ["PET_MASTER_PORT" if launchers & _TORCHRUN else "MASTER_PORT"] if taken == _OF_PYTORCH else []
    names = set_there or of_ranks
    return now.variables({names[0]: str(now.machine.free_port())}) if names else None


def _evident(now: Situation) -> int | None:
    """The port that must be meant where the log names none: the only one of the config, at a key that says
    that the training listens there, and taken. That of a judge or a database is taken, and should be."""
    found = now.settings.of("port")
    port = found[0].whole if len(found) == 1 and _LISTENS.search(plain(found[0].key)) else None
    return port if port is not None and 0 < port < 65536 and now.machine.is_taken(port) else None


def _is_here(now: Situation, port: Setting) -> bool:
    """True if no host or address beside the port is another machine's."""
    beside = (each for each in now.settings.all if each.above == port.above and isinstance(each.value, str))
    hosts = (str(each.value).strip() for each in beside if _HOST.fullmatch(plain(each.name)))
    return all(_THIS_MACHINE.fullmatch(host) for host in hosts)


def hub_offline(now: Situation) -> Repair | None:
    """Only where the very revision of each model that would be used is complete on this machine."""
    settings = [each for each in now.settings.of("model") if _HUB_NAME.fullmatch(str(each.value))]
    models = [(str(each.value), _revision(now, each)) for each in settings]
    if not models and _HUB_NAME.fullmatch(now.captured("model")):
        models = [(now.captured("model"), _revision(now, None))]
    is_here = bool(models) and all(now.machine.is_cached(name, revision) for name, revision in models)
    return now.variables({"HF_HUB_OFFLINE": "1"}) if is_here else None


def _revision(now: Situation, model: Setting | None) -> str:
    """The revision that is asked for beside a model, `main` where none is."""
    named = read_or_empty(now.command).plain.items()
    given = next((value for key, value in named if parameter("revision").is_at(key)), None)
    beside = [each for each in now.settings.of("revision") if model is None or each.above == model.above]
    return given or next((str(each.value) for each in beside if each.value), "main")


def tracker_offline(now: Situation) -> Repair | Edits | None:
    """The tracker that the config or the failure names writes to this machine only; one that knows no such
    mode is left out."""
    said, found = now.said.lower(), now.changeable("tracker")
    used = [name for name in _TRACKERS if name in said or any(each.value == name for each in found)]
    if used:
        variable = _TRACKERS[used[0]]
        return None if now.environment.get(variable) else now.variables({variable: "offline"})
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
    if "." in module or package is None or now.machine.why_not_install():
        return None
    return Repair(package=package)


def requirement(now: Situation) -> str:
    """What pip is to install, such as `numpy>=2`; "" where the log names no package with its version."""
    package, wanted = now.captured("package"), now.captured("wanted").strip("'\"` ")
    if re.fullmatch(r"v?\d[\w.]*", wanted):
        wanted = f">={wanted.lstrip('v')}"
    if not re.fullmatch(r"[A-Za-z][\w.-]*", package) or package.lower() in _NO_PACKAGES:
        return ""
    wanted = wanted.removeprefix(package)
    return f"{package}{wanted}" if re.fullmatch(r"([<>=!~]=?\s*v?\d[\w.*]*,?\s*)+", wanted) else ""


def correct_key(now: Situation) -> Repair | None:
    """The value moves to the key that was meant: the one that the log names, else the nearest known one; or
    to the key that the log misses, where the config has one that is spelt nearly so. Not where the value is
    part of what is studied."""
    known = now.settings.values
    said, missed = (_bare(now.captured(name)) for name in ("key", "wanted"))
    found = [key for key in known if said and (key == said or key.endswith(f".{said}"))]
    if found:
        near = _bare(now.captured("meant")) or keys.nearest_own_key(found[0]) or ""
    else:
        near = missed or said
        found = [key for key in known if _alike(_name(key), _name(near))]
        found = found if not any(_name(key) == _name(near) for key in known) else []
    if len(found) != 1 or not near or not _alike(_name(found[0]), _name(near)):
        return None
    wrong, above = found[0], found[0].rpartition(".")[0]
    meant = near if near.startswith("ajet.") else f"{above}.{_name(near)}".lstrip(".")
    may_change = keys.meaning((meant,), now.settings.tree == "ajet").may_change
    return Repair(edits={meant: known[wrong]}, remove=(wrong,)) if may_change and meant not in known else None


def is_near(said: str, meant: str) -> bool:
    """True if these are two keys, and one is spelt nearly like the other."""
    one, other = _name(_bare(said)), _name(_bare(meant))
    return bool(one and other) and _alike(one, other)


def correct_path(now: Situation) -> Edits:
    """The one file that is like a missing one, as the check before the launch found it."""
    return {now.captured("key"): now.captured("new")} if now.captured("new") else {}


def _bare(said: str) -> str:
    """A key without the signs that logs and command lines put around it; "" for what is none."""
    key = re.sub(r"^[+~-]*|['\"`]", "", said).strip(". ")
    return key if re.fullmatch(r"[\w.-]+", key) else ""


def _name(key: str) -> str:
    return key.rpartition(".")[2]


def _alike(one: str, other: str) -> bool:
    return one != other and difflib.SequenceMatcher(None, one, other).ratio() >= _LIKENESS
