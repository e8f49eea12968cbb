"""The virtual hospital: invented patients, their films and reports, and the demonstration on them."""
