"""Refusals of sockets and of messages on them."""

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


class BinaryNotSpoken(Refusal):
    code = "binary_not_spoken"
    status = 415
