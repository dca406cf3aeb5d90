"""Refusals about changes of e-mail addresses."""

from catraca.platform.errors import Refusal


class EmailCodeInvalid(Refusal):
    """Wrong code, expired change, too many tries, or no change at all: one answer for all."""

    code = "email_code_invalid"
    status = 422


class EmailTaken(Refusal):
    """Only for callers who have shown that the address is theirs, and for operators."""

    code = "email_taken"
    status = 409
