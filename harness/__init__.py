"""The research agent: a blueprint goes in, a trustworthy report comes out.

Rooms, in the order a run passes through them: `blueprint` (the written plan), `doctor` (what would make it
fail), `experiment` and `journal` (the result folder and what happened in it), `agent` (observe, decide,
guard, act), `diagnosis` (from a log to its cause, and to repairs), `lessons` (what earlier runs taught),
`results` (from raw files to the report), `cli` (what a person types). May import `monitors`, never
`trainer_core`.

For notebooks and scripts: `harness.open_run(dir)`, `harness.runs()` and `harness.UserError`, which their
errors are (docs/notebook.md).
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from harness.errors import UserError as UserError
    from harness.notebook import open_run as open_run
    from harness.notebook import runs as runs

__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    """What is imported only when somebody asks for it."""
    if name == "UserError":
        from harness.errors import UserError

        return UserError
    if name in ("open_run", "runs"):
        from harness import notebook

        return getattr(notebook, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
