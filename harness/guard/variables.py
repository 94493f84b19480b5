"""Which environment variables a repair may set, and to what. The table, one line each, stands in
`variables.yaml`."""

import re
from collections.abc import Collection, Mapping
from functools import cache
from pathlib import Path

from harness.installation import own_table
from harness.wording import did_you_mean

_EXAMPLES = "PYTORCH_CUDA_ALLOC_CONF, NCCL_P2P_DISABLE, NCCL_SOCKET_IFNAME, OMP_NUM_THREADS, HF_HUB_OFFLINE"


def refuse(name: str, value: str, protected: Collection[str] = (), command: str = "") -> str | None:
    """Why this variable may not be set to this value, or None. `command`: what is launched."""
    if re.search(rf"(?<![\w./-]){re.escape(name)}=", command):
        return f"{name} is set by the launch command, which holds here: a person changes it"
    if name in protected:
        return f"{name} is protected by the blueprint and stays as it is"
    if name not in allowed():
        hint = did_you_mean(name, allowed(), cutoff=0.8)
        return (
            f"the variable {name[:80]} is not one that a repair may set{hint}. "
            f"Allowed are, among others: {_EXAMPLES}"
        )
    pattern, told = allowed()[name]
    if re.fullmatch(pattern, value, re.ASCII):
        return None
    return f"{name} takes {told}, not {value[:80]!r}"


@cache
def allowed() -> Mapping[str, tuple[str, str]]:
    """Every variable that a repair may set: its name to (pattern of its values, what that means in words)."""
    data = own_table(Path(__file__).with_name("variables.yaml"))
    kinds = {name: (kind["pattern"], kind["told"]) for name, kind in data["values"].items()}
    return {name: kinds[row["takes"]] for name, row in data["variables"].items()}
