"""Where a coordinator keeps what it must not lose: one port, several stores, one suite of tests for all of them."""
