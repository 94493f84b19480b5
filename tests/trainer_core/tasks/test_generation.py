"""Tasks that a model behind a real HTTP server writes."""

import hashlib
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from matplotlib.figure import Figure

from tests.model_server.transport import Delivery
from tests.trainer_core.outside_model.fake import Fake, embedded, refused, said, serving
from trainer_core.config.schema import Config
from trainer_core.config.tasks import DataGeneration
from trainer_core.outside_model import OutsideModel
from trainer_core.tasks.documents import cut, read_pieces
from trainer_core.tasks.generation import count_generated, generate_tasks
from trainer_core.tasks.reader import read_tasks
from trainer_core.tasks.rows import id_of
from trainer_core.types import DataError, TrainingError

TEXT = "Ada was born in 1815. Her father was Byron! Did she write programs? She did."


def vector(text: str) -> list[float]:
    """Points in the direction of the first word if that asks, else in one of its own."""
    first = text.split()[0]
    if first in ("Who", "What", "When", "Why"):
        return [float(first == word) for word in ("Who", "What", "When", "Why")] + [0.01] * 28
    return [byte - 127.5 for byte in hashlib.sha256(text.encode()).digest()]


class Model:
    """Writes `count` questions about its material, no two the same; has embeddings."""

    def __init__(self) -> None:
        self.chats: list[dict[str, Any]] = []
        self.requests: list[dict[str, Any]] = []
        self.embedded: list[str] = []

    def __call__(self, body: dict[str, Any], key: str) -> Delivery:
        if "input" in body:
            self.embedded += body["input"]
            return embedded(map(vector, body["input"]))
        instructions, data = body["messages"][0]["content"], json.loads(body["messages"][1]["content"])
        self.chats.append(data)
        self.requests.append(body)
        asked = re.search(r"[Ww]rite (\d+)", instructions)
        assert asked is not None
        return said(json.dumps({"tasks": self.write(data, int(asked[1]))}))

    def write(self, data: dict[str, Any], count: int) -> list[dict[str, str]]:
        about = "like" if "examples" in data else "about"
        start = len(data.get("already_asked", []))
        marks = [data.get("text", ""), *(each["question"] for each in data.get("examples", []))]
        mark = "/".join(mark[:20] for mark in marks)
        return [{"question": f"{about} {mark} {n}?", "answer": f" {n} "} for n in range(start, start + count)]


def settings(folder: Path, documents: list[str], examples: str | None = None, **keys: Any) -> DataGeneration:
    tree = {
        "document_reader": {"document_path": documents, **keys.pop("reader", {})},
        "query_reader": {"jsonl_dataset_file": {"training": {"file_path": examples}}},
        "llm_model": "writer",
        "deduplication_filter": {"enabled": False, "params": {"db_path": str(folder / "db")}},
        **keys,
    }
    return DataGeneration.model_validate(tree)


def deduplicating(folder: Path, **params: Any) -> dict[str, Any]:
    return {"deduplication_filter": {"params": {"db_path": str(folder / "db"), **params}}}


def generate(fake: Fake, asked: DataGeneration, lines: list[str] | None = None) -> tuple[Any, Any]:
    def make_model(model: str, **options: Any) -> OutsideModel:
        environment = {"OPENAI_BASE_URL": fake.base_url}
        return OutsideModel(model, environment=environment, sleep=fake.sleep, **options)

    said_lines = lines if lines is not None else []
    return generate_tasks(asked, say=said_lines.append, make_model=make_model)


@pytest.fixture
def document(tmp_path: Path) -> str:
    path = tmp_path / "ada.md"
    path.write_text(TEXT)
    return str(path)


@pytest.fixture
def examples(tmp_path: Path) -> str:
    path = tmp_path / "examples.jsonl"
    path.write_text("".join(json.dumps({"question": f"q{n}", "answer": f"a{n}"}) + "\n" for n in range(4)))
    return str(path)


