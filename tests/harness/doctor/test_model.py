"""Models whose files are damaged, missing, or cannot be had."""

import json
from pathlib import Path

import pytest

from harness.doctor import model as checks
from harness.doctor.launch import PlannedLaunch
from tests.harness.doctor.planning import bad, examined, launch, model, safetensors


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return model(tmp_path / "model")


def planned(folder: Path, **variables: str) -> PlannedLaunch:
    return launch(folder.parent, None, f"ajet: {{model: {{path: {folder}}}}}\n", variables=variables)


ALL = (checks.config_is_whole, checks.weights_are_whole)


def test_a_whole_model(folder: Path) -> None:
    assert [bad(examined(check, planned(folder))) for check in ALL] == [[], []]


@pytest.mark.parametrize("keep", [4, 40, -8])
def test_weights_that_were_cut_off(folder: Path, keep: int) -> None:
    file = folder / "model.safetensors"
    file.write_bytes(file.read_bytes()[:keep])
    found = examined(checks.weights_are_whole, planned(folder))
    assert bad(found) == [("problem", "corrupt_weights")] and "model.safetensors" in found[0].text


def test_weights_with_something_behind(folder: Path) -> None:
    (folder / "model.safetensors").write_bytes(safetensors(b"12345678") + b"x")
    assert bad(examined(checks.weights_are_whole, planned(folder))) == [("problem", "corrupt_weights")]


def test_a_pointer_of_git_lfs(folder: Path) -> None:
    (folder / "model.safetensors").write_text(
        "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 9\n"
    )
    found = examined(checks.weights_are_whole, planned(folder))
    assert bad(found) == [("problem", "corrupt_weights")] and "Git LFS" in found[0].text


def test_a_page_instead_of_a_checkpoint(folder: Path) -> None:
    (folder / "model.safetensors").unlink()
    (folder / "pytorch_model.bin").write_text("<html>not found</html>")
    assert bad(examined(checks.weights_are_whole, planned(folder))) == [("problem", "corrupt_weights")]


def test_a_shard_that_is_missing(folder: Path) -> None:
    index = {"weight_map": {"a": "model.safetensors", "b": "model-00002.safetensors"}}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    found = examined(checks.weights_are_whole, planned(folder))
    assert bad(found) == [("problem", "corrupt_weights")] and "model-00002" in found[0].text


def test_no_weights(folder: Path) -> None:
    (folder / "model.safetensors").unlink()
    assert bad(examined(checks.weights_are_whole, planned(folder))) == [("problem", "path_not_found")]


def test_a_folder_without_config_or_tokenizer(folder: Path) -> None:
    for name in ("tokenizer.json", "tokenizer_config.json"):
        (folder / name).unlink()
    assert bad(examined(checks.config_is_whole, planned(folder))) == [("warning", "tokenizer_template")]
    (folder / "config.json").unlink()
    assert bad(examined(checks.config_is_whole, planned(folder))) == [("problem", "path_not_found")]


def test_a_damaged_tokenizer(folder: Path) -> None:
    (folder / "tokenizer.json").write_text("{")
    assert bad(examined(checks.config_is_whole, planned(folder))) == [("problem", "tokenizer_template")]


def test_a_chat_template(folder: Path) -> None:
    (folder / "tokenizer_config.json").write_text("{}")
    assert bad(examined(checks.config_is_whole, planned(folder))) == [("warning", "tokenizer_template")]
    (folder / "chat_template.jinja").write_text("{{ messages }}")
    assert bad(examined(checks.config_is_whole, planned(folder))) == []


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
