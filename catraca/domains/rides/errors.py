"""What rides refuse."""

from catraca.platform.errors import Refusal


class RideNotFound(Refusal):
    """There is none, or the caller has no part in it."""

    code = "ride_not_found"
    status = 404


class OfferNotReceived(Refusal):
    code = "offer_not_received"
    status = 403


class OfferExpired(Refusal):
    code = "offer_expired"
    status = 410


class RideAlreadyAccepted(Refusal):
    """`accepted_by_you` is true when it was the same driver, under another key."""

    code = "ride_already_accepted"
    status = 409


class RideCannotBeAccepted(Refusal):
    code = "ride_cannot_be_accepted"
    status = 400


class RideCannotBeRejected(Refusal):
    code = "ride_cannot_be_rejected"
    status = 409


class RideMoveNotAllowed(Refusal):
    """`ride_status` is where the ride stands, from where it cannot go there."""

    code = "ride_move_not_allowed"
    status = 409


class RideAlreadyOpen(Refusal):
    """One open ride a passenger; `ride_id` is the one there is."""

    code = "ride_already_open"
    status = 409


class RideUnderWay(Refusal):
    """Somebody waits for this person: first the ride must end; `ride_id` is the one."""

    code = "ride_under_way"
    status = 409


class RideNotOpen(Refusal):
    """Nobody is looked for any more, so there is nothing to offer."""

    code = "ride_not_open"
    status = 409


class CancelReasonInvalid(Refusal):
    """`reasons` are those that the caller may give now."""

    code = "cancel_reason_invalid"
    status = 409


class DistanceMissing(Refusal):
    """A ride without a destination is paid by the way it went."""

    code = "distance_missing"
    status = 422
