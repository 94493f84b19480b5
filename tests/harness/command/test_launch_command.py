"""Flags and variables of a launch command; the oracle for what a program is given is bash itself."""

import re
import subprocess
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.command import CommandError, calls, is_output, paths_replaced, read, read_or_empty

STANDS_IN = """
show() { printf '<%s' "$(printenv X)"; printf '\\1%s' "$@"; printf '>'; }
python() { show python "$@"; }
"""


def seen(command: str) -> list[tuple[str, list[str]]]:
    """What bash gives the programs of a command: the variable X and their words."""
    bash = ["bash", "-c", STANDS_IN + command]
    done = subprocess.run(bash, capture_output=True, text=True, timeout=20, check=False)
    calls = [call.split("\1") for call in re.findall("<([^<>]*)>", done.stdout)]
    return [(x, words) for x, *words in calls]


@pytest.mark.parametrize(
    ("command", "flag", "words"),
    [
        ('python train.py "--lr" "1e-4"', "--lr", ["train.py", "--lr", "a b"]),
        ("python train.py \\\n  --lr \\\n  1e-4 --bs 8", "--lr", ["train.py", "--lr", "a b", "--bs", "8"]),
        ("cd . && python train.py --lr 1 # --lr 2", "--lr", ["train.py", "--lr", "a b"]),
        ("echo --lr 1; python train.py --lr 2 2>&1 | tee /dev/null", "--lr", ["train.py", "--lr", "a b"]),
        ("if true; then\n  python train.py --lr 2\nfi", "--lr", ["train.py", "--lr", "a b"]),
        ("python train.py -n 3 --n 4", "-n", ["train.py", "-n", "a b", "--n", "4"]),
        ("python train.py --lr-min 3 --lr 4", "--lr", ["train.py", "--lr-min", "3", "--lr", "a b"]),
        ("python train.py --lr -1", "--lr", ["train.py", "--lr", "a b"]),
        ("python train.py a.b=1 xa.b=2", "a.b", ["train.py", "a.b=a b", "xa.b=2"]),
        ("python train.py ++a.b='1 2'", "a.b", ["train.py", "++a.b=a b"]),
        ("python - --lr 1 <<'EOF'\nprint('--lr 3')\nEOF\ntrue", "--lr", ["-", "--lr", "a b"]),
        # not there: given to the training
        ("set -e\nmkdir -p /tmp\npython train.py > /dev/stdout", "--lr", ["train.py", "--lr", "a b"]),
        ("X=1 python train.py && echo done", "--lr", ["train.py", "--lr", "a b"]),
        ("python train.py  # the training", "a.b", ["train.py", "a.b=a b"]),
        ("python -c 'print(1)'", "--lr", ["-c", "print(1)", "--lr", "a b"]),
        # one value, and words that are none
        ("python train.py --lr 1 data.csv more", "--lr", ["train.py", "--lr", "a b", "data.csv", "more"]),
        ("python train.py --lr 1 ./data", "--lr", ["train.py", "--lr", "a b", "./data"]),
        ("python train.py --lr 1 a.b=2", "--lr", ["train.py", "--lr", "a b", "a.b=2"]),
        ("Y=--x; python train.py --lr 1 $Y", "--lr", ["train.py", "--lr", "a b", "--x"]),
        ("python --lr 1 train", "--lr", ["--lr", "a b", "train"]),
        ("python --lr 1 train.py x", "--lr", ["--lr", "a b", "train.py", "x"]),
    ],
)
def test_bash_gives_the_new_value_and_all_other_words(command: str, flag: str, words: list[str]) -> None:
    edited = read(command).with_setting(f"arg:{flag}", "a b")
    assert seen(edited.text)[-1][1] == ["python", *words]
    assert edited.value(f"arg:{flag}") == "a b"


