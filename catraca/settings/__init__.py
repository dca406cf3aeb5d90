"""All settings, by domain. Only roles and the command line read them.

The variable of a setting is `CATRACA_` and its name: `CATRACA_LOCK_TTL` is `settings.location.lock_ttl`.
"""

from dataclasses import dataclass, fields, replace
from datetime import timedelta
from pathlib import Path
from typing import Any, Self, cast

from pydantic import ValidationError

from catraca.platform.auth import TokenRules
from catraca.settings.access import AccessSettings
from catraca.settings.analytics import AnalyticsSettings
from catraca.settings.billing import BillingSettings
from catraca.settings.bus import BusSettings
from catraca.settings.fares import FareSettings
from catraca.settings.geofences import GeofenceSettings
from catraca.settings.http import HttpSettings
from catraca.settings.location import LocationSettings
from catraca.settings.matching import MatchingSettings
from catraca.settings.notifications import NotificationSettings
from catraca.settings.onboarding import OnboardingSettings
from catraca.settings.people import PeopleSettings
from catraca.settings.process import ProcessSettings
from catraca.settings.rides import RideSettings
from catraca.settings.scheduling import SchedulingSettings
from catraca.settings.secret import SECRET_REMEDY, fault_of_secret, generated_secret
from catraca.settings.servers import ServerSettings
from catraca.settings.values import Group

# What to do if demo data are refused.
DEMO_REMEDY = "for demo data set CATRACA_ENVIRONMENT=development, for real data set it to production"
# The lock of an offer outlives the offer by this, so that clock skew or delay never ends the lock first.
LEASE_GRACE = timedelta(seconds=5)


class WrongSettings(Exception):
    """Variables with values that cannot be used; the message names each of them, without its value."""


class UnfitForProduction(Exception):
    """A setting is not safe enough for production, or for other machines; the message names the remedy."""


class NoSecret(Exception):
    """The state folder has no secret; the message says where it was looked for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    process: ProcessSettings
    servers: ServerSettings
    http: HttpSettings
    access: AccessSettings
    bus: BusSettings
    people: PeopleSettings
    onboarding: OnboardingSettings
    fares: FareSettings
    billing: BillingSettings
    rides: RideSettings
    matching: MatchingSettings
    location: LocationSettings
    geofences: GeofenceSettings
    scheduling: SchedulingSettings
    notifications: NotificationSettings
    analytics: AnalyticsSettings

    @classmethod
    def defaults(cls) -> Self:
        """Settings without an environment."""
        groups: dict[str, Any] = {name: kind.model_construct() for name, kind in GROUPS.items()}
        return cls(**groups)

    def changed(self, **values: object) -> Self:
        """A copy with other values, each by the name of its setting; they are not validated."""
        by_group: dict[str, dict[str, object]] = {}
        for name, value in values.items():
            by_group.setdefault(GROUP_OF[name], {})[name] = value
        copies = {name: getattr(self, name).model_copy(update=update) for name, update in by_group.items()}
        return replace(self, **copies)

    @property
    def offer_lease(self) -> timedelta:
        """How long a driver is locked for an offer: always longer than the offer lives."""
        return max(self.location.lock_ttl, self.rides.driver_response_timeout + LEASE_GRACE)

    def secret_fault(self) -> str | None:
        """Why the secret is not fit for production; None if it is."""
        return fault_of_secret(self.access.secret, self.servers.database_url)

    def is_secret_reachable(self) -> bool:
        """True if the secret is given, and other machines reach the API that it protects."""
        return self.access.secret is not None and not self.process.is_local()

    def ensure_fit(self) -> None:
        """Raise UnfitForProduction if tokens could be forged.

        In production, and with a given secret wherever other machines reach the API.
        """
        fault, in_production = self.secret_fault(), self.process.environment == "production"
        if fault is not None and (in_production or self.is_secret_reachable()):
            raise UnfitForProduction(f"CATRACA_SECRET is {fault}. {SECRET_REMEDY}")
        if in_production and (self.access.jwks_url or "").lower().startswith("http://"):
            raise UnfitForProduction("CATRACA_JWKS_URL is without encryption. Give an https:// address.")

    def demo_fault(self) -> str | None:
        """Why demo data are refused; None if they are allowed.

        Takes the settings as the operator gave them, without the address of an embedded database.
        """
        if self.process.environment == "production":
            return "CATRACA_ENVIRONMENT is production"
        if self.process.environment == "development":
            return None
        if not self.process.is_local():
            return "CATRACA_HOST is not a loopback address"
        return None if self.servers.database_url is None else "CATRACA_DATABASE_URL is set"

    def token_rules(self) -> TokenRules:
        """The claims that a valid token must have."""
        return TokenRules(
            issuer=self.access.jwt_issuer,
            audience=self.access.jwt_audience,
            roles_claim=self.access.jwt_roles_claim,
            strong_roles=frozenset({"operator"} if self.access.operator_second_factor == "required" else ()),
        )

    def signing_secret(self) -> str:
        """The secret given, or the one in the state folder, which is generated on first use.

        For processes that serve. A command uses `existing_secret`.
        """
        return self.access.secret or generated_secret(self._secret_file)

    def existing_secret(self) -> str:
        """The secret that a running Catraca uses; raises NoSecret instead of generating another."""
        if self.access.secret is None and not self._secret_file.exists():
            raise NoSecret(
                f"there is no secret in {self._secret_file.parent.resolve()}: run this where Catraca was"
                " started, or set the same CATRACA_STATE_DIR or CATRACA_SECRET"
            )
        return self.signing_secret()

    @property
    def _secret_file(self) -> Path:
        return self.process.state_dir / "secret"


GROUPS = {field.name: cast(type[Group], field.type) for field in fields(Settings)}
GROUP_OF = {setting: group for group, kind in GROUPS.items() for setting in kind.model_fields}


def read_settings(**given: object) -> Settings:
    """Settings of the environment; `given` values, each by the name of its setting, take precedence.

    Raises WrongSettings, which names every wrong variable at once.
    """
    groups: dict[str, Any] = {}
    wrong: dict[str, str] = {}
    for group, kind in GROUPS.items():
        values = {name: value for name, value in given.items() if GROUP_OF[name] == group}
        try:
            groups[group] = kind(**values)
        except ValidationError as error:
            wrong |= _faults(error)
    if wrong:
        raise WrongSettings("; ".join(wrong.values()))
    return Settings(**groups)


def variable_of(setting: str) -> str:
    return f"CATRACA_{setting.upper()}"


def _faults(error: ValidationError) -> dict[str, str]:
    """One line for each wrong variable, though each of its parts may be wrong; without secret values."""
    faults: dict[str, str] = {}
    for fault in error.errors(include_input=False, include_url=False):
        message = fault["msg"].removeprefix("Value error, ")
        if fault["loc"]:
            variable = variable_of(str(fault["loc"][0]).lower().removeprefix("catraca_"))
            faults[variable] = f"{variable}: {message}"
        else:  # about several variables, which the message names
            faults[message] = message
    return faults
