"""One small request that shows whether a model can be asked: that server, key and name are right.

It costs a few tokens, and counts against the limits like any other.
"""

import asyncio

from harness.providers.chat import NoAccessError, ProviderError, Request, UserTurn
from harness.providers.cost import Spending
from harness.providers.model import LimitReachedError, Model, OutOfPatienceError

REQUEST = Request("", (), (UserTurn("Answer with one word: ready"),), max_output_tokens=16)
TRIAL_S = 30.0


async def trouble_of(model: Model, spending: Spending, interrupted: asyncio.Event | None = None) -> str:
    """Why the model does not answer; "" where it does, be it that it does not take just this request. Raises
    InterruptedAskError."""
    try:
        async with asyncio.timeout(TRIAL_S):
            await model.ask(REQUEST, spending, patience_s=0.0, interrupted=interrupted)
    except TimeoutError:
        return f"{model.name} has not answered one word within {TRIAL_S:g} s (is it still loading?)"
    except OutOfPatienceError as error:
        return str(error.__cause__ or error)
    except (NoAccessError, LimitReachedError) as error:
        return str(error)
    except ProviderError:
        return ""
    return ""
