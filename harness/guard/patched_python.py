"""What a Python file sets, measures, repeats and reaches, as facts to be compared before and after a patch.

In: source text, and which names belong to what is studied. Out: a `Counter` of `Fact`. What changes nothing
of them is looked through: `.to(device)`, `.item()`, `weights_only=False`, a counter set to 0 before its use.
"""

import ast
import re
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal

from harness.guard import python_reach

Kind = Literal["value", "loop", "condition", "measured", "reach"]
_CONVERSIONS = frozenset(("to", "cuda", "cpu", "long", "float", "contiguous", "item"))
_NEUTRAL_KEYWORDS = frozenset((
    "attn_implementation", "cache_dir", "device", "device_map", "flush", "force_download", "local_files_only",
    "low_cpu_mem_usage", "map_location", "non_blocking", "num_proc", "num_workers", "persistent_workers",
    "pin_memory", "prefetch_factor", "use_reentrant", "use_safetensors", "weights_only",
))  # fmt: skip
_RENAMED = {
    "evaluation_strategy": "eval_strategy",
    "learning_rate": "lr",
    "max_completion_tokens": "max_tokens",
    "max_seq_length": "max_length",
    "per_gpu_train_batch_size": "per_device_train_batch_size",
    "processing_class": "tokenizer",
    "torch_dtype": "dtype",
}
"""Keywords that libraries have renamed: the same argument under either name."""
_MAKES_MODEL = frozenset(("LLM", "autocast", "from_config", "from_pretrained", "pipeline"))
_SEEDS = re.compile(
    r"(manual_)?seed(_all|_everything)?|set_seed|seed_everything|default_rng|RandomState|PRNGKey|SeedSequence"
)
_COUNTS = re.compile(
    r"(?i:adam|sgd|lion|rmsprop|adafactor|muon)\w*|DataLoader|Subset|islice|clip_grad\w*|select|head"
)
_OUTPUTS = frozenset((
    "add_scalar", "add_scalars", "critical", "debug", "dump", "dumps", "error", "exception", "info", "log",
    "log_dict", "log_metric", "log_metrics", "pprint", "print", "report", "warning", "write", "writelines",
    "writerow", "writerows",
))  # fmt: skip
_MATHS = frozenset(("F", "jnp", "math", "np", "numpy", "tf", "torch"))
_DEFAULTS_TO_NONE = frozenset(("get", "getattr", "pop"))
_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)


@dataclass(frozen=True)
class Fact:
    """One thing that the code does. `name`: what it is about, in the file's words; `said`: how it says so."""

    kind: Kind
    name: str
    said: str = ""


def facts(text: str, is_studied: Callable[[str], bool]) -> Counter[Fact]:
    """Everything told about the file. Raises SyntaxError, ValueError, RecursionError or MemoryError for text
    that cannot be parsed."""
    tree = ast.parse(text)
    found = Counter(Fact("reach", name) for name in python_reach.reached(tree))
    tree = _Neutral().visit(tree)
    first_uses = _first_uses(tree)
    for node in ast.walk(tree):
        if node not in first_uses:
            found.update(_of_statement(node, is_studied))
        if isinstance(node, ast.Call):
            found.update(_of_call(node, is_studied))
    return found


class _Neutral(ast.NodeTransformer):
    """Takes out what changes neither values nor results: moves to a device, keywords about loading."""

    def visit_Call(self, node: ast.Call) -> ast.expr:
        self.generic_visit(node)
        if isinstance(node.func, ast.Attribute) and node.func.attr in _CONVERSIONS:
            return node.func.value
        node.keywords = [keyword for keyword in node.keywords if keyword.arg not in _NEUTRAL_KEYWORDS]
        return node

    def visit_DictComp(self, node: ast.DictComp) -> ast.expr:
        """`{k: v for k, v in batch.items()}` is `batch`."""
        self.generic_visit(node)
        loop, source = node.generators[0], node.generators[0].iter
        is_same = _said(loop.target) == _said(ast.Tuple([node.key, node.value], ast.Load()))
        if not is_same or loop.ifs or len(node.generators) > 1 or not isinstance(source, ast.Call):
            return node
        function = source.func
        return function.value if isinstance(function, ast.Attribute) and function.attr == "items" else node


