"""Published tables with ours beside them, and the measures of a model pack: each module is one `updp bench NAME`."""
