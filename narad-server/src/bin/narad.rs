//! The command `narad`: see `narad_server::cli`.

use std::process::ExitCode;

/// A message is allocated by the thread that reads it and freed by one that commits it, which the system's allocator serves
/// with locks.
#[cfg(feature = "mimalloc")]
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    narad_server::cli::main()
}
