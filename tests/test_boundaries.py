"""Dependency arrows never point back, and start-up imports nothing heavy."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
FORBIDDEN = {
    "harness": {"trainer_core"},
    "monitors": {"harness", "trainer_core"},
    "trainer_core": {"harness", "monitors"},
}
HEAVY = {
    "torch", "transformers", "ray", "verl", "vllm", "pandas", "matplotlib", "scipy", "statsmodels",
    "datasets", "anthropic", "openai", "swanlab", "apprise",
}  # fmt: skip
SLOW = {"asyncio", "httpx", "jinja2", "markdown_it", "numpy", "pydantic", "re2", "rich", "ruamel", "yaml"}
"""Some tens of milliseconds each, which `harness --help` does not need."""
COMMAND_LINE = {"harness.cli.app", "harness.cli.console"}


ROOMS = (
    *(
        "errors",
        "redaction",
        "atomic_write",
        "codec",
        "environment",
        "installation",
        "templating",
        "self_command",
        "config",
        "wording",
        "command",
    ),
    *("machine", "metric_files"),
    *("blueprint", "attempt", "options", "outcome", "pending_changes", "launching"),
    *("journal", "providers", "llm_use", "state", "index", "experiment", "diagnosis", "doctor"),
    *(
        "lessons",
        "results",
        "earlier_runs",
        "notebook",
        "actions",
        "observation",
        "guard",
        "repair",
        "agent",
        "notifications",
    ),
    *("resume_status", "elsewhere", "author"),
    *("sweep", "cli"),
)
"""The rooms of the harness in the order of its README: each may import those before it, and no other."""


def modules_in(path: Path) -> set[str]:
    """Every module a file imports, also inside functions, as far as a name may be one."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            names |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return names


def imports_of(path: Path) -> set[str]:
    return {name.partition(".")[0] for name in modules_in(path)}


@pytest.mark.parametrize("package", sorted(FORBIDDEN))
def test_arrows_never_point_back(package: str) -> None:
    files = sorted((ROOT / package).rglob("*.py"))
    assert files
    backwards = {str(file): imports_of(file) & FORBIDDEN[package] for file in files}
    assert {file: names for file, names in backwards.items() if names} == {}


def test_every_room_of_the_harness_has_its_place() -> None:
    there = {
        path.stem
        for path in (ROOT / "harness").iterdir()
        if path.suffix == ".py" or (path / "__init__.py").exists()
    }
    assert there - {"__init__", "__main__"} == set(ROOMS)


@pytest.mark.parametrize("room", ROOMS)
def test_no_room_of_the_harness_knows_one_that_comes_later(room: str) -> None:
    place = ROOT / "harness" / room
    files = sorted(place.rglob("*.py")) if place.is_dir() else [place.with_suffix(".py")]
    later = {f"harness.{name}" for name in ROOMS[ROOMS.index(room) + 1 :]}
    backwards = {
        str(file): {name for name in modules_in(file) if ".".join(name.split(".")[:2]) in later}
        for file in files
    }
    assert {file: names for file, names in backwards.items() if names} == {}


EVERY_COMMAND = "from harness.cli.app import COMMANDS, loaded; [loaded(name) for name in COMMANDS]"


@pytest.mark.parametrize(
    "start", [EVERY_COMMAND, "import trainer_core.cli", "import monitors.wait", "import monitors.run"]
)
def test_start_up_imports_nothing_heavy(start: str) -> None:
    code = f"{start}; import sys; print(*{{name.partition('.')[0] for name in sys.modules}})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    assert set(done.stdout.split()) & HEAVY == set()


def loaded_by(*words: str) -> set[str]:
    """The modules that a command of the command line imports."""
    at_exit = "atexit.register(lambda: print(*sys.modules, sep='\\n', file=sys.stderr))"
    code = f"import atexit, sys; {at_exit}; from harness.cli.app import main; main()"
    done = subprocess.run([sys.executable, "-c", code, *words], capture_output=True, text=True, cwd=ROOT)
    assert done.returncode in (0, 1), done.stderr
    return set(done.stderr.splitlines())


@pytest.mark.parametrize("asked", ["--version", "--help"])
def test_what_needs_no_command_loads_none(asked: str) -> None:
    loaded = loaded_by(asked)
    assert {name for name in loaded if name.startswith("harness.cli")} == {"harness.cli", *COMMAND_LINE}
    assert {name.partition(".")[0] for name in loaded} & (HEAVY | SLOW) == set()


@pytest.mark.parametrize("command", ["ls", "diagnose", "metrics"])
def test_a_look_loads_nothing_of_a_run(command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    log = tmp_path / "train.log"
    log.write_text("step 1 loss 0.5\nRuntimeError: CUDA out of memory. Tried to allocate 2.00 GiB\n")
    loaded = loaded_by(command, *([str(log)] if command != "ls" else []))
    assert {"harness.cli.look", f"harness.cli.{command}"} & loaded
    assert {name.partition(".")[0] for name in loaded} & (HEAVY | {"asyncio", "httpx", "numpy"}) == set()
