"""Packages that a program imports, looked for in the experiment's own interpreter."""

import sys
from pathlib import Path

import pytest

from harness.doctor import packages
from harness.doctor.interpreter_probe import Package, Probe
from harness.doctor.launch import Once
from tests.harness.doctor.planning import bad, examined, launch

MISSING = [("problem", "module_not_found")]


def write(folder: Path, text: str) -> None:
    (folder / "train.py").write_text(text)


def test_a_missing_module(tmp_path: Path) -> None:
    write(tmp_path, "import json\nimport yaml_of_nobody.part\n")
    found = examined(packages.modules, launch(tmp_path, "python train.py"))
    assert (
        bad(found) == MISSING
        and "train.py:2" in found[0].text
        and "pip install" not in found[0].mend
        and "PYTHONPATH" in found[0].mend
    ), "who knows what somebody has put under this name"


def test_a_known_package_is_named(tmp_path: Path) -> None:
    write(tmp_path, "import cv2\n")
    (found,) = examined(packages.modules, launch(tmp_path, "python train.py"))
    assert "-m pip install opencv-python-headless" in found.mend


def test_a_missing_module_brings_its_repair(tmp_path: Path) -> None:
    write(tmp_path, "import yaml_of_nobody.part\n")
    (found,) = examined(packages.modules, launch(tmp_path, "python train.py"))
    assert (found.remedies, found.captures) == (("install_package",), {"module": "yaml_of_nobody"})
    elsewhere = tmp_path / "other" / "bin" / "python"
    elsewhere.parent.mkdir(parents=True)
    elsewhere.symlink_to(sys.executable)
    (found,) = examined(packages.modules, launch(tmp_path, f"{elsewhere} train.py"))
    assert found.remedies == (), "a repair installs into the blueprint's interpreter only"


def test_a_kernel_that_a_setting_asks_for_is_done_without(tmp_path: Path) -> None:
    config = "attn_implementation: flash_attention_2\n"
    write(tmp_path, "print(1)\n")
    (found,) = examined(packages.modules, launch(tmp_path, "python train.py config.yaml", config))
    assert bad([found]) == MISSING and found.remedies == ("without_flash_attention",)
    write(tmp_path, "import flash_attn\n")
    (found,) = examined(packages.modules, launch(tmp_path, "python train.py config.yaml", config))
    assert found.remedies == ("install_package",), "the program itself asks for it"


def test_installed_ones(tmp_path: Path) -> None:
    write(tmp_path, "import numpy.linalg\nfrom rich import table\n")
    found = examined(packages.modules, launch(tmp_path, "python train.py"))
    assert bad(found) == [] and "2 imported" in found[0].text


def test_a_missing_module_of_a_local_package(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/__init__.py").write_text("")
    (tmp_path / "mine/part.py").write_text("import not_installed_anywhere\n")
    write(tmp_path, "from mine.part import x\n")
    found = examined(packages.modules, launch(tmp_path, "python train.py"))
    assert bad(found) == MISSING and "part.py:1" in found[0].text


def test_imports_that_may_fail_are_left_alone(tmp_path: Path) -> None:
    write(
        tmp_path,
        "try:\n    import absent_a\nexcept ImportError:\n    pass\n"
        "if 0:\n    import absent_b\ndef f():\n    import absent_c\n",
    )
    assert examined(packages.modules, launch(tmp_path, "python train.py")) == []


def test_a_program_that_changes_its_path_is_only_warned_about(tmp_path: Path) -> None:
    write(tmp_path, "import sys\nsys.path.insert(0, '/elsewhere')\nimport absent_a\n")
    assert bad(examined(packages.modules, launch(tmp_path, "python train.py"))) == [
        ("warning", "module_not_found")
    ]


def test_what_is_found_by_pythonpath(tmp_path: Path) -> None:
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib/found_there.py").write_text("")
    write(tmp_path, "import found_there\n")
    given = launch(tmp_path, "python train.py", variables={"PYTHONPATH": str(tmp_path / "lib")})
    assert bad(examined(packages.modules, given)) == []
    assert bad(examined(packages.modules, launch(tmp_path, "PYTHONPATH=lib python train.py"))) == []
    assert bad(examined(packages.modules, launch(tmp_path, "python train.py"))) == MISSING


def test_a_module_that_is_not_there(tmp_path: Path) -> None:
    assert bad(examined(packages.modules, launch(tmp_path, "python -m nobody.made.this"))) == MISSING


def test_what_a_tracker_of_the_bundled_trainer_needs(tmp_path: Path) -> None:
    config = "ajet: {trainer_common: {logger: tensorboard}}\n"
    asked = launch(tmp_path, None, config).wanted().modules
    assert asked["tensorboard"] == "ajet.trainer_common.logger: tensorboard"
    assert bad(examined(packages.modules, launch(tmp_path, None, "ajet: {}\n"))) == []


def versions(folder: Path, **installed: Package) -> list[tuple[str, str]]:
    found = launch(folder)
    probe = Probe((3, 11, 0), {}, {name.replace("_", "-"): item for name, item in installed.items()}, {})
    object.__setattr__(found, "probe", Once(lambda: probe))
    return bad(examined(packages.versions, found))


def test_versions_that_cannot_work_together(tmp_path: Path) -> None:
    torch = Package("2.6.0+cu124", ())
    assert versions(tmp_path, torch=torch, torchvision=Package("0.20.1", ("torch==2.5.1",))) == [
        ("warning", "binary_abi")
    ]
    assert versions(tmp_path, torch=torch, torchvision=Package("0.21.0", ("torch==2.6.0",))) == []
    assert versions(tmp_path, numpy=Package("2.1.0", ()), torch=Package("2.2.2", ())) == [
        ("warning", "binary_abi")
    ]
    assert versions(tmp_path, numpy=Package("2.1.0", ()), torch=Package("2.3.0", ())) == []
    old = Package("4.40.0", ("tokenizers<0.20,>=0.19", 'numpy>=9; extra == "x"'))
    assert versions(tmp_path, transformers=old, tokenizers=Package("0.20.1", ())) == [
        ("warning", "version_skew")
    ]


def test_the_installed_versions_fit(tmp_path: Path) -> None:
    assert bad(examined(packages.versions, launch(tmp_path))) == []


@pytest.mark.parametrize(
    ("words", "module"),
    [("--use_peft --report_to none", "peft"), ("--attn_implementation flash_attention_2", "flash_attn")],
)
def test_what_a_setting_imports_later(tmp_path: Path, words: str, module: str) -> None:
    write(tmp_path, "import json\n")
    assert module in launch(tmp_path, f"python train.py {words}").wanted().modules
    assert launch(tmp_path, "python train.py --use_peft false").wanted().modules == {}


def test_what_verl_starts_in_its_workers(tmp_path: Path) -> None:
    words = "actor_rollout_ref.rollout.name=vllm trainer.logger=['console','swanlab']"
    asked = launch(tmp_path, f"python -m verl.trainer.main_ppo {words}").wanted().modules
    assert set(asked) == {"verl", "ray", "vllm", "swanlab"}


def test_a_folder_of_data_is_no_module(tmp_path: Path) -> None:
    (tmp_path / "absent_a").mkdir()
    (tmp_path / "absent_a/rows.jsonl").write_text("")
    write(tmp_path, "import absent_a\n")
    assert "absent_a" in launch(tmp_path, "python train.py").wanted().modules
