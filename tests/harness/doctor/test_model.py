"""Models whose files are damaged, missing, or cannot be had."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from harness.doctor import model as checks
from tests.harness.doctor.planning import bad, examined, launch, model, safetensors

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
        (removed(TOKENIZER, SETTINGS), [("warning", "tokenizer_template")], "no tokenizer"),
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
    return bad(examined(checks.can_be_had, given))


def test_a_model_of_the_hub_without_a_network(tmp_path: Path) -> None:
    offline = {"HF_HUB_OFFLINE": "1", "HF_HOME": str(tmp_path / "hf")}
    assert hub(tmp_path, "org/name", **offline) == [("problem", "hub_offline")]
    model(tmp_path / "hf/hub/models--org--name/snapshots/abc")
    assert hub(tmp_path, "org/name", **offline) == []
    assert hub(tmp_path, "org/other", HF_HOME=str(tmp_path / "hf"), HF_HUB_OFFLINE="0") == []


def test_a_model_that_needs_a_login(tmp_path: Path) -> None:
    home = {"HF_HOME": str(tmp_path), "HF_TOKEN": "", "HF_HUB_OFFLINE": ""}
    assert hub(tmp_path, "meta-llama/Llama-3.1-8B", **home) == [("warning", "auth")]
    assert hub(tmp_path, "meta-llama/Llama-3.1-8B", **{**home, "HF_TOKEN": "x"}) == []
    (tmp_path / "token").write_text("x")
    assert hub(tmp_path, "meta-llama/Llama-3.1-8B", **home) == []
