"""What every rank did and when: dumps of the event ring, and the formats that other tools open."""
