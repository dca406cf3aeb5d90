"""Refusals of the communities domain."""

from catraca.platform.errors import Refusal


class CommunityNotFound(Refusal):
    code = "community_not_found"
    status = 404


class CommunityChanged(Refusal):
    """The community was changed after the caller read it; `version` is the present version."""

    code = "community_changed"
    status = 409


class CommunityExists(Refusal):
    code = "community_exists"
    status = 409


class NeighbourUnknown(Refusal):
    """`neighbour_ids` are the ids of no community."""

    code = "neighbour_unknown"
    status = 422


class NeighbourIsItself(Refusal):
    code = "neighbour_is_itself"
    status = 422


class FenceInvalid(Refusal):
    """`faults`: for each, the place in the GeoJSON, a code and a text."""

    code = "fence_invalid"
    status = 422
