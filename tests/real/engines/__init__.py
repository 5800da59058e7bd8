"""Real engines for the tests: each helper starts one, on loopback, and ends what it started by its id."""
