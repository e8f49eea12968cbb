"""Which films and reports an evaluation looks at: loaded from a release, or sampled from a source."""
