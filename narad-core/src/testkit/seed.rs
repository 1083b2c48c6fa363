//! Where a test's randomness comes from, and how a failed run is repeated.

/// The variable that holds the seed of a run to be repeated.
const VARIABLE: &str = "NARAD_SEED";

/// The seed of this run: `NARAD_SEED` (decimal, or hexadecimal after `0x`), else a random one.
///
/// # Panics
/// When `NARAD_SEED` is set to something else: a run that was meant to repeat another must not pass by chance.
pub fn seed() -> u64 {
    match std::env::var(VARIABLE) {
        Ok(text) => parse(&text).unwrap_or_else(|| panic!("{VARIABLE}={text}: not a number")),
        Err(_) => rand::random(),
    }
}

fn parse(text: &str) -> Option<u64> {
    match text.strip_prefix("0x") {
        Some(hex) => u64::from_str_radix(hex, 16).ok(),
        None => text.parse().ok(),
    }
}

/// Prints its seed when the test that holds it panics. A [`SimDisk`](super::SimDisk) carries one of its own.
#[derive(Debug)]
pub struct SeedGuard(u64);

impl SeedGuard {
    /// A guard over `seed`.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The seed.
    pub fn get(&self) -> u64 {
        self.0
    }
}

impl Drop for SeedGuard {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("repeat this run with {VARIABLE}={}", self.0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::parse;

    #[test]
    fn a_seed_is_decimal_or_hexadecimal_and_nothing_else() {
        assert_eq!(parse("17"), Some(17));
        assert_eq!(parse("0xff"), Some(255));
        assert_eq!(parse("seven"), None);
    }
}
