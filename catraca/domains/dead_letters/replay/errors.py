"""Refusals about edits, replays and discards."""

from catraca.platform.errors import Refusal


class DeadLetterNotJson(Refusal):
    """The outbox holds JSON only: a letter with another body must be edited before its replay."""

    code = "dead_letter_not_json"
    status = 409


class DeadLetterQueueGone(Refusal):
    """No role of this version consumes the queue of the letter."""

    code = "dead_letter_queue_gone"
    status = 409


class DeadLetterReplayed(Refusal):
    """The replay is on its way and cannot be withdrawn. If it fails, the letter waits again."""

    code = "dead_letter_replayed"
    status = 409


class DeadLetterBodyUnfit(Refusal):
    """The queue of the letter cannot read this body; `reason` is the code of its reader."""

    code = "dead_letter_body_unfit"
    status = 422


class DeadLetterFilterEmpty(Refusal):
    """An empty filter must be confirmed with `all`, in case the filter was forgotten."""

    code = "dead_letter_filter_empty"
    status = 422
