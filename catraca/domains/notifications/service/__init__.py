"""What is done with notifications: telling, sending them over sockets, and hearing what clients say there."""
