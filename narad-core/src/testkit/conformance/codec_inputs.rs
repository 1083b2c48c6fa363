//! What codecs are fed: payloads as the engine makes them, and damaged ones as disks and strangers make them.

use rand::{Rng, RngExt, rngs::StdRng};

/// A payload by name, for the message of a failure.
pub(super) struct Payload {
    pub(super) name: String,
    pub(super) bytes: Vec<u8>,
}

/// Payloads of every size and kind that a codec is likely to treat apart.
pub(super) fn payloads(rng: &mut StdRng) -> Vec<Payload> {
    let mut payloads = Vec::new();
    for len in [1, 2, 3, 15, 16, 17, 255, 256, 4_095, 65_536, 131_073, 1 << 20] {
        let named = |kind: &str, bytes| Payload { name: format!("{len} bytes of {kind}"), bytes };
        payloads.push(named("zeros", vec![0; len]));
        let mut noise = vec![0; len];
        rng.fill_bytes(&mut noise);
        payloads.push(named("noise", noise));
        let text = b"{\"order\":17,\"state\":\"shipped\"}".iter().copied().cycle().take(len).collect();
        payloads.push(named("text", text));
    }
    payloads.push(Payload { name: "100 records".to_owned(), bytes: records(rng, 100) });
    payloads
}

/// A payload of more than lengths of 16 and of 24 bits hold. Frames may be larger, and few are.
pub(super) fn large() -> Payload {
    let len = (1 << 24) + 1;
    let bytes = b"{\"order\":17,\"state\":\"shipped\"}".iter().copied().cycle().take(len).collect();
    Payload { name: format!("{len} bytes of text"), bytes }
}

/// A frame's payload: records with their length in front, some of them empty.
fn records(rng: &mut StdRng, count: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    for _ in 0..count {
        let mut record = vec![0; rng.random_range(0..200)];
        rng.fill_bytes(&mut record);
        bytes.extend((record.len() as u32).to_be_bytes());
        bytes.extend(record);
    }
    bytes
}

/// Damaged forms of `stored`: cut, extended, flipped, doubled, with lengths in it claiming the most they can.
pub(super) fn damaged(stored: &[u8], rng: &mut StdRng) -> Vec<Payload> {
    let mut forms: Vec<Payload> = Vec::new();
    let mut push = |name: String, bytes| forms.push(Payload { name, bytes });
    push("nothing".to_owned(), Vec::new());
    for _ in 0..16 {
        let keep = rng.random_range(0..stored.len());
        push(format!("cut to {keep} bytes"), stored[..keep].to_vec());
    }
    push("one byte more".to_owned(), [stored, &[0]].concat());
    push("stored twice".to_owned(), [stored, stored].concat());
    for _ in 0..32 {
        let (at, bit) = (rng.random_range(0..stored.len()), rng.random_range(0..8));
        let mut bytes = stored.to_vec();
        bytes[at] ^= 1 << bit;
        push(format!("bit {bit} of byte {at} flipped"), bytes);
    }
    // A length or a count may stand anywhere near the start, in any width and either byte order.
    for width in [1, 2, 4, 8] {
        for at in 0..stored.len().saturating_sub(width).min(24) {
            for fill in [0xFF, 0x7F] {
                let mut bytes = stored.to_vec();
                bytes[at..at + width].fill(fill);
                push(format!("{width} bytes at {at} set to {fill:#x}"), bytes);
            }
        }
    }
    for len in [1, 20, 1_000] {
        let mut noise = vec![0; len];
        rng.fill_bytes(&mut noise);
        push(format!("{len} bytes of noise"), noise);
    }
    forms
}
