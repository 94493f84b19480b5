"""Which path a section means, and what it resolves to."""

from pathlib import Path

import pytest

from tests.harness.blueprint.reading import CWD, FOLDER, errors, read_text, section, warnings


def codebase(body: str) -> str:
    blueprint = read_text(section("exp_codebase_dir", body))
    assert errors(blueprint) == []
    return str(blueprint.codebase_dir)


@pytest.mark.parametrize(
    "body",
    [
        *("/home/x/", '"/home/x"', "“/home/x”", "**/home/x**", "/home/x # the fork", "/home/x (the fork)"),
        *("- **path**: /home/x", "- **path:** `/home/x`", "- path:\t/home/x"),
        *(
            "- dir: /home/x",
            "* 路径：/home/x",
            "path: /home/x\nhint: /home/y",
            "Absolute path (no venv): /home/x",
        ),
        *("1. `/home/x` (the fork)", "`/home/x` (copied from `/home/y`)", "[the code](/home/x)"),
        *("The code lives in /home/x.", "The code lives in `/home/x`, which is a git checkout."),
        *("代码路径是`/home/x`。", "代码路径为：/home/x，不包含虚拟环境。", "代码在/home/x。"),
        "- description: the code\n- path: /home/x\n- hint: not /home/y\n- warning 1: never edit /home/z",
        *("- path: /home/x\n  - hint: not /home/y", "/home/x\n\nHint: not `/home/y`"),
        *("<!-- /home/old -->\n/home/x", "<!-- was /home/old --> /home/x"),
        "For example:\n\n- /home/y\n\nPath:\n\n- /home/x",
    ],
)
def test_every_way_to_say_home_x(body: str) -> None:
    assert codebase(body) == "/home/x"


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("./", str(FOLDER)),
        (".", str(FOLDER)),
        ("..", str(FOLDER.parent)),
        ("../..", str(FOLDER.parent.parent)),
        ("src", f"{FOLDER}/src"),
        ("- path: src/proj (the fork)", f"{FOLDER}/src/proj"),
        ("~/code", "/home/me/code"),
        ("$PROJECT/code", "/opt/project/code"),
        ("${PROJECT}/code", "/opt/project/code"),
        ("`/home/my code`", "/home/my code"),
        ('- path: "/home/my code"', "/home/my code"),
        ("/home/用户/代码", "/home/用户/代码"),
        ("/a/../b", "/b"),
        ("/home/my\\_code", "/home/my_code"),
    ],
)
def test_what_a_path_resolves_to(body: str, expected: str) -> None:
    assert codebase(body) == expected


@pytest.mark.parametrize(
    ("body", "line", "words"),
    [
        ("- content 1: /home/a\n- content 2: /home/b", 6, "two paths"),
        ("/home/a\n\n/home/b", 7, "two paths"),
        ("either /home/a or /home/b", 5, "two paths"),
        ("`/home/a` or `/home/b`", 5, "two paths"),
        ("- path: /home/a\n- path: NA", 6, "two paths"),
        ("$NOT_SET/x", 5, "NOT_SET is not set"),
        ("<absolute path of your code>", 5, "never filled in"),
        ("- path: TODO", 5, "never filled in"),
        ("/home/my project/code", 5, "space"),
        ("代码放在/mnt/x目录下", 5, "where does the path end"),
        ("/mnt/x目录", 5, "where does the path end"),
        ("https://example.org/repo", 5, ""),
        ("somewhere in my home folder", 5, "names no path"),
    ],
)
def test_doubt_is_an_error_with_its_line(body: str, line: int, words: str) -> None:
    ((found, message),) = errors(read_text(section("exp_codebase_dir", body)))
    assert found == line and words in message


@pytest.mark.parametrize(
    ("body", "path", "line"),
    [
        ("- path: /home/a\n- see also /home/b for the data", "/home/a", 6),
        ("- path: /out\n- content 1: `result.md`", "/out", 6),  # a label that names the value beats content
        ("- description: /home/a", "/home/a", 5),
    ],
)
def test_a_path_that_stands_out_is_taken_with_a_warning(body: str, path: str, line: int) -> None:
    blueprint = read_text(section("exp_result_dir", body))
    assert str(blueprint.result_dir) == path
    assert [found for found, _ in warnings(blueprint)] == [line]


def test_a_hint_is_never_a_value() -> None:
    blueprint = read_text(section("exp_codebase_dir", "- hint: /home/a\n- path:"))
    assert blueprint.codebase_dir == FOLDER
    assert "only remarks" in warnings(blueprint)[0][1]


def test_a_space_that_is_on_disk_belongs_to_the_path(tmp_path: Path) -> None:
    (tmp_path / "my code").mkdir()
    assert codebase(f"- path: {tmp_path}/my code") == f"{tmp_path}/my code"


NA = "NA|N/A|none|Default|默认|无|- path: NA|NA, the agent must write its own|Default: ./||- path:|`NA`"


@pytest.mark.parametrize("body", NA.split("|"))
def test_na_means_the_default(body: str) -> None:
    assert codebase(body) == str(FOLDER)


