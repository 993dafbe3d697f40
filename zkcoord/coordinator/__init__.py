"""The process of a coordinator: service, driver, metrics, HTTP, journal, recorded inputs."""
