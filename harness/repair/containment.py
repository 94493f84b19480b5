"""Where code that a model changed runs: what it may write, and what it sees.

In: the experiment, its private copy of the code, the attempt's folder. Out: the policy that
`monitors/sandbox.py` reads, and commands that run under it. Of the home, of /run and of the places for
temporary files it sees nothing but what is named here: what programs need, and what the author gave to the
training (the codebase, its Python, what command, config and variables name, `readable:`). Of the rest of the
machine it sees all but what is named here.
"""

import os
import shlex
import shutil
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict
from itertools import islice
from pathlib import Path

from harness.atomic_write import write_json
from harness.blueprint.names import NO_NETWORK, READABLE, WRITABLE
from harness.blueprint.types import Blueprint
from harness.command import paths_replaced
from harness.config.edit import leaves
from harness.config.reader import UnreadableConfigError, text_of
from harness.experiment import Experiment
from harness.guard.file_access import OWN_PRIVATE, looks_private
from harness.machine.sandboxes import INSTALL, kind_here
from harness.repair.patched_code import PatchedCode, place_of
from harness.state import ExperimentState
from monitors import sandbox
from monitors.files import AttemptFiles
from monitors.launch import state_home
from monitors.records import EVALUATION_LOG
from monitors.sandbox import Access, Policy

POLICY = "sandbox.json"
NONE = "none"
"""In the journal: changed code that ran without a sandbox."""

_OPEN_IN_HOME = (
    *("bin", ".venv", ".venvs", ".virtualenvs", ".pyenv/versions", ".conda/envs", ".conda/pkgs", ".mamba"),
    *(".micromamba", ".rye", ".pixi", ".asdf/installs", ".nvm/versions", ".cargo/bin", ".rustup/toolchains"),
    *(".nix-profile", ".linuxbrew", ".local/bin", ".local/lib", ".local/share/uv", ".local/share/pipx"),
    *(".local/share/virtualenvs", ".local/share/mise", ".triton", ".keras", ".nv", ".fonts", ".mujoco"),
    *(
        f".cache/{name}"
        for name in (
            *("huggingface", "torch", "torch_extensions", "triton", "vllm", "flashinfer", "uv", "pip", "nv"),
            *("matplotlib", "fontconfig", "numba", "modelscope", "kagglehub", "clip", "whisper", "pypoetry"),
        )
    ),
)
"""In a home: what programs need."""
_TOKENS = ("token", "stored_tokens")
"""In a folder of Hugging Face."""
_OF_THE_MACHINE = (
    *("/etc/shadow", "/etc/shadow-", "/etc/gshadow", "/etc/gshadow-", "/etc/sudoers", "/etc/sudoers.d"),
    *("/etc/ssh", "/etc/ssl/private", "/etc/krb5.keytab", "/etc/kubernetes", "/etc/rancher", "/etc/docker"),
    *("/etc/wireguard", "/etc/NetworkManager/system-connections", "/root", "/run", "/var/lib/docker"),
    *("/var/lib/containerd", "/var/lib/kubelet", "/var/spool/cron"),
)
_OPEN_IN_RUN = (
    *("nscd", "nvidia-persistenced", "nvidia-fabricmanager", "systemd/resolve", "resolvconf"),
    *("opengl-driver", "current-system"),
)
"""Names of hosts and users, and GPUs."""
_TEMPORARY = ("/tmp", "/var/tmp")
_MOST_LINKS = 1000
_KEPT = (
    "launch.sh",
    "started",
    "pane.log",
    "heartbeat",
    "config.yaml",
    "change.diff",
    EVALUATION_LOG,
    POLICY,
)
"""In an attempt's folder: what the harness believes."""


def refuse(wanted: str) -> str | None:
    """Why no changed code is run at all, or None."""
    if wanted != "required" or kind_here(wanted) is not None:
        return None
    return f"changed code is to run in a sandbox (--sandbox required), and this machine has none: {INSTALL}"


