"""Settings of a process that does nothing but train."""

from __future__ import annotations

import ctypes
import gc
import resource
from contextlib import suppress

_FILES = 65_536
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3
"""Options of glibc's `mallopt`, from <malloc.h>."""


def tune_process() -> None:
    """Keep freed memory for the next tensor and what has been imported out of garbage collection, and allow
    many files to be open.

    glibc gives each larger block back to the system and has it filled with zeros when it is asked for again,
    which costs a step of a small model about a tenth of its CPU time. Now blocks of up to 32 MiB stay with
    the process, 256 MiB of them at most. Other C libraries are left as they are. Changes no results.

    An agent at work holds five files or more (its event loop, its connection and the other end of it), so
    hundreds at once need more than the 1,024 that many systems begin with.
    """
    files, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _FILES if most == resource.RLIM_INFINITY else min(most, _FILES)
    if files != resource.RLIM_INFINITY and files < wanted:
        with suppress(ValueError, OSError):  # macOS has a limit of its own beneath this one
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, most))
    gc.freeze()
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_M_MMAP_THRESHOLD, 32 * 2**20)
        mallopt(_M_TRIM_THRESHOLD, 256 * 2**20)
