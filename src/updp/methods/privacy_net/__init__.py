"""Privacy-Net: an encoded film for a classifier that was trained along."""
