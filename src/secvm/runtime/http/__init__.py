"""HTTP of all parties: one client policy, and the server of relay, coordinator and witness."""