def test_documents_are_validated_on_and_tasks_like_the_examples_are_trained_on(
    tmp_path: Path, document: str, examples: str
) -> None:
    asked = settings(
        tmp_path, [document], examples, task_num=6, llm_response_length=99, reader={"chunk_size": 45}
    )
    with serving(model := Model()) as fake:
        training, validation = generate(fake, asked)
    assert (len(training), len(validation)) == (6, 6)
    assert all(
        task.main_query.startswith("like Ada was") or "Did she" in task.main_query for task in training
    )
    assert all(task.main_query.startswith("about ") and task.answer in set("012") for task in validation)
    pieces = {task.metadata["piece"]: task.main_query for task in validation}
    assert set(pieces) == {1, 2} and "Did she" in pieces[2]
    assert {task.metadata["document"] for task in (*training, *validation)} == {document}
    assert {task.metadata["written_by"] for task in (*training, *validation)} == {"writer"}
    assert training[0].metadata["examples"][0] in {"line-1", "line-2", "line-3", "line-4"}
    ids = {task.task_id: id_of(task.main_query, task.answer or "") for task in (*training, *validation)}
    assert len(ids) == 12 and all(task_id == digest for task_id, digest in ids.items())
    shown = [data for data in model.chats if "examples" in data]
    assert {each["question"] for data in shown for each in data["examples"]} == {"q0", "q1", "q2", "q3"}
    request = model.requests[0]
    assert (request["model"], request["max_tokens"], request["temperature"]) == ("writer", 99, 0.0)


@pytest.mark.parametrize("source", ["documents", "examples"])
def test_of_one_source_three_of_ten_tasks_are_validated_on(
    tmp_path: Path, document: str, examples: str, source: str
) -> None:
    named = ([document], None) if source == "documents" else ([], examples)
    asked = settings(tmp_path, *named, task_num=20)
    with serving(Model()) as fake:
        training, validation = generate(fake, asked)
    assert (len(training), len(validation)) == (14, 6)
    assert not {task.main_query for task in training} & {task.main_query for task in validation}


def test_more_questions_than_fit_one_request_are_asked_for_without_repeating(
    tmp_path: Path, document: str
) -> None:
    with serving(model := Model()) as fake:
        training, validation = generate(fake, settings(tmp_path, [document], task_num=25))
    assert len({task.main_query for task in (*training, *validation)}) == 25
    assert [len(data.get("already_asked", [])) for data in model.chats] == [0, 10, 20]


def test_what_was_generated_is_not_asked_for_again(tmp_path: Path, document: str, examples: str) -> None:
    asked = settings(tmp_path, [document], examples, **deduplicating(tmp_path, similarity_threshold=1.0))
    lines: list[str] = []
    with serving(model := Model()) as fake:
        first = generate(fake, asked)
        requests = len(fake.asked)
        assert generate(fake, asked, lines) == first
        assert any("taken from" in line for line in lines)
        same = asked.model_copy(update={"num_workers": 1})
        assert generate(fake, same) == first
        assert len(fake.asked) == requests
        Path(document).write_text(TEXT.replace("1815", "1816"))
        generate(fake, asked)
        assert len(fake.asked) > requests
    assert any("1816" in data.get("text", "") for data in model.chats)


def test_after_a_failure_only_what_is_missing_is_asked_for(tmp_path: Path) -> None:
    for name in "abc":
        (tmp_path / name).write_text(f"Text {name}.")
    asked = settings(tmp_path, [str(tmp_path / name) for name in "abc"], task_num=3, num_workers=1)
    is_down = True

    class Down(Model):
        def __call__(self, body: dict[str, Any], key: str) -> Delivery:
            is_b = "Text b" in body["messages"][1]["content"]
            return refused(503) if is_down and is_b else super().__call__(body, key)

    with serving(model := Down()) as fake:
        with pytest.raises(TrainingError, match=r"no questions from piece 1 of .*/b: .*gave no usable.*503"):
            generate(fake, asked)
        before, is_down = len(model.chats), False
        generate(fake, asked)
    texts = [data["text"] for data in model.chats]
    assert sorted(texts) == ["Text a.", "Text b.", "Text c."] and before < 3


