//! The names of a partition's own files.

use std::{
    ffi::OsStr,
    path::{Path, PathBuf},
};

use crate::format::Offset;

/// The high watermark at the last close.
pub(crate) const HWM: &str = "hwm";
/// The committed frontier.
pub(crate) const CONSUMER_OFFSET: &str = "consumer.offset";
/// The frontier and what was settled above it.
pub(crate) const CONSUMER_AHEAD: &str = "consumer.ahead";

const DIGITS: usize = 20;
const EXTENSION: &str = ".log";

/// The file of the segment that begins at `base`.
pub(crate) fn segment_path(dir: &Path, base: Offset) -> PathBuf {
    dir.join(format!("{:0DIGITS$}{EXTENSION}", base.get()))
}

/// The first offset of the segment of that name; `None` for every other name. As strict as names are written:
/// exactly twenty digits.
pub(crate) fn segment_base(name: &OsStr) -> Option<Offset> {
    let digits = name.to_str()?.strip_suffix(EXTENSION)?;
    if digits.len() != DIGITS || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    Offset::new(digits.parse().ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_parsed_as_strictly_as_they_are_written() {
        let base = |name: &str| segment_base(OsStr::new(name)).map(Offset::get);
        assert_eq!(base("00000000000000450832.log"), Some(450_832));
        assert_eq!(base("09223372036854775807.log"), Some(i64::MAX as u64));
        for foreign in [
            "0.log",
            "+0000000000000000001.log",
            "0000000000000000001.log",
            "00000000000000000001.LOG",
            "00000000000000000001.log.tmp",
            "99999999999999999999.log",
            "000000000000000000001.log",
            "hwm",
        ] {
            assert_eq!(base(foreign), None, "{foreign}");
        }
        let path = segment_path(Path::new("d"), Offset::new(17).unwrap());
        assert_eq!(path, Path::new("d/00000000000000000017.log"));
    }
}
