"""What every other part speaks of: records, policy, keys, reason codes, storage, measurements."""
