//! The command `narad`: see `narad_server::cli`.

use std::process::ExitCode;

fn main() -> ExitCode {
    narad_server::cli::main()
}
