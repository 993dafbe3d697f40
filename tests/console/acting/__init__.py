"""What readers may do."""
