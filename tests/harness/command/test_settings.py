"""What a launch command sets, by the names that a sweep gives its keys."""

import pytest

from harness.command import is_output, read


@pytest.mark.parametrize(
    ("command", "values", "rest"),
    [
        ("PORT=8000 python train.py", {"env:PORT": "8000"}, "python train.py"),
        ("python train.py PORT=8000", {"arg:PORT": "8000"}, "python train.py"),
        ("python -u train.py", {"arg:-u": "true"}, "python train.py"),
        (
            "cd /a && FOO=2 torchrun --standalone --nproc_per_node 2 train.py --lr 1e-4 > log",
            {"env:FOO": "2", "arg:--standalone": "true", "arg:--nproc_per_node": "2", "arg:--lr": "1e-4"},
            "cd /a; torchrun train.py",
        ),
        (
            "export A=1 B=2\nenv C=3 python -m my.train data.csv --x -1 -n4 --fast # --slow",
            {
                **{"env:A": "1", "env:B": "2", "env:C": "3"},
                **{"arg:--x": "-1", "arg:-n": "4", "arg:--fast": "true"},
            },
            "python -m my.train data.csv",
        ),
        (
            "python t.py ++a.b=c '~x.y' d='e f'",
            {"arg:a.b": "c", "arg:x.y": "null", "arg:d": "e f"},
            "python t.py",
        ),
        ("bash -c 'A=1 python t.py --lr 1'", {"env:A": "1", "arg:--lr": "1"}, "bash -c; python t.py"),
        ("bash <<EOF\npython t.py --lr 3\nEOF\n", {"arg:--lr": "3"}, "bash; python t.py; EOF"),
        ("mkdir -p x && set -e && tee -a y", {}, "mkdir -p x; set -e; tee -a y"),
        ("python t.py --lr 1 --lr 2", {"arg:--lr": "2"}, "python t.py"),
        ("", {}, ""),
    ],
)
def test_flags_overrides_and_variables_are_told_apart(
    command: str, values: dict[str, str], rest: str
) -> None:
    assert (read(command).values, read(command).rest) == (values, rest)


OUTPUTS = "output_dir trainer.default_local_dir default_root_dir work_dir run_dir my_ckpt_dir arg:--save-path"
OUTPUTS += " env:LOGDIR arg:--out logs"
INPUTS = "lr data_path cache_dir workers init_checkpoint_path blog"


def test_where_a_run_writes_is_an_output_and_what_it_reads_is_none() -> None:
    assert [name for name in OUTPUTS.split() if not is_output(name)] == []
    assert [name for name in INPUTS.split() if is_output(name)] == []
