"""What is wrong with groups, why and what to do: the rules, and real groups in trouble."""
