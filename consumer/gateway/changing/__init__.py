"""Groups that change from one kind to the other while their members run."""
