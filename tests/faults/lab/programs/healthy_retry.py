"""A training that meets errors, deals with them, and ends well."""

import logging
import traceback

from training import say, train

logging.basicConfig(format="%(asctime)s %(levelname)s %(message)s")


def fetch(tries: int) -> int:
    if tries < 3:
        raise ConnectionResetError(104, "Connection reset by peer")
    return tries


train(5)
for attempt in range(1, 4):
    try:
        fetch(attempt)
    except ConnectionResetError as error:
        logging.warning("judge did not answer (%s), retrying %d/3", error, attempt)
train(5, first=6)
try:
    {}["reward_model"]
except KeyError:
    logging.warning("optional column is missing, using the default\n%s", traceback.format_exc())
train(10, first=11)
say("saved checkpoint to checkpoints/global_step_20")
say("training finished: errors 0, failed episodes 0, out of memory 0 times")
