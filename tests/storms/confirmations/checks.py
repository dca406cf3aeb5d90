"""Checks that confirmations, rides, events, the audit log and the answers to clients agree."""

from collections import Counter
from dataclasses import dataclass, field
from uuid import UUID

from catraca.platform.database import Db
from tests.storms.callers import JsonAnswer
from tests.storms.checks import failed_checks
from tests.storms.confirmations.data import Question
from tests.storms.rides.checks import EVENTS

WRITTEN = """
    SELECT subject_id::uuid AS id,
        count(*) FILTER (WHERE action = 'confirmation.issued') AS issued,
        count(*) FILTER (WHERE action = 'confirmation.confirmed') AS confirmed,
        count(*) FILTER (WHERE action = 'confirmation.expired') AS expired
    FROM audit_log WHERE subject_kind = 'confirmation' GROUP BY 1"""
# Each query must return no row.
CHECKS = {
    "used confirmations and rides do not match one to one": """
        SELECT c.id, c.ride_id, r.id AS rides_id FROM (
            SELECT id, ride_id, passenger_id FROM ride_confirmations WHERE used_at IS NOT NULL) c
        FULL JOIN (SELECT id, confirmation_id, passenger_id FROM rides) r ON r.confirmation_id = c.id
        WHERE (c.ride_id, c.passenger_id) IS DISTINCT FROM (r.id, r.passenger_id)""",
    "passengers have two rides": """
        SELECT passenger_id, array_agg(id) FROM rides GROUP BY 1 HAVING count(*) > 1""",
    "rides do not have exactly one `ride.requested` event": f"""
        SELECT r.id, events FROM rides r FULL JOIN (
            SELECT aggregate_id AS id, count(*) AS events FROM ({EVENTS}) t
            WHERE routing_key = 'ride.requested' GROUP BY 1) t USING (id)
        WHERE r.status IS NULL OR events IS DISTINCT FROM 1""",
    "confirmations do not match their audit entries": f"""
        SELECT c.id, c.used_at, c.expired_at, issued, confirmed, expired
        FROM ride_confirmations c FULL JOIN ({WRITTEN}) w USING (id)
        WHERE (issued, confirmed, expired)
            IS DISTINCT FROM (1, num_nonnulls(c.used_at), num_nonnulls(c.expired_at))""",
    "expired confirmations do not have exactly one event": f"""
        SELECT c.id, events FROM (SELECT id FROM ride_confirmations WHERE expired_at IS NOT NULL) c
        FULL JOIN (
            SELECT aggregate_id AS id, count(*) AS events FROM ({EVENTS}) t
            WHERE routing_key = 'ride.confirmation_expired' GROUP BY 1) t ON t.id = c.id
        WHERE c.id IS NULL OR events IS DISTINCT FROM 1""",
}
AT_REST = {
    "confirmations are neither used nor expired": """
        SELECT id FROM ride_confirmations WHERE used_at IS NULL AND expired_at IS NULL""",
    "timers were left": "SELECT subject_id FROM timers WHERE kind = 'geofences.confirmation_due'",
}


@dataclass
class Answers:
    """The answers to clients that confirmed a question, and to phones that asked it again."""

    confirmations: list[JsonAnswer]
    requests: list[JsonAnswer] = field(default_factory=list)

    def ride_id(self) -> UUID | None:
        """The ride that all answers name, created at most once; None if all were refused as too late."""
        statuses = Counter(answer.status for answer in self.confirmations)
        if statuses.keys() == {410}:
            codes = {answer.problem()["code"] for answer in self.confirmations}
            assert codes == {"confirmation_token_expired"}
            return None
        other = [answer.body.decode() for answer in self.confirmations if answer.status not in (200, 201)]
        assert not other, f"{dict(statuses)}: {other[0]}"
        assert statuses[201] <= 1, f"{statuses[201]} clients got 201"
        rides = {answer.json()["rideId"] for answer in self.confirmations}
        assert len(rides) == 1, f"answers name different rides: {rides}"
        return UUID(rides.pop())

    def count_requests(self, question: Question, ride_id: UUID | None) -> Counter[str]:
        """Count the phones that got the same question or its ride; fail on any other answer."""
        counts: Counter[str] = Counter()
        for answer in self.requests:
            if answer.status == 202:
                token = answer.json()["confirmationToken"]
                assert token == question.token, "a repeated request got another question"
                counts["repeated requests with the same question"] += 1
            else:
                assert answer.problem()["code"] == "ride_already_open", answer.body
                assert answer.problem()["ride_id"] == str(ride_id), "another ride is open"
                counts["repeated requests with the open ride"] += 1
        return counts


async def broken_by_question(db: Db, question: Question, answers: Answers, ride_id: UUID | None) -> list[str]:
    """Failed checks of one question against the answers that clients got, and of the whole database."""
    rows = await db.fetch("SELECT id FROM rides WHERE passenger_id = $1", question.passenger_id)
    found, known = [row["id"] for row in rows], [] if ride_id is None else [ride_id]
    broken = [] if found == known else [f"rides of the passenger: {found}; in answers: {known}"]
    replays = await db.fetchval(
        "SELECT count(*) FROM audit_log WHERE action = 'confirmation.replayed' AND actor_id = $1",
        question.passenger_id,
    )
    repeats = sum(answer.status == 200 for answer in answers.confirmations)
    if replays < repeats:
        broken.append(f"{repeats} repeats were answered, {replays} are in the audit log")
    return broken + await failed_checks(db, CHECKS)
