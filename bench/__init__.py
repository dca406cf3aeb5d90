"""`make bench`: the cost of operations, as ratios taken in one run on one machine."""
