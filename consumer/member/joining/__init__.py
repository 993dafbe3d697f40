"""How a member comes into its group."""
