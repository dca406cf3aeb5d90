"""Refusals of web push."""

from catraca.platform.errors import Refusal


class PushOff(Refusal):
    """Web push is not configured."""

    code = "push_off"
    status = 409


class PushEndpointRefused(Refusal):
    """Not the address of an allowed push service."""

    code = "push_endpoint_refused"
    status = 422


class PushEndpointTaken(Refusal):
    """The endpoint belongs to a device of another account, and the given keys are not that device's."""

    code = "push_endpoint_taken"
    status = 409


class PushKeysInvalid(Refusal):
    code = "push_keys_invalid"
    status = 422
