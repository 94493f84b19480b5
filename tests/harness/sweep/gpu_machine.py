"""A program that stands in for nvidia-smi."""

from collections.abc import Sequence
from pathlib import Path


def smi(folder: Path, gpus: Sequence[tuple[str, str, str]], users: Sequence[tuple[str, str]] = ()) -> str:
    """Write it into `folder` and return a PATH that finds it.

    `gpus`: index, UUID, MiB in use; `users`: pid, UUID.
    """
    rows = "".join(f"  echo '{index}, {uuid}, {used}, 81559'\n" for index, uuid, used in gpus)
    others = "".join(f"  echo '{pid}, {uuid}, 1024'\n" for pid, uuid in users)
    scratch = folder / "nvidia-smi.new"
    scratch.write_text(
        f'#!/bin/sh\ncase "$1" in\n--query-gpu=*)\n  :\n{rows}  ;;\n'
        f"--query-compute-apps=*)\n  :\n{others}  ;;\nesac\n"
    )
    scratch.chmod(0o755)
    scratch.replace(folder / "nvidia-smi")
    return str(folder)