@pytest.mark.parametrize(
    ("command", "flag", "said"),
    [
        ("python train.py --lr 1 --lr 2", "--lr", r"2 times, as 1 \(line 1\) and 2 \(line 1\)"),
        ("python a.py --lr 1\npython b.py --lr=2", "--lr", r"as 1 \(line 1\) and 2 \(line 2\)"),
        ("python train.py --lr $LR", "--lr", "vary env:LR"),
        ('python train.py --lr="${LR:-1}"', "--lr", "vary env:LR"),
        ("python train.py --lr $(cat lr)", "--lr", "write its value there"),
        ("python train.py --fp16 --bs 8", "--fp16", "switch without a value"),
        ("python train.py ~a.b", "a.b", "takes a.b out"),
        ("python train.py --layers 1 2 3", "--layers", r"several words \(1 2 …\).* write --layers=VALUE"),
        ("python train.py --betas 0.9 0.95 --lr 1", "--betas", "several words"),
        ("python train.py --files a.csv b.csv", "--files", "several words"),
        ("python train.py --tags a b", "--tags", "several words"),
        ("python train.py --set a=1 b=2", "--set", "several words"),
        ("python - <<EOF\nmain('--lr 3')\nEOF", "--lr", r"here-document .*line 2"),
        ("bash -c 'python train.py --lr 3'", "--lr", "inside a quoted part"),
        ("ARGS='--lr 3'\npython train.py $ARGS", "--lr", "inside a quoted part"),
        ('ARGS=(--lr 3)\npython train.py "${ARGS[@]}"', "--lr", "inside a quoted part"),
        ("python train.py --kl_coef 3", "--kl-coef", "did you mean arg:--kl_coef"),
        ("python a.py && python b.py", "--lr", "`python a.py` and `python b.py`: write --lr into"),
        ("for i in 1 2; do python a.py; done", "--lr", "loop or a condition"),
        ("bash -c 'python train.py'", "--lr", "inside the quotes of"),
        ("python <<EOF\nprint(1)\nEOF", "--lr", "reads its program from a here-document"),
        ("ssh host 'cd x && python train.py'", "--lr", "inside the quotes of"),
        ("python train.py \\", "--lr", "ends in a backslash"),
        ("cd /tmp && ls", "--lr", "no program is started"),
        ("python train.py --name it's --lr 1", "--lr", "cannot be taken apart"),
        ("python <<EOF\nprint(1)", "--lr", "not closed"),
    ],
)
def test_what_is_not_clear_is_refused_with_what_to_write(command: str, flag: str, said: str) -> None:
    with pytest.raises(CommandError, match=said):
        read(command).with_setting(f"arg:{flag}", "1")


@pytest.mark.parametrize(
    "command",
    [
        *("python train.py", "X=1 python train.py", "X=1; Y=2 python train.py", "X=1\npython train.py"),
        *("export X=1\npython train.py", "X=1\nexport X\npython train.py", "set -a\nX=1\npython train.py"),
        *("export Y=2 X='1 2'; python train.py", "export X=${X:-4}\npython train.py"),
        "X=1 Y=2 && python train.py $Y",
    ],
)
def test_a_variable_reaches_the_training(command: str) -> None:
    edited = read(command).with_setting("env:X", "a b").text
    assert seen(edited)[-1][0] == "a b"
    assert read(edited).value("env:X") == "a b"


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("export X=1\nX=2 python train.py", "2 times, as 1 .* and 2"),
        ("X+=:a python train.py", "adds to X"),
        ("bash -c 'X=1 python train.py'", "inside a quoted part"),
        ("bash <<EOF\nexport X=1\npython train.py\nEOF", "here-document"),
    ],
)
def test_a_variable_that_is_not_set_clearly_is_refused(command: str, said: str) -> None:
    with pytest.raises(CommandError, match=said):
        read(command).with_setting("env:X", "3")


def test_only_the_flag_or_the_variable_itself_is_changed() -> None:
    command = read("env Y=1 X=2 nice -n 5 python train.py X=3 -n3")
    edited = command.with_setting("env:X", "4").with_setting("arg:-n", "6").with_setting("arg:X", "7")
    assert edited.text == "env Y=1 X=4 nice -n 5 python train.py X=7 -n6"
    text = "python train.py --note 'see X here' --tag --lr-end --lr 1 MAX=3 > --lr"
    assert read(text).with_setting("arg:--lr", "2").text == text.replace("--lr 1", "--lr 2")
    assert read(text).with_setting("env:X", "2").text == f"export X=2\n{text}"


def refusal(text: str) -> str | None:
    try:
        read(text)
    except CommandError as error:
        return str(error)
    return None


TEXTS = r"""a|-b|--c=d|'e f'|"g\"h"|i\ j|k=l|2>/dev/null|$((1+2))|"$Y"|'#'|m#n"""
FLAGS = ["--lr 1", "--lr=1", "'--lr=1'"]
PIECES = st.sampled_from(["\\\n", *TEXTS.split("|")])


@settings(max_examples=30, deadline=None)
@given(st.lists(PIECES, max_size=6), st.lists(PIECES, max_size=4), st.sampled_from(FLAGS))
def test_only_the_value_changes(before: list[str], behind: list[str], flag: str) -> None:
    command = f"python t.py {' '.join(before)} {flag} --behind {' '.join(behind)} z"
    edited = read(command).with_setting("arg:--lr", "NEW")
    assert edited.value("arg:--lr") == "NEW"
    ((_, old),), ((_, new),) = seen(command), seen(edited.text)
    place = next(at for at, (one, other) in enumerate(zip(old, new, strict=True)) if one != other)
    assert (old[place], new[place]) in (("1", "NEW"), ("--lr=1", "--lr=NEW"))
    assert old[:place] == new[:place]
    assert old[place + 1 :] == new[place + 1 :]


@given(st.text(max_size=80), st.text("ab=-. '\"$", max_size=6))
def test_any_text_is_read_or_refused_with_its_place(text: str, value: str) -> None:
    command = read_or_empty(text)
    assert all(call.words for call in calls(text, Path("/code"), {}))
    if (refused := refusal(text)) is not None:
        assert re.search(r"line \d+: ", refused)
        return
    for name in ("arg:--lr", "arg:a.b", "env:X"):
        try:
            edited = command.with_setting(name, value)
        except CommandError:
            continue
        assert edited.value(name) == value


