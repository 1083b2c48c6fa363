//! The two ciphers, and the key and nonce of a single frame. What is derived here is wiped when it has been used.

use aes_gcm::Aes256Gcm;
use chacha20poly1305::{
    ChaCha20Poly1305,
    aead::{AeadInOut, KeyInit, Nonce, Tag},
};
use hkdf::Hkdf;
use schemars::JsonSchema;
use serde::Deserialize;
use sha2::Sha256;
use zeroize::Zeroizing;

use crate::key::{KEY_BYTES, Key};

/// Random bytes of a frame, of which its key and its nonce are derived.
pub(crate) const SALT_BYTES: usize = 24;
/// What authenticates a frame.
pub(crate) const TAG_BYTES: usize = 16;
const NONCE_BYTES: usize = 12;

/// The cipher for new frames; a frame says which it was written with.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[non_exhaustive]
pub enum Cipher {
    /// AES-256-GCM: the faster one where the processor has instructions for it, as nearly all have.
    #[default]
    #[serde(rename = "aes-256-gcm")]
    Aes256Gcm,
    /// ChaCha20-Poly1305: the faster one elsewhere.
    #[serde(rename = "chacha20-poly1305")]
    ChaCha20Poly1305,
}

/// The cipher refused: on the way in, records longer than it takes; on the way out, bytes that are not what was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Refused;

impl Cipher {
    /// Its number in a frame.
    pub(crate) fn number(self) -> u8 {
        match self {
            Self::Aes256Gcm => 1,
            Self::ChaCha20Poly1305 => 2,
        }
    }

    pub(crate) fn from_number(number: u8) -> Option<Self> {
        [Self::Aes256Gcm, Self::ChaCha20Poly1305].into_iter().find(|cipher| cipher.number() == number)
    }

    /// Encrypts in place, under the key and nonce that `salt` makes of `key`.
    pub(crate) fn seal(
        self,
        key: &Key,
        salt: &[u8; SALT_BYTES],
        bound: &[u8],
        bytes: &mut [u8],
    ) -> Result<[u8; TAG_BYTES], Refused> {
        match self {
            Self::Aes256Gcm => seal::<Aes256Gcm>(self, key, salt, bound, bytes),
            Self::ChaCha20Poly1305 => seal::<ChaCha20Poly1305>(self, key, salt, bound, bytes),
        }
    }

    /// Undoes `seal`, if all of it is what it was: key, salt, what it is bound to, bytes and tag.
    pub(crate) fn open(
        self,
        key: &Key,
        salt: &[u8; SALT_BYTES],
        bound: &[u8],
        bytes: &mut [u8],
        tag: &[u8; TAG_BYTES],
    ) -> Result<(), Refused> {
        match self {
            Self::Aes256Gcm => open::<Aes256Gcm>(self, key, salt, bound, bytes, tag),
            Self::ChaCha20Poly1305 => open::<ChaCha20Poly1305>(self, key, salt, bound, bytes, tag),
        }
    }
}

fn seal<C: AeadInOut + KeyInit>(
    cipher: Cipher,
    key: &Key,
    salt: &[u8; SALT_BYTES],
    bound: &[u8],
    bytes: &mut [u8],
) -> Result<[u8; TAG_BYTES], Refused> {
    let (cipher, nonce) = of_frame::<C>(cipher, key, salt)?;
    let tag = cipher.encrypt_inout_detached(&nonce, bound, bytes.into()).map_err(|_| Refused)?;
    tag.as_slice().try_into().map_err(|_| Refused)
}

fn open<C: AeadInOut + KeyInit>(
    cipher: Cipher,
    key: &Key,
    salt: &[u8; SALT_BYTES],
    bound: &[u8],
    bytes: &mut [u8],
    tag: &[u8; TAG_BYTES],
) -> Result<(), Refused> {
    let (cipher, nonce) = of_frame::<C>(cipher, key, salt)?;
    let tag = Tag::<C>::try_from(&tag[..]).map_err(|_| Refused)?;
    cipher.decrypt_inout_detached(&nonce, bound, bytes.into(), &tag).map_err(|_| Refused)
}

/// Key and nonce of one frame: both of the 192 random bits that it carries, so that neither comes again.
fn of_frame<C: AeadInOut + KeyInit>(
    cipher: Cipher,
    key: &Key,
    salt: &[u8; SALT_BYTES],
) -> Result<(C, Nonce<C>), Refused> {
    let mut derived = Zeroizing::new([0; KEY_BYTES + NONCE_BYTES]);
    Hkdf::<Sha256>::new(Some(salt), key.bytes())
        .expand_multi_info(&[b"narad-codec-aead frame", &[cipher.number()]], &mut *derived)
        .map_err(|_| Refused)?;
    let (key, nonce) = derived.split_at(KEY_BYTES);
    Ok((C::new_from_slice(key).map_err(|_| Refused)?, Nonce::<C>::try_from(nonce).map_err(|_| Refused)?))
}
