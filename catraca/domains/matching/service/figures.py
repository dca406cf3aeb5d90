"""What is counted and measured of matching."""

from datetime import timedelta

from prometheus_client import Counter, Histogram

WAITS = (0.1, 0.5, 1, 2, 5, 10, 20, 40, 60, 120, 300)

SEARCHES = Counter(
    "catraca_matching_searches_total", "Looks around for drivers, by what they found.", ["found"]
)
OFFERS = Counter("catraca_matching_offers_total", "Offers that matching made.")
ENDS = Counter("catraca_matching_ends_total", "Searches that ended, by how.", ["reason"])
FIRST_OFFER = Histogram(
    "catraca_matching_first_offer_seconds", "From a ride's request to its first offer.", buckets=WAITS
)
MATCH = Histogram(
    "catraca_matching_match_seconds", "From the beginning of a search to the acceptance.", buckets=WAITS
)
LAG = Histogram(
    "catraca_matching_step_lag_seconds",
    "From when something was told to the step it led to.",
    ["queue"],
    buckets=(0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 5, 30),
)


def count_offers(made: int, first_after: timedelta | None) -> None:
    OFFERS.inc(made)
    if first_after is not None:
        FIRST_OFFER.observe(first_after.total_seconds())


def count_match(waited: timedelta) -> None:
    ENDS.labels("matched").inc()
    MATCH.observe(max(0.0, waited.total_seconds()))
