"""The tooling of the course: what builds, runs and publishes the notebooks; not in the wheel."""
