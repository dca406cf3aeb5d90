"""A simulated city that uses only the public API and sockets: to watch, and as a load.

city = City(url, sign, drivers=20, rides_per_minute=6, seed=1)
tally = await city.run(seconds=60)
"""

from catraca.client.demo.city import MOST_DRIVERS, MOST_RIDES_PER_MINUTE, City
from catraca.client.demo.tally import Tally, percentile

__all__ = ["MOST_DRIVERS", "MOST_RIDES_PER_MINUTE", "City", "Tally", "percentile"]
