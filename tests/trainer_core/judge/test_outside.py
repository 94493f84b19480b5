"""Judges that ask an outside model, which prefers longer answers here."""

import asyncio
import json
from collections.abc import Sequence
from itertools import permutations
from pathlib import Path
from typing import Any

import pytest

from tests.model_server.transport import Delivery
from tests.trainer_core.outside_model.fake import Fake, said, serving
from trainer_core.config.tasks import RubricsGrader, TaskJudge
from trainer_core.judge.choose import make_judge
from trainer_core.judge.judge import Judge, judged
from trainer_core.judge.pairwise import PairwiseJudge
from trainer_core.judge.rubrics import RubricsJudge, read_examples
from trainer_core.types import DataError, Episode, Task, TrainingError

TASK = Task("t", "question")


def earned(judge: Judge, texts: Sequence[str], task: Task = TASK) -> list[tuple[float | None, bool]]:
    episodes = [Episode(task, repeat, (), output=text) for repeat, text in enumerate(texts)]
    return [(one.reward, one.is_success) for one in asyncio.run(judged(judge, task, episodes))]


def longer_wins(body: dict[str, Any], key: str) -> Delivery:
    data = json.loads(body["messages"][1]["content"])
    first, second = len(data["first"]), len(data["second"])
    better = "same" if first == second else "first" if first > second else "second"
    return said(json.dumps({"reason": "length", "better": better}))


def test_the_reward_is_the_share_of_wins_and_every_pair_is_asked_in_both_orders() -> None:
    with serving(longer_wins) as fake:
        scored = earned(PairwiseJudge(fake.model(), "It is long."), ["aaa", "b", "cc", "b"])
    assert scored == [(1.0, False), (pytest.approx(1 / 6), False), (pytest.approx(2 / 3), False),
                      (pytest.approx(1 / 6), False)]  # fmt: skip
    asked = {(fake.data(number)["first"], fake.data(number)["second"]) for number in range(len(fake.asked))}
    assert len(fake.asked) == 6
    assert asked == set(permutations(["aaa", "b", "cc"], 2))
    assert "It is long." in fake.asked[0]["messages"][0]["content"]


def test_a_model_that_prefers_a_place_tells_nothing() -> None:
    with serving(lambda body, key: said('{"reason": "", "better": "first"}')) as fake:
        scored = earned(PairwiseJudge(fake.model(), ""), ["a", "b", "c"])
    assert [reward for reward, _ in scored] == [0.5, 0.5, 0.5]


def test_an_answer_alone_is_compared_with_the_reference() -> None:
    with serving(longer_wins) as fake:
        judge = PairwiseJudge(fake.model(), "")
        assert earned(judge, ["aaa"], Task("t", "q", "bb")) == [(1.0, False)]
        assert len(fake.asked) == 2
    assert earned(judge, ["aaa"]) == [(0.5, False)]


def test_a_judge_that_keeps_failing_is_an_error_and_no_reward() -> None:
    with serving(lambda body, key: said("both are fine")) as fake:
        with pytest.raises(TrainingError, match="gave no usable answer in 6 attempts; the last time"):
            earned(PairwiseJudge(fake.model(), ""), ["a", "b"])


def grader(folder: Path, rows: list[dict[str, Any]], **settings: Any) -> RubricsGrader:
    path = folder / "examples.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    files = {"training": {"file_path": str(path)}}
    return RubricsGrader.model_validate({"jsonl_dataset_file": files, **settings})


ROWS = [{"question": "q1", "answer": "good one"}, {"question": "q2", "answer": "fine", "final_answer": "bad"}]


class Model:
    """Proposes rubrics that need a revision, then grades by length: a ninth for each character."""

    def __init__(self) -> None:
        self.kinds: list[str] = []

    def __call__(self, body: dict[str, Any], key: str) -> Delivery:
        instructions = body["messages"][0]["content"]
        data = json.loads(body["messages"][1]["content"])
        if '"places"' in instructions:
            self.kinds.append("rank")
            lengths = sorted(map(len, data["answers"]), reverse=True)
            places = [lengths.index(len(each)) + 1 for each in data["answers"]]
            return said(json.dumps({"reason": "", "places": places}))
        if '"grade"' in instructions:
            self.kinds.append("grade")
            grade = 0.5 if "* useless" in instructions else min(1.0, len(data["answer"]) / 9)
            return said(json.dumps({"reason": "", "grade": grade}))
        is_revision = "poorer" in data
        self.kinds.append("revise" if is_revision else "merge" if "rubrics" in data else "propose")
        rubric = "useless" if self.kinds[-1] == "propose" else "long"
        return said(json.dumps({"rubrics": [rubric]}))


