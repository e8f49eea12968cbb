"""Films as arrays: reading pictures and DICOM pixels, fitting them to a square, encoding."""
