//! The bytes around what is encrypted, and the bytes that a frame is bound to. Nothing here knows a secret.
//! The crate's documentation has the layout.

use narad_core::plugin::{FrameContext, LogIdentity};

use crate::{
    cipher::{Cipher, SALT_BYTES, TAG_BYTES},
    key::FINGERPRINT_BYTES,
};

/// What stands in front of the encrypted bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Prefix {
    pub(crate) cipher: Cipher,
    pub(crate) key_id: u32,
    pub(crate) fingerprint: [u8; FINGERPRINT_BYTES],
    pub(crate) salt: [u8; SALT_BYTES],
}

/// Why bytes are no frame of this codec.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Malformed {
    TooShort,
    UnknownCipher(u8),
}

/// A frame taken apart.
pub(crate) struct Parts<'a> {
    pub(crate) prefix: Prefix,
    pub(crate) encrypted: &'a [u8],
    pub(crate) tag: &'a [u8; TAG_BYTES],
}

impl Prefix {
    /// Its length.
    pub(crate) const BYTES: usize = 1 + 4 + FINGERPRINT_BYTES + SALT_BYTES;

    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        out.push(self.cipher.number());
        out.extend_from_slice(&self.key_id.to_be_bytes());
        out.extend_from_slice(&self.fingerprint);
        out.extend_from_slice(&self.salt);
    }
}

/// Takes a frame apart, believing nothing of it.
pub(crate) fn take_apart(stored: &[u8]) -> Result<Parts<'_>, Malformed> {
    let (&[cipher], rest) = stored.split_first_chunk().ok_or(Malformed::TooShort)?;
    let cipher = Cipher::from_number(cipher).ok_or(Malformed::UnknownCipher(cipher))?;
    let (key_id, rest) = rest.split_first_chunk().ok_or(Malformed::TooShort)?;
    let (&fingerprint, rest) = rest.split_first_chunk().ok_or(Malformed::TooShort)?;
    let (&salt, rest) = rest.split_first_chunk().ok_or(Malformed::TooShort)?;
    let (encrypted, tag) = rest.split_last_chunk().ok_or(Malformed::TooShort)?;
    let prefix = Prefix { cipher, key_id: u32::from_be_bytes(*key_id), fingerprint, salt };
    Ok(Parts { prefix, encrypted, tag })
}

/// All that the tag of a frame covers besides the encrypted bytes: the prefix, which log the frame is of, and where it is
/// in it.
pub(crate) fn bound_to(prefix: &Prefix, frame: &FrameContext<'_>) -> Vec<u8> {
    let mut bytes = begun(b"narad-codec-aead 1", prefix, frame.log);
    bytes.extend_from_slice(&frame.log.partition.0.to_be_bytes());
    bytes.extend_from_slice(&frame.base_offset.get().to_be_bytes());
    bytes.extend_from_slice(&frame.count.to_be_bytes());
    bytes.extend_from_slice(&frame.uncompressed_len.to_be_bytes());
    bytes
}

/// The same for a file: all partitions of a topic share it.
pub(crate) fn file_bound_to(prefix: &Prefix, log: &LogIdentity, kept_as: &str) -> Vec<u8> {
    let mut bytes = begun(b"narad-codec-aead file 1", prefix, log);
    bytes.extend_from_slice(kept_as.as_bytes());
    bytes
}

/// A topic's log is known by its incarnation and partition, not by the topic's name: a directory that is adopted under
/// another name keeps its incarnation, and its records.
fn begun(what: &[u8], prefix: &Prefix, log: &LogIdentity) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(128);
    bytes.extend_from_slice(what);
    prefix.write(&mut bytes);
    let LogIdentity { name, incarnation, .. } = log;
    match incarnation {
        Some(incarnation) => {
            bytes.push(1);
            bytes.extend_from_slice(incarnation.to_string().as_bytes());
        }
        None => {
            bytes.push(0);
            bytes.extend_from_slice(&(name.len() as u64).to_be_bytes());
            bytes.extend_from_slice(name.as_bytes());
        }
    }
    bytes
}
