"""Readers, toys, order."""

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trainer_core.config.schema import Config
from trainer_core.tasks.builtin import TOYS, make_toy
from trainer_core.tasks.huggingface import read_huggingface
from trainer_core.tasks.jsonl import read_jsonl
from trainer_core.tasks.order import TaskOrder
from trainer_core.tasks.reader import read_tasks
from trainer_core.tasks.rows import task_from_row
from trainer_core.types import DataError, Task, TaskSplits


def write(path: Path, *lines: str) -> Path:
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def splits_of(reader: dict[str, object], **options: bool) -> TaskSplits:
    return read_tasks(Config.model_validate({"ajet": {"task_reader": reader}}).ajet.task_reader, **options)


def test_jsonl_reads_the_usual_keys_and_makes_ids(tmp_path: Path) -> None:
    path = write(
        tmp_path / "a.jsonl",
        '{"question": "2+2", "answer": 4, "level": "easy"}',
        "",
        '{"prompt": "größer?", "task_id": "mine"}',
        '{"main_query": "m", "question": "q", "answer": "They are 6 * 7\\n#### 42"}',
    )
    first, second, third = read_jsonl(path)
    assert first == Task("line-1", "2+2", "4", metadata={"question": "2+2", "answer": 4, "level": "easy"})
    assert (second.task_id, second.main_query, second.answer) == ("mine", "größer?", None)
    assert (third.task_id, third.main_query, third.answer) == ("line-4", "m", "42")


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (['{"question": "q"}', '{"question": '], r"a\.jsonl:2: not a JSON object"),
        (["[1]"], r"a\.jsonl:1: expected a JSON object"),
        (['{"answer": "4"}'], r"a\.jsonl:1: no question.*has answer"),
        (['{"question": "\\ud800"}'], r"a\.jsonl:1: not a JSON object.*surrogates"),
        (['{"question": "  "}'], r"a\.jsonl:1: no question"),
        (['{"question": ["a"]}'], r"a\.jsonl:1: question must be text"),
        (
            ['{"id": "x", "question": "1"}', '{"id": "x", "question": "2"}'],
            r"a\.jsonl:2: task_id 'x'.*a\.jsonl:1",
        ),
        ([""], r"no tasks"),
    ],
)
def test_jsonl_errors_name_file_and_line(tmp_path: Path, lines: list[str], message: str) -> None:
    with pytest.raises(DataError, match=message):
        read_jsonl(write(tmp_path / "a.jsonl", *lines))


def test_missing_or_binary_file_is_one_clear_error(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="there is no data file"):
        read_jsonl(tmp_path / "none.jsonl")
    (tmp_path / "b.jsonl").write_bytes(b'{"question": "\xff\xfe"}')
    with pytest.raises(DataError, match="not UTF-8"):
        read_jsonl(tmp_path / "b.jsonl")
    with pytest.raises(DataError, match="cannot be read"):
        read_jsonl(tmp_path)


@settings(max_examples=100)
@given(
    data=st.binary(max_size=200)
    | st.text(max_size=100).map(lambda text: json.dumps({"question": text}).encode())
)
def test_jsonl_never_fails_otherwise(tmp_path_factory: pytest.TempPathFactory, data: bytes) -> None:
    path = tmp_path_factory.mktemp("fuzz") / "a.jsonl"
    path.write_bytes(data)
    tasks, told = (), str(path)
    try:
        tasks = read_jsonl(path)
    except DataError as error:
        told = str(error)
    assert str(path) in told
    assert all(task.main_query.strip() for task in tasks)


def test_huggingface_reads_a_local_folder(tmp_path: Path) -> None:
    write(tmp_path / "train.jsonl", '{"question": "a", "answer": "b"}', '{"question": "c", "answer": "d"}')
    tasks = read_huggingface(str(tmp_path), None, "train")
    assert [(task.task_id, task.main_query, task.answer) for task in tasks] == [
        ("train-0", "a", "b"),
        ("train-1", "c", "d"),
    ]
    with pytest.raises(DataError, match="split 'validation'"):
        read_huggingface(str(tmp_path), None, "validation")


@pytest.mark.parametrize(
    ("name", "answer"),
    [("sort_digits", "12358"), ("reverse_digits", "13825"), ("even_digits", "28"), ("arithmetic", "-779")],
)
def test_toys_are_what_they_say(name: str, answer: str) -> None:
    assert TOYS[name]("52831")[1] == answer


