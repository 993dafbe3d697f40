"""What people install: wheels, the source archive, units, the image's and Kubernetes' files, and
lists of what is in them.

    python -m tests.packages wheels        builds into build/dist, checks, installs each (minutes)
    python -m tests.packages demo          zkcoord demo --fast, from each wheel, as pipx runs it
    python -m tests.packages image         the image, on a base named by its digest
    python -m tests.packages kubernetes    docker/kubernetes against the schemas of Kubernetes
    python -m tests.packages sbom          lists of what is installed (CycloneDX), into build/dist
    python -m tests.packages audit         known vulnerabilities of what is installed

Only Python's own library is imported here, so that a fresh checkout can run it. Tools come from the
lock files beside this, into virtual environments in the cache folder of the jars.
"""
