"""What a sweep.yaml and the options of `harness sweep` say, and what is refused with its place."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.sweep.design import LONGEST_NAME, point_name
from harness.sweep.plan import SweepError
from harness.sweep.spec import SweepSpec
from harness.sweep.spec_text import checked, fields_of, read_spec, to_yaml

FULL = """
blueprint: exp/blueprint.md   # beside this file
name: lr-and-batch
question: >
  Does the rate matter
  at all?
vary:
  ajet.trainer_common.optim.lr: [1e-6, 3e-6]
  arg:--warmup: {values: [1e-4, 010, true], baseline: 010}
  env:MODE: [on, off]
design: one-at-a-time
seeds: [0, 7]
seed_key: arg:--seed
set: {ajet.trainer_common.total_training_steps: 60, env:LEVEL: 1.50}
metric: val/task_pass_rate@1
goal: max
threshold: 0.5
parallel: 2
budget: 1 day 12h
canary: {ajet.trainer_common.total_training_steps: 2}
expect:
  - {key: arg:--warmup, level: 1e-4, effect: lower, why: it is too small}
each: {gpus: 1, cpus: 2.5, memory: 4 GB, ports: [MASTER_PORT, RPC_PORT], share_gpus: true}
"""
OWN = "blueprint: b\nvary: {a: [1, 2]}\n"


def from_options(blueprint: Path = Path("b"), **options: Any) -> SweepSpec:
    return checked({"blueprint": blueprint, "vary": {}, **fields_of(**options)})


def written(folder: Path, text: str) -> Path:
    path = folder / "sweep.yaml"
    path.write_text(text)
    return path


def test_every_field_is_understood(tmp_path: Path) -> None:
    spec = read_spec(written(tmp_path, FULL))
    assert spec.blueprint == tmp_path / "exp/blueprint.md"
    assert spec.question == "Does the rate matter at all?"
    assert spec.vary["ajet.trainer_common.optim.lr"].values == [1e-6, 3e-6]
    assert spec.vary["arg:--warmup"].values == ["1e-4", "010", "true"], "the very text that was written"
    assert spec.vary["arg:--warmup"].baseline == "010"
    assert spec.vary["env:MODE"].values == ["on", "off"]
    assert spec.set == {"ajet.trainer_common.total_training_steps": 60, "env:LEVEL": "1.50"}
    assert spec.budget_s == 36 * 3600
    assert spec.expect[0].level == "1e-4"
    assert spec.each.memory == "4 GB" and spec.each.ports == ["MASTER_PORT", "RPC_PORT"]


def test_what_is_kept_reads_back_equal(tmp_path: Path) -> None:
    spec = read_spec(written(tmp_path, FULL))
    kept = to_yaml(spec)
    assert read_spec(written(tmp_path, kept)) == spec
    assert all(f"\n{name}:" in f"\n{kept}" for name in SweepSpec.model_fields), "every field is there"


_TEXTS = st.text(st.characters(blacklist_categories=["C", "Z"]), max_size=12)
_NUMBERS = st.integers() | st.floats(allow_nan=False, allow_infinity=False)
_VALUES = _TEXTS | _NUMBERS | st.booleans() | st.none()


@given(
    st.lists(_VALUES, min_size=2, max_size=5, unique_by=repr),
    st.sampled_from(["a.b", "null", "arg:--b", "env:B"]),
    _TEXTS,
    st.booleans(),
)
def test_whatever_is_varied_reads_back_equal(
    tmp_path_factory: pytest.TempPathFactory, values: list[Any], key: str, question: str, has_baseline: bool
) -> None:
    varied = {"values": values} | ({"baseline": values[-1]} if has_baseline else {})
    try:
        spec = SweepSpec.model_validate({"blueprint": "/b.md", "vary": {key: varied}, "question": question})
    except ValueError:  # two of the values are one number or one text
        return
    again = read_spec(written(tmp_path_factory.mktemp("spec"), to_yaml(spec)))
    assert again == spec
    assert again.vary[key].has_baseline == has_baseline


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("vary: {a: [1, 2]}", "sweep.yaml: blueprint is missing"),
        (">\nsedes: 3", "sweep.yaml:4: sedes is unknown; did you mean seeds?"),
        ("blueprint: b\nvary:\n  b: [1, 2]\n  a: [1]", "sweep.yaml:4: vary.a: 1 value, so nothing is varied"),
        ("blueprint: b\nvary:\n  a: [1, 1.0]", "sweep.yaml:3: vary.a: the value 1.0 stands there twice"),
        ("blueprint: b\nvary:\n  a: 3", "sweep.yaml:3: vary.a: should be a valid list"),
        ("blueprint: b\nvary:\n  a: [[1], [2]]", "sweep.yaml:3: vary.a: [1] is a list"),
        ("blueprint: b\nvary:\n  a: [1, .nan]", "sweep.yaml:3: vary.a: .nan is no finite number"),
        ("blueprint: b\nvary:\n  --a: [1, 2]", "sweep.yaml:3: vary.--a: '--a' is no config key"),
        ("blueprint: b\nvary:\n  a: {values: [1, 2],\n baseline: 3}", ":4: vary.a.baseline: 3 is not"),
        ("blueprint: b\nvary:\n  a: {value: [1, 2]}", "did you mean values?"),
        ("blueprint: b\nvary: {}", "nothing to vary: name a key"),
        (">vary: {b: [1, 2]}", "sweep.yaml:3: vary stands there twice"),
        (">set: {a: 1}", "sweep.yaml:3: set: a is varied and set"),
        (">seed_key: a", "sweep.yaml:3: seed_key: a is varied or set"),
        (">seed_key: s\nset: {s: 3}", "seed_key: s is varied or set"),
        (">seeds: [1, 1]", "sweep.yaml:3: seeds: a seed stands there twice"),
        (">seeds: 0", "sweep.yaml:3: seeds: 0: write how many"),
        (">seeds: true", "sweep.yaml:3: seeds: True: write how many"),
        (">design: one_at_a_time", "did you mean one-at-a-time?"),
        (">samples: 5", "`design: random` only"),
        (">budget: 12", "sweep.yaml:3: budget: 12 is no length of time"),
        (">budget: 6-12 hours", "is no length of time"),
        (">canary: yes", "sweep.yaml:3: canary: 'yes' is no mapping"),
        (">name: a/b", "sweep.yaml:3: name: 'a/b' is no name of a folder"),
        (">each:\n  memory: 4", "sweep.yaml:4: each.memory: 4 is no amount"),
        ("blueprint: b\nvary: {env:P: [1, 2]}\neach: {ports: [P]}", "P gets a port of its own"),
        (">expect:\n  - {key: a, level: 3, effect: none}", "expect: 3 is none of the values of a"),
        ("blueprint: b\nvary: [", "sweep.yaml:2"),
        ("- a", "is not a mapping"),
        ("a: &a [*a]", "sweep.yaml"),
    ],
)
def test_a_mistake_is_named_with_its_line(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(SweepError, match=re.escape(said)):
        read_spec(written(tmp_path, text.replace(">", OWN)))


def test_all_mistakes_are_told_at_once(tmp_path: Path) -> None:
    with pytest.raises(SweepError) as caught:
        read_spec(written(tmp_path, "blueprint: b\nvary: {a: [1]}\ngoal: best\nparallel: 0"))
    assert len(str(caught.value).splitlines()) == 3


def test_a_file_that_is_no_text_is_named(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "none.yaml"):
        with pytest.raises(SweepError, match="cannot be read"):
            read_spec(path)
    (tmp_path / "sweep.yaml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(SweepError, match="UTF-8"):
        read_spec(tmp_path / "sweep.yaml")


def test_options_say_the_same_as_a_file(tmp_path: Path) -> None:
    spec = from_options(
        tmp_path / "exp/blueprint.md",
        vary=["ajet.trainer_common.optim.lr=1e-6,3e-6", "arg:--warmup=1e-4,010,true", "env:MODE=on,off"],
        settings=[
            "ajet.trainer_common.total_training_steps=60",
            "env:LEVEL=1.50",
            "canary.ajet.trainer_common.total_training_steps=2",
            "name=lr-and-batch",
            "question=Does the rate matter at all?",
            "design=one-at-a-time",
            "goal=max",
            "threshold=0.5",
            "expect=[{key: arg:--warmup, level: 1e-4, effect: lower, why: it is too small}]",
            "each.gpus=1",
            "each.cpus=2.5",
            "each.memory=4 GB",
            "each.ports=[MASTER_PORT, RPC_PORT]",
            "each.share_gpus=true",
        ],
        seeds="0,7",
        seed_key="arg:--seed",
        metric="val/task_pass_rate@1",
        parallel=2,
        budget="1 day 12h",
    )
    assert spec == read_spec(written(tmp_path, FULL.replace(", baseline: 010", "")))


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"vary": ["a=1,2", "a=3,4"]}, "--vary gives a twice"),
        ({"vary": []}, "nothing to vary: name a key"),
        ({"settings": ["a=1"]}, "set: a is varied and set"),
        ({"settings": ["b=1", "b=2"]}, "--set gives b twice"),
        ({"settings": ["c=1,2"]}, "gives 2 values"),
        ({"settings": ["design=gird"]}, "not 'gird'; did you mean grid?"),
        ({"seeds": "three"}, "seeds: 'three': write how many"),
        ({"settings": ["design_seed=-1"]}, "design_seed"),
        ({"settings": ["vary=3"]}, "--vary KEY=v1,v2"),
        ({"settings": ["name=x", "name=y"]}, "--set gives name twice"),
    ],
)
def test_a_mistake_in_an_option_names_it(options: dict[str, Any], said: str) -> None:
    with pytest.raises(SweepError, match=re.escape(said)):
        from_options(**{"vary": ["a=1,2"], **options})


def test_what_options_come_to() -> None:
    for text, seeds in {"3": 3, "1,5,7": [1, 5, 7], "[4]": [4]}.items():
        assert from_options(vary=["a=1,2"], seeds=text).seeds == seeds
    assert from_options(vary=["a=1,2"], settings=["canary=false"]).canary == {}
    assert fields_of(settings=["a.b=3", "a.c='1,2'"]) == {"set": {"a.b": 3, "a.c": "1,2"}}
    numbers = checked({"blueprint": "b", "vary": {"arg:--lr": [0.0001, 3], "env:X": [True, None]}}).vary
    assert numbers["arg:--lr"].values == ["0.0001", "3"] and numbers["env:X"].values == ["true", "null"]


@pytest.mark.parametrize(
    ("text", "key", "values"),
    [
        ("a.lr=1e-4,3e-4", "a.lr", [1e-4, 3e-4]),
        ("a.on=on,true,null", "a.on", ["on", True, None]),
        ("a.n=4, 8 ,16", "a.n", [4, 8, 16]),
        ("a.text='x,y',\"z,\\\"w\",it's", "a.text", ["x,y", 'z,"w', "it's"]),
        ("a.url=http://h:1/p?q=1,b", "a.url", ["http://h:1/p?q=1", "b"]),
        ("arg:--lr=1e-4,3e-4", "arg:--lr", ["1e-4", "3e-4"]),
        ("arg:-n=01,1", "arg:-n", ["01", "1"]),
        ("arg:trainer.lr=1_0,true", "arg:trainer.lr", ["1_0", "true"]),
        ("arg:+trainer.new/x='[1,2]','[3]'", "arg:+trainer.new/x", ["[1,2]", "[3]"]),
        ("env:X_1=a,''", "env:X_1", ["a", ""]),
        ("lr=0,false,'0'", "lr", [0, False, "0"]),
    ],
)
def test_a_config_is_typed_and_a_command_keeps_its_text(text: str, key: str, values: list[object]) -> None:
    found = fields_of([text])["vary"]
    assert found == {key: values} and list(map(type, found[key])) == list(map(type, values))
    assert checked({"blueprint": "b.md", **fields_of([text])}).vary[key].values == values


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a.lr", "KEY=v1,v2"),
        ("=1,2", "KEY=v1,v2"),
        ("a.lr=1,,2", "put quotes"),
        ("a.lr=[1,2],[3,4]", "list"),
        ("arg:--x={a:1},b", "quotes"),
        ("a.lr='1,2", "quotes"),
        ("a.lr='1'2,3", "quotes"),
        ("a.lr=.nan,1", "finite"),
        ("a.day=2024-01-01,x", "date"),
        ("a.colour=#fff,#000", "put quotes"),
        ("a.text=one #two,three", "put quotes"),
        ("a.x=*alias,1", "put quotes"),
        ("a.x=!!int a,1", "put quotes"),
        ("a.x=a: b,1", "list or mapping"),
        ('a.x=a,"b\\n"', "cannot be seen"),
        ("--lr=1,2", "arg:--lr"),
        ("args:--lr=1,2", "arg:--flag"),
        ("arg:=1,2", "names no flag"),
        ("arg:--lr 3=1,2", "names no flag"),
        ("env:A-B=1,2", "names no environment variable"),
        ("env:HF_TOKEN=1,2", "secret"),
        ("env:CUDA_VISIBLE_DEVICES=0,1", "each.gpus"),
        ("a..b=1,2", "no config key"),
        ("a b=1,2", "no config key"),
        ("ajet.experiment_dir=a,b", "set anew"),
    ],
)
def test_what_cannot_be_meant_is_refused_with_a_reason(text: str, said: str) -> None:
    with pytest.raises(SweepError, match=re.escape(said)):
        checked({"blueprint": "b.md", **fields_of([text])})


@given(st.lists(st.text(st.characters(blacklist_categories=["C", "Z"]), min_size=1), min_size=2, max_size=5))
def test_quoted_texts_come_back_whatever_is_in_them(texts: list[str]) -> None:
    for key in ("a.b", "arg:--b", "env:B"):
        quoted = ",".join(json.dumps(text, ensure_ascii=False) for text in texts)
        assert fields_of([f"{key}={quoted}"])["vary"] == {key: texts}


@given(
    st.integers(1, 2000),
    st.lists(st.tuples(st.text(max_size=8), st.text() | st.integers() | st.floats() | st.none()), max_size=5),
)
def test_point_names_are_safe_folders_whatever_is_varied(number: int, parts: list[tuple[str, str]]) -> None:
    name = point_name(number, 2, parts)
    assert re.fullmatch(r"p\d{2,}(?:-[A-Za-z0-9_.-]*)?", name) and len(name) <= LONGEST_NAME
    assert name.partition("-")[0] == f"p{number:02d}" and name[-1] not in "-."
    assert point_name(3, 3, [("path", "/data/a model/7B/")]) == "p003-path-7B"
