"""A launch command: read word by word as a shell does, asked by name, edited in place. Nothing is run.

    command = read("A=1 python train.py --lr 1e-4 data.batch=8")    # CommandError names the line
    command.value("arg:--lr")                      # "1e-4"; None where the command gives none
    command.with_setting("arg:data.batch", "16")   # a new Command; all else stays as it was
    command.with_setting("env:A", "2").text
    command.settings                               # every `Setting` with its place; also `values`
    command.plain                                  # as configs spell them: {"lr": "1e-4", …}
    command.sets("batch"); command.setting_of(key) # the setting that holds against a key of a config
    calls(text, folder, environment)               # programs with folder and variables; `python_programs`

Names are those of a sweep's keys: `arg:--lr` a flag, `arg:optim.lr` an override `optim.lr=x` (also with
Hydra's `+`, `++`, `~`), `env:NAME` a variable. Rooms, in reading order: `shell` (words and where they stand),
`programs` (what one command does), `settings` (flags, overrides and variables by name), `launch_command`
(`Command`: all of it and its edits; keys of a config that it sets), `calls`, `visibility` (refuses a variable
that the training would not see).
"""

from harness.command.calls import Call, PythonProgram, calls, python_programs
from harness.command.launch_command import (
    overlaid,
    paths_replaced,
    read,
    read_or_empty,
    values_of,
    with_values,
)
from harness.command.programs import BUILTINS
from harness.command.settings import is_off, is_output, is_same, plain
from harness.command.shell import CommandError
from harness.command.visibility import check_reaches

__all__ = [
    "BUILTINS",
    "Call",
    "CommandError",
    "PythonProgram",
    "calls",
    "check_reaches",
    "is_off",
    "is_output",
    "is_same",
    "overlaid",
    "paths_replaced",
    "plain",
    "python_programs",
    "read",
    "read_or_empty",
    "values_of",
    "with_values",
]
