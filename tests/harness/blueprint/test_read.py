"""Whole blueprints: the dialects people write, files that cannot be read, what is outside the sections."""

from pathlib import Path

import pytest

from harness.blueprint import read
from harness.installation import templates_dir
from tests.harness.blueprint.reading import CWD, FOLDER, errors, read_text, section, warnings

VALUES = (
    *("Compare two rates", "/home/x", "/opt/venv/bin/python", "/home/x/c.yaml", "python a.py --lr 1"),
    *("/data/out", "12 hours", "Check the disk"),
)

NAMES = ("purpose", "codebase_dir", "venv_exe", "yaml_path", "launch_command", "result_dir", "max_time")
TITLES = [*(f"[exp_{name}]" for name in NAMES), "Other Notes"]
ROWS = [(title, f"{{{number}}}") for number, title in enumerate(TITLES)]
HEADINGS = "# Experiment Blueprint\n" + "".join(f"\n## {title}\n{value}\n" for title, value in ROWS)
ONE_LINERS = "".join(f"[{title.strip('[]')}]: {value}\n" for title, value in ROWS)
TABLE = "| Section | Value |\n|---|---|\n" + "".join(
    f"| [{title.strip('[]')}] | {value} |\n" for title, value in ROWS
)
ORIGINAL_LIST = """- [exp_purpose] Experiment purpose (text):
  {0}
- [exp_codebase_dir] Main experiment code path (absolute path):
  {1}
- [exp_venv_exe] Python virtual environment path (absolute path to python executable):
  {2}
- [exp_yaml_path] Experiment config file path (absolute path):
  {3}
- [exp_launch_command] Training execution command (string):
  {4}
- [exp_result_dir] Result data storage path (absolute path):
  {5}
- [exp_max_time] Maximum runtime is ${{MaxTime}}; each experiment is forcefully terminated after ${{MaxTime}}
  {6}
- Additional notes: {7}
"""
CHINESE = """# 实验蓝图

## 一、【exp_purpose】实验目的
- 描述：{0}

## 二、【exp_codebase_dir】代码路径（绝对路径）
- 路径：`{1}`
- 警告 1：不要修改 /etc

## 三、【exp_venv_exe】Python 解释器
- 内容 1：{2}

## 四、【exp_yaml_path】配置文件
配置文件是`{3}`。

## 五、【exp_launch_command】启动命令
使用下面的命令：

```bash
{4}
```

## 六、【exp_result_dir】结果目录
结果放在`{5}`，不要删除。

## 七、【exp_max_time】最长时间
最长运行时间：12小时。

## 八、其他说明
{7}
"""


def setext(text: str) -> str:
    lines = []
    for line in text.split("\n"):
        title = line.lstrip("# ")
        lines += [title, "-" * len(title)] if line.startswith("## ") else [line]
    return "\n".join(lines)


def indented_in_fence(text: str) -> str:
    inner = "\n".join(f"    {line}" for line in text.split("\n"))
    return f"Here is the blueprint:\n\n```markdown\n{inner}\n```\n"


def numbered(text: str) -> str:
    for number, name in enumerate(NAMES, 1):
        text = text.replace(f"## [exp_{name}]", f"## {number}. [exp_{name}] Some remark (absolute path):")
    return text