@pytest.mark.parametrize(("cache", "setting"), [("replies", "XDG_CACHE_HOME"), ("embeddings", "db_path")])
def test_a_cache_that_cannot_be_used_is_named(
    tmp_path: Path, document: str, private_surroundings: Path, cache: str, setting: str
) -> None:
    kept = private_surroundings / "cache" / "ajet" / "generated_tasks"
    folder = kept if cache == "replies" else tmp_path / "db"
    folder.mkdir(parents=True)
    (folder / f"{cache}.sqlite").write_text("not a database, but text that is long enough " * 99)
    told = rf"{setting}: .*{cache}\.sqlite: file is not a database"
    with serving(Model()) as fake, pytest.raises(TrainingError, match=told):
        generate(fake, settings(tmp_path, [document], **deduplicating(tmp_path)))


class Repeating(Model):
    """Writes the same few questions whatever it is shown, in other words."""

    def write(self, data: dict[str, Any], count: int) -> list[dict[str, str]]:
        few = ["What is it?", " what IS  it? ", "What would it be?", "Who is it?", "Whose?", "When?", "Why?"]
        return [{"question": question, "answer": "x"} for question in few][:count]


def test_duplicates_are_dropped(tmp_path: Path, document: str) -> None:
    lines: list[str] = []
    with serving(model := Repeating()) as fake:
        plain = generate(fake, settings(tmp_path, [document], task_num=9), lines)
        near = generate(fake, settings(tmp_path, [document], task_num=9, **deduplicating(tmp_path)))
    questions = [sorted(task.main_query for split in splits for task in split) for splits in (plain, near)]
    assert questions[0] == ["What is it?", "What would it be?", "When?", "Who is it?", "Whose?", "Why?"]
    assert questions[1] == ["What is it?", "When?", "Who is it?", "Whose?", "Why?"]
    assert any("wrote 6 different questions" in line for line in lines)
    assert len(model.embedded) == len(set(model.embedded)) == 6


def test_no_task_is_in_both_splits_or_among_the_examples(tmp_path: Path, document: str) -> None:
    rows = tmp_path / "rows.jsonl"
    rows.write_text('{"question": "who is IT?"}\n')

    class New(Repeating):
        def write(self, data: dict[str, Any], count: int) -> list[dict[str, str]]:
            more = {"question": "Which?", "answer": "x"} if "examples" in data else None
            return [*super().write(data, count), *([more] if more else [])]

    with serving(New()) as fake:
        training, validation = generate(fake, settings(tmp_path, [document], str(rows), task_num=8))
    assert "Who is it?" not in {task.main_query for task in (*training, *validation)}
    assert [task.main_query for task in training] == ["Which?"]


def test_an_endpoint_without_embeddings_is_told_with_the_way_out(tmp_path: Path, document: str) -> None:
    class Without(Model):
        def __call__(self, body: dict[str, Any], key: str) -> Delivery:
            return refused(404) if "input" in body else super().__call__(body, key)

    asked = settings(tmp_path, [document], **deduplicating(tmp_path, model="e"))
    with serving(Without()) as fake:
        with pytest.raises(TrainingError, match=r"embeddings.*model e at.*404.*enabled: false"):
            generate(fake, asked)


def test_embeddings_have_an_address_and_a_key_of_their_own(tmp_path: Path, document: str) -> None:
    with serving(Model()) as fake, serving(model := Model()) as other:
        params = {"base_url": other.base_url, "api_key": "mine", "similarity_threshold": 1.0}
        generate(fake, settings(tmp_path, [document], task_num=1, **deduplicating(tmp_path, **params)))
    assert other.keys == ["mine"] and model.embedded and "mine" not in fake.keys


