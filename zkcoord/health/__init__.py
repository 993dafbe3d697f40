"""Whether groups keep up, without thresholds: windows of commits, verdicts, lag in seconds."""