@pytest.mark.parametrize(
    ("command", "values", "rest"),
    [
        ("PORT=8000 python train.py", {"env:PORT": "8000"}, "python train.py"),
        ("python -u train.py PORT=8000", {"arg:-u": "true", "arg:PORT": "8000"}, "python train.py"),
        ("cd a && X=2 torchrun --slow t.py", {"env:X": "2", "arg:--slow": "true"}, "cd a; torchrun t.py"),
        ("export A=1 B=2\nenv C=3 x # --slow", {"env:A": "1", "env:B": "2", "env:C": "3"}, "x"),
        ("x -m my.train data.csv --x -1 -n4", {"arg:--x": "-1", "arg:-n": "4"}, "x -m my.train data.csv"),
        ("x ++a.b=c '~x.y' d='e f'", {"arg:a.b": "c", "arg:x.y": "null", "arg:d": "e f"}, "x"),
        ("bash -c 'A=1 python t.py --lr 1'", {"env:A": "1", "arg:--lr": "1"}, "bash -c; python t.py"),
        ("bash <<EOF\npython t.py --lr 3\nEOF\n", {"arg:--lr": "3"}, "bash; python t.py; EOF"),
        ("mkdir -p x && set -e && tee -a y", {}, "mkdir -p x; set -e; tee -a y"),
        ("python t.py --lr 1 --lr 2", {"arg:--lr": "2"}, "python t.py"),
        ("", {}, ""),
    ],
)
def test_flags_overrides_and_variables(command: str, values: dict[str, str], rest: str) -> None:
    assert (read(command).values, read(command).rest) == (values, rest)


OUTPUTS = "output_dir trainer.default_local_dir default_root_dir work_dir run_dir my_ckpt_dir arg:--save-path"
OUTPUTS += " env:LOGDIR arg:--out logs"
INPUTS = "lr data_path cache_dir workers init_checkpoint_path blog"


def test_where_a_run_writes_is_an_output_and_what_it_reads_is_none() -> None:
    assert [name for name in OUTPUTS.split() if not is_output(name)] == []
    assert [name for name in INPUTS.split() if is_output(name)] == []


@pytest.mark.parametrize(
    ("command", "plain"),
    [
        ("trl sft --config c.yaml --packing", {"config": "c.yaml", "packing": "true"}),
        ("t.py --num-workers=4 -lr 3", {"num_workers": "4", "lr": "3"}),
        ("t.py --no-packing --bf16", {"no_packing": "true", "packing": "false", "bf16": "true"}),
        ("x n.n_gpus=8 +a.b=1 ++c.d=2 ~e.f", {"n.n_gpus": "8", "a.b": "1", "c.d": "2", "e.f": "null"}),
        ("bash -c 'python t.py --a 1 b=2'", {"a": "1", "b": "2"}),
        ("python t.py --fast a.b=1", {"fast": "a.b=1", "a.b": "1"}),
        ("python -m verl.trainer.main_ppo /data/x=1.csv", {}),
    ],
)
def test_names_as_configs_spell_them(command: str, plain: dict[str, str]) -> None:
    assert read(command).plain == plain


def test_the_same_setting_under_other_spellings() -> None:
    names = {"num_workers": "num_workers", "data.num-workers": "num_workers", "path": "model.path"}
    names |= {"model.override_config.attn": "model.override_config"}
    command = read("t.py --num-workers 4 model.path=/m model.override_config={}")
    assert {key: command.sets(key) for key in names} == names
    assert [command.sets(other) for other in ("other.path", "workers", "model")] == [None] * 3


@pytest.mark.parametrize(
    ("command", "moved"),
    [
        ("python /a/t.py --c=/a/c.yaml", "python '/b c/t.py' --c='/b c/c.yaml'"),
        ("bash -c 'python /a/t.py'", "bash -c 'python \"/b c/t.py\"'"),
        ('bash -c "cd $X && python /a/t.py"', "bash -c \"cd $X && python '/b c/t.py'\""),
        ("P=/a/x:/y python t.py < '/a/z'", "P='/b c/x':/y python t.py < '/b c/z'"),
        ("python /aa/t.py 'half /a", "python /aa/t.py 'half '/b c'"),
    ],
)
def test_paths_are_replaced_wherever_they_stand(command: str, moved: str) -> None:
    def place(path: str) -> str | None:
        return path.replace("/a", "/b c", 1) if path == "/a" or path.startswith("/a/") else None

    assert paths_replaced(command, place) == moved


def test_programs_of_the_hugging_face_trainer() -> None:
    for command in (
        "trl sft --config c.yaml",
        "python -m trl.scripts.sft",
        "torchrun examples/run_clm.py --x 1",
    ):
        assert read_or_empty(command).is_of_hf_trainer, command
    assert not any(read_or_empty(other).is_of_hf_trainer for other in ("accelerate launch train.py", ""))
