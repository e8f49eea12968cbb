"""From a source to a release: the stations a study passes, and the run that takes all studies through them."""
