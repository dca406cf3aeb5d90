"""The waitlist: clients wait for a time that is taken, and freed time is offered to them in order."""
