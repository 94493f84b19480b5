"""Exceptions that no specific signature knows are named by the library that raises them."""

import subprocess
import sys
from pathlib import Path

import pytest

from harness.diagnosis import diagnose_log
from harness.diagnosis.message_bank import shipped, shipped_file
from harness.diagnosis.signatures import load

LARGEST_MB = 5
IN_TRANSFORMERS = (
    '  File "/v/lib/python3.11/site-packages/transformers/training_args.py", line 9, in __post_init__'
)
STRATEGIES = (
    "ValueError: --load_best_model_at_end requires the save and eval strategy to match, but found\n"
    "- Evaluation strategy: no\n- Save strategy: steps"
)
RAISED = {
    "torch": (
        "import torch\ntorch.utils.data.DataLoader([1], num_workers=-1)",
        ("torch", "torch/utils/data/dataloader.py", "DataLoader.__init__"),
    ),
    "transformers": (
        "from transformers import GenerationConfig as G\nG(num_beams=1, num_return_sequences=4).validate()",
        ("transformers", "transformers/generation/configuration_utils.py", "GenerationConfig.validate"),
    ),
}


@pytest.mark.parametrize("library", RAISED)
def test_what_a_library_really_raises_names_library_file_and_function(library: str, tmp_path: Path) -> None:
    pytest.importorskip(library)
    program, names = RAISED[library]
    script, log = tmp_path / "train.py", tmp_path / "train.log"
    script.write_text(program)
    with log.open("wb") as output:
        subprocess.run([sys.executable, str(script)], stdout=output, stderr=output, check=False, timeout=200)
    found = diagnose_log(log, catalogue=load(()))
    captures = found.captures
    assert (captures.get("library"), captures.get("file"), captures.get("function")) == names, log.read_text()
    assert all(name in found.cause for name in names)
    assert found.confidence <= 0.55


def test_a_specific_signature_goes_before_the_bank_and_the_bank_before_a_general_one(tmp_path: Path) -> None:
    log = tmp_path / "train.log"
    log.write_text(LOG.format("ImportError: cannot import name 'AdamW' from 'transformers'"))
    assert diagnose_log(log, catalogue=load(())).signature == "cannot_import_name"
    log.write_text(LOG.format(f"{IN_TRANSFORMERS}\n{STRATEGIES}"))
    found = diagnose_log(log, catalogue=load(()))
    assert (found.signature or "").startswith("message_")
    assert "correct_key" in found.remedies  # what the general signature of the same family would do


def test_the_words_of_nobody_are_not_in_the_bank() -> None:
    assert shipped().find("ValueError", "the moon is made of green cheese and so is my tokenizer") is None
    assert shipped().find("ValueError", "") is None


def test_the_bank_is_small_and_opened_only_for_an_exception_that_needs_it(tmp_path: Path) -> None:
    assert shipped_file().stat().st_size <= LARGEST_MB * 1_000_000
    log = tmp_path / "x.log"
    log.write_text("step:1 loss:0.5\nstep:2 loss:0.4\n")
    probe = (
        "import sys; from pathlib import Path; from harness.diagnosis import diagnose_log;"
        f"from harness.diagnosis.message_bank import shipped; diagnose_log(Path({str(log)!r}));"
        "print(shipped.cache_info().currsize)"
    )
    ran = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "0"


LOG = """Traceback (most recent call last):
  File "/home/me/train.py", line 3, in <module>
    main()
  File "/home/me/train.py", line 2, in main
    run()
{}
"""
