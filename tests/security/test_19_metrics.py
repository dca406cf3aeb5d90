"""Finding 19: each public request of /metrics read the files of all processes."""

import asyncio
from typing import Any

import pytest

from catraca.platform.http import health
from catraca.platform.http.places import WAITS
from catraca.roles.parts import Parts
from tests.servers import on_one_stack
from tests.support.http import served

pytestmark = on_one_stack


async def test_many_requests_for_metrics_are_computed_once(
    parts: Parts, monkeypatch: pytest.MonkeyPatch
) -> None:
    made, generate = list[None](), health.generate_latest

    def count(*registry: Any) -> bytes:
        made.append(None)
        return generate(*registry)

    monkeypatch.setattr(health, "generate_latest", count)
    monkeypatch.setattr(health, "METRICS_KEPT_SECONDS", 3600.0)
    async with served(parts) as to, to.client() as client:
        answers = await asyncio.gather(*(client.get("/metrics") for _ in range(20)))
        answers.append(await client.get("/metrics"))
    assert {answer.status_code for answer in answers} == {200}
    assert len({answer.content for answer in answers}) == 1
    assert b"catraca_" in answers[0].content
    assert len(made) == 1


async def test_metrics_are_renewed_when_they_are_old(parts: Parts) -> None:
    page = health.MetricsPage(kept_seconds=0.0)
    before = await page.text()
    WAITS.labels("person", "waited").inc()
    assert await page.text() != before


async def test_strangers_requests_for_metrics_are_counted(parts: Parts) -> None:
    async with served(parts, rate_limit_anonymous="2/day") as to, to.client() as client:
        answers = [await client.get("/metrics") for _ in range(4)]
    assert 429 in {answer.status_code for answer in answers}
