"""Interpreters that do not run; programs that lack a module or do not take their arguments."""

import json
import subprocess
import sys
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from harness.doctor import program
from harness.doctor.findings import Finding
from harness.doctor.launch import Start
from tests.harness.doctor.planning import Bad, bad, launch

MISSING = [("problem", "module_not_found")]
BROKEN = [("problem", "config_error")]
VERL = "python -m verl.trainer.main_ppo"
PARSER = """
import argparse
p = argparse.ArgumentParser()
p.add_argument("--learning-rate", type=float)
p.add_argument("--mode", choices=["a", "b"])
p.add_argument("--data", required=True)
p.add_argument("rest", nargs="*")
"""
HYDRA = '''
"""Stands in for Hydra: composes, or refuses, before the program's own function is called."""
import sys

def main(**where):
    def wrap(function):
        def run():
            assert sys.argv[-2:] == ["--cfg", "job"], "the program itself would run"
            for word in sys.argv[1:-2]:
                if word.partition("=")[0] not in ("lr", "data.path"):
                    sys.exit(f"Could not override '{word}'. Key is not in struct")
            print("lr: 1\\ndata:\\n  path: " + ("x" if "data.path=x" in sys.argv else "???"))
        return run
    return wrap
'''


def write(folder: Path, text: str, **more: str) -> None:
    for name, content in {"train": text, **more}.items():
        (folder / f"{name}.py").write_text(content)


def modules(folder: Path, command: str = "python train.py", config: str | None = None) -> list[Finding]:
    return list(program.modules(launch(folder, command, config)))


def starts(folder: Path, command: str) -> list[Finding]:
    return list(program.starts(launch(folder, command)))


@pytest.mark.parametrize(
    ("text", "mode", "expected", "words"),
    [
        (None, 0, "path_not_found", "does not exist"),
        ("#!/nowhere/python\n", 0o644, "permission", "cannot be executed"),
        ("#!/nowhere/python\n", 0o755, "path_not_found", "does not start"),
        ("#!/bin/sh\necho 'Fatal Python error' >&2\nexit 1\n", 0o755, "path_not_found", "Fatal Python error"),
    ],
)
def test_an_interpreter(tmp_path: Path, text: str | None, mode: int, expected: str, words: str) -> None:
    python = tmp_path / "python"
    if text is not None:
        python.write_text(text)
        python.chmod(mode)
    (found,) = program.runs(launch(tmp_path, venv_exe=python))
    assert bad([found]) == [("problem", expected)] and words in found.text
    assert bad(program.runs(launch(tmp_path))) == []
    assert bad(program.runs(launch(tmp_path, "./train", venv_exe=tmp_path / "no"))) == []


def test_a_missing_module_and_its_repair(tmp_path: Path) -> None:
    write(tmp_path, "import json\nimport absent_a.part\nimport cv2\n")
    found = modules(tmp_path)
    assert bad(found) == MISSING * 2 and "train.py:2" in found[0].text
    assert "PYTHONPATH" in found[0].fix, "who knows what somebody has put under this name"
    assert "-m pip install opencv-python-headless" in found[1].fix
    assert (found[0].remedies, found[0].captures) == (("install_package",), {"module": "absent_a"})
    elsewhere = tmp_path / "other" / "bin" / "python"
    elsewhere.parent.mkdir(parents=True)
    elsewhere.symlink_to(sys.executable)
    assert modules(tmp_path, f"{elsewhere} train.py")[0].remedies == (), "only into the blueprint's own"


@pytest.mark.parametrize(
    ("text", "local", "expected"),
    [
        ("import numpy.linalg\nfrom rich import table\n", "", []),
        ("from part import x\n", "import absent_a\n", MISSING),
        ("import part\n", "def broken(:\n", BROKEN),
        ("try:\n    import absent_a\nexcept ImportError:\n    pass\ndef f():\n    import absent_b\n", "", []),
        ("import sys\nsys.path.insert(0, '/x')\nimport absent_a\n", "", [("warning", "module_not_found")]),
        ("print(1\n", "", BROKEN),
    ],
)
def test_what_a_program_imports(tmp_path: Path, text: str, local: str, expected: Bad) -> None:
    write(tmp_path, text, part=local)
    assert bad(modules(tmp_path)) == expected


@pytest.mark.parametrize(
    ("text", "part", "expected"),
    [
        ("from part import build\n", "def build_network():\n    pass\n", [("problem", "version_skew")]),
        ("from part import a, b, C, d\n", "import json as a\nfor b in []:\n    class C: ...\nd: int\n", []),
        ("from part import a\n", "def __getattr__(name):\n    return 1\n", []),
        ("from part import a\n", "globals().update(a=1)\n", []),
        ("try:\n    from part import a\nexcept ImportError:\n    a = 1\n", "", []),
    ],
)
def test_names_of_a_local_module(tmp_path: Path, text: str, part: str, expected: Bad) -> None:
    write(tmp_path, text, part=part)
    found = modules(tmp_path)
    assert bad(found) == expected
    assert "build_network" not in part or found[0].fix == "did you mean build_network?"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("from json import lods\n", [("problem", "version_skew")]),
        ("from json import loads\nfrom os import path\nfrom importlib import metadata\n", []),
        ("def f():\n    from json import lods\n", []),
    ],
)
def test_names_of_an_installed_module(tmp_path: Path, text: str, expected: Bad) -> None:
    write(tmp_path, text)
    if launch(tmp_path, "python train.py").look.start.outcome == "not_contained":
        pytest.skip("no Landlock here")
    assert bad(starts(tmp_path, "python train.py")) == expected


