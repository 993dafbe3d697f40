"""The process around the coordinator: command line, options, service, logs, metrics, HTTP,
journal.
"""