@pytest.mark.parametrize(
    ("heading", "expected"),
    [
        ("[exp_codebase_dir] Main experiment code path (absolute path): /home/x", "/home/x"),
        ("[exp_codebase_dir] 主要代码路径（绝对路径）：`/home/x`", "/home/x"),
        ("[exp_codebase_dir] /home/x", "/home/x"),
        ("[exp_codebase_dir](/home/x)", "/home/x"),
        ("[exp_codebase_dir] (absolute path)", str(FOLDER)),
        ("[exp_codebase_dir] Main experiment code path (default ./)", str(FOLDER)),
    ],
)
def test_a_value_in_the_heading(heading: str, expected: str) -> None:
    blueprint = read_text(f"## [exp_purpose]\nx\n## {heading}\n")
    assert errors(blueprint) == []
    assert str(blueprint.codebase_dir) == expected


class TestVenv:
    def make_python(self, folder: Path) -> Path:
        python = folder / "bin" / "python"
        python.parent.mkdir(parents=True)
        python.write_text("#!/bin/sh\n")
        python.chmod(0o755)
        return python

    def venv(self, plan: Path, body: str = "NA") -> Path:
        plan.parent.mkdir(parents=True, exist_ok=True)
        text = section("exp_venv_exe", body) + f"\n## [exp_codebase_dir]\n{plan.parent.parent / 'code'}\n"
        return read_text(text, plan).venv_exe

    def test_the_default_is_in_the_codebase_then_beside_the_blueprint(self, tmp_path: Path) -> None:
        plan = tmp_path / "plans" / "blueprint.md"
        assert self.venv(plan).name.startswith("python")  # the interpreter that runs this
        for place in ("plans/.venv", "plans/venv", "code/.venv", "code/venv"):
            python = self.make_python(tmp_path / place)
            assert self.venv(plan) == python

    def test_a_symbolic_link_is_kept(self, tmp_path: Path) -> None:
        real = self.make_python(tmp_path / "real")
        link = tmp_path / "venv" / "bin" / "python"
        link.parent.mkdir(parents=True)
        link.symlink_to(real)
        assert self.venv(tmp_path / "plans" / "blueprint.md", str(link)) == link

    def test_a_venv_folder_is_taken_as_its_python_with_a_warning(self, tmp_path: Path) -> None:
        python = self.make_python(tmp_path / "env")
        (tmp_path / "env" / "bin" / "activate").touch()
        for value in (tmp_path / "env", tmp_path / "env" / "bin" / "activate"):
            blueprint = read_text(section("exp_venv_exe", f"- path: {value}"))
            assert blueprint.venv_exe == python
            assert len(warnings(blueprint)) == 1


class TestYaml:
    def read(self, tmp_path: Path, body: str, *places: str) -> Path | None:
        for place in places:
            (tmp_path / place).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / place).write_text("a: 1\n")
        (tmp_path / "plans").mkdir(exist_ok=True)
        text = section("exp_yaml_path", body) + f"\n## [exp_codebase_dir]\n{tmp_path / 'code'}\n"
        self.blueprint = read_text(text, tmp_path / "plans" / "blueprint.md")
        assert errors(self.blueprint) == []
        return self.blueprint.yaml_path

    def test_beside_the_blueprint_first_then_in_the_codebase(self, tmp_path: Path) -> None:
        assert self.read(tmp_path, "c.yaml") == tmp_path / "plans/c.yaml"
        assert self.read(tmp_path, "c.yaml", "code/c.yaml") == tmp_path / "code/c.yaml"
        assert warnings(self.blueprint) == []
        assert self.read(tmp_path, "c.yaml", "plans/c.yaml") == tmp_path / "plans/c.yaml"
        assert len(warnings(self.blueprint)) == 1  # there twice

    @pytest.mark.parametrize(
        "body",
        [
            *("config.yaml", "- path: `config.yaml`", "The file config.yaml beside this blueprint."),
            *("使用同目录下的`config.yaml`。", "- content 1: config.yaml, made by hand"),
            "config.yaml beside this file",
        ],
    )
    def test_a_bare_name(self, tmp_path: Path, body: str) -> None:
        assert self.read(tmp_path, body) == tmp_path / "plans/config.yaml"

    def test_a_folder_mentioned_in_the_sentence_is_no_config(self, tmp_path: Path) -> None:
        assert self.read(tmp_path, "In `/data/conf` take `run.yml`") == tmp_path / "plans/run.yml"

    @pytest.mark.parametrize("body", ["NA", "Default: NA, the agent must write its own yaml file.", "默认"])
    def test_na(self, tmp_path: Path, body: str) -> None:
        assert self.read(tmp_path, body) is None


def test_results_go_below_the_current_directory_by_default() -> None:
    assert read_text(section("exp_result_dir", "NA")).result_dir == CWD / "exp_results" / "exp1"
    named = read_text("## [exp_purpose]\nx", FOLDER / "lr-sweep.md")
    assert named.result_dir == CWD / "exp_results" / "lr-sweep"
    assert read_text(section("exp_result_dir", "./out")).result_dir == FOLDER / "out"
