//! Keys, frames and what decoding them says.
#![allow(dead_code, unreachable_pub, reason = "each test uses a part of it")]

use std::sync::Arc;

use narad_codec_aead::{Aead, AeadError, Cipher, KeyRing};
use narad_codecs::Zstd;
use narad_core::{
    format::Offset,
    plugin::{Codec, FrameContext, Incarnation, Lacking, LogIdentity, PartitionId, PluginError},
};

pub const ONE: &str = "1:b25lb25lb25lb25lb25lb25lb25lb25lb25lb25lb24=";
pub const TWO: &str = "2:dHdvdHdvdHdvdHdvdHdvdHdvdHdvdHdvdHdvdHdvdHc=";
/// Another key of the number 1.
pub const OTHER_ONE: &str = "1:b3RoZXJvdGhlcm90aGVyb3RoZXJvdGhlcm90aGVyb3Q=";
pub const CIPHERS: [Cipher; 2] = [Cipher::Aes256Gcm, Cipher::ChaCha20Poly1305];

pub fn ring(lines: &[&str]) -> KeyRing {
    KeyRing::parse(&lines.join("\n")).unwrap()
}

pub fn aead(lines: &[&str], cipher: Cipher) -> Aead {
    Aead::new(ring(lines), cipher, Arc::new(Zstd::default())).unwrap()
}

pub fn log(topic: &str, incarnation: u64, partition: u32) -> LogIdentity {
    LogIdentity::partition(topic, Incarnation::new(incarnation), PartitionId(partition))
}

pub fn orders() -> LogIdentity {
    log("orders", 7, 3)
}

pub fn place(log: &LogIdentity, offset: u32, count: u32, len: usize) -> FrameContext<'_> {
    FrameContext::new(log, Offset::from(offset), count, len as u32)
}

pub const RECORDS: &[u8] = b"{\"order\":17,\"state\":\"shipped\"},{\"order\":18,\"state\":\"shipped\"}";

/// The records, encrypted at offset 42 of `orders`.
pub fn frame(codec: &Aead) -> Vec<u8> {
    let mut out = b"before".to_vec();
    codec.encode(&place(&orders(), 42, 2, RECORDS.len()), RECORDS, &mut out).unwrap();
    out.split_off(b"before".len())
}

/// Decodes at that place.
pub fn read(codec: &Aead, stored: &[u8]) -> Result<Vec<u8>, Said> {
    read_at(codec, &place(&orders(), 42, 2, RECORDS.len()), stored)
}

#[derive(Debug, PartialEq)]
pub enum Said {
    Lacking(AeadError),
    Corrupt(AeadError),
}

pub fn read_at(codec: &Aead, place: &FrameContext<'_>, stored: &[u8]) -> Result<Vec<u8>, Said> {
    let mut out = b"before".to_vec();
    let result = codec.decode(place, stored, &mut out);
    let appended = out.strip_prefix(b"before").unwrap().to_vec();
    match result {
        Ok(()) => Ok(appended),
        Err(error) => {
            assert!(appended.is_empty());
            Err(said(&error))
        }
    }
}

pub fn said(error: &PluginError) -> Said {
    match error.downcast_ref::<Lacking>() {
        Some(lacking) => Said::Lacking(lacking.what().downcast_ref::<AeadError>().unwrap().clone()),
        None => Said::Corrupt(error.downcast_ref::<AeadError>().unwrap().clone()),
    }
}
