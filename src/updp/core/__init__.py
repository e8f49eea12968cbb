"""What every other part uses: records, policy, keys, reason codes, storage, measurements."""