BOLD = HEADINGS.replace("## [", "**[").replace("]", "]**").replace("## Other Notes", "**Other Notes**")
DIALECTS = {
    "brackets": HEADINGS,
    "no brackets": HEADINGS.replace("[exp", "exp").replace("]", ""),
    "third level": HEADINGS.replace("## ", "### "),
    "first level": HEADINGS.replace("## ", "# "),
    "numbered with remarks": numbered(HEADINGS),
    "bold": BOLD,
    "bold with text behind": BOLD.replace("]**\n", "]**: "),
    "bold in heading": HEADINGS.replace("[", "**[").replace("]", "]**"),
    "code in heading": HEADINGS.replace("[", "`[").replace("]", "]`"),
    "escaped": HEADINGS.replace("[exp_", r"\[exp\_").replace("]", r"\]"),
    "upper case": HEADINGS.replace("[exp_max_time]", "[EXP_MAX_TIME]"),
    "closed headings": HEADINGS.replace("]", "] ##"),
    "underlined": setext(HEADINGS),
    "rules between": HEADINGS.replace("## [", "---\n\n## ["),
    "lines above rules": ONE_LINERS.replace("]: ", "]\n").replace("\n[", "\n---\n["),
    "one-liners": ONE_LINERS,
    "names alone": ONE_LINERS.replace("[exp", "exp")
    .replace("]: ", " ")
    .replace("[Other Notes", "Other Notes:"),
    "list entries": ONE_LINERS.replace("[exp", "- [exp").replace("[Other", "- [Other"),
    "names with colons": ONE_LINERS.replace("[", "").replace("]", ""),
    "the original's list": ORIGINAL_LIST,
    "chinese": CHINESE,
    "table": TABLE,
    "windows": HEADINGS.replace("\n", "\r\n"),
    "old mac": HEADINGS.replace("\n", "\r"),
    "byte-order mark": "\ufeff" + HEADINGS,
    "tags": f"<blueprint_example_begin>\n{HEADINGS}<blueprint_example_end>\n",
    "outer fence": f"```markdown\n{HEADINGS}```\n",
    "outer fence, inner fence": f"```md\n{HEADINGS}```\n".replace("{4}", "```bash\n{4}\n```"),
    "outer tildes": f"Text\n\n~~~\n{HEADINGS}~~~\n",
    "outer four ticks": f"````\n{HEADINGS}````\n".replace("{4}", "```\n{4}\n```"),
    "unclosed outer fence": f"```markdown\n{HEADINGS}",
    "indented in a fence": indented_in_fence(HEADINGS),
    "indented": "\n".join(f"\t{line}" for line in HEADINGS.split("\n")),
    "quoted": "\n".join(f"> {line}" for line in HEADINGS.split("\n")),
    "fields": HEADINGS.replace("{1}", "- description: the code\n- path: {1}\n- warning 1: not `/etc`")
    .replace("{4}", "- description: starts it\n- content 1: `{4}`\n- hint: `python b.py --x` diverged")
    .replace("{6}", "- description: how long\n- time: {6}\n- hint: 3 hours were enough before"),
    "sub-headings": HEADINGS.replace("{4}", "### Example\n\n`python old.py --lr 3`\n\n### Command\n\n`{4}`"),
    "commented out": HEADINGS.replace("{1}", "<!-- old:\n\n## [exp_venv_exe]\n/old\n-->\n{1}"),
}


@pytest.mark.parametrize("dialect", DIALECTS)
def test_every_dialect_says_the_same(dialect: str) -> None:
    blueprint = read_text(DIALECTS[dialect].format(*VALUES))
    assert blueprint.problems == ()
    paths = map(str, (blueprint.codebase_dir, blueprint.venv_exe, blueprint.yaml_path))
    read_back = (blueprint.purpose, *paths, blueprint.launch_command, str(blueprint.result_dir))
    assert read_back == VALUES[:6]
    assert (blueprint.max_time_s, blueprint.first_step_s) == (43200, 1200)
    assert VALUES[7] in blueprint.notes and "exp_" not in blueprint.notes


def test_json_has_the_promised_keys() -> None:
    found = read_text("## [exp_purpose]\nx\n## [exp_max_time]\n12\n").as_json()
    promised = "purpose codebase_dir venv_exe yaml_path launch_command result_dir max_time_s notes"
    assert {*promised.split(), "first_step_s", "problems"} <= set(found)
    assert (found["yaml_path"], found["launch_command"]) == (None, None)
    assert (found["codebase_dir"], found["problems"][0]["line"]) == (str(FOLDER), 4)
    assert not found["can_run"]


