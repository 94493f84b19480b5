"""Metric lines: what is a row, what is not, and that nothing makes the parser fail."""

from __future__ import annotations

import ast
import json
import math
import re
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from monitors.logs import Line
from monitors.metrics import MetricPatterns
from monitors.metrics.counters import COUNTER
from monitors.metrics.parser import MetricReader, parse_line
from monitors.metrics.patterns import literal_in

ROWS = [
    ("step:12 - actor/kl_loss:0.01 - a/reward/mean:0.6", 12, {"actor/kl_loss": 0.01, "a/reward/mean": 0.6}),
    ("\x1b[36m(Task pid=123)\x1b[0m step:1 - a/b:np.float64(0.5) - c:-inf", 1, {"a/b": 0.5, "c": -math.inf}),
    ("(Task pid=9, ip=10.0.0.1) step:0 - val-core/x/acc/mean@1:0.25", 0, {"val-core/x/acc/mean@1": 0.25}),
    ("Epoch 1/3, step 200/1000, loss: 0.53, lr=1e-4", 200, {"loss": 0.53, "lr": 1e-4}),
    ("2024-01-01 12:30:45,123 - INFO - step:5 - loss:0.1", 5, {"loss": 0.1}),
    ("[step 10] loss=0.5", 10, {"loss": 0.5}),
    ("global_step=10 reward=.1", 10, {"reward": 0.1}),
    ("Training step 10: loss=0.5 lr=1e-4 (1.2 s/it)", 10, {"loss": 0.5, "lr": 1e-4}),
    ('{"step": 3, "loss": 0.1, "note": "ok"}', 3, {"loss": 0.1}),
    ('{"global_step": 4, "reward": 1}', 4, {"reward": 1.0}),
    ("{'loss': 0.5, 'grad_norm': 1.2, 'epoch': 0.1}", None, {"loss": 0.5, "grad_norm": 1.2}),
    ("{'loss': '0.5', 'epoch': '0.1'}", None, {"loss": 0.5}),
    (" 10%|█  | 1/10 [00:05<00:45, 2.00it/s]{'loss': 0.5, 'epoch': 0.1}", None, {"loss": 0.5}),
    ("step=1e3 loss=0.5", 1000, {"loss": 0.5}),
    ("step:1.5e+03 - loss:0.5", 1500, {"loss": 0.5}),
    ("step: 10.0 loss: 0.5", 10, {"loss": 0.5}),
    ('{"step": 1e3, "loss": 0.5}', 1000, {"loss": 0.5}),
    ("step=10.5 loss=0.5", None, {"loss": 0.5}),
    ('{"step": 8.5, "loss": 0.5, "note": "ok"}', None, {"loss": 0.5}),
    ("{'loss': 0.5, 'step': 8.5}", None, {"loss": 0.5}),
    ("step:1 - a/a@0:10.0", 1, {"a/a@0": 10.0}),
    ("step:1 - pass@@10:59.5 - loss:0.5", 1, {"pass@@10": 59.5, "loss": 0.5}),
    ("step:1 - a/a@0m0s:0.0", 1, {"a/a@0m0s": 0.0}),
    ("loss: 0.5 @ 12:30 @12:31", None, {"loss": 0.5}),
    ("step:9007199254740991 - loss:0.5", 2**53 - 1, {"loss": 0.5}),
    ("step:9007199254740993 - loss:0.5", None, {"loss": 0.5}),
    ('{"step": 9007199254740993, "loss": 0.5}', None, {"loss": 0.5}),
    ('{"step": 1e400, "loss": 0.5}', None, {"loss": 0.5}),
]  # fmt: skip

NOT_ROWS = [
    "",
    "{}",
    "step: 3",
    "Step 3 of 10: loading",
    "step 3 of 10: loading retries: 4",
    "Saving checkpoint at step 5: size=3",
    'File "train.py", line 3, in step',
    "    step = 3",
    "http://localhost:8080/step:3?x=4",
    "2024-01-01 12:30:45 step 3: foo",
    "step 45%|███ | 45/100 [00:10<00:12, 4.5it/s, shards=5]",
    "ray_trainer.py:123 step 4",
    "step 2: installing torch version=2.3.1",
    "config {'lr': 0.5, 'loss_weight': 1}",
    '{"level": "info", "ts": 12.5, "loss": 3}',
    "{'lr': 0.5, 'epochs': 3}",
    "ValueError: step: expected int",
    "warning: the next step: read http://a.b:80/c",
]


@pytest.mark.parametrize(("text", "step", "values"), ROWS)
def test_rows(text: str, step: int | None, values: dict[str, float]) -> None:
    row = parse_line(text)
    assert row is not None
    assert (row.step, row.values) == (step, values)


@pytest.mark.parametrize("text", NOT_ROWS)
def test_ordinary_lines_are_not_rows(text: str) -> None:
    assert parse_line(text) is None


@pytest.mark.parametrize(
    "text",
    [
        "ppo step 1 reward nan kl nan entropy nan",
        "step:1 - actor/loss:nan",
        "{'loss': nan, 'epoch': 1.0}",
        '{"step": 1, "loss": NaN}',
    ],
)
def test_nan_is_kept(text: str) -> None:
    row = parse_line(text)
    assert row is not None
    assert any(math.isnan(value) for value in row.values.values())


