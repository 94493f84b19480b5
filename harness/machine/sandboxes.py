"""Which sandbox this machine has for code that a model changed, and what it leaves open."""

from monitors import sandbox
from monitors.sandbox import Kind

INSTALL = "install bubblewrap, e.g. `apt-get install bubblewrap`"


def kind_here(wanted: str) -> Kind | None:
    """The sandbox that changed code runs in on this machine; None for none."""
    if wanted == "off":
        return None
    if sandbox.bubblewrap_works():
        return "bubblewrap"
    return "landlock" if sandbox.landlock_abi() else None


def not_covered(kind: Kind, abi: int) -> tuple[str, ...]:
    """What a sandbox of this kind does not keep changed code from."""
    always = ("the variables, data and settings that the training is given", "its load on the machine")
    if kind == "bubblewrap":
        abstract = () if abi >= 6 else ("abstract sockets",)
        return (*always, *abstract)
    by_abi = ((4, "TCP"), (6, "signals to other processes"), (6, "abstract sockets"))
    return (
        *always,
        "Unix sockets in the file system, so that a hostile program gets out through tmux or docker",
        "modes, times and attributes of files",
        "UDP, also with `no network`",
        "the command lines of other processes",
        "what the harness itself keeps in the attempt's folder",
        *(what for since, what in by_abi if abi < since),
    )
