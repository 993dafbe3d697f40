"""A doctor for ensembles with old consumers: what is wrong below /consumers and /brokers, whom it
hurts, and what to do. It never writes. `zkcoord check` is its command line.
"""
