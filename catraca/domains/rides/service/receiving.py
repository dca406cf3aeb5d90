"""That an offer has reached the driver's device."""

from collections.abc import Iterable
from uuid import UUID

from catraca.domains.rides.store import offers as store
from catraca.events import OfferSent
from catraca.platform.database import Db, outbox


async def acknowledge_offers(db: Db, offer_ids: Iterable[UUID]) -> None:
    """Note and tell that these were received, each once, whoever says so how often."""
    received = await store.insert_receipts(db, offer_ids)
    await outbox.record(
        db,
        *(
            OfferSent(
                offer_id=offer.id,
                ride_id=offer.ride_id,
                driver_id=offer.driver_id,
                round=offer.round,
                attempt=offer.attempt,
                sent_at=at,
            )
            for offer, at in received
        ),
    )
