"""The messages of a Python file: what it raises, asserts and logs as errors, and where it does so."""

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from tools.message_bank.sources import Source
from tools.message_bank.templates import name_of, template_of

LOGGED = ""
"""The exception of what is only logged."""
LONGEST_CONDITION = 80
LONGEST_TEXT_IN_CONDITION = 24
MOST_ARGUMENTS = 3
_LOG_METHODS = ("error", "critical", "exception", "fatal")
_CHECKS = {"_check": "RuntimeError", "_check_value": "ValueError", "_check_type": "TypeError"}
_MESSAGE_KEYWORDS = ("message", "msg", "detail", "error_msg", "error_message", "reason")
_Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True)
class Found:
    """One message of a file. `exception`: LOGGED, or the name of the type ("" before the dot is dropped);
    `function`: with its class; `condition`: the test around it, "" where it is long; `arguments`: parameters
    of the function that the condition or the text is about."""

    library: str
    version: str
    path: str
    line: int
    function: str
    exception: str
    template: str
    condition: str = ""
    arguments: tuple[str, ...] = ()


def messages(source: Source) -> Iterator[Found]:
    """All messages of a file; none where it is not Python that this interpreter reads."""
    try:
        tree = ast.parse(source.text)
    except (SyntaxError, ValueError, RecursionError):
        return
    yield from _Walk(source, _assigned(tree.body)).of(tree.body, _Place())


@dataclass(frozen=True)
class _Place:
    """Where the walk is: classes and functions, parameters of the innermost function, and the last test or
    `except`; `negated`: it does not hold."""

    names: tuple[str, ...] = ()
    parameters: frozenset[str] = frozenset()
    test: ast.expr | ast.ExceptHandler | None = None
    negated: bool = False

    @property
    def condition(self) -> str:
        if isinstance(self.test, ast.ExceptHandler):
            return _caught(self.test)
        return _condition(self.test, self.negated) if self.test is not None else ""

    @property
    def about(self) -> set[str]:
        """Names in the test."""
        nodes = list(ast.walk(self.test)) if isinstance(self.test, ast.expr) else []
        names = {node.id for node in nodes if isinstance(node, ast.Name)}
        return names | {node.attr for node in nodes if isinstance(node, ast.Attribute)}


