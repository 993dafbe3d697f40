"""`zkcoord top`."""