def _of_statement(node: ast.AST, is_studied: Callable[[str], bool]) -> Iterator[Fact]:
    for target, value in _bindings(node):
        name = _name(target)
        if name and is_studied(name) and _said(target) != _said(value):
            yield Fact("value", name, _said(value))
    if isinstance(node, ast.AugAssign) and is_studied(name := _name(node.target)):
        yield Fact("value", name, f"{type(node.op).__name__} {_said(node.value)}")
    elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        yield from _of_function(node, is_studied)
    elif isinstance(node, ast.Dict):
        for key, entry in zip(node.keys, node.values, strict=True):
            if (text := _text(key)) and is_studied(text):
                yield Fact("value", text, _said(entry))
    elif isinstance(node, ast.Compare):
        compared = [name for side in (node.left, *node.comparators) if is_studied(name := _name(side))]
        if compared and not all(isinstance(op, ast.Is | ast.IsNot | ast.In | ast.NotIn) for op in node.ops):
            yield Fact("condition", compared[0], _said(node))
    elif isinstance(node, ast.If) and any(isinstance(line, ast.Break) for line in node.body):
        yield Fact("loop", "break", _said(node.test))


def _of_function(
    node: ast.FunctionDef | ast.AsyncFunctionDef, is_studied: Callable[[str], bool]
) -> Iterator[Fact]:
    """Defaults of its parameters, and what it returns where its name says that this is studied."""
    positional = [*node.args.posonlyargs, *node.args.args]
    given = node.args.defaults
    pairs = [*zip(positional[len(positional) - len(given) :], given, strict=True)]
    pairs += [
        (arg, default)
        for arg, default in zip(node.args.kwonlyargs, node.args.kw_defaults, strict=True)
        if default
    ]
    yield from (Fact("value", arg.arg, _said(default)) for arg, default in pairs if is_studied(arg.arg))
    if is_studied(node.name):
        for line in _within(node):
            if isinstance(line, ast.Return) and line.value is not None:
                yield Fact("value", node.name, f"return {_said(line.value)}")


def _of_call(node: ast.Call, is_studied: Callable[[str], bool]) -> Iterator[Fact]:
    callee = _name(node.func)
    if callee == "range":
        yield Fact("loop", "range", _said_all(node.args))
    elif _SEEDS.fullmatch(callee):
        yield Fact("value", callee, _said_all([*node.args, *node.keywords]))
    elif _COUNTS.fullmatch(callee) or is_studied(callee):
        numbers = [arg for arg in node.args if _is_number(arg)]
        yield from [Fact("value", callee, _said_all(numbers))] if numbers else []
    if callee in _OUTPUTS and not _is_maths(node.func) and _tells_values(node):
        yield Fact("measured", callee, _said_all([*node.args, *node.keywords]))
    for keyword in node.keywords:
        name = _RENAMED.get(keyword.arg or "", keyword.arg or "")
        if name == "dtype" and callee not in _MAKES_MODEL:
            continue
        if is_studied(name) or is_studied(keyword.arg or ""):
            yield Fact("value", name, f"{callee} {_said(keyword.value)}")
    yield from _of_named_arguments(node, callee, is_studied)


def _of_named_arguments(node: ast.Call, callee: str, is_studied: Callable[[str], bool]) -> Iterator[Fact]:
    """`setdefault("lr", 1)`, `add_argument("--lr", default=1)`: the name is a text among the arguments."""
    for place, argument in enumerate(node.args):
        text = _text(argument).lstrip("-")
        if not re.fullmatch(r"[A-Za-z_][\w.-]{0,80}", text) or not is_studied(text):
            continue
        values: list[ast.AST] = [*node.args[place + 1 :]]
        values += [
            keyword.value for keyword in node.keywords if keyword.arg in ("default", "const", "choices")
        ]
        if values and not (callee in _DEFAULTS_TO_NONE and _said_all(values) == _said(ast.Constant(None))):
            yield Fact("value", text, _said_all(values))