def test_what_is_found_by_pythonpath(tmp_path: Path) -> None:
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib/found_there.py").write_text("")
    write(tmp_path, "import found_there\n")
    assert bad(modules(tmp_path, "PYTHONPATH=lib python train.py")) == []
    assert bad(modules(tmp_path)) == bad(modules(tmp_path, "python -m absent.a")) == MISSING


@pytest.mark.parametrize(
    ("command", "names"),
    [
        ("python train.py --use_peft --attn_implementation flash_attention_2", {"peft", "flash_attn"}),
        ("python train.py --use_peft false", set()),
        (f"{VERL} actor_rollout_ref.rollout.name=vllm", {"verl.trainer.main_ppo", "ray", "vllm"}),
        ("python train.py trainer.logger=['console','swanlab']", {"swanlab"}),
        (None, {"torch", "tensorboard"}),
    ],
)
def test_what_a_setting_imports_later(tmp_path: Path, command: str | None, names: set[str]) -> None:
    write(tmp_path, "import json\n")
    config = None if command else "ajet: {trainer_common: {logger: tensorboard}}\n"
    asked = set(launch(tmp_path, command, config).question.modules)
    assert asked == names if command else names < asked


def test_what_another_interpreter_has_is_not_asked_of_this_one(tmp_path: Path) -> None:
    write(tmp_path, "import json\n")
    common = "trainer_common: {trinity_python: /opt/trinity/bin/python}"
    for config, names in (("", {"trinity", "ray", "vllm"}), (f", {common}", set())):
        asked = set(launch(tmp_path, None, f"ajet: {{backbone: trinity{config}}}\n").question.modules)
        assert asked & {"trinity", "ray", "vllm"} == names