def judge_of(fake: Fake, settings: RubricsGrader, file: Path | None = None) -> RubricsJudge:
    return RubricsJudge(fake.model(), settings, file=file)


def test_rubrics_are_proposed_tried_revised_and_kept(tmp_path: Path) -> None:
    model, settings = Model(), grader(tmp_path, ROWS)
    with serving(model) as fake:
        scored = earned(judge_of(fake, settings, tmp_path / "rubrics.json"), ["abc", "a" * 9])
        assert scored == [(pytest.approx(1 / 3), False), (1.0, True)]
        assert sorted(model.kinds) == ["grade"] * 10 + ["propose"] * 2 + ["revise"] * 2
        assert json.loads((tmp_path / "rubrics.json").read_text())["rubrics"] == ["long"]
        model.kinds.clear()
        earned(judge_of(fake, settings, tmp_path / "rubrics.json"), ["abc"])
        assert model.kinds == ["grade"]
        changed = settings.model_copy(update={"language": "zh"})
        earned(judge_of(fake, changed, tmp_path / "rubrics.json"), ["abc"])
        assert "propose" in model.kinds


def test_listwise_rewards_go_by_place(tmp_path: Path) -> None:
    settings = grader(tmp_path, ROWS, grader_mode="listwise", min_score=-1, enable_categorization=True)
    with serving(Model()) as fake:
        judge = judge_of(fake, settings)
        assert earned(judge, ["aa", "a", "aaa"]) == [(0.0, False), (-1.0, False), (1.0, False)]
        assert earned(judge, ["a" * 9]) == [(1.0, False)]


def test_a_grade_out_of_range_is_not_taken(tmp_path: Path) -> None:
    settings = grader(tmp_path, ROWS, max_score=0.1)
    with serving(Model()) as fake:
        with pytest.raises(TrainingError, match=r"grade is 0\.[35]\d*, not from 0.* to 0\.1"):
            earned(judge_of(fake, settings), ["abc"])


def test_rubrics_that_tell_nothing_apart_end_the_run(tmp_path: Path) -> None:
    def flat(body: dict[str, Any], key: str) -> Delivery:
        is_grade = '"grade"' in body["messages"][0]["content"]
        return said('{"reason": "", "grade": 0.5}' if is_grade else '{"rubrics": ["x"]}')

    with serving(flat) as fake:
        with pytest.raises(TrainingError, match="no rubrics that fake wrote tell the good answers of the 2"):
            earned(judge_of(fake, grader(tmp_path, ROWS)), ["abc"])


def test_examples_have_good_and_poorer_answers(tmp_path: Path) -> None:
    first, second = read_examples(grader(tmp_path, ROWS))
    assert (first.reference, first.poorer) == ("good one", "fine")
    assert (second.reference, second.poorer) == ("fine", "bad")
    with pytest.raises(DataError, match="has no text in 'answer'"):
        read_examples(grader(tmp_path, [{"question": "q"}]))
    with pytest.raises(DataError, match="rubrics are derived from examples"):
        read_examples(RubricsGrader())


def test_a_judge_of_the_users_own_is_given_the_outside_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "mine.py"
    path.write_text(
        "from trainer_core.judge.judge import Score\n"
        "class Mine:\n"
        "    def __init__(self, outside_model):\n"
        "        self.model = outside_model\n"
        "    async def score(self, task, episodes):\n"
        "        return [Score(float(await self.model.text(one.output))) for one in episodes]\n"
    )
    protocol = f"{path}->Mine"
    settings = TaskJudge(judge_protocol=protocol, alien_llm_model="theirs", alien_llm_response_length=9)
    for name in ("DASHSCOPE_API_KEY", "OPENAI_API_KEY", "OPENAI_BASE_URL"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(TrainingError, match="the environment names none"):
        make_judge(settings)
    with serving(lambda body, key: said(body["messages"][0]["content"])) as fake:
        monkeypatch.setenv("OPENAI_BASE_URL", fake.base_url)
        assert earned(make_judge(settings), ["0.25"]) == [(0.25, False)]
    assert (fake.asked[0]["model"], fake.asked[0]["max_tokens"]) == ("theirs", 9)