def test_names() -> None:
    assert read_text("x", Path("/a/my-exp/blueprint.md")).name == "my-exp"
    assert read_text("x", Path("/a/my-exp/lr.v2.md")).name == "lr.v2"
    assert read_text("x", Path("/blueprint.md")).name == "experiment"


def test_every_default_is_reported() -> None:
    blueprint = read_text("## [exp_purpose]\nx\n")
    sections = "codebase_dir venv_exe yaml_path launch_command result_dir max_time max_time"
    found = [entry.split("]")[0] for entry in blueprint.defaults]
    assert found == [f"[exp_{name}" for name in sections.split()]
    assert blueprint.can_run


@pytest.mark.parametrize(
    ("text", "line", "words", "fix"),
    [
        ("## [exp_purpose]\nx\n## [exp_purpose]\ny\n", 3, "stands here again (first on line 1)", "merge"),
        ("[exp_purpose] x\n\n[exp_launch_comand] a\n", 3, "[exp_launch_comand]", "[exp_launch_command]"),
        ("## [exp_purpose]\nx\n## Launch command\npython a.py\n", 3, "no section", "[exp_launch_command]"),
        ("[exp_purpose] x\n\n[exp_venv] /y\n", 3, "no section [exp_venv]", "[exp_venv_exe]"),
        ("# Shopping\n\nmilk\n", 1, "no blueprint section", "[exp_purpose]"),
        ("", 1, "no blueprint section", "[exp_purpose]"),
    ],
)
def test_slips_in_names(text: str, line: int, words: str, fix: str) -> None:
    problems = [problem for problem in read_text(text).problems if problem.severity == "error"]
    assert [problem.line for problem in problems] == [line]
    assert words in problems[0].message and fix in problems[0].fix


EMPTY_LABELS = "".join(
    f"## {title}\n- description:\n- hint:\n- content 1:\n- warning 1:\n" for title in TITLES
)


@pytest.mark.parametrize("form", ["original", "empty labels", "placeholders"])
def test_d19_a_template_that_nobody_filled_in_cannot_run(form: str) -> None:
    """`check` and `run` both refuse it, and name the sections."""
    text = {
        "original": (templates_dir() / "blueprints" / "original.md").read_text(),
        "empty labels": EMPTY_LABELS,
        "placeholders": "## [exp_purpose]\n<what it is for>\n## [exp_launch_command]\nTODO\n",
    }[form]
    blueprint = read_text(text)
    assert not blueprint.can_run
    (problem,) = [each for each in blueprint.problems if "nobody has filled it in" in each.message]
    assert "[exp_purpose]" in problem.message and "[exp_launch_command]" in problem.message
    filled = text.replace("[exp_launch_command]", "[exp_launch_command]: `python train.py`", 1)
    assert read_text(filled).can_run or form == "placeholders"


def test_d19_a_purpose_that_is_the_templates_is_a_warning_where_the_command_is_given() -> None:
    words = (
        "Briefly describe the main purpose of this experiment and the key differences from other blueprints"
    )
    example = "(e.g., which hyperparameter or environment variable differs)."
    blueprint = read_text(f"## [exp_purpose]\n{words}\n{example}\n## [exp_launch_command]\n`python t.py`\n")
    (problem,) = blueprint.problems
    assert problem.severity == "warning" and "as in the template" in problem.message


def test_d26_a_command_with_a_line_break_in_its_quotes_is_one_line() -> None:
    one = '```bash\npython -c "import time\ntime.sleep(1)"\n```'
    two = "```bash\npython a.py\npython b.py \\\n  --lr 1\n```"
    assert read_text(f"## [exp_purpose]\nx\n## [exp_launch_command]\n{one}\n").problems == ()
    (problem,) = read_text(f"## [exp_purpose]\nx\n## [exp_launch_command]\n{two}\n").problems
    assert "has 2 lines" in problem.message


