"""Refusals about drivers."""

from catraca.platform.errors import Refusal


class HomeCommunityUnknown(Refusal):
    code = "home_community_unknown"
    status = 422