@dataclass
class _Walk:
    source: Source
    names: dict[str, ast.expr] = field(default_factory=dict)

    def of(self, body: list[ast.stmt], place: _Place) -> Iterator[Found]:
        for statement in body:
            yield from self._of_statement(statement, place)

    def _of_statement(self, statement: ast.stmt, place: _Place) -> Iterator[Found]:
        match statement:
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                yield from self._of_function(statement, place)
            case ast.ClassDef(name=name, body=body):
                yield from self.of(body, _Place((*place.names, name)))
            case ast.If(test=test, body=body, orelse=orelse):
                yield from self.of(body, replace(place, test=test, negated=False))
                yield from self.of(orelse, replace(place, test=test, negated=True))
            case ast.Raise(exc=ast.Call() as call):
                yield from self._found(statement, place, name_of(call.func), _text_arguments(call))
            case ast.Assert(test=test, msg=ast.expr() as text):
                yield from self._found(
                    statement, replace(place, test=test, negated=True), "AssertionError", [text]
                )
            case ast.Expr(value=ast.Call() as call):
                yield from self._of_call(call, statement, place)
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                self.names.pop(name, None)
                self.names |= {name: value} if _may_be_text(value) else {}
            case ast.AugAssign(target=ast.Name(id=name), op=ast.Add(), value=value) if name in self.names:
                self.names[name] = ast.BinOp(self.names[name], ast.Add(), value)
            case ast.ExceptHandler() | ast.Try() | ast.With() | ast.For() | ast.While() | ast.Match():
                yield from self._of_block(statement, place)
            case ast.AsyncWith() | ast.AsyncFor() | ast.TryStar():
                yield from self._of_block(statement, place)

    def _of_block(self, statement: ast.stmt, place: _Place) -> Iterator[Found]:
        for part in ("body", "orelse", "finalbody"):
            yield from self.of(getattr(statement, part, []), place)
        for handler in getattr(statement, "handlers", []):
            yield from self.of(handler.body, replace(place, test=handler))
        for case in getattr(statement, "cases", []):
            yield from self.of(case.body, place)

    def _of_function(self, function: _Function, place: _Place) -> Iterator[Found]:
        given = function.args
        parameters = {each.arg for each in (*given.posonlyargs, *given.args, *given.kwonlyargs)}
        inner = _Walk(self.source, dict(self.names))
        at = _Place((*place.names, function.name), frozenset(parameters - {"self", "cls"}))
        yield from inner.of(function.body, at)

    def _of_call(self, call: ast.Call, statement: ast.stmt, place: _Place) -> Iterator[Found]:
        if not isinstance(call.func, ast.Attribute):
            return
        name = call.func.attr
        if name in _CHECKS and len(call.args) > 1:
            under = replace(place, test=call.args[0], negated=True)
            yield from self._found(statement, under, _CHECKS[name], [call.args[1]])
        elif name in _LOG_METHODS and "log" in name_of(call.func.value).lower() and call.args:
            yield from self._found(statement, place, LOGGED, [_logged(call)])

    def _found(
        self, statement: ast.stmt, place: _Place, exception: str, texts: list[ast.expr]
    ) -> Iterator[Found]:
        template = next((found for text in texts if (found := template_of(text, self.names))), "")
        if not template:
            return
        about = sorted(place.about & place.parameters) or sorted(
            each for each in place.parameters if f"{{{each}}}" in template
        )
        yield Found(
            self.source.library,
            self.source.version,
            self.source.path,
            statement.lineno,
            ".".join(place.names),
            exception,
            template,
            place.condition,
            tuple(about[:MOST_ARGUMENTS]),
        )


def _assigned(body: list[ast.stmt]) -> dict[str, ast.expr]:
    """Texts that a module gives names to."""
    return {
        statement.targets[0].id: statement.value
        for statement in body
        if isinstance(statement, ast.Assign)
        and isinstance(statement.targets[0], ast.Name)
        and _may_be_text(statement.value)
    }


def _may_be_text(value: ast.expr) -> bool:
    """True for what has text in it and is no collection."""
    match value:
        case ast.Constant(value=str()) | ast.JoinedStr():
            return True
        case ast.BinOp(left=left, op=ast.Add() | ast.Mod(), right=right):
            return _may_be_text(left) or _may_be_text(right)
        case ast.Call(func=ast.Attribute(value=text)) if _may_be_text(text):
            return True
        case ast.Call(args=[text]):
            return _may_be_text(text)
    return False


def _text_arguments(call: ast.Call) -> list[ast.expr]:
    """The arguments that may be the message, those first that are so by their name."""
    named = [each.value for each in call.keywords if each.arg in _MESSAGE_KEYWORDS]
    return [*named, *(each for each in call.args if not isinstance(each, ast.Starred))]


def _logged(call: ast.Call) -> ast.expr:
    text, *values = call.args
    return ast.BinOp(text, ast.Mod(), ast.Tuple(values, ast.Load())) if values else text


def _condition(test: ast.expr, negated: bool) -> str:
    """A test as text: names and operators only, "" where it is long."""
    texts = (node.value for node in ast.walk(test) if isinstance(node, ast.Constant))
    if any(isinstance(text, str | bytes) and len(text) > LONGEST_TEXT_IN_CONDITION for text in texts):
        return ""
    try:
        text = ast.unparse(test)
    except RecursionError:
        return ""
    text = text.replace("self.", "")
    if negated:
        text = (
            text[4:]
            if text.startswith("not ") and " and " not in text and " or " not in text
            else f"not ({text})"
        )
    return text if len(text) < LONGEST_CONDITION and "\n" not in text else ""


def _caught(handler: ast.ExceptHandler) -> str:
    text = f"except {ast.unparse(handler.type)}" if handler.type is not None else ""
    return text if len(text) < LONGEST_CONDITION else ""
