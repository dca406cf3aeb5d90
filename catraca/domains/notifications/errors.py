"""Why a socket, or a message on it, is refused."""

from catraca.platform.errors import Refusal


class OriginRefused(Refusal):
    code = "origin_refused"
    status = 403


class TicketInvalid(Refusal):
    code = "ticket_invalid"
    status = 401


class MessageMalformed(Refusal):
    code = "message_malformed"
    status = 400


class TooManyMessages(Refusal):
    code = "too_many_messages"
    status = 429


class TooManySubscriptions(Refusal):
    code = "too_many_subscriptions"
    status = 409


class PushOff(Refusal):
    """Nobody has set it up here."""

    code = "push_off"
    status = 409


class PushEndpointRefused(Refusal):
    """Not a push service's address, or not one this server speaks to."""

    code = "push_endpoint_refused"
    status = 422


class PushKeysInvalid(Refusal):
    code = "push_keys_invalid"
    status = 422


class BinaryNotSpoken(Refusal):
    code = "binary_not_spoken"
    status = 415
