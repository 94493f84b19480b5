"""From an expression that makes a text to its template: literal text with named holes."""

import ast
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import islice

LONGEST_NAME = 40
DEEPEST = 3
MOST_PARTS = 60
_PERCENT = re.compile(r"%(?:\((?P<key>\w+)\))?[-+ #0-9.*]*[sdrfgixXeEca]|%%")
_FIELD = re.compile(r"\{(?P<key>[^{}!:]*)(?:![rsa])?(?::[^{}]*)?\}|\{\{|\}\}")
_NOT_IN_NAMES = re.compile(r"\W+")
_UNKNOWN = ast.Call(ast.Name("value", ast.Load()), [], [])
_TRANSPARENT = ("dedent", "cleandoc", "strip", "lstrip", "rstrip", "str", "_", "ngettext")


@dataclass(frozen=True)
class Hole:
    """A part of a message that is only known when it is raised; `name` is what stands there in the source."""

    name: str


Part = str | Hole
Names = Mapping[str, ast.expr]
"""What was assigned to names above."""


def template_of(expression: ast.expr, names: Names) -> str:
    """The template of a text: `{name}` is a hole, braces are doubled, white space is one blank. "" where none
    of it is known."""
    found = list(islice(_parts(expression, names, 0), MOST_PARTS))
    if not any(isinstance(part, str) and part.strip() for part in found):
        return ""
    text, last_is_hole = "", False
    for part in found:
        is_hole = isinstance(part, Hole)
        if is_hole and last_is_hole:
            continue
        text += f"{{{part.name}}}" if isinstance(part, Hole) else part.replace("{", "{{").replace("}", "}}")
        last_is_hole = is_hole or (last_is_hole and not part)
    return " ".join(text.split())


def name_of(expression: ast.expr) -> str:
    """What to call the value of an expression: `hidden_size` for `self.config.hidden_size`."""
    if isinstance(expression, ast.Call):
        inner = expression.args[0] if expression.args else expression.func
        return _short(f"{name_of(expression.func)}_{name_of(inner)}" if expression.args else name_of(inner))
    if isinstance(expression, ast.Subscript):
        return name_of(expression.value)
    if isinstance(expression, ast.Attribute):
        owner = f"{name_of(expression.value)}_" if expression.attr.startswith("__") else ""
        return _short(owner + expression.attr.strip("_"))
    if isinstance(expression, ast.Name):
        return _short(expression.id)
    return "value"


def _short(name: str) -> str:
    return _NOT_IN_NAMES.sub("_", name)[:LONGEST_NAME].strip("_") or "value"


def _parts(expression: ast.expr, names: Names, depth: int) -> Iterator[Part]:
    match expression:
        case ast.Constant(value=str(text)):
            yield text
        case ast.Constant(value=value):
            yield str(value)
        case ast.JoinedStr(values=values):
            for value in values:
                yield from _parts(value, names, depth)
        case ast.FormattedValue(value=ast.Name(id=name)) if (
            isinstance(names.get(name), ast.Constant) and depth < DEEPEST
        ):
            yield from _parts(names[name], names, depth + 1)
        case ast.FormattedValue(value=value):
            yield Hole(name_of(value))
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            yield from _parts(left, names, depth)
            yield from _parts(right, names, depth)
        case ast.BinOp(left=left, op=ast.Mod(), right=right):
            yield from _filled(_parts(left, names, depth), _PERCENT, _arguments(right), {})
        case ast.Call(func=ast.Attribute(attr="format", value=text), args=args, keywords=keywords):
            named = {keyword.arg: keyword.value for keyword in keywords if keyword.arg}
            yield from _filled(_parts(text, names, depth), _FIELD, args, named)
        case ast.Call(func=function, args=[]) if name_of(function) in _TRANSPARENT and isinstance(
            function, ast.Attribute
        ):
            yield from _parts(function.value, names, depth)
        case ast.Call(func=function, args=[text, *_]) if name_of(function) in _TRANSPARENT:
            yield from _parts(text, names, depth)
        case ast.Call(func=ast.Attribute(attr="join", value=ast.Constant(value=str(between))), args=[items]):
            yield from _joined(between, items, names, depth)
        case ast.Lambda(body=body):
            yield from _parts(body, names, depth)
        case ast.Name(id=name) if name in names and depth < DEEPEST:
            yield from _parts(names[name], {**names, name: _UNKNOWN}, depth + 1)
        case _:
            yield Hole(name_of(expression))


def _joined(between: str, items: ast.expr, names: Names, depth: int) -> Iterator[Part]:
    if not isinstance(items, (ast.List, ast.Tuple)):
        yield Hole(name_of(items))
        return
    for index, item in enumerate(items.elts):
        yield from ([between] if index else [])
        yield from _parts(item, names, depth)


def _arguments(right: ast.expr) -> list[ast.expr]:
    return list(right.elts) if isinstance(right, ast.Tuple) else [right]


def _filled(
    parts: Iterator[Part], field: re.Pattern[str], args: list[ast.expr], named: Mapping[str, ast.expr]
) -> Iterator[Part]:
    """Parts whose fields (`%s`, `{}`) became holes with the names of the arguments."""
    index = 0
    for part in parts:
        if isinstance(part, Hole):
            yield part
            continue
        end = 0
        for found in field.finditer(part):
            yield part[end : found.start()]
            end = found.end()
            if "key" not in found.re.groupindex or found[0] in ("%%", "{{", "}}"):
                yield found[0][0]
                continue
            yield Hole(_field_name(found["key"] or "", index, args, named))
            index += not found["key"]
        yield part[end:]


def _field_name(key: str, index: int, args: list[ast.expr], named: Mapping[str, ast.expr]) -> str:
    root = re.split(r"[.\[]", key)[0]
    if root and not root.isdigit():
        return name_of(named[root]) if root in named and root == key else _short(key)
    place = int(root) if root else index
    return name_of(args[place]) if place < len(args) else "value"
