"""`make prove`: the long storms at full size, bounded and resumable."""