@pytest.mark.parametrize("name", TOYS)
def test_toy_splits_share_no_multiset(name: str) -> None:
    splits = make_toy(name, digits=5, num_validation_tasks=256, split_seed=0)
    multisets = [
        {"".join(sorted(task.task_id)) for task in tasks}
        for tasks in (splits.training, splits.validation, splits.warmup)
    ]
    assert multisets[0].isdisjoint(multisets[1])
    assert multisets[0].isdisjoint(multisets[2])
    assert multisets[1].isdisjoint(multisets[2])
    assert len(splits.validation) == 256 and len(splits.warmup) == 128 and len(splits.training) > 3000
    everything = (*splits.training, *splits.validation, *splits.warmup)
    assert len({task.task_id for task in everything}) == len(everything)
    assert all(task.answer == TOYS[name](task.task_id.removeprefix(f"{name}-"))[1] for task in everything)


def test_toys_are_the_same_for_the_same_seed_only() -> None:
    first, again, other = (
        make_toy("sort_digits", digits=4, num_validation_tasks=16, split_seed=seed) for seed in (1, 1, 2)
    )
    assert first == again != other


@pytest.mark.parametrize(
    ("name", "digits", "message"),
    [("sort_letters", 5, "sort_digits"), ("sort_digits", 2, "55 groups.*ask for more digits")],
)
def test_impossible_toys_are_refused(name: str, digits: int, message: str) -> None:
    with pytest.raises(DataError, match=message):
        make_toy(name, digits=digits, num_validation_tasks=256, split_seed=0)


def test_order_covers_every_task_once_per_epoch_and_is_a_function_of_the_step() -> None:
    tasks = [Task(str(number), "q") for number in range(10)]
    order, again = TaskOrder(tasks, 3, seed=0), TaskOrder(tasks, 3, seed=0)
    assert order.steps_per_epoch == 3
    epochs = [
        [task.task_id for step in range(3 * e + 1, 3 * e + 4) for task in order.tasks_of_step(step)]
        for e in range(2)
    ]
    assert all(len(set(epoch)) == 9 for epoch in epochs)
    assert epochs[0] != epochs[1]
    assert again.tasks_of_step(5) == order.tasks_of_step(5)
    assert TaskOrder(tasks, 10, seed=1).tasks_of_step(1) != TaskOrder(tasks, 10, seed=0).tasks_of_step(1)


def test_order_of_a_seed_is_what_it_always_was() -> None:
    order = TaskOrder([Task(str(number), "q") for number in range(7)], 3, seed=3)
    steps = {step: "".join(task.task_id for task in order.tasks_of_step(step)) for step in (4, 1, 2, 3)}
    assert steps == {4: "456", 1: "054", 2: "132", 3: "032"}


def test_batch_larger_than_the_data_is_refused() -> None:
    with pytest.raises(DataError, match="train_batch_size is 4 but there are only 3"):
        TaskOrder([Task(str(number), "q") for number in range(3)], 4, seed=0)


def test_reader_takes_both_files_and_sets_warmup_questions_aside(tmp_path: Path) -> None:
    rows = [json.dumps({"question": str(number), "answer": "1"}) for number in range(50)]
    files = {
        "training": {"file_path": str(write(tmp_path / "train.jsonl", *rows))},
        "validation": {"file_path": str(write(tmp_path / "val.jsonl", *rows[:3]))},
    }
    splits = splits_of({"type": "jsonl_dataset_file", "jsonl_dataset_file": files})
    assert (len(splits.training), len(splits.validation), len(splits.warmup)) == (50, 3, 5)
    assert all(task in splits.training for task in splits.warmup)


def test_without_validation_a_data_set_needs_no_validation_split(tmp_path: Path) -> None:
    write(tmp_path / "train.jsonl", '{"question": "a", "answer": "b"}')
    reader = {"type": "huggingface_dat_repo", "huggingface_dat_repo": {"dataset_path": str(tmp_path)}}
    assert len(splits_of(reader, validates=False).training) == 1
    with pytest.raises(DataError, match="validation_split"):
        splits_of(reader)


def test_a_data_file_is_the_training_split_alone(tmp_path: Path) -> None:
    file = write(tmp_path / "rows.jsonl", '{"question": "a", "answer": "b"}')
    reader = {"type": "huggingface_dat_repo", "huggingface_dat_repo": {"dataset_path": str(file)}}
    assert len(splits_of(reader, validates=False).training) == 1
    with pytest.raises(DataError, match=r"rows\.jsonl' is one data file.*name a folder with"):
        splits_of(reader)


@pytest.mark.parametrize(
    ("written", "answer"),
    [("5 + 7 = 12\n#### 12", "12"), ("#### $1,000", "$1,000"), ("1) do this\n#### Conclusion", None)],
)
def test_only_a_number_behind_four_hashes_is_gsm8ks_answer(written: str, answer: str | None) -> None:
    task = task_from_row({"question": "q", "answer": written}, where="here", fallback_id="1")
    assert task.answer == (written if answer is None else answer)


