"""What this consumer is assigned, between the member's thread and the application's."""
