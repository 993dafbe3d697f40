"""Who may do what with which node: the table by path, the audit, ACLs of nodes that exist."""