@pytest.mark.parametrize(
    ("reply", "reason"),
    [
        (said('{"tasks": [{"question": " ", "answer": "x"}]}'), "at least 1 character"),
        (said('{"tasks": [{"question": "q"}]}'), "Field required"),
        (refused(401), "refuses every key"),
    ],
)
def test_a_model_without_usable_answers_ends_it_and_names_the_piece(
    tmp_path: Path, document: str, reply: Delivery, reason: str
) -> None:
    with serving(lambda body, key: reply) as fake:
        with pytest.raises(TrainingError, match=rf"no questions from piece 1 of .*ada\.md: .*{reason}"):
            generate(fake, settings(tmp_path, [document]))


def test_a_model_that_finds_nothing_to_ask_ends_it(tmp_path: Path, document: str) -> None:
    with serving(lambda body, key: said('{"tasks": []}')) as fake:
        with pytest.raises(TrainingError, match="wrote no new question from piece 1 of"):
            generate(fake, settings(tmp_path, [document]))


def test_a_request_to_stop_is_heard_and_keeps_what_was_written(tmp_path: Path, document: str) -> None:
    class StopError(Exception):
        pass

    def stop() -> None:
        raise StopError

    asked = settings(tmp_path, [document])
    with serving(model := Model()) as fake:
        with pytest.raises(StopError):
            generate_tasks(asked, say=print, safe_point=stop, make_model=lambda model, **_: fake.model())
        generate(fake, asked)
    assert len(model.chats) == 1


def test_the_reader_and_the_dry_run_agree(
    tmp_path: Path, document: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = settings(tmp_path, [document], task_num=10)
    reader = {"type": "data_generation", "data_generation": asked.model_dump()}
    ajet = Config.model_validate({"ajet": {"task_reader": reader}}).ajet
    assert ajet.task_judge.judge_type == "exact_match"
    generation = ajet.task_reader.data_generation
    assert count_generated(generation) == (7, 3, False)
    lines: list[str] = []
    with serving(Repeating()) as fake:
        monkeypatch.setenv("OPENAI_BASE_URL", fake.base_url)
        splits = read_tasks(ajet.task_reader, say=lines.append)
    assert (len(splits.training), len(splits.validation), len(splits.warmup)) == (4, 2, 1)
    assert count_generated(generation) == (4, 2, True)
    assert lines[0].startswith("writer writes 10 questions from piece 1 of ")
    assert len(fake.asked) == 4  # and none for the counts


def test_examples_of_a_data_set(tmp_path: Path) -> None:
    import datasets

    rows = [{"question": f"q{n}", "answer": "a"} for n in range(3)]
    datasets.DatasetDict({"train": datasets.Dataset.from_list(rows)}).save_to_disk(tmp_path / "saved")
    repo = {"dataset_path": str(tmp_path / "saved")}
    query_reader = {"type": "huggingface_dat_repo", "huggingface_dat_repo": repo}
    asked = settings(tmp_path, [], task_num=4, query_reader=query_reader)
    with serving(Model()) as fake:
        training, validation = generate(fake, asked)
    assert (len(training), len(validation)) == (3, 1)
    assert set(training[0].metadata["examples"]) == {"train-0", "train-1", "train-2"}
    assert count_generated(asked) == (3, 1, False)  # the rows are not read for a count


def test_nothing_to_write_from_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"nothing to write tasks from\. Name documents in .*or both"):
        count_generated(settings(tmp_path, []))
    with pytest.raises(DataError, match="nothing to write tasks from"):
        generate_tasks(settings(tmp_path, []), say=print)


def binary(path: Path) -> None:
    path.write_bytes(b"PK\x03\x04\xff\xfe")


def with_zeros(path: Path) -> None:
    path.write_bytes(b"text\0more")


