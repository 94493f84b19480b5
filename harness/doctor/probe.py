"""Runs inside the experiment's own interpreter, standard library only: says what it has and what programs
import, then starts the program, and ends it when it has read its arguments.

In: JSON on standard input (see `launch.Question`). Out: a line of JSON on the standard output for each of the
two. Modules are looked for, not imported; of sources only `import` statements at the top are read, as this
very interpreter parses them. The program is given its own words. It ends, without a word, before the first
file that it would write, process that it would start and connection that it would open. The kernel (Landlock)
keeps even code that no interpreter announces from writing, making or removing any file; where it cannot,
nothing is started.
"""

# ruff: noqa: E402, PTH113, PTH118, PTH119, PTH120, PTH123, PTH202, PTH207

import sys

sys.path[:] = [entry for entry in sys.path if entry]  # no module of the codebase stands for one of Python's

import argparse
import ast
import ctypes
import glob
import importlib.util
import json
import os
import resource
import runpy
import struct
import tempfile
import traceback

MARK = "harness-doctor:"
MOST_FILES = 60
MOST_BYTES = 1000000
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
CHANGES = WRITE_FILE | sum(1 << right for right in range(4, 15))  # to TRUNCATE, new in ABI 3 (Linux 6.2)
CONNECTIONS = 0b11  # TCP, to bind and to connect, from ABI 4 on
NO_NEW_PRIVILEGES = 38
asked = json.load(sys.stdin)
answer = os.dup(1)
missing = {}  # type: ignore[var-annotated]
absent = []  # type: ignore[var-annotated]
names = []  # type: ignore[var-annotated]
broken = []  # type: ignore[var-annotated]
texts = {}  # type: ignore[var-annotated]


def say(found):  # type: ignore[no-untyped-def]
    sys.stdout.flush()
    os.write(answer, ("\n" + MARK + json.dumps(found) + "\n").encode())


def is_there(module):  # type: ignore[no-untyped-def]
    try:
        return importlib.util.find_spec(module) is not None
    except (ImportError, AttributeError, ValueError):
        return False


def follow(name, where):  # type: ignore[no-untyped-def]
    """Read a module that is a local file, note any other that is not installed."""
    top = name.partition(".")[0]
    for folder in asked["search"]:
        base = os.path.join(folder, *name.split("."))
        names = [os.path.join(folder, top) + ".py", os.path.join(folder, top, "__init__.py")]
        names += [base + ".py", os.path.join(base, "__init__.py"), os.path.join(base, "__main__.py")]
        local = [file for file in names if os.path.isfile(file)]
        if local:
            for file in local:
                read(file)
            return local[-1]
    if top and not is_there(top):
        missing.setdefault(top, where)


def read(file):  # type: ignore[no-untyped-def]
    """Note what one source asks for."""
    is_too_much = len(texts) >= MOST_FILES or not os.path.isfile(file) or os.path.getsize(file) > MOST_BYTES
    if file in texts or is_too_much:
        return
    texts[file] = ""
    try:
        with open(file, "rb") as stream:
            source = stream.read()
        tree = ast.parse(source, file)
    except (SyntaxError, ValueError) as error:
        broken.append([file, getattr(error, "lineno", None), str(getattr(error, "msg", error))])
        return
    except OSError:
        return
    texts[file] = source.decode("utf-8", "replace")
    for statement in tree.body:
        where = f"{os.path.basename(file)}:{statement.lineno}"
        if isinstance(statement, ast.Import):
            for alias in statement.names:
                follow(alias.name, where)
        elif isinstance(statement, ast.ImportFrom) and statement.level == 0 and statement.module:
            imported = [alias.name for alias in statement.names if alias.name != "*"]
            local = follow(statement.module, where)
            if not local:
                names.extend([statement.module, name, where] for name in imported)
            elif os.path.basename(local) != "__main__.py":
                look_up(statement.module, imported, local, where)


def look_up(module, imported, file, where):  # type: ignore[no-untyped-def]
    """Note the names that a local module surely does not have."""
    text = texts.get(file, "")
    is_open = any(word in text for word in ("__getattr__", "import *", "globals()", "exec(", "sys.modules"))
    if not text or is_open or not os.path.isfile(file):
        return
    has = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            has.add(node.name)
        elif isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
            has.add(node.id)
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            has.update((alias.asname or alias.name.partition(".")[0]) for alias in node.names)
        elif type(node).__name__.startswith("Match"):
            has.add(getattr(node, "name", None) or "")
    folder = os.path.dirname(file) if os.path.basename(file) == "__init__.py" else ""
    for name in imported:
        is_module = folder and glob.glob(os.path.join(glob.escape(folder), name + "*"))
        if name not in has and not name.startswith("__") and not is_module:
            absent.append([where, name, module, sorted(has)])


def look():  # type: ignore[no-untyped-def]
    """Say what is missing and broken; what reads the arguments, where the program can be started."""
    for script in asked["scripts"]:
        read(script)
    for module, wanted_by in asked["modules"].items():
        follow(module, wanted_by)
    text = "".join(texts.values())
    parser = "argparse" if "parse_args" in text or "parse_known_args" in text else ""
    parser = "hydra" if "hydra.main" in text or asked["is_hydra"] else parser
    found = {"version": sys.version_info[:3], "missing": missing, "broken": broken, "parser": parser}
    found["absent"] = [] if missing or broken else absent
    say(dict(found, changes_path="sys.path" in text or "addsitedir" in text))
    return parser


# --- the start ------------------------------------------------------------------------------------------


def leave(outcome, **more):  # type: ignore[no-untyped-def]
    """End here, and say how far it came."""
    say(dict(more, outcome=outcome))
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


def import_names():  # type: ignore[no-untyped-def]
    """Import the names that the sources import at their top from what is installed, not the sources."""
    sys.dont_write_bytecode = True
    sys.addaudithook(watch)
    for module, name, where in names:
        try:
            exec(f"from {module} import {name}", {})
        except ImportError as error:
            kinds = [kind.__name__ for kind in type(error).__mro__]
            leave("raised", kinds=kinds, message=str(error)[:500], where=where)
        except Exception:  # noqa: BLE001  # in the program's own order it may be another
            leave("stopped")
    leave("stopped")


def start(parser):  # type: ignore[no-untyped-def]
    sys.dont_write_bytecode = True
    for name, value in (("RANK", "0"), ("LOCAL_RANK", "0"), ("WORLD_SIZE", "1"), ("LOCAL_WORLD_SIZE", "1")):
        os.environ.setdefault(name, value)
    tempfile.tempdir = os.environ.get("TMPDIR") or "/tmp"  # or it would try to write there, to find out
    script, module, words = asked["program"]
    sys.argv = [script or module, *words, *(["--cfg", "job"] if parser == "hydra" else [])]
    if parser != "hydra":
        read_arguments()
    sys.addaudithook(watch)
    if script:
        runpy.run_path(script, run_name="__main__")
    else:
        runpy.run_module(module, run_name="__main__", alter_sys=True)


installed = list(sys.path)
sys.path[:] = installed + asked["search"]
parser = look()
if missing or broken or absent or not asked["program"]:
    sys.exit()
sys.path[:] = asked["search"] + installed
forbid_changes()
if not parser:
    import_names()
try:
    start(parser)
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
