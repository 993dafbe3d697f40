"""Records by way of librdkafka (`data_client="librdkafka"`): a faster data path with the same
public behaviour.
"""
