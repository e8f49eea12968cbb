"""Published tables, ours beside them: each module is one `updp bench NAME`."""
