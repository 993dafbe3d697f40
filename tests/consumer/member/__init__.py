"""The member around its core: leases, discovery, the quorum probe."""
