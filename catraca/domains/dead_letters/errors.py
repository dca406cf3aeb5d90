"""What the verbs on dead letters refuse."""

from catraca.platform.errors import Refusal


class DeadLetterNotJson(Refusal):
    """Events are JSON, and so is whatever leaves by the outbox: such a letter must be edited first."""

    code = "dead_letter_not_json"
    status = 409


class DeadLetterQueueGone(Refusal):
    """No role of this version consumes the queue it died in, so a replay would lie there for ever."""

    code = "dead_letter_queue_gone"
    status = 409


class DeadLetterReplayed(Refusal):
    """It has left already: whether it was handled is for its queue to say, and if not, it comes back."""

    code = "dead_letter_replayed"
    status = 409


class DeadLetterBodyUnfit(Refusal):
    """The queue it died in could not read such a body either; `reason` is the reader's own code."""

    code = "dead_letter_body_unfit"
    status = 422


class DeadLetterFilterEmpty(Refusal):
    """What is meant for all letters must say so: a forgotten filter is not "all"."""

    code = "dead_letter_filter_empty"
    status = 422
