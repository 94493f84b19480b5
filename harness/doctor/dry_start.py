"""Runs inside the experiment's own interpreter, standard library only: starts the program, and ends it
when it has read its arguments.

In: JSON in the variable HARNESS_DRY_START (`script` or `module`, `arguments`, `parser`, `search`). Out: one
line of JSON on the standard output that the process began with. The program is given its own words. It ends,
without a word, before the first file that it would write, process that it would start and connection that it
would open. The kernel (Landlock) keeps even code that no interpreter announces from writing, making or
removing any file; where it cannot, nothing is started.
"""

# ruff: noqa: PTH119, PTH207

import argparse
import ctypes
import glob
import json
import os
import resource
import runpy
import struct
import sys
import tempfile
import traceback

MARK = "harness-doctor:"
STOPS = (
    "os.", "shutil.", "subprocess.", "socket.connect", "socket.bind", "socket.sendto", "socket.getaddrinfo",
    "pty.", "tempfile.", "sqlite3.", "webbrowser.", "urllib.", "ftplib.", "smtplib.", "http.",
)  # fmt: skip
HARMLESS = (
    "os.listdir", "os.scandir", "os.walk", "os.fwalk", "os.add_dll_directory", "os.getxattr", "os.listxattr",
    "os.putenv", "os.unsetenv", "os.chdir",
)  # fmt: skip
CREATE_RULESET, ADD_RULE, RESTRICT_SELF = 444, 445, 446
WRITE_FILE, TRUNCATE = 1 << 1, 1 << 14
CHANGES = WRITE_FILE | sum(
    1 << right for right in range(4, 15)
)  # up to TRUNCATE, which ABI 3 (Linux 6.2) added
CONNECTIONS = 0b11  # TCP, to bind and to connect, from ABI 4 on
NO_NEW_PRIVILEGES = 38
asked = json.loads(os.environ.pop("HARNESS_DRY_START"))
answer = os.dup(1)


def leave(outcome, **more):  # type: ignore[no-untyped-def]
    """End here, and say how far it came."""
    sys.stdout.flush()
    line = json.dumps(dict(more, outcome=outcome))
    os.write(answer, ("\n" + MARK + line + "\n").encode())
    os._exit(0)


def forbid_changes():  # type: ignore[no-untyped-def]
    """Have the kernel refuse this process, and all that it starts, every change of a file, but for writing to
    the null device and to GPUs; for good. End where it does not."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    libc = ctypes.CDLL(None, use_errno=True)
    abi = libc.syscall(CREATE_RULESET, None, ctypes.c_size_t(0), 1)
    if abi < 3 or not hasattr(sys, "addaudithook"):
        leave("not_contained")
    rights = struct.pack("QQ", CHANGES, CONNECTIONS) if abi > 3 else struct.pack("Q", CHANGES)
    ruleset = libc.syscall(CREATE_RULESET, rights, ctypes.c_size_t(len(rights)), 0)
    for device in [os.devnull, *glob.glob("/dev/nvidia*[0-9lm]")]:
        place = os.open(device, os.O_PATH)
        libc.syscall(ADD_RULE, ruleset, 1, struct.pack("=Qi", WRITE_FILE | TRUNCATE, place), 0)
        os.close(place)
    if libc.prctl(NO_NEW_PRIVILEGES, 1, 0, 0, 0) or libc.syscall(RESTRICT_SELF, ruleset, 0):
        leave("not_contained")
    os.close(ruleset)


def watch(event, details):  # type: ignore[no-untyped-def]
    """End before anything outside of this process is changed."""
    if event == "open":
        path, mode, flags = details
        writes = isinstance(mode, str) and bool(set(mode) & set("wax+"))
        writes = writes or bool(isinstance(flags, int) and flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT))
        if writes and not str(path).startswith("/dev/"):
            leave("stopped")
    elif event.startswith(STOPS) and event not in HARMLESS:
        leave("stopped")


def read_arguments():  # type: ignore[no-untyped-def]
    """Make every parser of arguments end the program when it has read them, or refuses them."""
    parse, parse_known = argparse.ArgumentParser.parse_args, argparse.ArgumentParser.parse_known_args

    def refuse(self, message):  # type: ignore[no-untyped-def]
        leave("refused", message=message, flags=sorted(self._option_string_actions))

    def parse_args(self, args=None, namespace=None):  # type: ignore[no-untyped-def]
        found = parse(self, args, namespace)
        if args is None or list(args) == sys.argv[1:]:
            leave("read")
        return found

    def parse_known_args(self, args=None, namespace=None, **more):  # type: ignore[no-untyped-def]
        found, rest = parse_known(self, args, namespace, **more)
        caller = sys._getframe(1)
        if caller.f_code.co_name == "parse_args" or caller.f_code.co_filename == argparse.__file__:
            return found, rest
        strict = hasattr(self, "parse_args_into_dataclasses")
        if rest and strict and not caller.f_locals.get("return_remaining_strings"):
            refuse(self, "unrecognized arguments: " + " ".join(rest))
        if args is None or strict:
            leave("read")
        return found, rest

    for method in (parse_args, parse_known_args):
        setattr(argparse.ArgumentParser, method.__name__, method)
    setattr(argparse.ArgumentParser, "error", refuse)  # noqa: B010


def start():  # type: ignore[no-untyped-def]
    sys.dont_write_bytecode = True
    sys.path[:] = asked["search"] + [entry for entry in sys.path if entry]
    for name, value in (("RANK", "0"), ("LOCAL_RANK", "0"), ("WORLD_SIZE", "1"), ("LOCAL_WORLD_SIZE", "1")):
        os.environ.setdefault(name, value)
    tempfile.tempdir = os.environ.get("TMPDIR") or "/tmp"  # or it would try to write there, to find out
    sys.argv = [asked["script"] or asked["module"], *asked["arguments"]]
    if asked["parser"] == "hydra":
        sys.argv += ["--cfg", "job"]
    else:
        read_arguments()
    sys.addaudithook(watch)
    if asked["script"]:
        runpy.run_path(asked["script"], run_name="__main__")
    else:
        runpy.run_module(asked["module"], run_name="__main__", alter_sys=True)


forbid_changes()
try:
    start()
except SystemExit as ending:
    leave("ended", status=ending.code if isinstance(ending.code, (int, str)) else 0)
except BaseException as error:  # noqa: BLE001  # whatever the program raises is the answer
    if isinstance(error, PermissionError) and not (error.filename and not os.access(error.filename, os.R_OK)):
        leave("stopped")  # refused because it would write
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if frame.filename.startswith(tuple(asked["search"]) or ("/",))]
    leave(
        "raised",
        kinds=[kind.__name__ for kind in type(error).__mro__],
        message=str(error)[:500],
        where=f"{os.path.basename(own[-1].filename)}:{own[-1].lineno}" if own else "",
        is_of_variables=bool(frames) and frames[-1].filename in (os.__file__, "<frozen os>"),
    )
leave("ended", status=0)
