"""Records of what every rank did and when, and their conversion to formats that other tools open."""
