"""Models whose files are damaged or missing, that cannot be had; which revision of one is complete here."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from harness.doctor import model as checks
from harness.doctor.model import hub_cache, is_cached
from tests.harness.doctor.planning import Bad, bad, launch, model, safetensors

WEIGHTS, TOKENIZER, SETTINGS = "model.safetensors", "tokenizer.json", "tokenizer_config.json"
CORRUPT = [("problem", "corrupt_weights")]
GONE = [("problem", "path_not_found")]
POINTER = "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 9\n"
INDEX = json.dumps({"weight_map": {"a": "model.safetensors", "b": "model-00002.safetensors"}})


Change = Callable[[Path], object]


def cut(keep: int) -> Change:
    return lambda folder: (folder / WEIGHTS).write_bytes((folder / WEIGHTS).read_bytes()[:keep])


def written(name: str, content: str | bytes, *without: str) -> Change:
    data = content if isinstance(content, bytes) else content.encode()
    return lambda folder: ((folder / name).write_bytes(data), removed(*without)(folder))


def removed(*names: str) -> Change:
    return lambda folder: [(folder / name).unlink() for name in names]


@pytest.mark.parametrize(
    ("change", "expected", "words"),
    [
        (removed(), [], ""),
        (cut(4), CORRUPT, WEIGHTS),
        (cut(40), CORRUPT, WEIGHTS),
        (cut(-8), CORRUPT, WEIGHTS),
        (written(WEIGHTS, safetensors(b"12345678") + b"x"), CORRUPT, WEIGHTS),
        (written(WEIGHTS, POINTER), CORRUPT, "Git LFS"),
        (written("pytorch_model.bin", "<html>not found</html>", WEIGHTS), CORRUPT, "web page"),
        (written(f"{WEIGHTS}.index.json", INDEX), CORRUPT, "model-00002"),
        (removed(WEIGHTS), GONE, "no weights"),
        (removed("config.json"), GONE, "config.json"),
        (written(TOKENIZER, "{"), [("problem", "tokenizer_template")], "cannot be read"),
        (written(SETTINGS, "{}"), [("warning", "tokenizer_template")], "no chat template"),
        (written("chat_template.jinja", "x", SETTINGS), [], ""),
    ],
)
def test_files_of_a_model(tmp_path: Path, change: Change, expected: Bad, words: str) -> None:
    folder = model(tmp_path / "model")
    change(folder)
    given = launch(tmp_path, None, f"ajet: {{model: {{path: {folder}}}}}\n")
    found = [each for check in (checks.config_is_whole, checks.weights_are_whole) for each in check(given)]
    assert bad(found) == expected
    assert any(words in each.text for each in found)


def hub(folder: Path, name: str, **variables: str) -> list[tuple[str, str]]:
    given = launch(folder, f"python t.py --model_name_or_path {name}", variables=variables)
    return bad(checks.can_be_had(given))


def test_a_model_of_the_hub_without_a_network(tmp_path: Path) -> None:
    offline = {"HF_HUB_OFFLINE": "1", "HF_HOME": str(tmp_path / "hf")}
    assert hub(tmp_path, "org/name", **offline) == [("problem", "hub_offline")]
    model(tmp_path / "hf/hub/models--org--name/snapshots/abc")
    assert hub(tmp_path, "org/name", **offline) == []
    assert hub(tmp_path, "org/other", HF_HOME=str(tmp_path / "hf"), HF_HUB_OFFLINE="0") == []


ONE = {"model.safetensors": ""}
PARTS = {"weight_map": {"a": "model-1.safetensors", "b": "model-2.safetensors"}}
FIRST = {"model.safetensors.index.json": json.dumps(PARTS), "model-1.safetensors": ""}


@pytest.mark.parametrize(
    ("files", "name", "revision", "complete"),
    [
        ({}, "org/model", "main", False),
        (ONE, "org/model", "main", True),
        (ONE, "org/model", "abc", True),
        (ONE, "org/model", "v2", False),
        (ONE, "org/model", "moved", False),  # what is cached is not what this branch means now
        (ONE, "org/other", "main", False),
        (FIRST, "org/model", "main", False),
        ({**FIRST, "model-2.safetensors": ""}, "org/model", "main", True),
        ({**ONE, "model.safetensors.index.json": "["}, "org/model", "main", False),
        (ONE, "../../etc", "main", False),
        (ONE, "org/" + "x" * 300, "main", False),
        (ONE, "org/model", "../main", False),
        (ONE, "model", "", False),
    ],
)
def test_complete_revisions(tmp_path: Path, files: Any, name: str, revision: str, complete: bool) -> None:
    refs, snapshot = (tmp_path / "models--org--model" / part for part in ("refs", "snapshots/abc"))
    refs.mkdir(parents=True)
    snapshot.mkdir(parents=True)
    (refs / "main").write_text("abc\n")
    (refs / "moved").write_text("def\n")
    for file, text in {"config.json": "{}", **files}.items():
        (snapshot / file).write_text(text)
    environment = {"HF_HUB_CACHE": str(tmp_path)}
    assert is_cached(environment, name, revision) is complete
    for file in snapshot.glob("*.safetensors"):
        file.rename(tmp_path / "elsewhere")
        file.symlink_to(tmp_path / "cut off")
    assert is_cached(environment, name, revision) is False


def test_where_the_cache_is() -> None:
    assert hub_cache({"HUGGINGFACE_HUB_CACHE": "/a", "HF_HOME": "/b"}) == Path("/a")
    assert hub_cache({"HF_HOME": "/b"}) == Path("/b/hub")
    assert hub_cache({"XDG_CACHE_HOME": "/c"}) == Path("/c/huggingface/hub")
