"""Models whose files are damaged or missing, that cannot be had; which revision of one is complete here."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from harness.doctor import model as checks
from harness.doctor.model_files import hub_cache, is_cached
from tests.harness.doctor.planning import bad, launch, model, safetensors

CORRUPT = [("problem", "corrupt_weights")]
GONE = [("problem", "path_not_found")]
POINTER = "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 9\n"
INDEX = json.dumps({"weight_map": {"a": "model.safetensors", "b": "model-00002.safetensors"}})


def cut(keep: int) -> Callable[[Path], object]:
    return lambda folder: (folder / WEIGHTS).write_bytes((folder / WEIGHTS).read_bytes()[:keep])


def written(name: str, content: str | bytes, without: str = "") -> Callable[[Path], object]:
    def change(folder: Path) -> None:
        (folder / name).write_bytes(content if isinstance(content, bytes) else content.encode())
        if without:
            (folder / without).unlink()

    return change


def removed(*names: str) -> Callable[[Path], object]:
    return lambda folder: [(folder / name).unlink() for name in names]


WEIGHTS, TOKENIZER = "model.safetensors", "tokenizer.json"
SETTINGS = "tokenizer_config.json"


@pytest.mark.parametrize(
    ("change", "expected", "words"),
    [
        (removed(), [], ""),
        (cut(4), CORRUPT, WEIGHTS),
        (cut(40), CORRUPT, WEIGHTS),
        (cut(-8), CORRUPT, WEIGHTS),
        (written(WEIGHTS, safetensors(b"12345678") + b"x"), CORRUPT, WEIGHTS),
        (written(WEIGHTS, POINTER), CORRUPT, "Git LFS"),
        (written("pytorch_model.bin", "<html>not found</html>", without=WEIGHTS), CORRUPT, "no checkpoint"),
        (written(f"{WEIGHTS}.index.json", INDEX), CORRUPT, "model-00002"),
        (removed(WEIGHTS), GONE, "no weights"),
        (removed("config.json"), GONE, "config.json"),
        (written(TOKENIZER, "{"), [("problem", "tokenizer_template")], "cannot be read"),
        (written(SETTINGS, "{}"), [("warning", "tokenizer_template")], "no chat template"),
        (written("chat_template.jinja", "x", without=SETTINGS), [], ""),
    ],
)
def test_files_of_a_model(
    tmp_path: Path, change: Callable[[Path], object], expected: list[tuple[str, str]], words: str
) -> None:
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


# --- the cache of the hub -----------------------------------------------------------------------------------


@pytest.fixture
def snapshot(tmp_path: Path) -> Path:
    """The snapshot of `main`, still without weights."""
    folder = tmp_path / "models--org--model"
    found = folder / "snapshots" / "abc"
    found.mkdir(parents=True)
    (found / "config.json").write_text("{}")
    (folder / "refs").mkdir()
    (folder / "refs" / "main").write_text("abc\n")
    return found


def cached(snapshot: Path, model: str = "org/model", revision: str = "main") -> bool:
    return is_cached({"HF_HUB_CACHE": str(snapshot.parents[2])}, model, revision)


def test_a_model_in_one_file(snapshot: Path) -> None:
    assert not cached(snapshot) and not cached(snapshot, "org/other")
    (snapshot / "model.safetensors").symlink_to(snapshot / "not-there")
    assert not cached(snapshot), "its download was cut off"
    (snapshot / "not-there").touch()
    assert cached(snapshot)


def test_a_model_in_parts_needs_all_of_them(snapshot: Path) -> None:
    parts = {"weight_map": {"a": "model-1.safetensors", "b": "model-2.safetensors"}}
    (snapshot / "model.safetensors.index.json").write_text(json.dumps(parts))
    (snapshot / "model-1.safetensors").touch()
    assert not cached(snapshot)
    (snapshot / "model-2.safetensors").touch()
    assert cached(snapshot)
    (snapshot / "model.safetensors.index.json").write_text("[")
    assert not cached(snapshot)


def test_only_the_revision_that_would_be_used(snapshot: Path) -> None:
    (snapshot / "model.safetensors").touch()
    assert cached(snapshot, revision="abc") and not cached(snapshot, revision="v2")
    (snapshot.parents[1] / "refs" / "main").write_text("def")
    assert not cached(snapshot), "what is cached is not what main means now"


@pytest.mark.parametrize(
    ("model", "revision"),
    [("../../etc", "main"), ("org/" + "x" * 300, "main"), ("org/model", "../main"), ("model", "")],
)
def test_no_name_leads_elsewhere(snapshot: Path, model: str, revision: str) -> None:
    assert not cached(snapshot, model, revision)


def test_where_the_cache_is() -> None:
    assert hub_cache({"HUGGINGFACE_HUB_CACHE": "/a", "HF_HOME": "/b"}) == Path("/a")
    assert hub_cache({"HF_HOME": "/b"}) == Path("/b/hub")
    assert hub_cache({"XDG_CACHE_HOME": "/c"}) == Path("/c/huggingface/hub")
