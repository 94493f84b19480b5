"""A training whose rollouts speak of failures, and which ends well."""

from training import say, train

train(10)
say("sample 3/8 | user: why does CUDA out of memory happen? | assistant: Because Killed processes ...")
say("sample 4/8 | assistant: RuntimeError: No space left on device means that the disk is full. reward=1.0")
say("timeout=600 nccl_timeout=1800 max_retries=3 error_rate=0.000 nan_count=0 oom_retries=0")
train(15, first=11)
say("training finished")
