"""The queue of sign-ups follows its settings, and all valid settings make a valid topology."""

import pytest

from catraca.events import SIGN_UP_EXCHANGE, SIGN_UP_QUEUE, TOPOLOGY, SignUpFlow, make_topology
from catraca.events.topology import sign_up_queue
from catraca.roles.consumers import check_wiring
from catraca.roles.parts import open_parts
from catraca.settings import read_settings


@pytest.mark.parametrize(
    ("retry_ttl_ms", "name"),
    [
        (10_000, "raffle_retry_10s"),
        (1500, "raffle_retry_1500ms"),
        (1, "raffle_retry_1ms"),
        (86_400_000, "raffle_retry_86400s"),
    ],
)
def test_sign_up_retry_queue_is_named_after_its_delay(retry_ttl_ms: int, name: str) -> None:
    own = sign_up_queue(SignUpFlow(retry_ttl_ms=retry_ttl_ms)).retries_in
    assert own is not None
    assert (own.name, own.exchange, own.returns_by) == (
        name,
        "raffle_retry_exchange",
        ("raffle_exchange", "raffle_queue"),
    )
    assert own.delay_seconds == retry_ttl_ms / 1000


@pytest.mark.parametrize("max_retries", [0, 1, 3, 100])
def test_sign_up_retries_follow_the_settings(max_retries: int) -> None:
    topology = make_topology(SignUpFlow(retry_ttl_ms=250, max_retries=max_retries))
    assert topology.delays_of(topology.queue(SIGN_UP_QUEUE)) == (0.25,) * max_retries
    assert topology.delays_of(topology.queue("audit_log_queue")) == topology.retry_delays_seconds


@pytest.mark.parametrize(
    "flow",
    [
        SignUpFlow(),
        SignUpFlow(retry_ttl_ms=1, max_retries=0, batch_size=1, batch_timeout_ms=1, proc_concurrency=1),
        SignUpFlow(batch_size=5000, batch_concurrency=20, proc_concurrency=100, max_retries=100),
        SignUpFlow(batch_size=5000, batch_concurrency=1),
    ],
)
def test_any_sign_up_settings_give_a_valid_topology(flow: SignUpFlow) -> None:
    topology = make_topology(flow)
    check_wiring(topology)
    queue = topology.queue(SIGN_UP_QUEUE)
    assert queue.prefetch >= queue.batch * (queue.concurrency + 1), "one batch fills, others are written"


def test_sign_ups_reach_their_queue_alone_and_die_in_their_own() -> None:
    queue = TOPOLOGY.queue(SIGN_UP_QUEUE)
    assert TOPOLOGY.route(SIGN_UP_EXCHANGE, SIGN_UP_QUEUE) == [queue]
    assert [one.name for one in TOPOLOGY.route_dead_letter(queue, SIGN_UP_QUEUE)] == ["raffle_dlq"]


async def test_a_process_has_the_queue_of_its_settings() -> None:
    settings = read_settings(
        database_url="postgresql://catraca@127.0.0.1:1/catraca",
        retry_ttl_ms=1500,
        max_retries=2,
        users_batch_size=50,
        users_batch_timeout_ms=200,
        users_proc_concurrency=3,
        users_batch_concurrency=4,
    )
    async with open_parts(settings) as parts:
        queue = parts.topology.queue(SIGN_UP_QUEUE)
        assert queue.retries_in is not None
        assert queue.retries_in.name == "raffle_retry_1500ms"
        assert parts.topology.delays_of(queue) == (1.5, 1.5)
        assert (queue.batch, queue.fill_seconds, queue.processors, queue.concurrency) == (50, 0.2, 3, 4)