def test_a_kernel_that_a_setting_asks_for_is_done_without(tmp_path: Path) -> None:
    config = "attn_implementation: flash_attention_2\n"
    write(tmp_path, "print(1)\n")
    (found,) = modules(tmp_path, "python train.py config.yaml", config)
    assert bad([found]) == MISSING and found.remedies == ("without_flash_attention",)
    write(tmp_path, "import flash_attn\n")
    (found,) = modules(tmp_path, "python train.py config.yaml", config)
    assert found.remedies == ("install_package",), "the program itself asks for it"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ("--data x --learning-rat 1", ""),  # argparse takes an abbreviation
        ("--data x --learning_rate 1", "did you mean --learning-rate"),
        ("--data x --learning-rate one", "invalid float"),
        ("--data x --mode c", "invalid choice"),
        ("--mode a", "--data"),
        ("--data x --mode=a 3 4", ""),
    ],
)
def test_a_program_takes_or_refuses_its_arguments_itself(tmp_path: Path, arguments: str, words: str) -> None:
    write(tmp_path, PARSER + "p.parse_args()\nopen('trained', 'w').write('x')\n")
    found = starts(tmp_path, f"python train.py {arguments}")
    assert bad(found) == (BROKEN if words else []) and words in found[0].sentence
    assert not (tmp_path / "trained").exists(), "it ends with its arguments"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("import os\nos.environ['JUDGE_API_KEY']\n", [("warning", "auth")]),
        ("import os\nos.environ['DATA_ROOT']\n", [("warning", "config_error")]),
        ("from json import no_such_name\n", [("problem", "version_skew")]),
        ("open('none.json')\n", [("warning", "path_not_found")]),
        ("import sys\nsys.exit('set DATA_ROOT')\n", [("warning", "config_error")]),
        ("import os\nos.environ['HARNESS_ATTEMPT_DIR'], os.environ['RANK']\n", []),
    ],
)
def test_what_a_program_needs_before_its_arguments(
    tmp_path: Path, text: str, expected: Bad, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("JUDGE_API_KEY", raising=False)
    write(tmp_path, f"{text}{PARSER}p.parse_args()\n")
    assert bad(starts(tmp_path, "python train.py --data x")) == expected


@pytest.mark.parametrize(
    "effect",
    [
        *("open('made', 'w').write('x')", "__import__('os').mkdir('made')", "__import__('os').remove('a')"),
        *("__import__('subprocess').run(['touch', 'made'])", "__import__('os').system('touch made')"),
        *("__import__('socket').create_connection(('127.0.0.1', 9))", "__import__('shutil').copy('a', 'b')"),
    ],
)
def test_a_program_is_ended_before_it_changes_anything(tmp_path: Path, effect: str) -> None:
    (tmp_path / "a").write_text("x")
    write(tmp_path, f"{effect}\n{PARSER}p.parse_args()\nraise KeyError('not reached')\n")
    before = sorted(path.name for path in tmp_path.iterdir())
    assert starts(tmp_path, "python train.py --data x") == []
    assert sorted(path.name for path in tmp_path.iterdir()) == before


def test_what_no_interpreter_announces_cannot_change_a_file_either(tmp_path: Path) -> None:
    (tmp_path / "keep").write_text("x")
    calls = ["open(b'keep', 513)", "open(b'keep', 512)", "truncate(b'keep', 0)", "unlink(b'keep')"]
    calls += ["mkdir(b'new', 511)", "rename(b'keep', b'new')", "link(b'keep', b'new')"]
    calls += ["open(b'new', 65, 420)", "system(b'echo >keep')"]
    effects = "\n".join(f"assert libc.{call} != 0" for call in calls)
    write(tmp_path, f"import ctypes\nlibc = ctypes.CDLL(None)\n{effects}\n{PARSER}p.parse_args()\n")
    (found,) = starts(tmp_path, "python train.py --data x")
    assert found.severity == "ok", found.text
    assert sorted(path.name for path in tmp_path.iterdir()) == ["keep", "train.py"]
    assert (tmp_path / "keep").read_text() == "x"


def test_where_the_system_cannot_keep_a_program_from_writing_it_is_not_started(tmp_path: Path) -> None:
    write(tmp_path, f"{PARSER}p.parse_args()\n")
    given = launch(tmp_path, "python train.py --wrong 1")
    source = (Path(program.__file__).parent / "probe.py").read_text()
    without = source.replace("RESTRICT_SELF = 444", "RESTRICT_SELF = 9999")
    assert without != source
    asked = json.dumps(asdict(given.question)).encode()
    assert b'"not_contained"' in subprocess.check_output([sys.executable, "-c", without], input=asked)
    given.__dict__["look"] = replace(given.look, start=Start("not_contained"))
    (found,) = program.starts(given)
    assert found.severity == "ok" and "Landlock" in found.text


def test_a_program_that_takes_too_long_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("harness.doctor.launch.LIMIT_S", 1.0)
    write(tmp_path, f"import threading\nthreading.Event().wait()\n{PARSER}p.parse_args()\n")
    given = launch(tmp_path, "python train.py --wrong 1")
    assert [*bad(program.runs(given)), *program.starts(given)] == []


def test_a_program_that_reads_no_arguments_is_not_started(tmp_path: Path) -> None:
    write(tmp_path, "raise KeyError('started')\n")
    assert starts(tmp_path, "python train.py --lr 1") == []
    write(tmp_path, f"{PARSER}p.parse_args()\n")
    assert starts(tmp_path, "ssh host python train.py") == [], "who knows what is there"


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [("lr=2 data.path=x", []), ("lr=2", [("warning", "config_error")]), ("lrr=2 data.path=x", BROKEN)],
)
def test_a_hydra_program_composes_its_config(tmp_path: Path, arguments: str, expected: Bad) -> None:
    source = "import hydra\n@hydra.main(config_path='conf')\ndef go(config):\n    raise KeyError\ngo()\n"
    write(tmp_path, source, hydra=HYDRA)
    found = starts(tmp_path, f"python train.py {arguments}")
    assert bad(found) == expected


def test_hydra_is_told_the_nearest_key_and_not_to_append_one(tmp_path: Path) -> None:
    source = "import hydra\n@hydra.main(config_path='conf')\ndef go(config):\n    pass\ngo()\n"
    hint = "Key is not in struct\\nTo append to your config use +optim.learning_rate=0.1"
    write(tmp_path, source, hydra=HYDRA.replace("Key is not in struct", hint))
    (tmp_path / "conf" / "optim").mkdir(parents=True)
    (tmp_path / "conf" / "config.yaml").write_text("defaults: [optim: adam]\nseed: 1\n")
    (tmp_path / "conf" / "optim" / "adam.yaml").write_text("lr: 0.1\nbetas: [0.9, 0.99]\n")
    (found,) = starts(tmp_path, "python train.py optim.learning_rate=0.1 data.path=x")
    assert found.severity == "problem" and found.fix == "did you mean optim.lr?"
    assert "+optim" not in found.sentence


def test_no_module_of_the_codebase_stands_for_one_of_pythons(tmp_path: Path) -> None:
    """Where the interpreter is asked, and where code that a model changed is read in its copy."""
    (code := tmp_path / "code").mkdir()
    (copy := tmp_path / "copy").mkdir()
    ran = tmp_path / "ran"
    for folder in (code, copy):
        for name in ("pkgutil", "tokenize", "platform", "sitecustomize", "json"):
            (folder / f"{name}.py").write_text(f"open({str(ran)!r}, 'w')\n")
    (code / "train.py").write_text("import numpyy\n")
    (copy / "train.py").write_text(f"{PARSER}open({str(ran)!r}, 'w')\np.parse_args()\n")
    author = launch(code, "python train.py --data x")
    assert list(author.look.missing) == ["numpyy"]
    changed = replace(author, moved=lambda path: path.replace(str(code), str(copy)))
    assert not changed.look.missing and changed.look.start == Start()
    assert not ran.exists()
