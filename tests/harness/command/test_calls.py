"""A launch command is read as the shell would read it, as far as that is certain."""

from pathlib import Path

import pytest

from harness.command import calls, python_programs


def test_programs_of_a_compound_command() -> None:
    text = "export A=1; cd sub && B=2 nohup python train.py --lr 1e-3 > log.txt 2>&1 | tee out.log"
    found = calls(text, Path("/code"), {})
    assert [call.words for call in found] == [("python", "train.py", "--lr", "1e-3"), ("tee", "out.log")]
    assert found[0].folder == Path("/code/sub")
    assert (found[0].variables["A"], found[0].variables["B"]) == ("1", "2")


def test_variables_are_put_in_and_unknown_ones_are_not_believed() -> None:
    found = calls("python $DIR/train.py $NOBODY ${PORT:-29500}", Path("/code"), {"DIR": "src"})[0]
    assert found.words == ("python", "src/train.py", "$NOBODY", "29500")
    assert not found.is_known(found.words[2])


@pytest.mark.parametrize(
    ("text", "script", "module", "arguments"),
    [
        ("python -u train.py --a b", "train.py", None, ("--a", "b")),
        ("python3 -W ignore -m pkg.main x=1", None, "pkg.main", ("x=1",)),
        ("torchrun --nproc_per_node 2 train.py --a", "train.py", None, ("--a",)),
        ("python -m torch.distributed.run --nnodes 1 -m pkg.main y", None, "pkg.main", ("y",)),
        ("accelerate launch --config_file a.yaml run.py", "run.py", None, ()),
        ("timeout 60 ./train.py z", "train.py", None, ("z",)),
    ],
)
def test_the_python_program(text: str, script: str, module: str, arguments: tuple[str, ...]) -> None:
    found = next(python_programs(calls(text, Path("/code"), {})))
    assert (found.script and found.script.name, found.module, found.arguments) == (script, module, arguments)


def test_a_shell_script_is_followed(tmp_path: Path) -> None:
    script = '#!/bin/bash\nset -x\nMODEL=/m\npython train.py \\\n  model.path=$MODEL "$@"\n'
    (tmp_path / "run.sh").write_text(script)
    found = list(python_programs(calls("bash run.sh", tmp_path, {})))
    assert found[0].arguments == ("model.path=/m", "$@")


def test_a_script_that_the_same_shell_reads_may_set_variables(tmp_path: Path) -> None:
    (tmp_path / "env.sh").write_text("export LR=1\ncd sub\n")
    (found,) = calls("source env.sh && python train.py --lr $LR", tmp_path, {"PORT": "1"})
    assert (found.words[-1], found.folder, found.certain) == ("1", tmp_path / "sub", False)
    (found,) = calls("source gone.sh && python train.py --port $PORT", tmp_path, {"PORT": "1"})
    assert not found.is_known(found.words[-1]), "it may set any variable"


def test_what_runs_elsewhere_is_not_certain() -> None:
    assert [call.certain for call in calls("ssh host python train.py", Path("/code"), {})] == [False]
    assert [call.certain for call in calls("if true; then python a.py; fi", Path("/code"), {})][-1] is False


BEFORE = ['PATH="$(dirname "$(which python)")/bin:$PATH"', "PATH=$(brew --prefix)/bin:$PATH", "N=$((1 + 2))"]
BEFORE += ["A=`cat 'a b'`", "A='$('", 'A="it\'s $(date)"']


@pytest.mark.parametrize("before", BEFORE)
def test_the_output_of_a_command_is_one_unknown_word(before: str) -> None:
    (found,) = calls(f"{before} python train.py", Path("/code"), {"PATH": "/usr/bin"})
    assert found.words == ("python", "train.py")


def test_what_a_command_prints_is_not_known() -> None:
    (found,) = calls('python train.py --run $(date +%s) --dir "$(pwd)/x"', Path("/code"), {})
    assert [found.is_known(word) for word in found.words] == [True, True, True, False, True, False]
    assert calls("echo $(date", Path("/code"), {}) == ()
