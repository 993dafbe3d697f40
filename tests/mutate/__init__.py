"""`make mutate`: what the tests do not notice."""
