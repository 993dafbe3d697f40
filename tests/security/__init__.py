"""Who may do what: ACLs by a node's place, credentials, certificates, secrets."""
