"""`make bench`: what things cost, as ratios taken in one run on one machine."""
