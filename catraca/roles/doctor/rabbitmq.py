"""RabbitMQ, if its address is set."""

from catraca.platform.server_info import RabbitFacts, Unreachable, ask_rabbitmq
from catraca.roles.doctor.findings import Finding, ok, problem, version_of, warning
from catraca.settings import Settings

NAME = "RabbitMQ"
OLDEST = (3, 10)


async def check_rabbitmq(settings: Settings) -> list[Finding]:
    if settings.servers.amqp_url is None:
        return [ok(NAME, "not set: the queues are in PostgreSQL")]
    try:
        return [judge_rabbitmq(await ask_rabbitmq(settings.servers.amqp_url))]
    except Unreachable as error:
        remedy = "Start it, or correct CATRACA_AMQP_URL (host, port, user, password, virtual host)."
        return [problem(NAME, f"cannot be reached: {error}", remedy)]


def judge_rabbitmq(facts: RabbitFacts) -> Finding:
    found = f"{facts.product} {facts.version}"
    if facts.product != NAME:
        return warning(NAME, found, "Only RabbitMQ is tested; Catraca needs its quorum queues and confirms.")
    if version_of(facts.version) < OLDEST:
        return problem(NAME, found, "Catraca needs 3.10 or newer: upgrade it.")
    return ok(NAME, found)