def _bindings(node: ast.AST) -> Iterator[tuple[ast.expr, ast.expr]]:
    """What is bound to what by a statement, tuples taken apart."""
    pairs: list[tuple[ast.expr, ast.expr]] = []
    if isinstance(node, ast.Assign):
        pairs = [(target, node.value) for target in node.targets]
    elif isinstance(node, ast.AnnAssign | ast.NamedExpr):
        pairs = [(node.target, node.value)] if node.value is not None else []
    elif isinstance(node, ast.For | ast.AsyncFor):
        pairs = [(node.target, node.iter)]
    elif isinstance(node, ast.withitem) and node.optional_vars is not None:
        pairs = [(node.optional_vars, node.context_expr)]
    while pairs:
        target, value = pairs.pop()
        if isinstance(target, ast.Starred):
            pairs.append((target.value, value))
        elif not isinstance(target, ast.Tuple | ast.List):
            yield target, value
        elif isinstance(value, ast.Tuple | ast.List) and len(value.elts) == len(target.elts):
            pairs += zip(target.elts, value.elts, strict=True)
        else:
            pairs += [(element, value) for element in target.elts]


def _first_uses(tree: ast.Module) -> set[ast.AST]:
    """Statements that only make a plain name ready, as `total = 0`: nothing in the same scope has used it
    before, and either it is bound there again or it stands nowhere else."""
    names = Counter(node.id for node in ast.walk(tree) if isinstance(node, ast.Name))
    names.update(node.arg for node in ast.walk(tree) if isinstance(node, ast.arg))
    found: set[ast.AST] = set()
    for scope in ast.walk(tree):
        if not isinstance(scope, ast.Module | ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        ready = [line for line in scope.body if _makes_ready(line)]
        if not ready:
            continue
        first: dict[str, int] = {}
        stored: Counter[str] = Counter()
        for node in _within(scope):
            if isinstance(node, ast.Name):
                first[node.id] = min(first.get(node.id, node.lineno), node.lineno)
                stored[node.id] += isinstance(node.ctx, ast.Store)
            elif isinstance(node, ast.arg | ast.Global | ast.Nonlocal):
                first.update(dict.fromkeys(getattr(node, "names", None) or [getattr(node, "arg", "")], 0))
        for line in ready:
            name = _name(line.targets[0]) if isinstance(line, ast.Assign) else ""
            if first[name] == line.lineno and (stored[name] > 1 or names[name] == 1):
                found.add(line)
    return found


def _makes_ready(line: ast.stmt) -> bool:
    if (
        not isinstance(line, ast.Assign)
        or len(line.targets) != 1
        or not isinstance(line.targets[0], ast.Name)
    ):
        return False
    value = line.value
    empty = isinstance(value, ast.List | ast.Dict) and not any(ast.iter_child_nodes(value))
    return (isinstance(value, ast.Constant) and value.value in (0, None, "")) or empty


def _within(scope: ast.AST) -> Iterator[ast.AST]:
    """The nodes of a scope, without those of functions and classes in it."""
    waiting = list(ast.iter_child_nodes(scope))
    while waiting:
        node = waiting.pop()
        yield node
        if not isinstance(node, _SCOPES):
            waiting += ast.iter_child_nodes(node)


def _tells_values(node: ast.Call) -> bool:
    """Whether an output tells more than fixed words without a number."""
    said = [*node.args, *(keyword.value for keyword in node.keywords)]
    return not all(isinstance(arg, ast.Constant) and not re.search(r"\d", str(arg.value)) for arg in said)


def _is_maths(func: ast.expr) -> bool:
    return isinstance(func, ast.Attribute) and isinstance(func.value, ast.Name) and func.value.id in _MATHS


def _is_number(node: ast.expr) -> bool:
    node = node.operand if isinstance(node, ast.UnaryOp) else node
    return isinstance(node, ast.Constant) and type(node.value) in (int, float)


def _name(node: ast.AST) -> str:
    """The last word of what is named: `lr` of `args.lr`, `args["lr"]` and `lr`."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        return node.attr
    return _text(node.slice) if isinstance(node, ast.Subscript) else ""


def _text(node: ast.AST | None) -> str:
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""


def _said(node: ast.AST) -> str:
    return ast.dump(node).replace("ctx=Store()", "ctx=Load()")


def _said_all(nodes: "list[ast.expr] | list[ast.AST] | list[ast.expr | ast.keyword]") -> str:
    return ", ".join(map(_said, nodes))
