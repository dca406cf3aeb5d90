"""Values for the examples in OpenAPI."""

from pydantic.config import JsonDict

RIDE_ID = "0198a8b2-3c00-7000-8000-000000000001"
DRIVER_ID = "0198a7f0-5d2e-7c41-9f0a-3b1c2d4e5f60"
PASSENGER_ID = "0198a7f0-5d2e-7c41-9f0a-3b1c2d4e5f61"
OFFER_ID = "0198a8b2-3c00-7000-8000-000000000002"
MOMENT = "2025-08-14T12:00:00Z"
PLACES: JsonDict = {
    "pickup_lat": -12.9777,
    "pickup_lon": -38.5016,
    "dropoff_lat": -13.0102,
    "dropoff_lon": -38.5326,
}
