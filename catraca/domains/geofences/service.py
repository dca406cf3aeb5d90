"""Rides requested in a community, and the confirmation of drivers from elsewhere."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from uuid import UUID

from catraca.domains import communities, location, rides
from catraca.domains.communities import Community, CommunityFilter, Fences, Tier
from catraca.domains.fares import Tariff
from catraca.domains.geofences.confirmations import store
from catraca.domains.geofences.confirmations.service import (
    expire_confirmation,
    record_issue,
    record_use,
    refuse,
    refuse_token,
    repeat_answer,
)
from catraca.domains.geofences.errors import ConfirmationContradicted, NoCommunityHere
from catraca.domains.geofences.model import (
    Answer,
    Changes,
    CommunityRequest,
    Confirmation,
    ConfirmationId,
    ConfirmationNeeded,
    ConfirmationTokens,
    RideCreated,
)
from catraca.domains.location import NearbyDriver, Search
from catraca.domains.people import UserId
from catraca.domains.rides import CancellationRule, Ride, RideId, RideRequest
from catraca.platform.database import Db
from catraca.platform.geo import estimate_trip
from catraca.platform.ids import new_id, token_digest
from catraca.platform.redis_client import RedisClient


@dataclass(frozen=True, slots=True, kw_only=True)
class GeofenceTerms:
    # False: a ride in a community is like any other.
    enabled: bool
    confirmation_ttl: timedelta
    tariff: Tariff
    search_timeout: timedelta
    cancellations: CancellationRule
    radius_meters: int
    # Drivers with an older position are not available.
    fresh: timedelta


class CommunityRides:
    """Per-process service; safe to run in many processes."""

    def __init__(
        self, redis: RedisClient, fences: Fences, terms: GeofenceTerms, tokens: ConfirmationTokens
    ) -> None:
        self._redis = redis
        self._fences = fences
        self._terms = terms
        self._tokens = tokens

    async def request_ride(
        self, db: Db, request: CommunityRequest, *, passenger_id: UserId, by: UUID
    ) -> Answer:
        """Create a ride; without an available driver of the community, ask for a confirmation.

        A repeated request gets the same confirmation until it expires.
        """
        if request.type == "normal" or not self._terms.enabled:
            return RideCreated(await self._create(db, request.to_ride_request(), passenger_id))
        found = (await self._fences.current(db)).at(request.lat, request.lng)
        if not found:
            raise NoCommunityHere
        community = found[0]
        nearest = await self._nearest(db, request, passenger_id, frozenset({community.id}))
        if nearest is not None or not community.rules.fallback:
            return await self._create_at_home(db, request, passenger_id, community, by=by)
        return await self._ask(db, request, passenger_id, community, by=by)

    async def _create_at_home(
        self, db: Db, request: CommunityRequest, passenger_id: UserId, community: Community, *, by: UUID
    ) -> RideCreated:
        """For the community's own drivers. An open confirmation of this request is used for the ride."""
        confirmation = await store.use_by_request(
            db, request, passenger_id=passenger_id, ride_id=RideId(new_id())
        )
        ride_request = _ride_request(request, community, "home", priced_as="home")
        ride = await self._create(db, ride_request, passenger_id, confirmation)
        if confirmation is not None:
            await record_use(db, confirmation, ride, by=by)
        return RideCreated(ride, at_home=True)

    async def _ask(
        self, db: Db, request: CommunityRequest, passenger_id: UserId, community: Community, *, by: UUID
    ) -> ConfirmationNeeded:
        tier, nearest = await self._next_tier(db, request, passenger_id, community)
        confirmation, is_new = await self._open_confirmation(db, request, passenger_id, community, tier)
        # After the insert, which waits for a concurrent confirmation of the same request.
        await rides.refuse_request(db, passenger_id, cancellations=self._terms.cancellations)
        if not is_new:
            # The terms of the first request hold; the nearest driver is the present one.
            community = await self._community_of(db, confirmation)
            circle = communities.search_circles(community, confirmation.tier)[-1]
            nearest = await self._nearest(db, confirmation.asked, passenger_id, circle)
        await record_issue(db, confirmation, is_new=is_new, by=by)
        changes = self._changes(request, community, confirmation.tier, nearest)
        return ConfirmationNeeded(confirmation, self._tokens.token_of(confirmation.id), changes)

    async def _open_confirmation(
        self, db: Db, request: CommunityRequest, passenger_id: UserId, community: Community, tier: Tier
    ) -> tuple[Confirmation, bool]:
        """The open confirmation of this request, and True if it is new. An overdue one expires first."""
        seconds = community.rules.confirmation_ttl_seconds
        while True:
            confirmation_id = ConfirmationId(new_id())
            found = await store.insert_confirmation(
                db,
                confirmation_id,
                request,
                passenger_id=passenger_id,
                token_hash=token_digest(self._tokens.token_of(confirmation_id)),
                community=community,
                tier=tier,
                ttl=self._terms.confirmation_ttl if seconds is None else timedelta(seconds=seconds),
            )
            if not found.is_overdue:
                return found.confirmation, found.is_new
            await expire_confirmation(db, found.confirmation.id)

    async def _next_tier(
        self, db: Db, request: CommunityRequest, passenger_id: UserId, community: Community
    ) -> tuple[Tier, NearbyDriver | None]:
        """The first tier with an available driver; the last one if there is none."""
        nearest: NearbyDriver | None = None
        tier: Tier = "home"
        for tier in community.rules.fallback:
            circle = communities.search_circles(community, tier)[-1]
            nearest = await self._nearest(db, request, passenger_id, circle)
            if nearest is not None:
                break
        return tier, nearest

    def _changes(
        self, request: CommunityRequest, community: Community, tier: Tier, nearest: NearbyDriver | None
    ) -> Changes:
        trip = None if nearest is None else estimate_trip(nearest.ping.place, request.place)
        return Changes(
            tier=tier,
            distance_meters=trip and trip.distance_meters,
            wait_seconds=trip and trip.duration_seconds,
            fare_cents=self._fare(request, community, tier),
            home_fare_cents=self._fare(request, community, "home"),
        )

    def _fare(self, request: CommunityRequest, community: Community, tier: Tier) -> int:
        fare = rides.quote_fare(_ride_request(request, community, tier, priced_as=tier), self._terms.tariff)
        assert fare is not None, "a community's ride always has a fare"
        return fare

    async def confirm_ride(
        self, db: Db, token: str, fields: Mapping[str, object], *, passenger_id: UserId, by: UUID
    ) -> Answer:
        """Create the one ride of this confirmation. A repeat returns it, also after the expiry.

        `fields` of the body must be equal to the request's. If the community has an available driver by now,
        the ride has the home fare.
        """
        token_hash, ride_id = token_digest(token), RideId(new_id())
        used = await store.use_by_token(db, token_hash, fields, passenger_id=passenger_id, ride_id=ride_id)
        if used is not None:
            return await self._create_confirmed(db, used, by=by)
        # If another transaction is using it, the read waits for that one to end.
        found = await store.read_after_lock(db, token_hash, passenger_id=passenger_id)
        if found is None:
            return await refuse_token(db, passenger_id, by=by)
        different = [name for name, value in fields.items() if getattr(found.asked, name) != value]
        if different:
            return await refuse(db, ConfirmationContradicted(fields=different), found, by=by)
        return await repeat_answer(db, found, by=by)

    async def _create_confirmed(self, db: Db, confirmation: Confirmation, *, by: UUID) -> RideCreated:
        request, passenger_id = confirmation.asked, confirmation.passenger_id
        community = await self._community_of(db, confirmation)
        at_home = await self._nearest(db, request, passenger_id, frozenset({community.id})) is not None
        # The ride keeps the confirmed tier: the community's own drivers are asked first in every tier.
        priced_as: Tier = "home" if at_home else confirmation.tier
        ride_request = _ride_request(request, community, confirmation.tier, priced_as=priced_as)
        ride = await self._create(db, ride_request, passenger_id, confirmation)
        await record_use(db, confirmation, ride, by=by)
        return RideCreated(ride, confirmed=True, at_home=at_home)

    async def _create(
        self,
        db: Db,
        request: RideRequest,
        passenger_id: UserId,
        confirmation: Confirmation | None = None,
    ) -> Ride:
        return await rides.request_ride(
            db,
            replace(request, confirmation_id=confirmation.id if confirmation else None),
            passenger_id=passenger_id,
            tariff=self._terms.tariff,
            search_timeout=self._terms.search_timeout,
            cancellations=self._terms.cancellations,
            ride_id=confirmation.ride_id if confirmation else None,
        )

    async def _community_of(self, db: Db, confirmation: Confirmation) -> Community:
        """As it was when the confirmation was issued."""
        return await self._fences.version(db, confirmation.community_id, confirmation.community_version)

    async def _nearest(
        self, db: Db, request: CommunityRequest, passenger_id: UserId, circle: CommunityFilter
    ) -> NearbyDriver | None:
        """The nearest available driver of the circle; the passenger is never one."""
        search = Search(
            place=request.place,
            radius_meters=self._terms.radius_meters,
            limit=1,
            community_ids=circle,
            fresh=self._terms.fresh,
        )
        _, nearby = await location.scan_nearby(db, self._redis, search, excluded={passenger_id})
        available = (one for one in nearby if one.is_available and one.driver_id != passenger_id)
        return next(available, None)


def _ride_request(
    request: CommunityRequest, community: Community, tier: Tier, *, priced_as: Tier
) -> RideRequest:
    prices = community.prices_for(priced_as)
    return replace(request.to_ride_request(), community=community, tier=tier, prices=prices)