USER, SYSTEM = {"role": "user", "content": "go"}, {"role": "system", "content": "be"}
ANSWER = {"role": "assistant", "content": "done"}
ASKED = {"role": "user", "content": "q"}


@pytest.mark.parametrize(
    ("row", "query", "messages"),
    [
        ({"messages": [SYSTEM, USER]}, "go", [SYSTEM, USER]),
        ({"init_messages": [USER], "messages": [SYSTEM]}, "go", [USER]),
        ({"prompt": [USER]}, "go", [USER]),
        ({"prompt": "go"}, "go", [USER]),
        ({"messages": json.dumps([USER])}, "go", [USER]),
        ({"messages": [USER], "question": "q"}, "q", [USER]),
        # the question comes after messages that do not ask
        ({"init_messages": [SYSTEM], "question": "q"}, "q", [SYSTEM, ASKED]),
        ({"init_messages": [USER, ANSWER], "question": "q"}, "q", [USER, ANSWER, ASKED]),
        # an example to imitate holds the answer
        ({"messages": [USER, ANSWER], "problem": "q"}, "q", [ASKED]),
        # tables fill up with null
        ({"messages": [{**USER, "tool_calls": None}]}, "go", [USER]),
        (
            {"messages": [{"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "image"}]}]},
            "a",
            [{"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "image"}]}],
        ),
    ],
)
def test_conversations(row: dict[str, object], query: str, messages: list[dict[str, object]]) -> None:
    task = task_from_row(row, where="here", fallback_id="1")
    assert (task.main_query, task.messages) == (query, messages)


def test_environment_and_tools() -> None:
    tool = {"type": "function", "function": {"name": "f", "parameters": {"a": {"type": "string"}, "b": None}}}
    clean = {"type": "function", "function": {"name": "f", "parameters": {"a": {"type": "string"}}}}
    row = {"question": "q", "env_type": "shop", "tools": [tool]}
    task = task_from_row(row, where="here", fallback_id="1")
    assert (task.env_type, task.tools) == ("shop", (clean,))
    as_text = task_from_row({**row, "tools": json.dumps([tool])}, where="here", fallback_id="1")
    assert as_text.tools == task.tools
    plain = task_from_row({"question": "q"}, where="here", fallback_id="1")
    assert (plain.env_type, plain.tools, plain.init_messages) == ("no_env", (), ())


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"messages": [USER, ANSWER]}, "no question.*messages that end with the user's"),
        ({"messages": [SYSTEM]}, "no question"),
        ({"messages": [{"text": "a"}]}, "messages must be messages such as.*one is {'text'"),
        ({"messages": [{"role": "user", "content": 5}]}, "messages must be messages such as"),
        ({"messages": ["a"]}, "messages must be a list of JSON objects"),
        ({"prompt": {"a": 1}}, "prompt must be a list of JSON objects, not dict"),
        ({"question": "q", "tools": "none"}, "tools is text, but not JSON"),
        ({"question": "q", "tools": {"a": 1}}, "tools must be a list"),
    ],
)
def test_conversations_of_another_form_are_refused(row: dict[str, object], message: str) -> None:
    with pytest.raises(DataError, match=f"here: .*{message}"):
        task_from_row(row, where="here", fallback_id="1")


def test_every_countdown_can_be_solved_and_is_judged_by_its_value() -> None:
    from trainer_core.judge.answers import countdown

    tasks = make_toy("countdown", digits=4, num_validation_tasks=64, split_seed=0).validation
    for task in tasks:
        assert task.answer is not None and countdown(task, task.answer) == 1.0
        assert str(task.metadata["target"]) in task.main_query and task.metadata["target"] > 0
        assert countdown(task, str(task.metadata["target"])) == 0.0
    ajet = {"task_reader": {"type": "builtin", "builtin": {"name": "countdown"}}}
    assert Config.model_validate({"ajet": ajet}).ajet.task_judge.judge_type == "countdown"


def test_arithmetic_is_right() -> None:
    for task in make_toy("arithmetic", digits=4, num_validation_tasks=64, split_seed=0).validation:
        assert task.answer == str(eval(task.main_query))


def test_dummies_are_many_and_different() -> None:
    splits = splits_of({"type": "random_dummy"})
    assert (len(splits.training), len(splits.validation)) == (1000, 100)
    assert len({task.main_query for task in (*splits.training, *splits.validation)}) == 1100
    assert splits == splits_of({"type": "random_dummy"})
