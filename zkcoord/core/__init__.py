"""The pure half of the coordinator: values, assignors, the machine of a group and the queue of
groups. Imports nothing but itself and data types.
"""
