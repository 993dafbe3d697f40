"""The machine of classic groups: conformance scenarios, failure stages, random histories."""