def contained(command: str, policy: Path) -> str:
    """The shell text, run under this policy file."""
    program = [sys.executable, "-I", "-S", str(Path(sandbox.__file__).resolve()), str(policy)]
    return shlex.join(["exec", *program, "--", "bash", "-c", command])


def used(files: AttemptFiles) -> str:
    """The sandbox that an attempt with changed code was launched in."""
    policy = files.dir / POLICY
    return sandbox.read_policy(policy).kind if policy.exists() else NONE


def write_policy(
    experiment: Experiment, code: PatchedCode, files: AttemptFiles, variables: Mapping[str, str]
) -> Path | None:
    """Write what changed code may do in this attempt; None where it runs without a sandbox. `variables`: of
    the training."""
    kind = kind_here(experiment.state.options.sandbox)
    if kind is None:
        return None
    plan = experiment.blueprint
    written = _named_for(plan, WRITABLE)
    for folder in written:
        folder.mkdir(parents=True, exist_ok=True)
    steps: tuple[tuple[Iterable[Path], Access], ...] = (
        (_hidden(), "hide"),
        (map(Path, (*_TEMPORARY, variables.get("TMPDIR") or tempfile.gettempdir())), "own"),
        (_needed(experiment, code, variables), "read"),
        (_private(experiment, files, variables), "hide"),
        ((code.copy.root, files.dir, *written), "write"),
    )
    places: dict[str, Access] = {"/": "read"}
    for paths, access in steps:
        places |= dict.fromkeys(_decided(paths, access), access)
    kept = (*(files.dir / name for name in _KEPT), code.copy.root / ".git")
    policy = Policy(kind, places, tuple(map(str, kept)), NO_NETWORK not in plan.code_changes)
    write_json(files.dir / POLICY, asdict(policy), mode=0o600)
    believed = code.copy.root.with_name(f"{code.copy.root.name}.{files.dir.name}.{POLICY}")
    write_json(believed, asdict(policy), mode=0o600)  # where the training cannot write
    return believed


def hides(state: ExperimentState, path: Path) -> bool:
    """True if the sandbox of the last attempt does not let it see what is there."""
    folder = "" if state.attempt is None else f"{state.attempt.number:02d}"
    policy = state.blueprint.result_dir / "attempts" / folder / POLICY
    if not policy.exists() or not path.exists():
        return False
    places, real = sandbox.read_policy(policy).places, path.resolve()
    nearest = next(str(each) for each in (real, *real.parents) if str(each) in places)
    return places[nearest] in ("hide", "own")


def _named_for(plan: Blueprint, condition: str) -> list[Path]:
    """What the blueprint names for changed code beside its own: `readable: PATH`, `writable: FOLDER`."""
    found = (each.removeprefix(condition) for each in plan.code_changes if each.startswith(condition))
    return [Path(each.strip()) for each in found]


def _decided(paths: Iterable[Path], access: Access) -> Iterator[str]:
    """The paths without links. The home folder as a whole is only ever hidden, what holds it is not decided
    about, but for a place of temporary files."""
    home = Path.home().resolve()
    for path in map(Path.resolve, paths):
        is_all = home.is_relative_to(path) and not (access == "hide" and path == home)
        if not is_all or (access == "own" and str(path) in _TEMPORARY):
            yield str(path)


# --- what is not seen ---------------------------------------------------------------------------------------


def _hidden() -> Iterator[Path]:
    home = Path.home()
    yield from (home, *map(Path, _OF_THE_MACHINE))
    ours = (0, home.stat().st_uid)
    yield from (each for each in _entries(Path("/home")) if each.stat().st_uid not in ours)
    yield from Path("/mnt").glob("?/Users")
    yield from _sockets()


