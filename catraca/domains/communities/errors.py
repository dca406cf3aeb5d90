"""What communities refuse."""

from catraca.platform.errors import Refusal


class CommunityNotFound(Refusal):
    code = "community_not_found"
    status = 404


class CommunityChanged(Refusal):
    """Somebody else changed it since it was read; `version` is the one it is at."""

    code = "community_changed"
    status = 409


class CommunityExists(Refusal):
    code = "community_exists"
    status = 409


class NeighbourUnknown(Refusal):
    """`neighbour_ids` are those that name no community."""

    code = "neighbour_unknown"
    status = 422


class NeighbourIsItself(Refusal):
    code = "neighbour_is_itself"
    status = 422


class FenceInvalid(Refusal):
    """`faults` say where in the GeoJSON and why; each with a code and words."""

    code = "fence_invalid"
    status = 422
