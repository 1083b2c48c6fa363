//! Keys: taken from a file or an environment variable, wiped from memory when they are no longer needed, never shown.
//!
//! Nothing here repeats a part of what it read: not in an error, not in `Debug`. A line that is no key is told by its
//! number, for it may be one nearly.

use std::{collections::BTreeMap, fmt};

use base64ct::{Base64, Encoding};
use hkdf::Hkdf;
use sha2::Sha256;
use zeroize::Zeroizing;

use crate::source::{KeyError, KeyProblem};

/// Bytes of a key.
pub const KEY_BYTES: usize = 32;
/// Bytes of what tells one key from another of the same number.
pub(crate) const FINGERPRINT_BYTES: usize = 4;

/// A key with its fingerprint, which a frame carries: it tells a wrong key from a damaged frame, and nothing of the key.
pub(crate) struct Key {
    bytes: Zeroizing<[u8; KEY_BYTES]>,
    fingerprint: [u8; FINGERPRINT_BYTES],
}

impl Key {
    fn new(bytes: Zeroizing<[u8; KEY_BYTES]>) -> Result<Self, KeyProblem> {
        let mut fingerprint = [0; FINGERPRINT_BYTES];
        Hkdf::<Sha256>::new(None, &*bytes)
            .expand(b"narad-codec-aead fingerprint", &mut fingerprint)
            .map_err(|_| KeyProblem::Derivation)?;
        Ok(Self { bytes, fingerprint })
    }

    pub(crate) fn bytes(&self) -> &[u8; KEY_BYTES] {
        &self.bytes
    }

    pub(crate) fn fingerprint(&self) -> [u8; FINGERPRINT_BYTES] {
        self.fingerprint
    }
}

/// Keys by their number, and which of them encrypts new frames.
///
/// As text, a key a line: its number, 1 to 4,294,967,295, a colon, and its 32 bytes in base64. Empty lines, and those that
/// begin with `#`, say nothing; entries may also be parted by commas. The last key encrypts new frames, so a new one is
/// added at the end; the others are there to be read with.
///
/// ```
/// use narad_codec_aead::KeyRing;
///
/// let text = "1:c2l4dGVlbiBieXRlcywgYW5kIHNpeHRlZW4gbW9yZS4=\n2:YW5kIGFub3RoZXIgb25lLCBvZiBhcyBtYW55IG9uZXM=";
/// let ring = KeyRing::parse(text)?;
/// assert_eq!((ring.active(), ring.ids().collect::<Vec<_>>()), (2, vec![1, 2]));
/// assert_eq!(format!("{ring:?}"), "KeyRing { keys: [1, 2], active: 2 }");
/// # Ok::<(), narad_codec_aead::KeyError>(())
/// ```
pub struct KeyRing {
    keys: BTreeMap<u32, Key>,
    active: u32,
}

impl fmt::Debug for KeyRing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ids: Vec<_> = self.ids().collect();
        f.debug_struct("KeyRing").field("keys", &ids).field("active", &self.active).finish()
    }
}

impl KeyRing {
    /// The keys in `text`.
    ///
    /// # Errors
    /// A line that is no key, by its number; a number that two keys have; no key at all.
    pub fn parse(text: &str) -> Result<Self, KeyError> {
        Ok(Self::from_text(text)?)
    }

    pub(crate) fn from_text(text: &str) -> Result<Self, KeyProblem> {
        let (mut keys, mut active) = (BTreeMap::new(), None);
        for (index, line) in text.lines().enumerate() {
            let line = line.trim();
            if line.starts_with('#') {
                continue;
            }
            let number = index.saturating_add(1);
            for entry in line.split(',').map(str::trim).filter(|entry| !entry.is_empty()) {
                let (id, key) = entry_of(entry, number)?;
                if keys.insert(id, key).is_some() {
                    return Err(KeyProblem::Twice { line: number, id });
                }
                active = Some(id);
            }
        }
        Ok(Self { keys, active: active.ok_or(KeyProblem::Empty)? })
    }

    /// The same, with another key for new frames.
    ///
    /// # Errors
    /// `NoActive` when there is no key of that number.
    pub fn with_active(self, id: u32) -> Result<Self, KeyError> {
        if self.keys.contains_key(&id) {
            Ok(Self { active: id, ..self })
        } else {
            Err(KeyError::NoActive { id, known: self.ids().collect() })
        }
    }

    /// The number of the key that encrypts new frames.
    pub fn active(&self) -> u32 {
        self.active
    }

    /// The numbers of all keys.
    pub fn ids(&self) -> impl Iterator<Item = u32> {
        self.keys.keys().copied()
    }

    pub(crate) fn get(&self, id: u32) -> Option<&Key> {
        self.keys.get(&id)
    }
}

fn entry_of(entry: &str, line: usize) -> Result<(u32, Key), KeyProblem> {
    let (id, key) = entry.split_once(':').ok_or(KeyProblem::NoColon { line })?;
    let id = id.trim().parse::<u32>().ok().filter(|id| *id > 0).ok_or(KeyProblem::Number { line })?;
    // Room for a key that is too long, so that it is told from what is no base64.
    let mut room = Zeroizing::new([0; 4 * KEY_BYTES]);
    let bytes = match Base64::decode(key.trim(), &mut *room) {
        Ok(bytes) => bytes,
        Err(base64ct::Error::InvalidLength) if key.len() > 5 * KEY_BYTES => {
            return Err(KeyProblem::Length { line, id });
        }
        Err(_) => return Err(KeyProblem::Encoding { line, id }),
    };
    let mut exact = Zeroizing::new([0; KEY_BYTES]);
    if bytes.len() != KEY_BYTES {
        return Err(KeyProblem::Length { line, id });
    }
    exact.copy_from_slice(bytes);
    Ok((id, Key::new(exact)?))
}
