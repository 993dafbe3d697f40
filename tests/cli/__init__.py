"""The command line: texts, exit statuses, refusals."""
