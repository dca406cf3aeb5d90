"""The settings decide the search: radius, interval, number of offers and duration."""

from dataclasses import fields
from datetime import timedelta

from catraca.domains.matching import Rules
from catraca.platform.redis_client import RedisClient
from catraca.roles.domain_rules import matcher_of
from catraca.settings import LEASE_GRACE, Settings, read_settings

SETTINGS = read_settings(
    driver_response_timeout="7.5",
    lock_ttl="3",
    presence_timeout="41",
    max_attempts_per_search="4",
    search_retry_interval="2.5",
    initial_search_radius="1100",
    max_search_radius="2300",
    radius_increment="450",
    offers_at_once="2",
)


def test_each_setting_reaches_its_rule() -> None:
    terms = matcher_of(SETTINGS, RedisClient(None)).terms
    assert terms.rules == Rules(
        offers_at_once=2,
        max_attempts_per_search=4,
        search_retry_interval=timedelta(seconds=2.5),
        initial_radius_meters=1100,
        max_radius_meters=2300,
        radius_increment_meters=450,
    )
    assert terms.offer_ttl == timedelta(seconds=7.5)
    assert terms.offer_lease == terms.offer_ttl + LEASE_GRACE, (
        "the lease outlives the offer, also with a short lock setting"
    )
    assert terms.fresh == timedelta(seconds=41)


def test_settings_above_differ_from_all_defaults() -> None:
    """Otherwise the test above would miss a setting that is not passed on."""
    rules, default = matcher_of(SETTINGS, RedisClient(None)).terms.rules, Rules()
    assert not [one.name for one in fields(Rules) if getattr(rules, one.name) == getattr(default, one.name)]


def test_defaults_are_those_of_the_rfc() -> None:
    settings = Settings.defaults()
    terms = matcher_of(settings, RedisClient(None)).terms
    assert terms.rules == Rules()
    assert (terms.offer_ttl, terms.offer_lease) == (timedelta(seconds=20), timedelta(seconds=25))
    assert [terms.rules.radius_of(search) for search in range(1, 7)] == [
        5000,
        7500,
        10_000,
        12_500,
        15_000,
        15_000,
    ]
