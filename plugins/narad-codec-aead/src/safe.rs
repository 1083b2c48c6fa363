//! What is put away under a key and taken out again: frames, and the files of codecs underneath. The two are bound to
//! different things and cannot stand for each other.

use narad_core::plugin::PluginError;

use crate::{
    cipher::{Cipher, SALT_BYTES, TAG_BYTES},
    error::AeadError,
    key::{Key, KeyRing},
    layout::{Malformed, Prefix, take_apart},
};

/// The keys, and the cipher for what is new.
#[derive(Debug)]
pub(crate) struct Safe {
    keys: KeyRing,
    cipher: Cipher,
}

impl Safe {
    pub(crate) fn new(keys: KeyRing, cipher: Cipher) -> Self {
        Self { keys, cipher }
    }

    /// Appends what `fill` appends, encrypted and bound to what `bound` says. After an error `out` may hold what was not
    /// encrypted.
    pub(crate) fn seal(
        &self,
        out: &mut Vec<u8>,
        bound: impl FnOnce(&Prefix) -> Vec<u8>,
        fill: impl FnOnce(&mut Vec<u8>) -> Result<(), PluginError>,
    ) -> Result<(), PluginError> {
        let key_id = self.keys.active();
        let key = self.key(key_id)?;
        // Drawn for each call: a commit that failed and is tried again at the same offset has another key and nonce.
        let mut salt = [0; SALT_BYTES];
        getrandom::fill(&mut salt).map_err(|error| AeadError::Random(error.to_string()))?;
        let prefix = Prefix { cipher: self.cipher, key_id, fingerprint: key.fingerprint(), salt };
        prefix.write(out);
        let body = out.len();
        fill(out)?;
        let bytes = out.get_mut(body..).ok_or(AeadError::NestedBroke)?;
        let tag = self.cipher.seal(key, &salt, &bound(&prefix), bytes).map_err(|_| AeadError::Refused)?;
        out.extend_from_slice(&tag);
        Ok(())
    }

    /// What was sealed, if all of it is what it was.
    pub(crate) fn open(
        &self,
        stored: &[u8],
        bound: impl FnOnce(&Prefix) -> Vec<u8>,
    ) -> Result<Vec<u8>, AeadError> {
        let parts = take_apart(stored).map_err(|malformed| match malformed {
            Malformed::TooShort => AeadError::TooShort,
            Malformed::UnknownCipher(number) => AeadError::UnknownCipher { number },
        })?;
        let Prefix { cipher, key_id, fingerprint, salt } = parts.prefix;
        let key = self.key(key_id)?;
        if fingerprint != key.fingerprint() {
            return Err(AeadError::OtherKey { id: key_id });
        }
        let mut clear = parts.encrypted.to_vec();
        cipher
            .open(key, &salt, &bound(&parts.prefix), &mut clear, parts.tag)
            .map_err(|_| AeadError::Forged { key_id })?;
        Ok(clear)
    }

    /// Whether it was sealed with another key than new things are.
    pub(crate) fn is_of_before(&self, stored: &[u8]) -> bool {
        take_apart(stored).is_ok_and(|parts| parts.prefix.key_id != self.keys.active())
    }

    /// Bytes that `seal` adds.
    pub(crate) const OVERHEAD: usize = Prefix::BYTES + TAG_BYTES;

    fn key(&self, id: u32) -> Result<&Key, AeadError> {
        self.keys.get(id).ok_or_else(|| AeadError::UnknownKey { id, known: self.keys.ids().collect() })
    }
}
