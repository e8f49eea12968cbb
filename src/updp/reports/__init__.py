"""Reports: find what identifies, replace it, keep every finding."""
