"""Where code that a model changed runs: what it may write, and what it does not see.

In: the experiment, its private copy of the code, the attempt's folder. Out: the policy that
`monitors/sandbox.py` reads, and commands that run under it. What the author gave to the training (the
codebase, its Python, what its command and config name, variables) stays readable, wherever it lies.
"""

import os
import shlex
import shutil
import stat
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict
from pathlib import Path

from harness.atomic_write import write_json
from harness.blueprint.names import NO_NETWORK, WRITABLE
from harness.blueprint.types import Blueprint
from harness.command import paths_replaced
from harness.config.edit import leaves
from harness.config.reader import UnreadableConfigError, text_of
from harness.experiment import Experiment
from harness.guard.file_access import OWN_PRIVATE, looks_private
from harness.machine.sandboxes import INSTALL, kind_here
from harness.repair.patched_code import PatchedCode, place_of
from monitors import sandbox
from monitors.files import AttemptFiles
from monitors.launch import state_home
from monitors.sandbox import Access, Policy

POLICY = "sandbox.json"
NONE = "none"
"""In the journal: changed code that ran without a sandbox."""

_OPEN_IN_HOME = (
    *(".venv", ".venvs", ".virtualenvs", ".pyenv/versions", ".conda/envs", ".conda/pkgs", ".mamba"),
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
"""Hidden folders of a home that programs need; all others are not seen."""
_TOKENS = ("token", "stored_tokens")
"""In a folder of Hugging Face."""
_OF_THE_MACHINE = (
    *("/etc/shadow", "/etc/shadow-", "/etc/gshadow", "/etc/gshadow-", "/etc/sudoers", "/etc/sudoers.d"),
    *("/etc/ssh", "/etc/ssl/private", "/etc/krb5.keytab", "/etc/kubernetes", "/etc/rancher", "/etc/docker"),
    *("/etc/wireguard", "/etc/NetworkManager/system-connections", "/root", "/run/secrets", "/run/user"),
    *("/run/screen", "/var/lib/docker", "/var/lib/containerd", "/var/lib/kubelet", "/var/spool/cron"),
)
_TEMPORARY = ("/tmp", "/var/tmp")
_HARMLESS_SOCKETS = frozenset(("nscd", "nvidia-persistenced", "nvidia-fabricmanager", "resolve"))
"""Folders of sockets that a training needs: names of hosts and users, and GPUs."""
_KEPT = ("launch.sh", "started", "pane.log", "heartbeat", "config.yaml", "change.diff", POLICY)
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
    own = [Path(text) for text in writable(plan)]
    for folder in own:
        folder.mkdir(parents=True, exist_ok=True)
    steps: tuple[tuple[Iterable[Path], Access], ...] = (
        (_hidden(Path.home(), variables), "hide"),
        (_needed(experiment, code), "read"),
        (_private(experiment, files), "hide"),
        ((*_temporary(variables), code.copy.root, files.dir, *own), "write"),
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


def writable(plan: Blueprint) -> list[str]:
    """The folders that the blueprint lets changed code write beside its own."""
    return [each.removeprefix(WRITABLE).strip() for each in plan.code_changes if each.startswith(WRITABLE)]


def _temporary(variables: Mapping[str, str]) -> Iterator[Path]:
    yield from map(Path, (*_TEMPORARY, variables.get("TMPDIR") or tempfile.gettempdir()))


def _decided(paths: Iterable[Path], access: Access) -> Iterator[str]:
    """The paths without links; what holds the home folder is neither hidden nor, but for /tmp, written."""
    home = Path.home().resolve()
    for path in map(Path.resolve, paths):
        if access == "read" or str(path) in _TEMPORARY or not home.is_relative_to(path):
            yield str(path)


# --- what is not seen ---------------------------------------------------------------------------------------


def _hidden(home: Path, variables: Mapping[str, str]) -> Iterator[Path]:
    yield from (entry for entry in _entries(home) if looks_private(entry.name))
    yield from map(Path, _OF_THE_MACHINE)
    ours = (0, home.stat().st_uid)
    yield from (each for each in _entries(Path("/home")) if each.stat().st_uid not in ours)
    yield state_home()
    yield place_of("").parent
    if config := os.environ.get("XDG_CONFIG_HOME"):
        yield Path(config) / "harness"
    hub = Path(variables.get("HF_HOME") or home / ".cache" / "huggingface")
    yield from (hub / name for name in _TOKENS)
    for folder in (Path("/tmp"), Path(os.environ.get("TMUX_TMPDIR", "/tmp"))):
        yield from folder.glob("tmux-*")
    for socket in (*_bound_sockets(), *_sockets(Path("/run"), 3)):
        yield from () if set(socket.parts) & _HARMLESS_SOCKETS else (socket,)


def _private(experiment: Experiment, files: AttemptFiles) -> Iterator[Path]:
    """Of this run, and where it was started."""
    attempts = experiment.dir / "attempts"
    for folder in (experiment.dir, *(each for each in _entries(attempts) if each != files.dir)):
        yield from (folder / name for name in OWN_PRIVATE)
    yield attempts / "environment.json"
    for start in (experiment.state.options.settings_dir, experiment.blueprint.path.parent):
        yield from [Path(start) / "harness.toml"] if start else []


def _bound_sockets() -> list[Path]:
    """Unix sockets of processes in our own network namespace."""
    try:
        lines = Path("/proc/net/unix").read_text(encoding="utf-8", errors="surrogateescape").splitlines()
    except OSError:
        return []
    return [Path(line[line.index(" /") + 1 :]) for line in lines if " /" in line]


def _sockets(folder: Path, depth: int) -> Iterator[Path]:
    """Those in a folder, also of processes elsewhere, as in a container that is lent its host's."""
    for entry in _entries(folder) if depth else ():
        if entry.is_symlink():
            continue
        mode = entry.lstat().st_mode
        if stat.S_ISSOCK(mode):
            yield entry
        elif stat.S_ISDIR(mode):
            yield from _sockets(entry, depth - 1)


def _entries(folder: Path) -> list[Path]:
    """What a folder holds, as far as it can be read."""
    try:
        return [entry for entry in folder.iterdir() if os.path.lexists(entry)]
    except OSError:
        return []


# --- what a training needs ----------------------------------------------------------------------------------


def _needed(experiment: Experiment, code: PatchedCode) -> Iterator[Path]:
    """What is read, also in a place that is hidden, and not written, also in a place that may be."""
    plan, copy, home = experiment.blueprint, code.copy, Path.home()
    yield from (home, *(home / name for name in _OPEN_IN_HOME))
    yield from (experiment.dir, experiment.dir.parent, plan.path.parent, copy.source, copy.named)
    for python in (plan.venv_exe, Path(sys.executable)):
        yield from (python.parent.parent, python.resolve().parent.parent)
    yield from (Path(sys.base_prefix), Path(sandbox.__file__).parents[1])
    yield from (copy.source / name for name in copy.links() if os.path.lexists(copy.source / name))
    yield from _named(plan)


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


def remove_own_folders(experiment_id: str) -> None:
    """Remove the folders for temporary files that sandboxes of this experiment made."""
    for place in {*_TEMPORARY, tempfile.gettempdir()}:
        for own in Path(place).glob(f"{sandbox.OWN_FOLDER}{experiment_id}-*"):
            shutil.rmtree(own, ignore_errors=True)
