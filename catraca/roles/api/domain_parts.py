"""What the routes of each domain need, from settings and servers."""

from catraca.domains import (
    audit,
    billing,
    communities,
    dead_letters,
    geofences,
    location,
    notifications,
    onboarding,
    people,
    scheduling,
)
from catraca.domains.geofences.routes import GeofenceParts
from catraca.domains.location.pings.service import PingRecorder
from catraca.domains.location.positions.service import PositionPublisher
from catraca.domains.location.presence.service import PresenceParts
from catraca.domains.location.routes import LocationParts
from catraca.domains.notifications.push.routes import PushParts
from catraca.domains.onboarding.routes import OnboardingParts
from catraca.domains.people.accounts.routes import AccountParts
from catraca.domains.people.credentials.model import AddressMarks
from catraca.domains.people.credentials.routes import CredentialParts
from catraca.domains.people.credentials.service import SignInLimits
from catraca.domains.people.email_changes.service import EmailLimits
from catraca.domains.people.second_factor.model import FactorVault
from catraca.domains.people.second_factor.routes import SecondFactorParts
from catraca.domains.rides.personal_data.service import ATTEMPT_DATA
from catraca.domains.rides.personal_data.service import PERSONAL_DATA as RIDE_DATA
from catraca.domains.scheduling.routes import SchedulingParts
from catraca.platform.auth import TokenSigner
from catraca.platform.bus import Transport
from catraca.platform.gather import Gather
from catraca.platform.http.rate_limits import RateLimit, RateLimiter
from catraca.platform.key_queues import KeyQueues
from catraca.platform.passwords import Passwords
from catraca.platform.web_push import PushHosts, PushKey
from catraca.roles.domain_rules import booking_rules, geofence_terms, ping_rules
from catraca.roles.parts import Parts
from catraca.settings import Settings

# Every domain that keeps personal data, in the order of export and erasure.
PERSONAL_DATA = [
    # First: bookings lock the agenda and then the client's row, so an erasure must do the same.
    scheduling.PERSONAL_DATA,
    people.PERSONAL_DATA,
    audit.PERSONAL_DATA,
    onboarding.PERSONAL_DATA,
    RIDE_DATA,
    ATTEMPT_DATA,
    billing.PERSONAL_DATA,
    geofences.PERSONAL_DATA,
    notifications.PERSONAL_DATA,
    notifications.DEVICE_DATA,
    dead_letters.PERSONAL_DATA,
]


def account_parts(parts: Parts, limiter: RateLimiter) -> AccountParts:
    return AccountParts(
        driver_approval=parts.settings.people.driver_approval,
        personal_data=[*PERSONAL_DATA, location.personal_data(parts.redis)],
        email_limits=EmailLimits(limiter, RateLimit.parse(parts.settings.people.rate_limit_email_change)),
    )


def credential_parts(settings: Settings, limiter: RateLimiter) -> CredentialParts:
    signer = None
    if not settings.access.jwks_url:
        signer = TokenSigner(
            secret=settings.signing_secret(), lifetime=settings.people.token_ttl, rules=settings.token_rules()
        )
    return CredentialParts(
        signer=signer,
        passwords=Passwords(),
        password_link_lifetime=settings.people.password_link_ttl,
        sign_in_limits=SignInLimits(
            limiter=limiter,
            per_address=RateLimit.parse(settings.people.rate_limit_sign_in_address),
            per_account=RateLimit.parse(settings.people.rate_limit_sign_in_account),
        ),
        address_marks=AddressMarks(settings.signing_secret()),
        factor_vault=FactorVault(settings.signing_secret()),
    )


def second_factor_parts(settings: Settings, limiter: RateLimiter) -> SecondFactorParts:
    vault = None if settings.access.jwks_url else FactorVault(settings.signing_secret())
    return SecondFactorParts(vault=vault, limiter=limiter)


def onboarding_parts(settings: Settings, bus: Transport) -> OnboardingParts:
    return OnboardingParts(
        seal=onboarding.Seal(settings.signing_secret()),
        # Sign-ups that arrive while the bus publishes are published together next.
        publish=Gather(bus.publish).ask,
        publish_many=bus.publish,
        sign_ups_per_address=RateLimit.parse(settings.onboarding.rate_limit_sign_up_address),
        sign_ups_per_email=RateLimit.parse(settings.onboarding.rate_limit_sign_up_email),
    )


def geofence_parts(parts: Parts, fences: communities.Fences, limiter: RateLimiter) -> GeofenceParts:
    tokens = geofences.ConfirmationTokens(parts.settings.signing_secret())
    return GeofenceParts(
        rides=geofences.CommunityRides(parts.redis, fences, geofence_terms(parts.settings), tokens),
        limiter=limiter,
        wrong_tokens=RateLimit.parse(parts.settings.geofences.rate_limit_confirmation),
    )


def scheduling_parts(parts: Parts) -> SchedulingParts:
    return SchedulingParts(
        database=parts.database,
        queues=KeyQueues(parts.redis),
        rules=booking_rules(parts.settings.scheduling),
    )


def location_parts(parts: Parts) -> LocationParts:
    settings = parts.settings.location
    return LocationParts(
        redis=parts.redis, presence_timeout=settings.presence_timeout, lock_ttl=settings.lock_ttl
    )


def presence_parts(parts: Parts, fences: communities.Fences) -> PresenceParts:
    return PresenceParts(parts.redis, ping_rules(parts.settings.location), fences)


def ping_recorder(parts: Parts) -> PingRecorder:
    transact = parts.database.run
    publisher = PositionPublisher(transact, parts.bus.publish_transient)
    rules = ping_rules(parts.settings.location)
    return PingRecorder(parts.redis, transact, rules=rules, publisher=publisher)


def push_parts(settings: Settings) -> PushParts:
    hosts, contact = PushHosts(settings.notifications.push_hosts), settings.notifications.push_contact
    if contact is None:
        return PushParts(hosts=hosts)
    return PushParts(public_key=PushKey(settings.signing_secret(), contact=contact).public, hosts=hosts)