def test_a_missing_purpose_is_a_warning() -> None:
    text = "## [exp_purpose]\n- hint:\n- content 1:\n## [exp_launch_command]\n`python t.py`\n"
    blueprint = read_text(text)
    assert blueprint.can_run and blueprint.purpose == ""
    assert "purpose is missing" in warnings(blueprint)[0][1]


def test_a_mention_of_a_section_opens_none() -> None:
    text = "## [exp_purpose]\nx\n## [exp_max_time]\n2 hours\n## Notes\n[exp_max_time] must not be raised.\n"
    blueprint = read_text(text)
    assert (errors(blueprint), blueprint.max_time_s) == ([], 7200)
    assert "must not be raised" in blueprint.notes


def test_text_outside_the_sections_is_kept_and_that_of_unknown_ones_with_a_warning() -> None:
    blueprint = read_text("## [exp_purpose]\nx\n## [exp_zzz]\nkeep me\n")
    assert "keep me" in blueprint.notes and [line for line, _ in warnings(blueprint)] == [3]
    background = "# T\nIntro\n\n## Background\nOld runs took /home/z.\n\n"
    notes = read_text(f"{background}## [exp_purpose]\nx\n\n## Todo\n- [ ] data\n").notes
    assert all(words in notes for words in ("Intro", "## Background", "Old runs", "## Todo", "- [ ] data"))


def test_purpose_keeps_paragraphs_and_drops_labels() -> None:
    fields = "- description: Compare A and B\n- content 1: three seeds\n- hint: see the paper\n"
    assert (
        read_text(f"## [exp_purpose]\n{fields}").purpose
        == "Compare A and B\nthree seeds\nhint: see the paper"
    )


