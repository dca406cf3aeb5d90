"""Refusals of the geofences domain."""

from catraca.platform.errors import Refusal


class NoCommunityHere(Refusal):
    """No community contains the pickup place."""

    code = "no_community_here"
    status = 422


class ConfirmationTokenInvalid(Refusal):
    """The token is unknown or another passenger's; the answer is the same for both."""

    code = "confirmation_token_invalid"
    status = 404


class ConfirmationTokenExpired(Refusal):
    """The token was not used in time (`expired_at`); the passenger requests the ride again."""

    code = "confirmation_token_expired"
    status = 410


class ConfirmationContradicted(Refusal):
    """`fields` of the body differ from the request that is confirmed."""

    code = "confirmation_contradicted"
    status = 422