names = st.from_regex(r"[a-z][a-z_]{0,8}(/[a-z][a-z_@0-9]{0,8}){0,3}", fullmatch=True).filter(
    lambda name: "step" not in name and not COUNTER.match(f"{name}:0")  # `it:0` counts
)
numbers = st.floats(allow_nan=False)


@given(st.integers(0, 10**9), st.dictionaries(names, numbers, min_size=1, max_size=30))
def test_console_line_of_the_contract_survives(step: int, values: dict[str, float]) -> None:
    row = parse_line(f"step:{step} - " + " - ".join(f"{name}:{value!r}" for name, value in values.items()))
    assert row is not None
    assert (row.step, row.values) == (step, values)


@given(st.integers(0, 10**9), st.dictionaries(names, numbers, min_size=1, max_size=10))
def test_json_agrees_with_the_json_module(step: int, values: dict[str, float]) -> None:
    text = json.dumps({"step": step, **values})
    row = parse_line(text)
    assert row is not None
    assert {"step": row.step, **row.values} == json.loads(text)


@given(st.dictionaries(names, st.floats(allow_nan=False, allow_infinity=False), max_size=10))
def test_printed_dict_agrees_with_python(values: dict[str, float]) -> None:
    text = repr({"loss": 0.5, **values})
    row = parse_line(text)
    assert row is not None
    assert row.values == ast.literal_eval(text)


@given(st.text(max_size=300) | st.text(alphabet="step:=-{}'\",. 0123456789naif()[]|%/", max_size=200))
def test_nothing_makes_it_fail(text: str) -> None:
    row = parse_line(text)
    assert row is None or row.values


def test_prose_with_a_step_is_never_a_row() -> None:
    words = ["loading", "the", "model", "from", "disk", "and", "then", "waiting", "for", "workers"]
    for count in range(2, len(words)):
        assert parse_line(f"step 3: {' '.join(words[:count])} port=80") is None


def test_patterns_of_the_user() -> None:
    patterns = MetricPatterns.compile(
        [r"it (?P<step>\d+) \| ppl (?P<perplexity>\S+)", r"(?P<name>\w+) is now (?P<value>\S+)"]
    )
    row = patterns.parse("it 12 | ppl 3.5")
    assert row is not None and (row.step, row.values) == (12, {"perplexity": 3.5})
    row = patterns.parse("accuracy is now 0.5")
    assert row is not None and (row.step, row.values) == (None, {"accuracy": 0.5})
    assert patterns.parse("accuracy is now unknown") is None


@pytest.mark.parametrize(
    "text",
    [
        "step " + "1" * 64_000,
        "step:1 - a:" + "1" * 64_000 + "x",
        "step:1 - a:tensor(" + "1" * 64_000,
        "{'a': '" + "1" * 64_000 + "}",
        "1it" * 20_000 + " step",
        "step:1 - " + "a=" * 30_000,
        "[" * 60_000,
        "loss" + " " * 30_000 + ":" + " " * 30_000 + "x",
        "step=1 " + "a" * 60_000 + "=0.5 loss=0.4",
        "a_" * 30_000 + ": 0.5 loss: 1",
    ],
    ids=lambda text: text[:18],
)
def test_endless_digits_and_names_cost_no_more_than_their_length(text: str) -> None:
    begun = time.process_time()
    parse_line(text)
    MetricReader().read(Line(1, text))
    assert time.process_time() - begun < 1.0  # a quadratic expression takes minutes


@pytest.mark.parametrize(
    ("pattern", "literal"),
    [
        (r"it (?P<step>\d+) \| ppl (?P<perplexity>\S+)", " | ppl "),
        (r"^eval\.loss: ?(?P<loss>\d+)", "eval.loss:"),
        (r"(?P<name>\w+) is now (?P<value>\S+)", " is now "),
        (r"los{1,2}es* [ab]c", "lo"),
        (r"(?:loss|reward)", None),
        (r"loss|reward", None),
        (r"(?i)loss", None),
        (r"\x41loss", None),
    ],
)
def test_literal_that_every_match_of_a_pattern_holds(pattern: str, literal: str | None) -> None:
    assert literal_in(re.compile(pattern)) == literal


@pytest.mark.filterwarnings("ignore::FutureWarning")
@given(st.from_regex(r"[a-c|()?*+.\\\[\]{}1, ^$d]{1,12}", fullmatch=True), st.data())
def test_literal_is_in_whatever_matches(pattern: str, data: st.DataObject) -> None:
    try:
        compiled = re.compile(pattern)
    except re.error:
        return
    literal = literal_in(compiled)
    match = compiled.search(data.draw(st.text(alphabet="abcd1|()?*+.[]{}, ^$\\", max_size=12)))
    assert literal is None or match is None or literal in match[0]


def test_line_with_hundreds_of_metrics_is_read_whole() -> None:
    row = parse_line("step:7 - " + " - ".join(f"part_{number}/loss:0.{number + 1}" for number in range(400)))
    assert row is not None and row.step == 7 and len(row.values) == 400
