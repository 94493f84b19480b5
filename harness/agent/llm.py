"""The LLM policy: code does the routine, a language model is asked where judgement is needed.

It stands on the playbook: whatever the playbook would do is done, unless `questions.question` finds that
judgement is needed. Then a consultation is opened in the journal, and the model's tool calls are the next
actions until the question is closed. Everything it knows is in the journal, so that a kill at any instant
costs at most one call; without an answer (outage, limit, nonsense) the playbook's action is taken.
"""

import asyncio
import logging
import math
from collections.abc import Coroutine
from dataclasses import replace
from typing import Any

from harness import actions
from harness.actions import Action
from harness.agent import view
from harness.agent.playbook import Playbook, next_launch
from harness.agent.questions import moved_on, question, tools
from harness.agent.view import MAX_CALLS
from harness.experiment import Experiment
from harness.journal.model_events import CallRejected, Consulted, ModelTried, ViewShrunk
from harness.llm_use import Consultation
from harness.observation import Observation
from harness.providers.chat import NoAccessError, ProviderError, RequestTooLongError, ToolCall
from harness.providers.conversation import MAX_TROUBLES, action_in
from harness.providers.model import InterruptedAskError, LimitReachedError, Model, OutOfPatienceError
from harness.providers.tools import CallError
from harness.providers.trial import trouble_of
from harness.state import ExperimentState, Outcome
from monitors.wait import Waiter, WakeReason

MOST_CALLS_OF_A_REPLY = 6
MAX_SHRUNK = 3
PATIENCE_S = 1800.0  # for a server that is down, before the playbook goes on
PATIENCE_FOR_WORDS_S = 10.0  # the report is written; `harness narrate` asks again at any later time
PATIENCE_WHILE_RUNNING_S = 60.0
ASK_AGAIN_S = 3600.0

_log = logging.getLogger(__name__)


