"""Rows that compare Catraca with itself: more processes, workers, rows or routes."""

from functools import partial

from bench.growth.history import FEW_ROWS, MANY_ROWS
from bench.matching.load import MatchLoad
from bench.measurement import Row
from bench.rides.accepts import AcceptLoad
from bench.scheduling.booking import BookingLoad
from bench.stage import FEW_ROUTES, Stage, caller_headers
from bench.wrk import HttpLoad

WANT = 0.9
_row = partial(Row, group="growth")


def growth_rows(stage: Stage) -> list[Row]:
    return [
        _row(
            "growth: accepts, two API processes",
            "one API process",
            None,
            lambda: (AcceptLoad(*stage.two_processes.api), AcceptLoad(*stage.full.api)),
        ),
        *(_worker_row(stage, workers, any_worker=True) for workers in (10, 100)),
        _worker_row(stage, 100, any_worker=False),
        _row(
            f"growth: accepts, {MANY_ROWS:,} finished rides",
            f"with {FEW_ROWS:,}",
            WANT,
            lambda: (AcceptLoad(*stage.many_finished.api), AcceptLoad(*stage.few_finished.api)),
        ),
        _row(
            f"growth: matches, {MANY_ROWS:,} finished rides",
            f"with {FEW_ROWS:,}",
            WANT,
            lambda: (MatchLoad(*stage.many_finished.servers), MatchLoad(*stage.few_finished.servers)),
        ),
        _row(
            f"growth: bookings, {MANY_ROWS:,} past appointments",
            f"with {FEW_ROWS:,}",
            WANT,
            lambda: (BookingLoad(*stage.many_finished.api), BookingLoad(*stage.few_finished.api)),
        ),
        _row(
            "growth: no-op GETs, all routes",
            f"about {FEW_ROUTES} routes",
            WANT,
            lambda: (
                HttpLoad(f"{stage.full.url}/noop", caller_headers()),
                HttpLoad(f"{stage.few_routes.url}/noop", caller_headers()),
            ),
        ),
    ]


def _worker_row(stage: Stage, workers: int, *, any_worker: bool) -> Row:
    def bookings(count: int) -> BookingLoad:
        return BookingLoad(*stage.full.api, any_worker=any_worker, workers_of_a_service=count)

    return _row(
        f"growth: bookings of {'any' if any_worker else 'one'} of {workers} workers",
        "a service of one worker",
        WANT,
        lambda: (bookings(workers), bookings(1)),
    )
