//! Leases, the frontier, waiters, the pump.
