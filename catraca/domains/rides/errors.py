"""Refusals of rides."""

from catraca.platform.errors import Busy, Refusal


class RideNotFound(Refusal):
    """Also for callers who are no party of the ride."""

    code = "ride_not_found"
    status = 404


class OfferNotReceived(Refusal):
    code = "offer_not_received"
    status = 403


class OfferExpired(Refusal):
    code = "offer_expired"
    status = 410


class RideAlreadyAccepted(Refusal):
    """`accepted_by_you` is false: another driver has the ride."""

    code = "ride_already_accepted"
    status = 409


class RideAcceptedByYou(RideAlreadyAccepted):
    """`accepted_by_you` is true: the same driver accepted the ride, with another idempotency key."""

    text = "ride_accepted_by_you"


class RideBeingAccepted(Busy):
    """Another transaction, usually another driver's attempt, has locked the ride for too long."""

    text = "ride_being_accepted"


class RideCannotBeAccepted(Refusal):
    code = "ride_cannot_be_accepted"
    status = 400


class RideCannotBeRejected(Refusal):
    code = "ride_cannot_be_rejected"
    status = 409


class RideMoveNotAllowed(Refusal):
    """`ride_status` is the ride's present status."""

    code = "ride_move_not_allowed"
    status = 409


class RideAlreadyOpen(Refusal):
    """A passenger has one unfinished ride at a time; `ride_id` is that ride."""

    code = "ride_already_open"
    status = 409


class RideRequestsPaused(Refusal):
    """The passenger canceled `cancellations` rides lately, and can request the next one after a pause."""

    code = "ride_requests_paused"
    status = 429


class RideUnderWay(Refusal):
    """Personal data cannot be erased during a ride; `ride_id` is that ride."""

    code = "ride_under_way"
    status = 409


class RideNotOpen(Refusal):
    """Only open rides can be offered."""

    code = "ride_not_open"
    status = 409


class CancelReasonInvalid(Refusal):
    """`reasons` are the reasons that the caller may give."""

    code = "cancel_reason_invalid"
    status = 409


class FareMissing(Refusal):
    """A ride without an estimate is completed by an operator with a fare."""

    code = "fare_missing"
    status = 422


class FlagNotFound(Refusal):
    code = "flag_not_found"
    status = 404


class DistanceMissing(Refusal):
    """The fare of a ride without a destination needs the distance driven."""

    code = "distance_missing"
    status = 422
