"""Tests of what is built for Spark: ranges, decoding, the source, its sinks, the audit."""
