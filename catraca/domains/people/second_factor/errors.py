"""Refusals about second factors."""

from catraca.platform.errors import Refusal


class SecondFactorMissing(Refusal):
    """The password is right; the sign-in needs a code too."""

    code = "second_factor_required"
    status = 401
    text = "second_factor_missing"


class SecondFactorWrong(Refusal):
    """At sign-in: the code is wrong, too old, or was used before."""

    code = "second_factor_wrong"
    status = 401


class CodeWrong(Refusal):
    """The same for a caller who is signed in already."""

    code = "second_factor_code_wrong"
    status = 422


class SecondFactorOn(Refusal):
    code = "second_factor_on"
    status = 409


class SecondFactorOff(Refusal):
    code = "second_factor_off"
    status = 409


class SecondFactorElsewhere(Refusal):
    """An identity provider signs people in here, and asks for their second factor."""

    code = "second_factor_elsewhere"
    status = 404
