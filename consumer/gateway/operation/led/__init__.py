"""What people see of groups whose leader is a client."""
