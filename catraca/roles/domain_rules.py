"""Settings as the domains take them."""

from catraca.domains.analytics import AlertRule
from catraca.domains.billing import BillingRules, PixReceiver, PixTerms
from catraca.domains.fares import Tariff
from catraca.domains.geofences import GeofenceTerms
from catraca.domains.location.fence_crossings.model import CrossingRules
from catraca.domains.location.model import PingRules
from catraca.domains.location.presence.jobs import PatrolRules
from catraca.domains.matching import Matcher, Rules, Terms
from catraca.domains.rides.model import CancellationRule, RideTerms, TripLimits
from catraca.domains.scheduling import BookingRules, ClientLimits
from catraca.platform.redis_client import RedisClient
from catraca.settings import Settings
from catraca.settings.analytics import AnalyticsSettings
from catraca.settings.billing import BillingSettings
from catraca.settings.fares import FareSettings
from catraca.settings.location import LocationSettings
from catraca.settings.rides import RideSettings
from catraca.settings.scheduling import SchedulingSettings


def alert_rule(settings: AnalyticsSettings) -> AlertRule:
    return AlertRule(
        percent=settings.failure_alert_percent,
        window=settings.failure_alert_window,
        minimum=settings.failure_alert_minimum,
    )


def tariff_of(settings: FareSettings) -> Tariff:
    return Tariff(
        base_cents=settings.tariff_base_cents,
        per_km_cents=settings.tariff_per_km_cents,
        per_minute_cents=settings.tariff_per_minute_cents,
        minimum_cents=settings.tariff_minimum_cents,
        currency=settings.currency,
    )


def billing_rules(settings: Settings) -> BillingRules:
    return BillingRules(
        currency=settings.fares.currency,
        commission_basis_points=settings.billing.commission_basis_points,
        payment_timeout=settings.billing.payment_timeout,
    )


def pix_terms(settings: BillingSettings) -> PixTerms:
    key, name, city = settings.pix_key, settings.pix_name, settings.pix_city
    return PixTerms(PixReceiver(key=key, name=name, city=city) if key and name and city else None)


def ride_terms(settings: Settings) -> RideTerms:
    return RideTerms(
        tariff=tariff_of(settings.fares),
        search_timeout=settings.rides.global_matching_timeout,
        offer_ttl=settings.rides.driver_response_timeout,
        limits=TripLimits(longest=settings.rides.longest_ride, top_speed_kmh=settings.rides.ride_top_speed),
        cancellations=cancellation_rule(settings.rides),
    )


def cancellation_rule(settings: RideSettings) -> CancellationRule:
    return CancellationRule(free=settings.free_cancellations, pause=settings.cancellation_pause)


def ping_rules(settings: LocationSettings) -> PingRules:
    return PingRules(
        max_age=settings.presence_timeout,
        max_speed_mps=settings.ping_max_speed,
        max_accuracy_meters=settings.ping_max_accuracy,
    )


def patrol_rules(settings: LocationSettings) -> PatrolRules:
    return PatrolRules(
        presence_timeout=settings.presence_timeout,
        idle_after=settings.idle_after,
        position_interval=settings.position_interval,
        crossings=CrossingRules(pings=settings.community_edge_pings, dwell=settings.community_edge_dwell),
    )


def booking_rules(settings: SchedulingSettings) -> BookingRules:
    return BookingRules(
        reminder=settings.appointment_reminder,
        hold_ttl=settings.hold_ttl,
        max_holds=settings.max_holds,
        limits=client_limits(settings),
    )


def client_limits(settings: SchedulingSettings) -> ClientLimits:
    return ClientLimits(
        upcoming=settings.max_upcoming_appointments, in_series=settings.max_upcoming_in_series
    )


def geofence_terms(settings: Settings) -> GeofenceTerms:
    return GeofenceTerms(
        enabled=settings.geofences.enable_geofence,
        confirmation_ttl=settings.geofences.confirmation_ttl,
        tariff=tariff_of(settings.fares),
        search_timeout=settings.rides.global_matching_timeout,
        cancellations=cancellation_rule(settings.rides),
        radius_meters=settings.matching.max_search_radius,
        fresh=settings.location.presence_timeout,
    )


def matcher_of(settings: Settings, redis: RedisClient) -> Matcher:
    rules = Rules(
        offers_at_once=settings.matching.offers_at_once,
        max_attempts_per_search=settings.matching.max_attempts_per_search,
        search_retry_interval=settings.matching.search_retry_interval,
        initial_radius_meters=settings.matching.initial_search_radius,
        max_radius_meters=settings.matching.max_search_radius,
        radius_increment_meters=settings.matching.radius_increment,
    )
    terms = Terms(
        rules=rules,
        offer_ttl=settings.rides.driver_response_timeout,
        offer_lease=settings.offer_lease,
        fresh=settings.location.presence_timeout,
    )
    return Matcher(redis, terms)