def _sockets() -> Iterator[Path]:
    """Unix sockets of processes in our own network namespace."""
    try:
        lines = Path("/proc/net/unix").read_text(encoding="utf-8", errors="surrogateescape").splitlines()
    except OSError:
        return
    yield from (Path(line[line.index(" /") + 1 :]) for line in lines if " /" in line)


def _private(experiment: Experiment, files: AttemptFiles, variables: Mapping[str, str]) -> Iterator[Path]:
    """Of this run, of the harness, and where it was started."""
    attempts = experiment.dir / "attempts"
    for folder in (experiment.dir, *(each for each in _entries(attempts) if each != files.dir)):
        yield from (folder / name for name in OWN_PRIVATE)
    yield attempts / "environment.json"
    yield from (state_home(), place_of("").parent)
    if config := os.environ.get("XDG_CONFIG_HOME"):
        yield Path(config) / "harness"
    for start in (experiment.state.options.settings_dir, experiment.blueprint.path.parent):
        yield from [Path(start) / "harness.toml"] if start else []
    hub = Path(variables.get("HF_HOME") or Path.home() / ".cache" / "huggingface")
    yield from (hub / name for name in _TOKENS)


def _entries(folder: Path) -> list[Path]:
    """What a folder holds, as far as it can be read."""
    try:
        return [entry for entry in folder.iterdir() if os.path.lexists(entry)]
    except OSError:
        return []


# --- what a training needs ----------------------------------------------------------------------------------


def _needed(experiment: Experiment, code: PatchedCode, variables: Mapping[str, str]) -> Iterator[Path]:
    """What is read, also in a place that is hidden."""
    plan, copy = experiment.blueprint, code.copy
    yield from (Path.home() / name for name in _OPEN_IN_HOME)
    yield from (Path("/run") / name for name in _OPEN_IN_RUN)
    yield from (experiment.dir, plan.path, copy.source, copy.named)
    for python in (plan.venv_exe, Path(sys.executable)):
        yield from (python.parent.parent, python.resolve().parent.parent)
    yield from (Path(sys.base_prefix), Path(sandbox.__file__).parents[1])
    for name in copy.links():
        yield from _linked(copy.source / name)
    yield from (*_named(plan), *_named_for(plan, READABLE), *_of_variables(variables))


def _linked(place: Path) -> Iterator[Path]:
    """What this leads to, and what links right in it lead to, if it is a folder."""
    inside = islice(_entries(place), _MOST_LINKS) if place.is_dir() else ()
    yield from (each for each in (place, *(entry for entry in inside if entry.is_symlink())) if each.exists())


def _of_variables(variables: Mapping[str, str]) -> Iterator[Path]:
    """Folders in the home that variables name, but for hidden ones."""
    home = Path.home()
    for word in {word for value in variables.values() for word in value.split(os.pathsep)}:
        if word.startswith(f"{home}/") and not any(map(looks_private, Path(word).relative_to(home).parts)):
            yield from [Path(word)] if Path(word).is_dir() else []


def _named(plan: Blueprint) -> Iterator[Path]:
    """Files and folders that the author's command and config name."""
    words: list[str] = []
    paths_replaced(plan.launch_command or "", words.append)
    try:
        values = leaves(text_of(plan.yaml_path)).values() if plan.yaml_path else ()
    except (OSError, UnreadableConfigError):
        values = ()  # the check says what is wrong with it
    words += [value for value in values if isinstance(value, str) and value.startswith(("/", "~/", "../"))]
    yield from (plan.codebase_dir / Path(word).expanduser() for word in words)
    yield from [plan.yaml_path] if plan.yaml_path else []


def remove_own_folders(experiment_id: str) -> None:
    """Remove the folders for temporary files that sandboxes of this experiment made."""
    for place in {*_TEMPORARY, tempfile.gettempdir()}:
        for own in Path(place).glob(f"{sandbox.OWN_FOLDER}{experiment_id}-*"):
            shutil.rmtree(own, ignore_errors=True)
