"""Files and folders that the blueprint, its command or its config name: they are there and can be used."""

import difflib
import os
import re
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

from harness.blueprint.types import DEFAULT_FIRST_STEP_S
from harness.command import Call
from harness.doctor.launch import PlannedLaunch
from harness.doctor.settings import local_path
from harness.doctor.types import Finding, fine, problem, warning

_BUILTIN_WORDS = """
echo true false test printf ulimit unset set shift read wait trap umask alias type eval local declare
mkdir rm cp mv touch cat sleep pwd return exit source . : pushd popd shopt
"""
_BUILTINS = frozenset(_BUILTIN_WORDS.split())
_ARE_READ = re.compile(
    r"(?:^|[._])(?:(?:train|val|valid|validation|test|eval|data|dataset|prompt|input)"
    r"_?(?:files?|path|file_path|data|dir)"
    r"|(?:model|tokenizer|reward_model|adapter|config|reward_function|custom_cls|deepspeed)_?(?:path|file)"
    r"|^(?:data|dataset|input|config|train|val|test)|(?<!markdown_)file_path"
    r"|resume_from_path|resume_from_checkpoint|init_from|data_files)$",
    re.IGNORECASE,
)
_LOOKS_LOCAL = re.compile(
    r"(?:/|~/|\./|\.\./)\S|\S+\.(?:jsonl?|parquet|csv|tsv|txt|arrow|ya?ml|py|pt|pth|bin|safetensors)$"
)
_CLOCK_SKEW_S = 120.0
_OLDEST_SANE_CLOCK = 1_735_689_600.0  # 2025-01-01, before any version of this program


def codebase(launch: PlannedLaunch) -> Iterator[Finding]:
    """The working directory exists."""
    folder = launch.codebase
    if not folder.is_dir():
        yield problem(f"the codebase {folder} is not a folder", "mend [exp_codebase_dir]", "path_not_found")
    elif not os.access(folder, os.R_OK | os.X_OK):
        yield problem(f"the codebase {folder} cannot be entered", f"run `chmod u+rx {folder}`", "permission")
    else:
        yield fine(f"the codebase {folder} is there")


def programs(launch: PlannedLaunch) -> Iterator[Finding]:
    """The programs and scripts that the command starts exist."""
    found = []
    for call in launch.calls:
        if call.certain and call.is_known(call.program):
            found += list(_program(launch, call))
    for program in launch.programs:
        script = program.script
        if script is None or not program.call.certain or script.is_file():
            continue
        nearby = [file.name for file in script.parent.glob("*.py")] if script.parent.is_dir() else []
        close = difflib.get_close_matches(script.name, nearby, 1)
        mend = f"did you mean {close[0]}?" if close else "correct the path; it is seen from the codebase"
        make = warning if launch.prepares else problem
        found.append(make(f"the script {launch.shown(script)} does not exist", mend, "path_not_found"))
    yield from found
    if launch.calls and not found and not launch.is_bundled:
        yield fine("the programs of the command are there")


def _program(launch: PlannedLaunch, call: Call) -> Iterator[Finding]:
    word = call.program
    if word in _BUILTINS or word.endswith(".py"):
        return
    if "/" not in word:
        searched = call.variables.get("PATH")
        if call.is_known(searched or "") and shutil.which(word, path=searched) is None:
            make = warning if launch.prepares else problem
            yield make(
                f"the program {word} is not on PATH", f"install {word}, or write its path", "path_not_found"
            )
        return
    path = call.folder / word if call.folder is not None else None
    if path is None or path == launch.python:
        return
    if not path.exists():
        yield problem(
            f"the program {launch.shown(path)} does not exist", "correct its path", "path_not_found"
        )
    elif path.is_file() and not os.access(path, os.X_OK):
        yield problem(
            f"{launch.shown(path)} cannot be executed",
            f"run `chmod +x {path}`, or start it by `bash`",
            "permission",
        )


def inputs(launch: PlannedLaunch) -> Iterator[Finding]:
    """Files and folders that the settings say are read exist and can be read."""
    seen, good = set(), 0
    for key, value in launch.settings.values.items():
        if not _ARE_READ.search(key):
            continue
        for text in value if isinstance(value, (list, tuple)) else [value]:
            if not isinstance(text, str) or not _LOOKS_LOCAL.match(text) or text in seen:
                continue
            path = local_path(text, launch.codebase)
            if path is None:
                continue
            seen.add(text)
            if not path.exists():
                yield _not_there(launch, key, text, path)
            elif not os.access(path, os.R_OK):
                yield problem(f"{key}: {text} cannot be read", f"run `chmod u+r {path}`", "permission")
            else:
                good += 1
    if good:
        yield fine(f"{good} file(s) and folder(s) that the settings name are there")


def _not_there(launch: PlannedLaunch, key: str, text: str, path: Path) -> Finding:
    nearby = [entry.name for entry in path.parent.iterdir()] if path.parent.is_dir() else []
    close = difflib.get_close_matches(path.name, nearby, 1)
    mend = f"did you mean {path.with_name(close[0])}?" if close else "correct the path, or put the file there"
    surely = path.is_absolute() and not launch.prepares and (bool(path.suffix) or text.startswith("/"))
    relative_to_us = launch.is_bundled or launch.settings.has_tree("actor_rollout_ref")
    sure = not launch.prepares and (surely if Path(text).is_absolute() else relative_to_us)
    make = problem if sure else warning
    return make(f"{key}: {text} does not exist", mend, "path_not_found")


def outputs(launch: PlannedLaunch) -> Iterator[Finding]:
    """The result folder can be written."""
    folder = _existing(launch.result_dir)
    if os.statvfs(folder).f_flag & os.ST_RDONLY:
        yield problem(
            f"results cannot go to {launch.result_dir}: {folder} is mounted read-only",
            "name another [exp_result_dir]",
            "permission",
        )
    elif not folder.is_dir() or not os.access(folder, os.W_OK | os.X_OK):
        yield problem(
            f"results cannot go to {launch.result_dir}: {folder} is not writable",
            "name another [exp_result_dir]",
            "permission",
        )
    else:
        yield fine(f"results can be written to {launch.result_dir}")


def clock(launch: PlannedLaunch) -> Iterator[Finding]:
    """The clock is sane, and that of the result folder's file system is the same."""
    now = time.time()
    if now < _OLDEST_SANE_CLOCK:
        yield warning(
            f"the clock says {time.ctime(now)}: certificates will look invalid",
            "set the clock",
            "transient_io",
        )
        return
    journal = launch.result_dir / "journal.jsonl"
    ahead = journal.stat().st_mtime - now if journal.exists() else 0.0
    if ahead > _CLOCK_SKEW_S:
        yield warning(
            f"the file system of {launch.result_dir} is {ahead:.0f} s ahead of this machine's clock",
            "synchronise the clocks, as with `chronyc makestep`",
            "time_limit",
        )
    else:
        yield fine("the clock is sane")


def time_limits(launch: PlannedLaunch) -> Iterator[Finding]:
    """The first step is expected before the end."""
    longest, first = launch.plan.get("max_time_s"), launch.plan.get("first_step_s")
    if longest and first and DEFAULT_FIRST_STEP_S != first >= longest:
        yield warning(
            f"the first step may take {first:g} s, the whole experiment {longest:g} s",
            "raise [exp_max_time], or lower its first-step time",
            "time_limit",
        )


def _existing(path: Path) -> Path:
    return next((parent for parent in (path, *path.parents) if parent.exists()), Path("/"))
