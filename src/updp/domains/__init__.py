"""Domains: what is particular to one kind of image, one folder or file each."""