def huge(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(2**30)  # a hole: it takes no space


@pytest.mark.parametrize(
    ("name", "make", "message"),
    [
        ("none.md", lambda path: None, r"cannot read .*none\.md: No such file"),
        ("folder", Path.mkdir, r"folder is not a file\. Name the files: text in UTF-8"),
        ("a.docx", binary, r"a\.docx is not text \(byte 4\).*\.jsonl.*\.pdf\. Convert it"),
        ("a.bin", with_zeros, r"a\.bin is not text \(byte 4\)"),
        ("a.txt", huge, r"a\.txt has 1,024 MiB; files of up to 32 MiB are read"),
        ("a.jsonl", huge, r"a\.jsonl has 1,024 MiB"),
        ("a.txt", lambda path: path.write_text(" \n"), r"there is no text in .*a\.txt"),
        ("a.pdf", lambda path: path.write_text("no PDF"), r"cannot read the PDF .*a\.pdf"),
        ("a.jsonl", lambda path: path.write_text('{"a": 1}\n'), r"a\.jsonl:1: no document.*`text`"),
        ("a.jsonl", lambda path: path.write_text("[1]\n"), r'a\.jsonl:1: .*such as \{"text": "…"\}'),
    ],
)
def test_what_cannot_be_read_is_named(
    tmp_path: Path, name: str, make: Callable[[Path], Any], message: str
) -> None:
    path = tmp_path / name
    make(path)
    with pytest.raises(DataError, match=message):
        count_generated(settings(tmp_path, [str(path)]))


def test_lines_are_documents_of_their_own(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text('{"text": "One. Two."}\n\n{"text": "Three."}\n{"text": ""}\n')
    pieces = read_pieces(settings(tmp_path, [str(path)], reader={"chunk_size": 5}).document_reader)
    assert [(piece.document, piece.number, piece.text) for piece in pieces] == [
        (f"{path}:1", 1, "One."), (f"{path}:1", 2, "Two."), (f"{path}:3", 1, "Three"), (f"{path}:3", 2, "."),
    ]  # fmt: skip


def test_the_text_of_a_pdf_is_read(tmp_path: Path) -> None:
    pytest.importorskip("pypdf")

    def read(name: str, text: str) -> str:
        page = Figure()
        page.text(0.1, 0.5, text)
        page.savefig(tmp_path / name, format="pdf")
        (piece,) = read_pieces(settings(tmp_path, [str(tmp_path / name)]).document_reader)
        return piece.text

    assert read("a.PDF", "Byron was a poet.") == "Byron was a poet."
    with pytest.raises(DataError, match="there are only pictures"):
        read("b.pdf", "")


@pytest.mark.parametrize(
    ("split_by", "pieces"),
    [
        ("sentence", ["Mr. A said (yes.)", "So be it!", "B went\nhome", "C is\nhere now"]),
        ("paragraph", ["Mr. A said (yes.)", "So be it! B went", "home", "C is\nhere now"]),
        ("line", ["Mr. A said (yes.)", "So be it! B went", "home\n\nC is", "here now"]),
        ("character", ["Mr. A said (yes.)", "So be it! B went", "home\n\nC is\nhere", "now"]),
    ],
)
def test_pieces_end_where_they_may(split_by: str, pieces: list[str]) -> None:
    text = "Mr. A said (yes.) So be it! B went\nhome\n\nC is\nhere now"
    assert cut(text, 17, split_by) == pieces
    with pytest.raises(ValueError, match="split_by"):
        DataGeneration.model_validate({"document_reader": {"split_by": "page"}})


@given(
    st.text("ab.! \n。", max_size=60),
    st.integers(1, 20),
    st.sampled_from(["sentence", "paragraph", "line", "character"]),
)
def test_pieces_hold_all_of_the_text_and_are_no_longer_than_allowed(
    text: str, size: int, split_by: str
) -> None:
    pieces = cut(text, size, split_by)
    assert "".join("".join(pieces).split()) == "".join(text.split())
    assert all(0 < len(piece) <= size and piece == piece.strip() for piece in pieces)
