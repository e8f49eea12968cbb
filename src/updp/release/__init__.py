"""The release: what leaves the hospital, the vault that stays, the gate between them, and the receiver's check."""
