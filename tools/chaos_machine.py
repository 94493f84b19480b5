"""A machine of its own for runs that shall meet faults: a state folder, a tmux server, a disk that can be
full and a clock that can be set, all of them private. Only processes that belong to it are ever signalled.
"""

import os
import signal
import struct
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest

from harness.self_command import HARNESS
from tests.e2e.short_run import SIGNATURE
from tests.small_disk import small_disk

ROOT = Path(__file__).parents[1]
DISK_MB = 2000
SECRET = "the-secret-of-this-run"
CLOCK = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>
static volatile long *ahead;
__attribute__((constructor)) static void look(void) {
    const char *name = getenv("CHAOS_CLOCK");
    int file = name ? open(name, O_RDONLY | O_CLOEXEC) : -1;
    void *page = file < 0 ? MAP_FAILED : mmap(0, sizeof(long), PROT_READ, MAP_SHARED, file, 0);
    if (page != MAP_FAILED) ahead = page;
    if (file >= 0) close(file);
}
int clock_gettime(clockid_t id, struct timespec *now) {
    static int (*real)(clockid_t, struct timespec *);
    if (!real) real = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
    int status = real(id, now);
    if (!status && ahead && (id == CLOCK_REALTIME || id == CLOCK_REALTIME_COARSE)) now->tv_sec += *ahead;
    return status;
}
int gettimeofday(struct timeval *now, void *zone) {
    struct timespec exact;
    clock_gettime(CLOCK_REALTIME, &exact);
    if (now) { now->tv_sec = exact.tv_sec; now->tv_usec = exact.tv_nsec / 1000; }
    return 0;
}
time_t time(time_t *into) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (into) *into = now.tv_sec;
    return now.tv_sec;
}
"""
"""Adds the seconds in a file to the clock of whoever loads it, as if a person had set it."""


class Machine:
    """Everything below one folder; `missing`: which faults it cannot have, and why."""

    def __init__(self, folder: Path | None = None) -> None:
        self.top = folder or Path(tempfile.mkdtemp(prefix="chaos-", dir="/tmp"))
        self.socket = f"chaos-{self.top.name}"
        self.missing: dict[str, str] = {}
        self._open = ExitStack()
        self.disk = self.top / "disk"
        try:
            self._open.enter_context(small_disk(self.disk, DISK_MB))
        except pytest.skip.Exception as why:
            self.missing["disk full"] = str(why)
        self.clock_file = self.top / "clock"
        self.clock_file.write_bytes(struct.pack("l", 0))
        self.env = self._environment()
        self._write_settings()

    def _environment(self) -> dict[str, str]:
        kept = {name: os.environ[name] for name in ("PATH", "LANG", "OMP_NUM_THREADS") if name in os.environ}
        source, library = self.top / "clock.c", self.top / "clock.so"
        source.write_text(CLOCK)
        compiler = ["cc", "-O1", "-shared", "-fPIC", "-o", str(library), str(source), "-ldl"]
        try:
            subprocess.run(compiler, check=True, capture_output=True, text=True)
            kept |= {"LD_PRELOAD": str(library), "CHAOS_CLOCK": str(self.clock_file)}
        except (OSError, subprocess.CalledProcessError) as error:
            self.missing["clock"] = f"no C compiler that makes the clock: {error}"
        return kept | {
            "HOME": str(self.top / "home"),
            "XDG_STATE_HOME": str(self.disk / "state"),
            "XDG_CACHE_HOME": str(self.top / "cache"),
            "XDG_CONFIG_HOME": str(self.top / "settings"),
            "MPLCONFIGDIR": str(self.top / "fonts"),
            "AJET_TMUX_SOCKET": self.socket,
            "PYTHONPATH": str(ROOT),
            "SHELL": "/bin/sh",
            "WANDB_API_KEY": SECRET,
        }

    def _write_settings(self) -> None:
        (self.top / "home").mkdir()
        signatures = self.top / "settings" / "harness" / "signatures"
        signatures.mkdir(parents=True)
        (signatures / "own.yaml").write_text(SIGNATURE)

    # --- what is done to it ---------------------------------------------------------------------------

    def start(self, *arguments: str, output: Path, env: Mapping[str, str] = {}) -> subprocess.Popen[bytes]:
        """Start `harness …` and return at once."""
        with output.open("ab") as file:
            return subprocess.Popen(
                [*HARNESS, *arguments],
                env={**self.env, **env},
                cwd=self.top,
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def set_clock(self, ahead_s: int) -> None:
        """Set the clock of everything that runs here so many seconds ahead of the true one."""
        with self.clock_file.open("r+b") as file:
            file.write(struct.pack("l", ahead_s))

    def fill_disk(self, *, full: bool) -> None:
        """Leave no room on the disk, or give back what there was."""
        used = os.statvfs(self.disk)
        kilobytes = (used.f_blocks - used.f_bfree) * used.f_frsize // 1024
        size = f"{kilobytes}k" if full else f"{DISK_MB}m"
        subprocess.run(["mount", "-o", f"remount,size={size}", str(self.disk)], check=True)

    def tmux(self, *arguments: str) -> list[str]:
        command = ["tmux", "-L", self.socket, *arguments]
        done = subprocess.run(command, capture_output=True, text=True, check=False, env=self.env)
        return done.stdout.splitlines()

    def kill_everything(self) -> None:
        """As if the power had failed."""
        for _ in range(3):  # what is born while we look
            for pid in self.processes():
                self.signal(pid, signal.SIGKILL)
        self.tmux("kill-server")

    def signal(self, pid: int, signum: int) -> bool:
        """Send a signal to a process, if it is one of this machine's; whether it was sent."""
        try:
            handle = os.pidfd_open(pid)
        except OSError:
            return False
        try:
            if not self._is_ours(pid):
                return False
            signal.pidfd_send_signal(handle, signum)
            return True
        except OSError:
            return False
        finally:
            os.close(handle)

    def processes(self, mark: str = "") -> Iterator[int]:
        """Every live process that has this machine (and `mark`, if given) in its environment."""
        marks = [str(self.top).encode(), mark.encode()]
        for pid in [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit()]:
            environ = _environ(pid)
            if all(each in environ for each in marks):
                yield pid

    def _is_ours(self, pid: int) -> bool:
        panes = map(int, self.tmux("list-panes", "-a", "-F", "#{pane_pid}"))
        return str(self.top).encode() in _environ(pid) or pid in panes

    def close(self) -> None:
        """End all that is left, and let go of the disk."""
        self.kill_everything()
        sockets = Path(os.environ.get("TMUX_TMPDIR", "/tmp")) / f"tmux-{os.getuid()}"
        (sockets / self.socket).unlink(missing_ok=True)
        self._open.close()


def _environ(pid: int) -> bytes:
    with suppress(OSError):
        return Path(f"/proc/{pid}/environ").read_bytes()
    return b""