class TestExtras:
    def test_metrics(self) -> None:
        pattern = r"it (?P<step>\d+) .*loss=(?P<loss>\S+)"
        body = f"- hint: `x`\n- pattern: `{pattern}`\n- first_step: `^it 1 `"
        metrics = read_text(section("exp_metrics", body)).metrics
        assert metrics is not None and (metrics.patterns, metrics.first_step) == ((pattern,), "^it 1 ")

    @pytest.mark.parametrize(
        ("body", "told"),
        [
            ("- metric: val_acc\n- goal: max", ("val_acc", "max")),
            ("metric: `eval/word error rate`", ("eval/word error rate", None)),
            ("- goal: minimize", ("", "min")),
        ],
    )
    def test_the_metric_that_is_the_result_and_its_direction(
        self, body: str, told: tuple[str, str | None]
    ) -> None:
        metrics = read_text(section("exp_metrics", body)).metrics
        assert metrics is not None and (metrics.metric, metrics.goal) == told
        assert metrics.patterns == ()

    @pytest.mark.parametrize("body", ["- file: `logs/*.csv`", "file: logs/*.csv", "- file: logs/*.csv"])
    def test_the_file_that_holds_the_metrics(self, body: str) -> None:
        metrics = read_text(section("exp_metrics", body)).metrics
        assert metrics is not None and (metrics.file, metrics.patterns) == ("logs/*.csv", ())

    def test_a_goal_has_two_values_and_one_line(self) -> None:
        assert "no goal" in errors(read_text(section("exp_metrics", "- goal: best")))[0][1]
        assert (
            "a second `goal`" in errors(read_text(section("exp_metrics", "- goal: max\n- goal: min")))[0][1]
        )

    @pytest.mark.parametrize("form", ["```\n{0}\n```", "{0}", "- {0}", "- `{0}`", "- regex 1: {0}"])
    def test_a_pattern_may_look_like_a_label(self, form: str) -> None:
        pattern = r"loss: (?P<loss>[\d.]+)"
        metrics = read_text(section("exp_metrics", form.format(pattern))).metrics
        assert metrics is not None and metrics.patterns == (pattern,)

    @pytest.mark.parametrize(
        ("pattern", "words"),
        [
            ("`loss (`", "no regular expression"),
            (r"`loss (\d+)`", "names no metric"),
            (r"`(?P<step>\d+)`", "names no metric"),
        ],
    )
    def test_bad_patterns(self, pattern: str, words: str) -> None:
        line, message = errors(read_text(section("exp_metrics", f"- {pattern}")))[0]
        assert line == 5 and words in message

    def test_protected_keys(self) -> None:
        body = "- `a.b`\n- c.d, e_f\n- hint: not g.h"
        assert read_text(section("exp_protected_keys", body)).protected_keys == ("a.b", "c.d", "e_f")
        assert errors(read_text(section("exp_protected_keys", "- a b!")))[0][0] == 5

    @pytest.mark.parametrize(
        ("body", "globs"),
        [
            ("no", ()),
            ("NA", ()),
            ("- not allowed", ()),
            ("不允许", ()),
            ("- hint: src/a.py", ()),
            ("allowed", ("**",)),
            ("- **Allowed**", ("**",)),
            ("- changes: yes", ("**",)),
            ("- src/*.py\n- without asking", ("src/*.py", "without asking")),
            ("without asking", ()),
            ("- a.py\n- no network\n- writable: `/data/hf`", ("a.py", "no network", "writable: /data/hf")),
            ("- a.py\n- readable: /data/x.csv", ("a.py", "readable: /data/x.csv")),
            ("- `src/train/*.py`\n- ./train.py, lib/**", ("src/train/*.py", "train.py", "lib/**")),
            ("- files: `src/a.py` and `src/b.py`", ("src/a.py", "src/b.py")),
            ("```\nsrc/a.py\n**/fix_me.py\n```", ("src/a.py", "**/fix_me.py")),
        ],
    )
    def test_code_changes(self, body: str, globs: tuple[str, ...]) -> None:
        blueprint = read_text(section("exp_code_changes", body))
        assert errors(blueprint) == []
        assert blueprint.code_changes == globs
        assert blueprint.as_json()["code_changes"] == list(globs)

    @pytest.mark.parametrize(
        ("body", "words"),
        [
            ("Do not change `src/reward.py`", "does not say clearly"),
            ("- except: `src/reward.py`", "does not say clearly"),
            ("only if really needed", "does not say clearly"),
            ("/home/me/code/train.py", "does not say clearly"),
            ("../other/*.py", "does not say clearly"),
            ("src/{a,b}.py;rm", "does not say clearly"),
            ("src/$(x).py", "does not say clearly"),
            ("allowed\n\n- src/a.py", "something else than line 5"),
            ("- no\n- allowed", "something else than line 5"),
            ("> allowed", "'> allowed' does not say clearly"),
            ("- > src/a.py", "does not say clearly"),
            ("*", "'*' does not say clearly"),
            ("- *", "'*' does not say clearly"),
            ("- a.py\n- writable: ~", "does not say clearly"),
            ("- a.py\n- writable: data", "does not say clearly"),
        ],
    )
    def test_unclear_code_changes_are_no_permission(self, body: str, words: str) -> None:
        blueprint = read_text(section("exp_code_changes", body))
        (problem,) = errors(blueprint)
        assert problem[0] in (4, 5, 6, 7) and words in problem[1]
        assert blueprint.code_changes == ()

    def test_host(self) -> None:
        assert read_text(section("exp_host", "local")).host is None
        assert read_text(section("exp_host", "- host: me@gpu1")).host == "me@gpu1"
        assert "no single host" in errors(read_text(section("exp_host", "- a1\n- b2")))[0][1]


