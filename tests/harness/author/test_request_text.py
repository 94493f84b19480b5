"""What code can tell from a request in words."""

from harness.author import request_text as words

REQUEST = "does a higher KL coefficient stop reward hacking on countdown? Qwen2.5-3B, 4 GPUs, 6 hours"


def test_a_name_is_no_request() -> None:
    assert words.is_request(REQUEST) and words.is_request("更高的KL系数会阻止奖励作弊吗？")
    for text in ("kl-high_0.01", "a/b", "..", " demo "):
        assert not words.is_request(text), text


def test_a_name_out_of_the_words() -> None:
    for text, name in {
        REQUEST: "higher-kl-coefficient-stop-reward",
        "Is Über-Training bad?": "uber-training-bad",
        "更高的系数会阻止作弊吗？": "my-experiment",
        "../../etc/passwd please": "etc-passwd",
        "is it": "my-experiment",
        "x" * 200 + " y": "x" * 40,
    }.items():
        assert words.slug(text) == name


def test_what_leaves_no_doubt_is_proposed_and_nothing_else() -> None:
    text = "Train on train.jsonl for 1,200 steps, half an hour."
    known = {"max_time": "30 minutes", "total_training_steps": "1200"}
    assert words.guesses(text) == {"purpose": text, **known}
    for doubtful in ("12-24 hours, train.jsonl", "2 hours or 3 hours", "100 steps against 200 steps"):
        assert words.guesses(doubtful) == {"purpose": doubtful}


def test_values_that_the_words_state() -> None:
    for value in (4, 4.0, 6, "Qwen/Qwen2.5-3B", "360 minutes"):
        assert words.states(REQUEST, value), value
    for value in (3, 2.5, "Qwen/Qwen2.5-7B", "5 hours", True, "count"):
        assert not words.states(REQUEST, value), value


def test_folders_that_the_words_name() -> None:
    for path, expected in {"src": True, "./src/": True, "sr": False, "src/evil": False, "": False}.items():
        assert words.names_path("use the code in src/, please", path) is expected
    for path in ("~", "/"):
        assert not words.names_path("about ~ 6 hours of KL / entropy", path)
