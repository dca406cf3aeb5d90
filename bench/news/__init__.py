"""What the news costs: from committed row to handled event, against bare loops of the same transport."""
