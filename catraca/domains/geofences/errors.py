"""What is refused on the way out of a fence."""

from catraca.platform.errors import Refusal


class NoCommunityHere(Refusal):
    """The passenger is in no community's fence."""

    code = "no_community_here"
    status = 422


class ConfirmationTokenInvalid(Refusal):
    """There is none such, or it is another's: nobody can tell which."""

    code = "confirmation_token_invalid"
    status = 404


class ConfirmationTokenExpired(Refusal):
    """Nobody used it in time; ask for the ride again. `expired_at` is when."""

    code = "confirmation_token_expired"
    status = 410


class ConfirmationContradicted(Refusal):
    """The body says something else than what was asked for; `fields` are those."""

    code = "confirmation_contradicted"
    status = 422
