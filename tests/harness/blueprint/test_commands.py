"""Which command a section means. The shell itself is the oracle for joined lines."""

import subprocess

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.blueprint.commands import join_lines
from tests.harness.blueprint.reading import errors, read_text, section, warnings

TRAIN = "python train.py --lr 1e-4"


def command(body: str) -> str | None:
    blueprint = read_text(section("exp_launch_command", body))
    assert errors(blueprint) == []
    return blueprint.launch_command


@pytest.mark.parametrize(
    "body",
    [
        TRAIN,
        f"```bash\n{TRAIN}\n```",
        f"~~~sh\n{TRAIN}\n~~~",
        f"```console\n$ {TRAIN}\n```",
        f"```bash\n# start\n{TRAIN}\n```",
        "```bash\npython train.py \\\n    --lr 1e-4\n```",
        "python train.py \\\n    --lr 1e-4",
        f"- command: {TRAIN}",
        f"- **command**: `{TRAIN}`",
        f"- content 1:\n  ```bash\n  {TRAIN}\n  ```",
        f"- content 1: run this\n\n  ```bash\n  {TRAIN}\n  ```",
        f"Run the following command:\n\n```bash\n{TRAIN}\n```",
        f"Start it with `{TRAIN}`.",
        f"使用 `{TRAIN}` 启动训练。",
        f"启动命令：{TRAIN}",
        f"- description: trains with `train.py`\n- command: {TRAIN}\n- hint: `python train.py` is slow",
        f"{TRAIN}\n\nHint: `python other.py --x` is not meant.",
        f"```bash\n{TRAIN}\n```\n\nExample:\n\n```bash\npython other.py\n```",
        f"```yaml\nlr: 1\n```\n```bash\n{TRAIN}\n```",
        f"Needs the variable `WANDB_MODE=offline`.\n\n`{TRAIN}`",
    ],
)
def test_every_way_to_say_it(body: str) -> None:
    assert command(body) == TRAIN


KEPT = (
    *("cd /x && source .venv/bin/activate && python a.py", "CUDA_VISIBLE_DEVICES=0,1 torchrun a.py"),
    *("make train", "/opt/venv/bin/python -m trl.scripts.grpo"),
    *("python a.py *.json __x__ a_b_c", 'python a.py --note "two words, 中文"'),
)


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("```bash\ncd /x &&\n  python a.py\n```", "cd /x && python a.py"),
        ("```bash\ncd /x \\\n  && python a.py\n```", "cd /x && python a.py"),
        ("```bash\npython a.py | tee \\\n  log\n```", "python a.py | tee log"),
        *((same, same) for same in KEPT),
        ("`./run.sh`", "./run.sh"),
        ("`train`", "train"),
        ("- command: mytrainer", "mytrainer"),
        ("```bash\npython - <<EOF\nprint(1)\n\\\nEOF\n```", "python - <<EOF\nprint(1)\n\\\nEOF"),
        ("```bash\necho 'a \\\n b'\n```", "echo 'a \\\n b'"),
        ('```bash\npython -c "\nimport a\n  # b\n"\n```', 'python -c "\nimport a\n  # b\n"'),
    ],
)
def test_what_is_kept_of_it(body: str, expected: str) -> None:
    assert command(body) == expected


@pytest.mark.parametrize("quoted", ["'<think>'", '"<think>"', '"say \\"<a b>\\""', "--tag='<TODO>'"])
@pytest.mark.parametrize("fence", ["`", "```"])
def test_what_a_command_quotes_is_no_placeholder(quoted: str, fence: str) -> None:
    line = "\n" * (fence == "```")
    body = f"{fence}{line}python t.py {quoted}{line}{fence}"
    blueprint = read_text(f"## [exp_purpose]\nTODO\n## [exp_launch_command]\n{body}\n")
    assert (blueprint.launch_command, errors(blueprint)) == (f"python t.py {quoted}", [])
    assert not [text for _, text in warnings(blueprint) if "[exp_launch_command]" in text and line]


NA = "NA|默认|- command: NA|`NA`|Default: the agent must write its own command|```\nNA\n```|NA, see below|"


@pytest.mark.parametrize("body", NA.split("|"))
def test_na(body: str) -> None:
    assert command(body) is None


@pytest.mark.parametrize(
    ("body", "line", "words"),
    [
        ("```bash\npython a.py\n```\n```bash\npython b.py\n```", 9, "two commands"),
        ("python a.py\n\npython b.py", 7, "two commands"),
        ("- `python a.py`\n- `python b.py`", 6, "two commands"),
        ("Make sure that the data is there first.", 5, "names no command"),
        ("运行训练脚本", 5, "names no command"),
        ("python train.py --conf <your config>", 5, "placeholder <your config>"),
        ("```\npython train.py --a '<x>' <y>\n```", 6, "placeholder <y>"),
        ('python train.py --conf "<your config>"', 5, "placeholder"),
        ("python train.py 然后等待", 5, "where does the command end"),
        ("Use `python a.py` or `python b.py`", 5, "two commands"),
        ("python train.py\n--lr 1e-4", 5, "does the line '--lr 1e-4' belong"),
        ("- command: TODO", 5, "never filled in"),
    ],
)
def test_doubt_is_an_error_with_its_line(body: str, line: int, words: str) -> None:
    found = errors(read_text(section("exp_launch_command", body)))
    assert [number for number, _ in found] == [line]
    assert words in found[0][1]


def test_several_lines_are_one_script_with_a_warning() -> None:
    blueprint = read_text(section("exp_launch_command", "```bash\ncd /x\npython a.py\n```"))
    assert blueprint.launch_command == "cd /x\npython a.py"
    assert "2 lines" in warnings(blueprint)[0][1]


def test_prepare_and_cleanup() -> None:
    cleanup = "\n## [exp_cleanup_command]\n```\nrm -rf tmp\n```\n"
    blueprint = read_text(section("exp_prepare_command", "`make data`") + cleanup)
    assert (blueprint.prepare_command, blueprint.cleanup_command) == ("make data", "rm -rf tmp")
    assert read_text(section("exp_evaluate_command", "`python eval.py`")).evaluate_command == "python eval.py"
    assert blueprint.launch_command is None


WORDS = r"""a|b c|'x y'|"p q"|d\/e|--k=1|\/|'s # t'|"u\/v"|'w\/z'|\'|$((1+2))""".replace("/", "\n").split("|")


@settings(max_examples=60, deadline=None)
@given(st.lists(st.sampled_from(WORDS), min_size=1, max_size=6))
def test_joined_lines_mean_the_same_to_the_shell(words: list[str]) -> None:
    script = "printf '<%s>' " + " ".join(words)
    if script.endswith("\\\n"):
        script += "end"
    before, after = (subprocess.check_output(["bash", "-c", text]) for text in (script, join_lines(script)))
    assert before == after
