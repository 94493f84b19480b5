"""Every name that verl 0.9.1 knows is offered, or refused with what to use."""

import subprocess
import sys
from typing import get_args

from trainer_core.algorithm.names import ESTIMATOR_NAMES, INSTEAD, KL_ESTIMATORS
from trainer_core.types import Aggregation, LossName

VERL = {
    "estimators": """gae grpo reinforce_plus_plus reinforce_plus_plus_baseline remax rloo opo grpo_passk gpg
        rloo_vectorized grpo_vectorized optimal_token_baseline tir_optimal_token_baseline gdpo""",
    "losses": """vanilla dppo_tv dppo_kl gspo sapo gpg clip_cov kl_cov geo_mean dro cispo bypass_mode""",
    "kl": "kl k1 abs mse k2 low_var_kl k3 full",
    "aggregations": """token-mean token-sum seq-mean-token-sum seq-mean-token-sum-norm
        seq-mean-token-mean""",
}


def test_every_name_of_verl_has_an_answer() -> None:
    offered = {*ESTIMATOR_NAMES, *get_args(LossName), *KL_ESTIMATORS, *get_args(Aggregation)}
    for names in VERL.values():
        assert set(names.split()) <= offered | set(INSTEAD)
    assert not offered & set(INSTEAD)


def test_names_are_read_without_torch() -> None:
    code = "import sys, trainer_core.algorithm.names, trainer_core.types; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
