"""What is measured of a release: attacks on its privacy, and its utility."""
