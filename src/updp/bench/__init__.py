"""Published tables with the measured ones beside them, and measures of a model pack; each module is a `updp bench`."""
