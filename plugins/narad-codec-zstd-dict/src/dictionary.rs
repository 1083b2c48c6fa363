//! A dictionary: its bytes, as a file holds them, and its number, which they determine.
//!
//! A frame names its dictionary by number. Were two dictionaries to share one, a frame would decode to other bytes than
//! were written, and nothing would notice: so the number is a checksum of the content, and no file is believed whose
//! content has another.

/// The largest dictionary that is believed, whatever the settings are.
pub(crate) const MAX_BYTES: usize = 1 << 20;
/// zstd sets numbers below this aside.
const FIRST_ID: u32 = 1 << 15;
/// And those from here on.
const END_ID: u32 = 1 << 31;
const MAGIC: [u8; 4] = 0xEC30_A437_u32.to_le_bytes();
/// Ends the name of a dictionary's file.
const SUFFIX: &str = ".dict";

/// The bytes of a dictionary that are what they were when it was trained.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Dictionary {
    id: u32,
    bytes: Vec<u8>,
}

impl Dictionary {
    /// What the trainer made, with the number that it is to have. `None` when it is no dictionary.
    pub(crate) fn trained(mut bytes: Vec<u8>) -> Option<Self> {
        let id = id_of(&bytes)?;
        *bytes.get_mut(4..)?.first_chunk_mut()? = id.to_le_bytes();
        Some(Self { id, bytes })
    }

    /// What a file of that number holds. `None` when it is not what was written there.
    pub(crate) fn read(id: u32, bytes: Vec<u8>) -> Option<Self> {
        let stated = u32::from_le_bytes(*bytes.get(4..)?.first_chunk()?);
        (stated == id && id_of(&bytes)? == id).then_some(Self { id, bytes })
    }

    pub(crate) fn id(&self) -> u32 {
        self.id
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}

/// A checksum of all but the number itself, moved to where zstd leaves numbers free.
fn id_of(bytes: &[u8]) -> Option<u32> {
    let (magic, rest) = bytes.split_first_chunk::<4>()?;
    let content = rest.get(4..).filter(|content| !content.is_empty())?;
    if *magic != MAGIC || bytes.len() > MAX_BYTES {
        return None;
    }
    Some(FIRST_ID + crc_fast::crc32_iscsi(content) % (END_ID - FIRST_ID))
}

/// The name of the file of that number.
pub(crate) fn file_name(id: u32) -> String {
    format!("{id:08x}{SUFFIX}")
}

/// The number in a file's name; `None` for a file of another kind.
pub(crate) fn id_in(file_name: &str) -> Option<u32> {
    let digits = file_name.strip_suffix(SUFFIX)?;
    u32::from_str_radix(digits, 16).ok().filter(|id| self::file_name(*id) == file_name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes() -> Vec<u8> {
        [&MAGIC[..], &[0; 4], b"entropy tables and content"].concat()
    }

    #[test]
    fn the_number_is_that_of_the_content_and_survives_the_file() {
        let dictionary = Dictionary::trained(bytes()).unwrap();
        assert!((FIRST_ID..END_ID).contains(&dictionary.id()));
        let name = file_name(dictionary.id());
        assert_eq!(id_in(&name), Some(dictionary.id()));
        assert_eq!(Dictionary::read(dictionary.id(), dictionary.bytes().to_vec()), Some(dictionary));
    }

    #[test]
    fn a_file_with_a_changed_byte_is_not_believed() {
        let dictionary = Dictionary::trained(bytes()).unwrap();
        for at in 0..dictionary.bytes().len() {
            let mut changed = dictionary.bytes().to_vec();
            changed[at] ^= 1;
            assert_eq!(Dictionary::read(dictionary.id(), changed), None, "byte {at}");
        }
        assert_eq!(Dictionary::read(dictionary.id() ^ 1, dictionary.bytes().to_vec()), None);
        for len in 0..9 {
            assert_eq!(Dictionary::trained(bytes()[..len].to_vec()), None);
        }
    }

    #[test]
    fn names_of_other_files_are_no_numbers() {
        for name in ["current", "1.dict", "0000800A.dict", "+000800a.dict", "0000800a.dict.tmp", ".dict"] {
            assert_eq!(id_in(name), None, "{name}");
        }
        assert_eq!(id_in("0000800a.dict"), Some(0x800a));
    }
}
