"""Tests of the gateway: its members, frames and bytes, without a broker."""
