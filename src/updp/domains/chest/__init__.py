"""Chest films and their reports."""