class LlmPolicy:
    """A `Policy` that asks a model about what the playbook cannot decide.

    `interrupted` is set when a person wants something of the run; an answer is not waited for then.
    """

    name = "llm"

    def __init__(
        self,
        experiment: Experiment,
        model: Model,
        interrupted: asyncio.Event,
        longest_patience_s: float = math.inf,
    ) -> None:
        self._experiment = experiment
        self._model = model
        self._interrupted = interrupted
        self._longest_patience_s = longest_patience_s
        self._playbook = Playbook()
        self._in_vain_at = -math.inf

    async def decide(self, observation: Observation) -> Action:
        while True:
            observation = replace(observation, state=self._state)
            fallback = await self._playbook.decide(observation)
            consultation = self._state.llm.consultation
            if consultation is None:
                if not self._open(observation, fallback):
                    return fallback
            elif (news := moved_on(consultation.topic, observation)) is not None:
                self._close(consultation, news, gave_up=False)
            elif consultation.asked and (cut_off := self._state.pending) is not None:
                # By a kill: it is done before the model hears.
                return actions.action_of_entry(cut_off.action, cut_off.args)
            elif consultation.has_done(actions.NameCause.kind) and _has_repair(self._state, fallback):
                self._close(consultation, "there is a repair for what the model named", unanswered=True)
            elif consultation.has_done(actions.WriteSections.kind):
                self._close(consultation, "the sections are written")
            elif self._state.llm.answer is None:
                if self._is_unchecked(consultation):
                    return actions.Check()
                if why := _enough(consultation):
                    self._close(consultation, why)
                elif self._state.trains and observation.now - self._in_vain_at < ASK_AGAIN_S:
                    return fallback
                elif not await self._ask(consultation, observation):
                    return await self._playbook.decide(replace(observation, state=self._state))
            elif (action := self._take(consultation)) is not None:
                return action

    async def try_out(self) -> str:
        """Ask for one word before the first launch, once in a run; why there is no answer, "" if there is."""
        if self._state.llm.was_tried or self._state.attempts or self._state.collected:
            return ""
        try:
            trouble = await trouble_of(self._model, self._state.llm.spending, self._interrupted)
        except InterruptedAskError:
            return ""
        self._experiment.record(ModelTried(self._model.name, trouble))
        return trouble

    @property
    def _state(self) -> ExperimentState:
        return self._experiment.state

    def _open(self, observation: Observation, fallback: Action) -> bool:
        asked = question(observation, fallback)
        if asked is None or asked.topic in self._state.llm.closed:
            return False
        if asked.topic.startswith("look:"):  # as they stand now
            asked = replace(asked, facts={**asked.facts, "metrics": view.metrics_now(self._experiment)})
        self._experiment.record(asked)
        return True

    def _close(
        self,
        consultation: Consultation,
        why: str,
        gave_up: bool | None = None,
        unanswered: bool | None = None,
    ) -> None:
        """Close the question. `gave_up`: no launch follows any more; by default where no config was written.
        `unanswered`: it may be put again; by default that about the results, which `harness narrate` puts.

        What a repair that was not launched has changed is dropped: half a repair is none. A config that the
        model has written and had checked stands.
        """
        kind, draft, checked = consultation.kind, self._state.draft, self._state.checked
        is_ready = checked is not None and checked.can_run and consultation.has_done(actions.Check.kind)
        written = draft.settings is not None and is_ready
        if kind == "config" and (gave_up is None or written):
            gave_up = not written
        gave_up = bool(gave_up)
        drops = kind in ("failure", "check", "config") and not draft.is_empty and (gave_up or not written)
        reason = f"the config of this plan was not written: {why}" if gave_up and kind == "config" else why
        unanswered = kind == "results" if unanswered is None else unanswered
        self._experiment.record(Consulted(consultation.topic, reason, gave_up, drops, unanswered))

    async def _ask(self, consultation: Consultation, observation: Observation) -> bool:
        """Have the next call settled in the journal. False: there is no answer now, the playbook goes on."""
        patience = max(PATIENCE_WHILE_RUNNING_S, min(PATIENCE_S, self._state.deadline_at - observation.now))
        if self._state.trains:
            patience = PATIENCE_WHILE_RUNNING_S  # asked again at the next wake
        elif consultation.kind == "results":
            patience = PATIENCE_FOR_WORDS_S
        try:
            request = view.request(self._experiment, consultation, observation.evidence)
            asking = self._model.ask(
                request,
                self._state.llm.spending,
                patience_s=min(patience, self._longest_patience_s),
                interrupted=self._interrupted,
            )
            await (self._while_it_trains(asking, consultation) if self._state.trains else asking)
        except InterruptedAskError:
            return False
        except (OutOfPatienceError, NoAccessError) as error:
            self._in_vain_at = observation.now
            if not self._state.trains or consultation.kind == "look":
                self._close(consultation, f"no answer: {error}", unanswered=consultation.kind != "look")
            return False
        except RequestTooLongError as error:
            self._experiment.record(ViewShrunk(consultation.topic, str(error)))
            if consultation.shrunk >= MAX_SHRUNK:
                self._close(consultation, f"the model takes no request this long: {error}")
            return True
        except (LimitReachedError, ProviderError) as error:
            _log.warning("the language model cannot be asked: %s", error)
            self._close(consultation, f"no answer: {error}")
            return True
        return True

    async def _while_it_trains(self, asking: Coroutine[Any, Any, Any], asked: Consultation) -> None:
        """Wait for the answer, but not beyond the end of the training, and for a look no longer than
        PATIENCE_WHILE_RUNNING_S. Raises InterruptedAskError and OutOfPatienceError."""
        assert self._state.attempt is not None  # it trains
        waiter = Waiter(self._experiment.attempt_files(self._state.attempt.number))
        longest_s = PATIENCE_WHILE_RUNNING_S if asked.kind == "look" else math.inf
        answer, training = asyncio.ensure_future(asking), asyncio.ensure_future(waiter.wait(longest_s))
        try:
            await asyncio.wait({answer, training}, return_when=asyncio.FIRST_COMPLETED)
            if answer.done():
                return await answer
        finally:
            answer.cancel("the training went on without an answer")
            training.cancel()
            await asyncio.gather(answer, training, return_exceptions=True)
        if training.result().reason is WakeReason.TICK:
            raise OutOfPatienceError(f"the model did not answer within {longest_s:g} s")
        raise InterruptedAskError("the training ended before the answer came")

    def _take(self, consultation: Consultation) -> Action | None:
        """The action of the settled answer; None after it was turned down or has closed the question."""
        answer = self._state.llm.answer
        assert answer is not None
        calls = [ToolCall(**call) for call in answer.calls]
        if consultation.kind == "look":
            return self._looked(consultation, answer.stop, calls)
        try:
            action = self._called(answer.stop, calls, consultation.kind)
        except CallError as error:
            further = f" {len(calls) - 1} further calls of this reply were not made." if calls[1:] else ""
            self._experiment.record(CallRejected(answer.call, f"{error}{further}"))
            return None
        if isinstance(action, actions.Finish):
            gives_up = consultation.kind in ("config", "check", "failure")
            reason = action.reason or "the model has nothing to add"
            self._close(consultation, reason, gave_up=gives_up, unanswered=False)
            return None
        if isinstance(action, actions.Wait) and consultation.kind == "alarm":
            self._close(consultation, "the model chose to wait")
        return action

    def _called(self, stop: str, calls: list[ToolCall], kind: str) -> Action:
        """The action that the first of these calls means. Raises CallError."""
        end = "wait" if kind == "alarm" else "finish"
        offered = tools(kind, self._state)
        action = action_in(stop, calls, offered, end, self._filled(), actions.OFFERED)
        if isinstance(action, actions.EditArguments):
            action = action.resolved(self._state.command)
        made = self._state.llm.made
        if made and (made == MOST_CALLS_OF_A_REPLY or not isinstance(action, actions.LOOKING)):
            raise CallError(
                f"{action.kind} was not done: after the first call of a reply only looks are, at most "
                f"{MOST_CALLS_OF_A_REPLY} calls in all. See what came of them, then call it."
            )
        if isinstance(action, actions.Launch):
            self._refuse_unchecked()
        return action

    def _looked(self, look: Consultation, stop: str, calls: list[ToolCall]) -> Action | None:
        """The remark or question of a look, if there is one; it has one call, and nothing else is done."""
        try:
            action: Action | None = action_in(stop, calls, tools("look", self._state), "wait")
        except CallError:
            action = None
        self._close(look, "the model has looked")
        return action if isinstance(action, actions.Note | actions.AskPerson) else None

    def _filled(self) -> dict[str, dict[str, Any]]:
        """The arguments that no model is asked for."""
        launch = next_launch(self._state, "a model says why")
        return {
            "launch": launch.model_dump(include={"attempt", "session", "attempt_id"}),
            "finish": {"outcome": Outcome.FAILED},
        }

    def _is_unchecked(self, consultation: Consultation) -> bool:
        """True if the model is to see what the check says of a change that was just prepared or allowed."""
        is_prepared = self._state.checked is None and not self._state.draft.is_empty
        return is_prepared and consultation.kind in ("config", "check", "failure")

    def _refuse_unchecked(self) -> None:
        checked = self._state.checked
        if checked is None:
            raise CallError("Call check first: something has changed since the last check, or none was made.")
        if not checked.can_run:
            raise CallError(f"It cannot run yet: {'; '.join(checked.problems)[:1000]}")


def _has_repair(state: ExperimentState, fallback: Action) -> bool:
    """True if the playbook goes on by itself with the cause that a model has named, and nothing is prepared
    for another repair."""
    attempt = state.attempt
    named = attempt is not None and attempt.diagnosis is not None and bool(attempt.diagnosis.by)
    return named and state.draft.is_empty and not isinstance(fallback, actions.Collect)


def _enough(consultation: Consultation) -> str | None:
    """Why no more calls are made for this question, or None."""
    if consultation.calls >= MAX_CALLS:
        return f"{MAX_CALLS} calls were made without coming to an end"
    if consultation.troubles >= MAX_TROUBLES:
        return f"{MAX_TROUBLES} answers in a row could not be used"
    return None