class TestFiles:
    def problem(self, path: Path) -> str:
        blueprint = read(path, cwd=CWD)
        (problem,) = blueprint.problems
        assert not blueprint.can_run
        return problem.message

    def test_what_cannot_be_read_is_a_problem(self, tmp_path: Path) -> None:
        assert "no such file" in self.problem(tmp_path / "missing.md")
        assert "a folder" in self.problem(tmp_path)
        for name, data, words in (
            ("binary", b"\x7fELF\0\0", "binary"),
            ("latin", "## [exp_purpose]\nß\n".encode("latin-1"), "UTF-8"),
            ("huge", b"x" * 300_000, "larger than"),
            ("empty", b"", "no blueprint section"),
        ):
            (tmp_path / name).write_bytes(data)
            assert words in self.problem(tmp_path / name)

    def test_utf_16_and_a_byte_order_mark(self, tmp_path: Path) -> None:
        for encoding in ("utf-16", "utf-8-sig"):
            (tmp_path / "p.md").write_text("## [exp_purpose]\nπ\n", encoding=encoding)
            assert read(tmp_path / "p.md", cwd=CWD).purpose == "π"

    def test_relative_paths_are_made_absolute(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.chdir(tmp_path)
        Path("p.md").write_text("## [exp_purpose]\nx\n")
        blueprint = read(Path("p.md"))
        assert (blueprint.path, blueprint.codebase_dir) == (tmp_path / "p.md", tmp_path)
        assert blueprint.result_dir == tmp_path / "exp_results" / "p"


def test_the_example_in_the_documentation() -> None:
    page = (Path(__file__).parents[3] / "docs" / "blueprint.md").read_text(encoding="utf-8")
    example = page.split("```markdown\n")[1].split("```")[0]
    blueprint = read_text(example)
    assert blueprint.problems == ()
    assert (blueprint.launch_command, blueprint.max_time_s) == ("python train.py --kl 0.01", 43200)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('[exp_launch_command]: python -c "f(1)"', 'python -c "f(1)"'),
        ("**[exp_launch_command]** python a.py --x a:b", "python a.py --x a:b"),
        ("- [exp_launch_command] docker run -v a:/x img", "docker run -v a:/x img"),
        ("## [exp_launch_command] Training command (string): `make x`", "make x"),
        ("## [exp_launch_command] Training execution command", None),
    ],
)
def test_a_command_on_the_line_of_its_section(text: str, expected: str | None) -> None:
    blueprint = read_text(f"{text}\n\n[exp_purpose] x: y\n")
    assert errors(blueprint) == []
    assert blueprint.launch_command == expected


def test_other_values_on_the_line_of_their_section() -> None:
    others = "[exp_yaml_path] config.yaml\n[exp_codebase_dir] code path:/x\n[exp_host] gpu1\n"
    blueprint = read_text(f"[exp_purpose]: x\n{others}")
    assert errors(blueprint) == []
    assert (blueprint.yaml_path, str(blueprint.codebase_dir)) == (FOLDER / "config.yaml", "/x")
    assert blueprint.host == "gpu1"
    assert "only the words 'src'" in warnings(read_text("[exp_purpose]: x\n[exp_codebase_dir] src\n"))[0][1]


def test_a_default_of_ones_own_counts_with_a_warning() -> None:
    text = "## [exp_purpose]\nx\n## [exp_max_time]\nDefault: {}\n## [exp_result_dir]\nDefault: {}\n"
    blueprint = read_text(text.format("12 hours", "/out"))
    assert (blueprint.max_time_s, str(blueprint.result_dir)) == (43200, "/out")
    assert [line for line, _ in warnings(blueprint)] == [4, 6]
    original = read_text(text.format("24 hours", "./auto_agent/exp_results/"))
    assert (original.problems, original.result_dir) == ((), CWD / "exp_results" / "exp1")


def test_a_block_that_is_never_closed_takes_no_section_in_silence() -> None:
    text = "## [exp_purpose]\nx\n## [exp_launch_command]\n```bash\npython a.py\n\n## [exp_max_time]\n1 hour\n"
    found = errors(read_text(text))
    assert (7, "[exp_max_time] stands inside a code block that begins on line 4") in found
