"""What Python code reaches outside of itself: programs, addresses, files, variables, hidden doors.

In: a syntax tree. Out: what it reaches, in words for a message. Names are followed through `import … as` and
`from … import …`, so that another name for a module hides nothing.
"""

import ast
import re
from collections.abc import Iterator

_CLOSED_MODULES = frozenset((
    "IPython", "__builtins__", "_posixsubprocess", "aiohttp", "atexit", "base64", "builtins",
    "cloudpickle", "code", "codecs", "ctypes", "dill", "distutils", "fabric", "fcntl", "ftplib", "http",
    "httpx", "importlib", "marshal", "nt", "paramiko", "pexpect", "pickle", "pip", "pkgutil", "plumbum",
    "posix", "pty", "requests", "runpy", "sh", "shelve", "shutil", "signal", "smtplib", "socket",
    "socketserver", "ssl", "subprocess", "telnetlib", "urllib", "urllib3", "webbrowser", "xmlrpc",
    "zipimport",
))  # fmt: skip
_CLOSED_PARTS = ("torch.hub", "torch.utils.cpp_extension", "multiprocessing.connection")
_OPEN_OF_OS = frozenset((
    "PathLike", "cpu_count", "fspath", "getcwd", "getpid", "linesep", "listdir", "makedirs", "mkdir",
    "name", "path", "scandir", "sep", "stat", "walk",
))  # fmt: skip
_CLOSED_OF_SYS = frozenset((
    "_getframe", "argv", "exit", "meta_path", "modules", "path", "path_hooks", "path_importer_cache",
    "setprofile", "settrace",
))  # fmt: skip
_CLOSED_BUILTINS = frozenset((
    "__import__", "__loader__", "__spec__", "breakpoint", "compile", "delattr", "eval", "exec",
    "globals", "setattr",
))  # fmt: skip
_CLOSED_METHODS = frozenset((
    "Popen", "__builtins__", "__code__", "__dict__", "__globals__", "__import__", "__subclasses__",
    "check_call", "check_output", "chmod", "chown", "create_subprocess_exec", "create_subprocess_shell",
    "exec_module", "extractall", "getoutput", "hardlink_to", "kill", "lchmod", "load_module", "popen",
    "rmdir", "rmtree", "symlink_to", "system", "unlink", "urlopen", "write_bytes", "write_text",
))  # fmt: skip
_LEADS_OUT = re.compile(r"\A(?:/[\w.~-]|~[/\w])|://|(?:\A|/)\.\./")
_WRITES = re.compile(r"(?=[rwaxbt+U]{1,4}\Z).*[wax+]")


def reached(tree: ast.Module) -> Iterator[str]:
    """Everything the code reaches for, as often as it does."""
    known = _aliases(tree)
    inner = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    called = {id(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call)}
    remarks = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            yield from _imported(node)
        elif isinstance(node, ast.Call):
            yield from _called(node, known)
        elif isinstance(node, ast.Constant) and id(node) not in remarks:
            if isinstance(node.value, str) and _LEADS_OUT.search(node.value[:4096]):
                yield node.value[:80]
        elif isinstance(node, ast.Attribute):
            if node.attr in _CLOSED_METHODS:
                yield f".{node.attr}"
            elif id(node) not in inner and _is_closed(dotted := _dotted(node, known)):
                yield dotted
        elif isinstance(node, ast.Name) and id(node) not in inner and isinstance(node.ctx, ast.Load):
            dotted = known.get(node.id, node.id)
            is_handed_on = node.id in ("open", "getattr") and id(node) not in called
            if is_handed_on or node.id in _CLOSED_BUILTINS or dotted in ("os", "sys") or _is_closed(dotted):
                yield dotted


def _aliases(tree: ast.Module) -> dict[str, str]:
    """What imported names stand for, written out in full."""
    known: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                known[alias.asname or alias.name.split(".")[0]] = (
                    alias.name if alias.asname else alias.name.split(".")[0]
                )
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            known |= {alias.asname or alias.name: f"{node.module}.{alias.name}" for alias in node.names}
    return known


def _imported(node: ast.Import | ast.ImportFrom) -> Iterator[str]:
    if isinstance(node, ast.Import):
        names = [alias.name for alias in node.names]
    elif node.level or not node.module:
        return
    else:
        names = [f"{node.module}.{alias.name}" for alias in node.names]
    yield from (name for name in names if name in ("os.*", "sys.*") or _is_closed(name))


def _called(node: ast.Call, known: dict[str, str]) -> Iterator[str]:
    function = node.func
    name = function.id if isinstance(function, ast.Name) else getattr(function, "attr", "")
    for keyword in node.keywords:
        if keyword.arg == "trust_remote_code" and not _is(keyword.value, False):
            yield keyword.arg
    if name == "open":
        yield from _opened(node)
    if isinstance(function, ast.Name) and name == "getattr":
        wanted = node.args[1] if len(node.args) > 1 else None
        text = wanted.value if isinstance(wanted, ast.Constant) and isinstance(wanted.value, str) else "_"
        owner = _dotted(node.args[0], known) if node.args else ""
        if text.startswith("_") or text in _CLOSED_METHODS or _is_closed(f"{owner}.{text}"):
            yield "getattr"


def _opened(node: ast.Call) -> Iterator[str]:
    """`open` with a mode that writes, or that cannot be told."""
    given = [keyword.value for keyword in node.keywords if keyword.arg == "mode"]
    if isinstance(node.func, ast.Name):
        given += node.args[1:2]
        unknown = any(not isinstance(mode, ast.Constant) for mode in given)
    else:
        given += node.args[:2]
        unknown = False
    modes = [mode.value for mode in given if isinstance(mode, ast.Constant) and isinstance(mode.value, str)]
    if unknown or any(_WRITES.match(mode) for mode in modes):
        yield f"open for {', '.join(modes) or 'writing'}"


def _is_closed(dotted: str) -> bool:
    root, _, rest = dotted.partition(".")
    first = rest.split(".")[0]
    if root == "os" and first:
        return first not in _OPEN_OF_OS
    if root == "sys" and first:
        return first in _CLOSED_OF_SYS
    return root in _CLOSED_MODULES or any(
        dotted == part or dotted.startswith(f"{part}.") for part in _CLOSED_PARTS
    )


def _dotted(node: ast.expr, known: dict[str, str]) -> str:
    """`os.path.join` of an attribute, its first name written out in full; "" where it begins otherwise."""
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    if not isinstance(node, ast.Name):
        return ""
    return ".".join([known.get(node.id, node.id), *reversed(parts)])


def _is(node: ast.expr, value: object) -> bool:
    return isinstance(node, ast.Constant) and node.value is value
