"""Tests of groups whose offsets Kafka keeps."""
