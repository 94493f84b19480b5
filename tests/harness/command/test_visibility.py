"""Variables that the training would not see; the oracle for scripts is bash itself."""

import re
import subprocess
from pathlib import Path

import pytest

from harness.command import CommandError, check_reaches, read


def is_heard(command: str, codebase: Path) -> bool:
    try:
        check_reaches(command, "X", codebase)
    except CommandError:
        return False
    return True


def seen(command: str, codebase: Path) -> str:
    """What a program of the command sees as X when a run gives it `new`."""
    text = f"python() {{ printenv X; }}; export -f python\n{read(command).with_setting('env:X', 'new').text}"
    done = subprocess.run(["bash", "-c", text], cwd=codebase, stdout=subprocess.PIPE, timeout=20, check=False)
    return done.stdout.decode().strip()


@pytest.mark.parametrize(
    "script",
    [
        *("export X=inside\npython\n", "X=inside\nexport X\npython\n", "Y=1 X=inside python\n"),
        *("set -e; declare -x X=inside; python\n", "X=${1:-inside}; export X; python\n"),
        *("export X=${X:-inside}\npython\n", 'X="${X-inside}"; python\n', ": ${X:=inside}\nMAX=3 python\n"),
        *('if [ -z "$X" ]; then X=inside; fi\npython\n', '[ -n "$X" ] || export X=inside\npython\n'),
        *("# export X=inside\npython\n", "unset X; python\n"),
        *("source deep.sh\npython\n", "cd sub; bash run2.sh\n"),
    ],
)
@pytest.mark.parametrize("command", ["bash run.sh", "source ./run.sh", "Y=1 bash -eu run.sh --flag"])
def test_a_script_that_sets_the_variable_itself_is_found(tmp_path: Path, script: str, command: str) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "run2.sh").write_text("python\n")
    (tmp_path / "deep.sh").write_text("export X=inside\n")
    (tmp_path / "run.sh").write_text(script)
    assert is_heard(command, tmp_path) == (seen(command, tmp_path) == "new")


@pytest.mark.parametrize(
    ("command", "fix"),
    [
        ("python train.py 'half", "cannot be taken apart"),
        ("sudo python train.py", "sudo X=$X"),
        ("sudo -u me X=1 python train.py", "sudo X=$X"),
        ("env -i PATH=$PATH python train.py", "`X=VALUE` behind `env`"),
        ("env -u X python train.py", "not `-u X`"),
        ("docker run --rm image python train.py", "-e X"),
        ("docker run -e X=1 image python train.py", "-e X"),
        ("podman exec -e XY box python train.py", "-e X"),
        ("ssh host python train.py", "ssh HOST X=$X"),
        ("source gone.sh\npython train.py", "write `export X=…` behind it"),
        ("X=1 python prepare.py; python train.py", "`python train.py` does not see X"),
        ("unset X; python train.py", "does not see X"),
        ("python train.py\nexport X=1", "`python train.py` does not see X"),
    ],
)
def test_a_program_that_would_not_see_it_is_refused(tmp_path: Path, command: str, fix: str) -> None:
    with pytest.raises(CommandError, match=re.escape(fix)):
        check_reaches(command, "X", tmp_path)


HANDED_ON = """
sudo -E python train.py
sudo --preserve-env=Y,X python train.py
sudo X=$X python train.py
sudo mkdir -p /x; python train.py
env -i X=1 python train.py
env Y=1 python train.py
docker run -e X image python train.py
docker run --env=X image t
docker run -e X="$X" image t
docker pull image; python train.py
ssh host X=$X python train.py
source venv/bin/activate && python train.py
source gone.sh; export X=1; python train.py
"""


@pytest.mark.parametrize("command", HANDED_ON.strip().splitlines())
def test_a_variable_that_is_handed_on_is_not(tmp_path: Path, command: str) -> None:
    check_reaches(command, "X", tmp_path)
